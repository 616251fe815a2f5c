package kube

import (
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"

	"gnnsched/internal/cluster"
)

// Snapshot translates a cluster: the nodes, in their order, with the pods that run on them.
// unbound is the number of pods that run on none of the nodes. A pod counts in any phase, so
// callers leave out pods that have finished.
//
// The error names every pod with a contradictory GPU request. The snapshot then counts the trustworthy part of their requests, as Running
// does.
func Snapshot(nodes []corev1.Node, pods []corev1.Pod) (snapshot cluster.Snapshot, unbound int, err error) {
	running := make(map[string][]RunningPod, len(nodes))
	for i := range nodes {
		snapshot.Nodes = append(snapshot.Nodes, Node(&nodes[i]))
		running[nodes[i].Name] = nil
	}
	var errs []error
	for i := range pods {
		p := &pods[i]
		if _, known := running[p.Spec.NodeName]; !known {
			unbound++
			continue
		}
		r, err := Running(p)
		if err != nil {
			errs = append(errs, fmt.Errorf("pod %s: %w", p.Name, err))
		}
		running[p.Spec.NodeName] = append(running[p.Spec.NodeName], r)
	}
	for _, n := range snapshot.Nodes {
		Place(n, running[n.Name])
		CloseLost(n, 0)
	}
	return snapshot, unbound, errors.Join(errs...)
}
