// Package traffic tells a profile of the scheduler with which running pods the pending pod exchanges data, how far their
// nodes are from its candidates, and how full the links between them are. The simulator plays the same (sim.Traffic).
//
// Who talks to whom stands in annotations of pods (kube.TrafficAnnotation). A pod with "api=3e6" exchanges 3e6 bytes a
// second with the workload api of its namespace. Each of the n pods of api, waiting or running, has 3e6/n of it (see units); those that
// wait send nothing yet. The annotation counts for both ends: it also tells a pod of api about the pods that name api.
//
// Or a Prometheus has measured it, by two workloads in bytes a second (Config.Measured). The pods of both have equal
// parts. Where it has measured something between two workloads, their annotations do not count.
package traffic
