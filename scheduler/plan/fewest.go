package plan

import (
	"cmp"
	"context"
	"slices"
	"time"

	"gnnsched/scheduler/replay"
	"gnnsched/workload/record"
)

// Fewest are the fewest nodes that each profile was found to need.
type Fewest struct {
	From       time.Time     `json:"from"`
	To         time.Time     `json:"to"`
	Workers    int           `json:"workers"` // recorded nodes that may be removed
	Control    int           `json:"control"` // nodes of the control plane, which stay
	Wait       float64       `json:"target_wait_s"`
	Percentile float64       `json:"target_percentile"`
	Profiles   []FewestOf    `json:"profiles"`
	Lacks      []replay.Lack `json:"lacks"`
	Notes      []string      `json:"notes,omitempty"`
}

// FewestOf are the nodes that one profile needs.
type FewestOf struct {
	Profile string   `json:"profile"`
	All     Outcome  `json:"all"`   // with all nodes
	Holds   bool     `json:"holds"` // whether all nodes meet the target; if not, no nodes are removed
	Keep    []string `json:"keep"`  // workers
	With    Outcome  `json:"with"`  // the kept ones
	Bound   int      `json:"bound"` // no fewer workers can hold the work
	By      string   `json:"bound_by"`
	Ended
}

// Ended is the end of a search.
type Ended struct {
	Evaluations int    `json:"evaluations"`
	Cut         string `json:"cut,omitempty"` // why it ended early
}

// FindFewest removes recorded nodes as long as the rest holds the recorded work, for each profile. The smallest nodes are removed first.
// The search removes many nodes at once and halves their number where that fails. A node that cannot be removed stays, and so do nodes that
// differ from it by name only. If ctx ends, FindFewest returns its findings so far. progress gets the number of evaluations.
func FindFewest(
	ctx context.Context, s replay.Source, profiles []Profile, t Target, progress func(profile string, evaluations int),
) (Fewest, error) {
	list, control := workers(&s)
	out := Fewest{
		From: time.UnixMilli(s.From).UTC(), To: time.UnixMilli(s.To).UTC(), Workers: len(list), Control: len(control), Wait: t.Wait.Seconds(),
		Percentile: 100 * t.Share, Lacks: s.Lacks(), Notes: s.Notes,
	}
	slices.SortStableFunc(list, func(a, b record.Node) int { return cmp.Compare(size(&a, list), size(&b, list)) })
	s = anew(s)
	for _, p := range profiles {
		r := &removal{source: s, queue: slices.Clone(list), gone: map[string]bool{}, out: FewestOf{Profile: p.Name}}
		r.trials = trials{p, t, progress, &r.out.Ended}
		err := r.run(ctx, control)
		if err != nil && ctx.Err() == nil {
			return out, err
		}
		out.Profiles = append(out.Profiles, r.result(list))
		if ctx.Err() != nil {
			break
		}
	}
	return out, nil
}

// size returns the largest share that a node has of what all nodes offer together.
func size(n *record.Node, all []record.Node) (most float64) {
	var sum amounts
	for i := range all {
		for d, x := range offered(&all[i]) {
			sum[d] += x
		}
	}
	for d, x := range offered(n) {
		if sum[d] > 0 {
			most = max(most, x/sum[d])
		}
	}
	return most
}

// removal is the search of one profile.
type removal struct {
	trials
	source replay.Source
	queue  []record.Node // that may still be removed, in this order
	gone   map[string]bool
	out    FewestOf
}

func (r *removal) run(ctx context.Context, control []record.Node) error {
	total := len(r.queue)
	var err error
	if r.out.All, err = r.without(ctx, nil); err != nil {
		return r.stop(ctx, err)
	}
	r.out.With, r.out.Holds = r.out.All, r.out.All.holds(r.target, r.out.All)
	if !r.out.Holds {
		return nil
	}
	asks := need(&r.source, r.target, r.out.All, func(*record.Pod) bool { return true })
	r.out.Bound, r.out.By = leastNodes(asks, r.queue, control)
	for batch := total - r.out.Bound; len(r.queue) > 0; {
		batch = min(max(batch, 1), len(r.queue), total-len(r.gone)-r.out.Bound)
		if batch <= 0 {
			return nil // the bound is reached
		}
		if r.spent() {
			return r.stop(ctx, errSpent)
		}
		o, err := r.without(ctx, r.queue[:batch])
		if err != nil {
			return r.stop(ctx, err)
		}
		switch {
		case o.holds(r.target, r.out.All):
			for _, n := range r.queue[:batch] {
				r.gone[n.Name] = true
			}
			r.queue, r.out.With, batch = r.queue[batch:], o, 2*batch
		case batch > 1:
			batch /= 2
		default:
			stays := kind(r.queue[0])
			r.queue = slices.DeleteFunc(r.queue, func(n record.Node) bool { return kind(n) == stays })
		}
	}
	return nil
}

// without plays the work without the removed nodes and more.
func (r *removal) without(ctx context.Context, more []record.Node) (Outcome, error) {
	return r.play(ctx, on(r.source, func(name string) bool {
		return !r.gone[name] && !slices.ContainsFunc(more, func(n record.Node) bool { return n.Name == name })
	}))
}

func (r *removal) result(all []record.Node) FewestOf {
	r.out.Keep = []string{}
	for _, n := range all {
		if !r.gone[n.Name] {
			r.out.Keep = append(r.out.Keep, n.Name)
		}
	}
	slices.Sort(r.out.Keep)
	return r.out
}

// leastNodes returns the number of nodes, the largest in each dimension, that cover the need together with the nodes that stay. by names
// the dimension that needs most.
func leastNodes(asks amounts, nodes, stay []record.Node) (most int, by string) {
	for d, ask := range asks {
		for i := range stay {
			ask -= offered(&stay[i])[d]
		}
		sorted := slices.SortedFunc(slices.Values(nodes), func(a, b record.Node) int { return cmp.Compare(offered(&b)[d], offered(&a)[d]) })
		n := 0
		for ; n < len(sorted) && ask > 1e-6; n++ {
			ask -= offered(&sorted[n])[d]
		}
		if n > most {
			most, by = n, dimensions[d]
		}
	}
	return most, by
}
