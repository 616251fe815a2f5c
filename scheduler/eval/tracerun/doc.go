// Package tracerun deploys the pods of a GPU trace on a test bed with machines of the trace and the
// real kube-scheduler, with one scheduler profile after another. It compares the GPU allocation of
// the profiles with each other and with the simulator on the same machines and arrivals.
//
// The arrivals follow the published protocol: the pods are shuffled, and then drawn until they have
// asked for a multiple of the GPUs. No pod leaves, so a pod that finds no node never gets one. RunSteady lets pods come
// and go instead, as sim.Steady defines it, on a time axis that is compressed.
package tracerun
