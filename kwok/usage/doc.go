// Package usage serves the usage of the simulated cluster's pods as kubelets would: CPU, memory, network and disk.
//
// A [Sampler] watches nodes and pods. At each tick it asks the usage model of every running pod (package workload/usage), shares a node's
// capacity among pods that want more, and publishes an immutable snapshot. Everything else only reads the last snapshot:
//
//   - the API group metrics.k8s.io, which `kubectl top` reads ([Sampler.APIGroup], [Register])
//   - the kubelets' pages for Prometheus, /metrics/resource and /metrics/cadvisor of each node, at the path
//     at which an API server passes requests on to kubelets, and what its machine draws, as Kepler and
//     node-exporter's RAPL collector say it ([Sampler.Intercept])
//
// A pod's usage at a tick holds until the next one. Counters are the exact integral of that: a scrape between two ticks sees them grow, and
// they never fall while the process runs. As with a kubelet, they begin at 0 when the process starts.
package usage
