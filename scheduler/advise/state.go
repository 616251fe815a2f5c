package advise

import (
	"context"
	"fmt"

	"gnnsched/scheduler/plugin"
)

// State describes an Advisor: its policy, and the number of nodes and pods in its view.
type State struct {
	Synced bool `json:"ready"`
	Decider
	Nodes    int `json:"nodes"`
	Pods     int `json:"pods"`         // on nodes, promised ones included
	Promised int `json:"promisedPods"` // pods that count on a node where the cluster does not show them yet
}

// State returns the Advisor's current state.
func (a *Advisor) State(ctx context.Context) (State, error) {
	network, err := plugin.ActiveNetwork(a.profile)
	if err != nil {
		return State{}, err
	}
	out := State{Decider: deciderOf(network)}
	if !a.Synced() {
		return out, nil
	}
	if err := a.take(ctx); err != nil {
		return State{}, err
	}
	defer a.give()
	all, err := a.snapshot.NodeInfos().List()
	if err != nil {
		return State{}, fmt.Errorf("read the snapshot: %w", err)
	}
	out.Synced, out.Nodes = true, len(all)
	for _, n := range all {
		out.Pods += len(n.GetPods())
	}
	for _, p := range a.promised {
		if assumed, err := a.cache.IsAssumedPod(p.pod); err == nil && assumed {
			out.Promised++
		}
	}
	return out, nil
}
