// Package agreement repeats scenarios of the evaluation on a simulated cluster with the real
// kube-scheduler, and says how far the simulator is from it.
//
// The simulator keeps the time, which it counts in arrivals: it says which pod is next, the
// pod is made on the cluster, and where kube-scheduler binds it is where the simulator's state
// has it too; whoever leaves in the simulator is then deleted on the cluster. So both have the
// same pods in the same order, and every difference is one of deciding or of measuring.
package agreement
