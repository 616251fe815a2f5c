package demo

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"gnnsched/internal/cluster"
	"gnnsched/scheduler/eval/contender"
	"gnnsched/scheduler/eval/testbed"
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
	outlook   outlook     // for the pods that it was chosen from
	chosen    string      // by the learned scheduler
	other     string      // by the default one
	nodes     []candidate // all with room, the learned scheduler's best first
	imbalance float64     // the objective before the decision
}

// candidate is a node that the pod fits on.
type candidate struct {
	node             string
	score, byDefault float32 // of the network, and of the default profile's scoring by resources
	before, then     shares  // requested without and with the pod
	imbalance        float64 // the objective with the pod here
}

// shares are the requested fractions of a node.
type shares struct{ cpu, memory float64 }

// explainAt is the fraction of the workload that the default scheduler has placed before the explained decision. With few pods every node
// would do; with nearly all pods few nodes have room.
const explainAt = 0.8

// explainOf is the number of following pods from which the explained one is chosen.
const explainOf = 20

// explainTries is the number of pods that are put through both schedulers at most.
const explainTries = 5

// outlook counts pods by the choice of both for them, by the scores of the nodes.
type outlook struct {
	same int // nodes that are equally even
	more int // the learned scheduler the more even one
	less int // the default scheduler the more even one
}

// explain fills the cluster through the default scheduler to a part of the first workload: a network wins over
// the whole workload, so its own states are so even that a single choice shows little. Of the following pods
// explain takes the one with which the learned choice gains the most evenness, by the scores, and puts it
// through both schedulers. If they choose otherwise, it takes the next one.
func (d *director) explain(ctx context.Context) error {
	plan, err := d.part.plan(d.config.Seed)
	if err != nil {
		return err
	}
	at := int(explainAt * float64(len(plan.Steps)))
	next := plan.Steps[at:min(at+explainOf, len(plan.Steps))]
	return d.deploy(ctx, plan.Steps[:at], server.DefaultProfile, deciding+"most of the first workload with "+server.DefaultProfile+": ",
		func(driver.FillSummary) error {
			s, _, err := testbed.Snapshot(ctx, d.bed.Client)
			if err != nil {
				return err
			}
			next, outlook, err := d.byGain(s, next)
			if err != nil {
				return err
			}
			for _, step := range next[:min(explainTries, len(next))] {
				d.report(deciding + step.Deployment.Name + " through both schedulers")
				e, err := d.compare(ctx, step)
				if err != nil {
					return err
				}
				if e != nil && (d.explanation == nil || e.gain() > d.explanation.gain()) {
					e.outlook = outlook
					d.explanation = e
				}
				if d.explanation != nil && d.explanation.gain() > 0 {
					break
				}
			}
			return nil
		})
}

// byGain returns the steps by the gain of evenness of the learned choice over the default one, each in the state of the snapshot, and
// counts them. Pods that fit nowhere are left out.
func (d *director) byGain(s *cluster.Snapshot, steps []workload.Step) ([]workload.Step, outlook, error) {
	var fitting []workload.Step
	var count outlook
	gains := map[string]float64{}
	for _, step := range steps {
		nodes, err := candidates(s, pod(step), d.part.learned)
		if err != nil {
			return nil, count, err
		}
		if len(nodes) == 0 {
			continue
		}
		gain := defaultImbalance(nodes) - nodes[0].imbalance
		switch {
		case math.Abs(gain) < tiny:
			count.same++
		case gain > 0:
			count.more++
		default:
			count.less++
		}
		gains[step.Deployment.Name] = gain
		fitting = append(fitting, step)
	}
	slices.SortStableFunc(fitting, func(a, b workload.Step) int {
		return cmp.Compare(gains[b.Deployment.Name], gains[a.Deployment.Name])
	})
	return fitting, count, nil
}

// tiny is the largest difference of the objective that counts as rounding.
const tiny = 1e-9

// defaultImbalance returns the objective after the default scoring's choice, averaged over its tied best nodes.
func defaultImbalance(nodes []candidate) float64 {
	best := slices.MaxFunc(nodes, func(a, b candidate) int { return cmp.Compare(a.byDefault, b.byDefault) }).byDefault
	sum, n := 0.0, 0
	for _, c := range nodes {
		if c.byDefault == best {
			sum, n = sum+c.imbalance, n+1
		}
	}
	return sum / float64(n)
}

// deciding begins the status line during explain.
const deciding = "One decision: "

// compare puts a pod through both schedulers in the present state and removes it again. It returns nil
// if they chose the same node, or one of them none with room.
func (d *director) compare(ctx context.Context, step workload.Step) (*explanation, error) {
	s, _, err := testbed.Snapshot(ctx, d.bed.Client)
	if err != nil {
		return nil, err
	}
	e := &explanation{scheduler: d.part.learned, pod: pod(step), imbalance: balance(s.Nodes)}
	if e.other, err = d.nodeOf(ctx, step, server.DefaultProfile); err != nil {
		return nil, err
	}
	if e.chosen, err = d.nodeOf(ctx, step, d.part.learned); err != nil {
		return nil, err
	}
	if e.chosen == e.other || e.chosen == "" || e.other == "" {
		return nil, nil
	}
	if e.nodes, err = candidates(s, e.pod, e.scheduler); err != nil || e.rank(e.chosen) == 0 || e.rank(e.other) == 0 {
		return nil, err
	}
	return e, nil
}

// nodeOf returns the node that a scheduler chooses for the pod of a step, and removes the pod.
func (d *director) nodeOf(ctx context.Context, step workload.Step, scheduler string) (node string, err error) {
	err = d.deploy(ctx, []workload.Step{step}, scheduler, deciding+step.Deployment.Name+" with "+scheduler+": ",
		func(driver.FillSummary) error {
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

// candidates scores each node with room for a pod by a learned policy and by the default scoring, and sorts by the learned policy, best
// first. The scheduler runs the same policies.
func candidates(s *cluster.Snapshot, pod *cluster.Pod, learned string) ([]candidate, error) {
	rows := s.Feasible(pod, nil)
	var scores [2][]float32
	for i, name := range []string{learned, baseline} {
		x, err := contender.Named(name)
		if err != nil {
			return nil, err
		}
		scores[i] = make([]float32, len(rows))
		if err := x.New(policy.Setting{}).Score(s, pod, rows, scores[i]); err != nil {
			return nil, fmt.Errorf("score the nodes with %s: %w", name, err)
		}
	}
	var nodes []candidate
	for i, row := range rows {
		n := s.Nodes[row]
		c := candidate{node: n.Name, score: scores[0][i], byDefault: scores[1][i], before: sharesOf(n)}
		on := n.Add(pod.Requests)
		c.then, c.imbalance = sharesOf(n), balance(s.Nodes)
		n.Remove(pod.Requests, on)
		nodes = append(nodes, c)
	}
	slices.SortStableFunc(nodes, func(a, b candidate) int { return cmp.Compare(b.score, a.score) })
	return nodes, nil
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

// gain returns the difference of the objective between the default choice and the learned one.
func (e *explanation) gain() float64 { return e.of(e.other).imbalance - e.of(e.chosen).imbalance }
