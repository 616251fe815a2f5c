// Package live plays pods on a simulated cluster with the real kube-scheduler and its profiles.
//
// Run plays episodes of the simulator with one scheduler profile after another, and compares each with the simulator. The simulator drives
// an episode and counts time in arrivals, so no clock decides anything. For each arrival a pod is created on the cluster, kube-scheduler
// binds it, and the simulator's state takes over the node that kube-scheduler chose. Pods that leave in the simulator are deleted on the
// cluster. Both thus have the same pods in the same order, so any difference comes from the decisions or the measurement.
// `gnnsched eval --live` and `gnnsched demo` are settings of it.
//
// Soak lets pods come and go for a long time while schedulers, the cluster, the trainer and nodes fail, and counts afterwards the fate of
// each pod.
//
// The programs are child processes, started as a user would start them. The count is independent of
// them: it reads every state that a pod or a claim ever had from the cluster's etcd, whose history is complete and
// in order, also across restarts of the cluster. The rules are in book.go:
//
//   - lost: a pod that the API server accepted was never bound, although the cluster was empty at the
//     end; or, if it fits on no node, was never reported as unschedulable
//   - vanished: a pod is gone that nobody deleted and nothing evicted
//   - bound twice: a pod had two different nodes
//   - device twice: pods and claims took more than all of a GPU device of a node
//   - no device: a pod or a claim has other devices than it asks for, or the claim of a running pod lost them
//   - claim elsewhere: a pod was bound, and a claim of it is not allocated to it on its node
//   - claim left: a claim is there after all pods are gone
//   - node overcommitted: pods on a node requested more than it has
//   - share stopped: the automatic stop of a profile with a share found its pods worse than the rest, though only kills went wrong
//   - shadow failed: the scheduler that only watches left no report, or compared nothing
//
// A defragmenter moves the pods of ReplicaSets all the time.
//
// A rival schedules at the same time as the others, on a lease of its own. The API server lets both take the same
// room at the same time. Such collisions are counted and are no violations.
//
// A run has three parts. In the first, everything fails. In the second, no scheduler and no cluster is
// killed, so that the memory of the schedulers can be compared over time (soak.go). In the third, no
// pods are created, and pods are deleted until those that wait have been bound.
package live
