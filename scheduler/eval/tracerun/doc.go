// Package tracerun deploys a GPU trace on a simulated cluster of the trace's machines with the
// real kube-scheduler, through one profile after another, and puts what they made of the GPUs
// side by side, beside the simulator's figures for the same machines and arrivals.
//
// The arrivals are those of the published protocol: shuffled, then drawn, until they have asked
// for a multiple of the GPUs. Nobody leaves, so that a pod that is refused once is refused for
// good.
package tracerun
