package demo

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"gnnsched/internal/cluster"
	"gnnsched/scheduler/eval/contender"
	"gnnsched/scheduler/objective"
	"gnnsched/scheduler/policy"
	"gnnsched/scheduler/server"
	"gnnsched/workload"
	"gnnsched/workload/driver"
)

// explanation is one decision of the learned scheduler beside the default one's in the same state.
type explanation struct {
	scheduler string
	pod       *cluster.Pod
	agreed    int         // larger pods that both put on the same node
	chosen    string      // by the learned scheduler
	other     string      // by the default one
	nodes     []candidate // all with room, the learned scheduler's best first
	uneven    float64     // the objective before the decision
}

// candidate is a node that the pod fits on.
type candidate struct {
	node             string
	score, byDefault float32 // of the network, and of the default profile's scoring by resources
	before, then     shares  // requested without and with the pod
	uneven           float64 // the objective with the pod here
}

// shares are the requested fractions of a node.
type shares struct{ cpu, memory float64 }

// explainAt is the part of a workload that is on the cluster when the decision is made: with few pods
// every node would do, with nearly all of them few nodes have room.
const explainAt = 0.6

// explainOf is the number of the following pods, of which one is explained.
const explainOf = 20

// explain fills the cluster through the learned scheduler to a part of the first workload. Then it puts
// the following pods through both schedulers, the largest first and each in the same state, until they
// choose different nodes.
func (d *director) explain(ctx context.Context) error {
	plan, err := d.part.plan(d.config.Seed)
	if err != nil {
		return err
	}
	at := int(explainAt * float64(len(plan.Steps)))
	next := slices.Clone(plan.Steps[at:min(at+explainOf, len(plan.Steps))])
	slices.SortStableFunc(next, func(a, b workload.Step) int {
		return cmp.Compare(b.Deployment.Requests().MilliCPU, a.Deployment.Requests().MilliCPU)
	})
	return d.deploy(ctx, plan.Steps[:at], d.part.learned, deciding, func(driver.FillSummary) error {
		for i, step := range next {
			d.report(deciding+step.Deployment.Name+" through both schedulers", "")
			e, err := d.compare(ctx, step)
			if err != nil {
				return err
			}
			if e != nil {
				e.agreed = i
				d.explanation = e
				return nil
			}
		}
		return nil
	})
}

// deciding begins the status line during explain.
const deciding = "One decision: "

// compare puts a pod through both schedulers in the present state and removes it again. It returns nil
// if they chose the same node, or one of them none.
func (d *director) compare(ctx context.Context, step workload.Step) (*explanation, error) {
	s, err := snapshot(ctx, d.bed.Client)
	if err != nil {
		return nil, err
	}
	e := &explanation{scheduler: d.part.learned, pod: pod(step), uneven: balance(s.Nodes)}
	if e.other, err = d.nodeOf(ctx, step, server.DefaultProfile); err != nil {
		return nil, err
	}
	if e.chosen, err = d.nodeOf(ctx, step, d.part.learned); err != nil {
		return nil, err
	}
	if e.chosen == e.other || e.chosen == "" || e.other == "" {
		return nil, nil
	}
	return e, e.score(s)
}

// nodeOf returns the node that a scheduler chooses for the pod of a step, and removes the pod.
func (d *director) nodeOf(ctx context.Context, step workload.Step, scheduler string) (node string, err error) {
	err = d.deploy(ctx, []workload.Step{step}, scheduler, deciding, func(driver.FillSummary) error {
		p, err := d.bed.Client.CoreV1().Pods(namespace).Get(ctx, step.Deployment.Name, metav1.GetOptions{})
		if err != nil {
			return fmt.Errorf("get pod %s: %w", step.Deployment.Name, err)
		}
		node = p.Spec.NodeName
		return nil
	})
	return node, err
}

// balance is the objective that the networks of the demo's first part were trained for.
func balance(nodes []*cluster.Node) float64 { return objective.Balance{}.Cost(nodes) }

// score computes what the learned policy and the default scoring make of each node with room. The
// policies are those that the scheduler runs.
func (e *explanation) score(s *cluster.Snapshot) error {
	rows := s.Feasible(e.pod, nil)
	var scores [2][]float32
	for i, name := range []string{e.scheduler, baseline} {
		x, err := contender.Named(name)
		if err != nil {
			return err
		}
		scores[i] = make([]float32, len(rows))
		if err := x.New(policy.Setting{}).Score(s, e.pod, rows, scores[i]); err != nil {
			return fmt.Errorf("score the nodes with %s: %w", name, err)
		}
	}
	for i, row := range rows {
		n := s.Nodes[row]
		c := candidate{node: n.Name, score: scores[0][i], byDefault: scores[1][i], before: sharesOf(n)}
		on := n.Add(e.pod.Requests)
		c.then, c.uneven = sharesOf(n), balance(s.Nodes)
		n.Remove(e.pod.Requests, on)
		e.nodes = append(e.nodes, c)
	}
	slices.SortStableFunc(e.nodes, func(a, b candidate) int { return cmp.Compare(b.score, a.score) })
	return nil
}

func sharesOf(n *cluster.Node) shares {
	return shares{
		cpu:    cluster.Fraction(n.Requested.MilliCPU, n.Allocatable.MilliCPU),
		memory: cluster.Fraction(n.Requested.Memory, n.Allocatable.Memory),
	}
}

// rank returns the place of a node in the order of the learned scores, from 1; 0 if it has no room.
func (e *explanation) rank(node string) int {
	return 1 + slices.IndexFunc(e.nodes, func(c candidate) bool { return c.node == node })
}

// of returns the candidate with a name.
func (e *explanation) of(node string) candidate { return e.nodes[e.rank(node)-1] }
