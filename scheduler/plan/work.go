package plan

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"

	"gnnsched/scheduler/objective"
	"gnnsched/scheduler/replay"
	"gnnsched/workload/record"
)

// Target is the condition under which nodes hold the recorded work: a share of its pods waits no longer than Wait, and no more pods go
// without a node than on the reference's nodes.
type Target struct {
	Wait  time.Duration
	Share float64 // over 0, to 1
	Seed  uint64  // of the draws among equal nodes
	// Evaluations is the largest number of replays for each profile.
	Evaluations int
}

// Outcome is the performance of the recorded work on some nodes.
type Outcome struct {
	Wait     float64 `json:"wait_s"`   // that the target's share of the pods does not exceed, in seconds
	Unplaced int     `json:"unplaced"` // pods that never get a node, or have none at the end
	pods     int     // that count in Wait
	refused  int     // pods that no plugin can read; they are left out
}

// holds reports whether the outcome meets the target.
func (o Outcome) holds(t Target, reference Outcome) bool {
	return o.Wait <= t.Wait.Seconds() && o.Unplaced <= reference.Unplaced
}

// anew returns the source with all of its work still to place: pods that run at the beginning arrive there.
func anew(s replay.Source) replay.Source {
	s.Pods = slices.Clone(s.Pods)
	for i := range s.Pods {
		if p := &s.Pods[i]; !p.Daemon && p.Bound != 0 && p.Bound <= s.From {
			p.Bound, p.Node = 0, ""
		}
	}
	return s
}

// on returns the source with the nodes that keep selects, without pods that belong to another node.
func on(s replay.Source, keep func(name string) bool) replay.Source {
	s.Nodes = slices.DeleteFunc(slices.Clone(s.Nodes), func(n record.Node) bool { return !keep(n.Name) })
	s.Pods = slices.DeleteFunc(slices.Clone(s.Pods), func(p record.Pod) bool { return p.Daemon && !keep(p.Node) })
	return s
}

// judge plays the work of a source under a profile.
func judge(ctx context.Context, s replay.Source, p Profile, t Target) (Outcome, error) {
	c, err := replay.Run(ctx, s, replay.Config{Profile: p.KubeSchedulerProfile, Objective: objective.Balance{}, Blocks: 1, Seed: t.Seed})
	if err != nil {
		return Outcome{}, fmt.Errorf("play %s: %w", p.Name, err)
	}
	return Outcome{c.WaitQuantile(t.Share), c.Unscheduled + c.NeverRan, len(c.Waits), c.Refused}, nil
}

// trials plays the recorded work on nodes under one profile, and counts the replays.
type trials struct {
	profile  Profile
	target   Target
	progress func(profile string, evaluations int)
	*Ended   // of the search's result
}

// Why a search ended early.
const (
	cutLimit     = "the limit of evaluations was reached"
	cutInterrupt = "it was interrupted"
)

// errSpent ends a search that has made all its evaluations.
var errSpent = errors.New("all evaluations are made")

// play plays the work of a source.
func (t *trials) play(ctx context.Context, s replay.Source) (Outcome, error) {
	o, err := judge(ctx, s, t.profile, t.target)
	if err == nil {
		t.Evaluations++
		t.progress(t.profile.Name, t.Evaluations)
	}
	return o, err
}

// spent reports whether the search may play no more.
func (t *trials) spent() bool { return t.Evaluations >= t.target.Evaluations }

// stop notes why a search ended early. It returns nil if its evaluations were made.
func (t *trials) stop(ctx context.Context, err error) error {
	switch {
	case errors.Is(err, errSpent):
		t.Cut = cutLimit
		return nil
	case ctx.Err() != nil:
		t.Cut = cutInterrupt
	}
	return err
}

// isControl reports whether a node runs the control plane. Such nodes stay in every plan.
func isControl(n *record.Node) bool {
	_, is := record.Labels(n.Labels)[controlPlane]
	return is
}

// workers returns the nodes of the window that may be removed, and the nodes of the control plane, by name. Each has the largest amounts
// that it offers in the window.
func workers(s *replay.Source) (workers, control []record.Node) {
	last := map[string]record.Node{}
	for _, n := range s.Nodes {
		if n.From >= s.To || n.To != 0 && n.To <= s.From {
			continue
		}
		old := last[n.Name]
		n.MilliCPU, n.Memory, n.GPU, n.Pods = max(n.MilliCPU, old.MilliCPU), max(n.Memory, old.Memory), max(n.GPU, old.GPU), max(n.Pods, old.Pods)
		last[n.Name] = n
	}
	for _, n := range last {
		if isControl(&n) {
			control = append(control, n)
		} else {
			workers = append(workers, n)
		}
	}
	byName := func(a, b record.Node) int { return strings.Compare(a.Name, b.Name) }
	slices.SortFunc(workers, byName)
	slices.SortFunc(control, byName)
	return workers, control
}

// kind returns the same text for nodes that differ in their names only.
func kind(n record.Node) string {
	if labels := record.Labels(n.Labels); len(labels) > 0 {
		delete(labels, v1.LabelHostname)
		n.Labels = record.JSON(labels)
	}
	n.Name, n.From, n.To, n.Gone, n.DoNotDisrupt = "", 0, 0, false, ""
	return fmt.Sprintf("%+v", n)
}
