package sim

import (
	"math"
	"slices"

	"gnnsched/internal/cluster"
)

// part is one thing that an episode plays or measures beside the nodes' requests: usage, traffic, preferences, waits, means over time.
// Env tells every part of each event. Rows are those of the snapshot. To add a part, implement it in a file of its own, embed quiet for
// the events that do not matter to it, and add it to newParts. Its settings are a field of Config, with rules in Validate; what it draws, a
// stream in draw.go; what it measures, a field of Outcome and a line in eval.Metrics. What cannot play it refuses it: DrawFuture,
// optimum.Of and agreement.Run.
type part interface {
	// track begins an episode, or goes on with another list of nodes. Env.on has the row of each running pod.
	track(e *Env)
	// arrives is called before a pod arrives. The pods before it are placed or wait.
	arrives(e *Env, pod int32)
	// pends is called when a pod that fits somewhere becomes pending.
	pends(e *Env)
	// refused is called when a waiting pod was tried and fits nowhere.
	refused(e *Env, pod int32)
	// placed is called when a pod runs on the node of a row, before time passes. A pod that moves leaves, pends and is placed again.
	placed(e *Env, pod, row int32)
	// left is called when a pod has left the node of a row.
	left(e *Env, pod, row int32)
	// pass is called before time passes, from Env.now on, in which nothing changes. It is not called during the fill.
	pass(e *Env, until float64)
	// due is called at Env.due, for which any part may have asked. It returns when the part is due next; +Inf: never.
	due(e *Env) float64
	// copyFor returns a copy for e, which is a copy of the environment. It may use the memory of the older copies.
	copyFor(e *Env, old []part) part
	// report writes what the part has measured into the outcome.
	report(e *Env, o *Outcome)
}

// newParts returns the parts of an episode that begins. The means over time come last of those that others change: waits turn pods away,
// partitions change what devices have in use, and the means add to the outcome of GPUs.
func newParts(e *Env) (parts []part) {
	if e.cfg.OpenB != nil && e.cfg.OpenB.Steady != nil {
		parts = append(parts, newWaits(e))
	}
	if slices.ContainsFunc(e.snapshot.Nodes, func(n *cluster.Node) bool { return n.Slices != nil }) {
		parts = append(parts, newPartitions(e))
	}
	if e.gpuCapacity() > 0 {
		parts = append(parts, newGPUDemand(e))
	}
	e.preferences, e.queue = &preferences{}, newQueue(e)
	parts = append(parts, e.queue, &timeMeans{}, e.preferences)
	if e.cfg.Usage != nil {
		parts = append(parts, newUsageState(e))
	}
	if e.cfg.Traffic != nil {
		parts = append(parts, newTrafficState(e))
	}
	return parts
}

// reused returns the part of a type among older copies, or a new one.
func reused[P any](old []part) *P {
	for _, p := range old {
		if same, is := any(p).(*P); is {
			return same
		}
	}
	return new(P)
}

// quiet does nothing at any event.
type quiet struct{}

func (quiet) track(*Env)                {}
func (quiet) arrives(*Env, int32)       {}
func (quiet) pends(*Env)                {}
func (quiet) refused(*Env, int32)       {}
func (quiet) placed(*Env, int32, int32) {}
func (quiet) left(*Env, int32, int32)   {}
func (quiet) pass(*Env, float64)        {}
func (quiet) report(*Env, *Outcome)     {}
func (quiet) due(*Env) float64          { return math.Inf(1) }
