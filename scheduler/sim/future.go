package sim

import (
	"errors"
	"math/rand/v2"
	"slices"
)

// DrawFuture replaces what is still to come by another future that a scheduler could expect, which has seen what
// has arrived so far, but knows nothing of the rest. The present stays as it is. To know one future and try a choice in another, copy the
// environment first (CopyTo).
//
// The replicas of the deployment that arrives now still come. Each later one is like one that has arrived, drawn with equal
// probabilities. All lifetimes and residual lifetimes are drawn anew. The number of pods stays the same, or is smaller
// where the episode's deployments do not suffice. That is possible if lifetimes have no memory: DrawFuture fails
// for traces, processes other than steady, lifetimes other than exponential, and scenarios with lost nodes, usage or traffic.
func (e *Env) DrawFuture(rng *rand.Rand) error {
	c := &e.cfg
	if e.trace != nil || e.openb != nil || !c.Arrivals.steady() || c.Lose > 0 || c.Usage != nil || c.Traffic != nil {
		return errors.New("futures can be drawn only for steady arrivals of the scenario's shapes, without lost nodes, usage and traffic")
	}
	if d := c.Lifetimes.Distribution; d != "" && d != exponentialEnd {
		return errors.New("futures can be drawn only for lifetimes that are exponential")
	}
	e.drawDeployments(rng)
	e.drawEnds(rng)
	return nil
}

// drawDeployments draws the deployments after the one that arrives now.
func (e *Env) drawDeployments(rng *rand.Rand) {
	a := &e.arrivals
	now := a.pods[max(e.clock, 1)-1]
	pods := a.pods[:e.clock:e.clock]
	deployments := slices.Clone(a.deployments)
	for i := e.clock; i < len(a.pods) && a.pods[i] == now; i++ {
		pods = append(pods, now)
	}
	for k := int(now) + 1; k < len(deployments) && len(pods) < len(a.pods); k++ {
		like := a.deployments[rng.IntN(int(now)+1)]
		like.pod.Name, like.pod.Owner = deployments[k].pod.Name, deployments[k].pod.Owner
		deployments[k] = like
		for range min(like.replicas, len(a.pods)-len(pods)) {
			pods = append(pods, int32(k))
		}
	}
	a.pods, a.deployments = pods, deployments
}

// drawEnds draws how long pods will go on running, and how long those without a node will run.
func (e *Env) drawEnds(rng *rand.Rand) {
	a := &e.arrivals
	if a.lifetime == nil {
		return
	}
	lifetimes := make([]float64, len(a.pods))
	for i := range lifetimes {
		lifetimes[i] = e.cfg.Lifetimes.draw(rng, float64(a.fill), false)
	}
	from := max(e.now, float64(a.fill))
	old := slices.Clone(e.running)
	e.running = e.running[:0]
	for _, d := range old {
		d.at = from + e.cfg.Lifetimes.draw(rng, float64(a.fill), true)
		e.running.push(d)
	}
	a.lifetime = lifetimes
}
