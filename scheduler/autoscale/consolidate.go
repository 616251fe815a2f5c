package autoscale

import (
	"context"
	"fmt"
	"maps"
	"math"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"gnnsched/internal/cluster"
	"gnnsched/internal/cluster/kube"
	"gnnsched/scheduler/moves"
	"gnnsched/scheduler/objective"
	"gnnsched/workload/record"
)

// Yielder is a Scaler that can leave it to another one which used nodes go.
type Yielder interface {
	Scaler
	// Yield makes it remove only empty nodes from now on.
	Yield()
	// MayGo returns the used nodes that its rules let go now, and how many of each pool. A pool that is not listed has no limit.
	MayGo(ctx context.Context, c *Cluster) (nodes []string, most map[string]int, err error)
}

const (
	consolidation = time.Minute   // how often it looks
	horizon       = 4 * time.Hour // a machine that goes will not be needed again for as long as none was started, at most for this
	evictionCost  = 0.2           // of a pod that loses no work, in core hours
)

// consolidator lets an autoscaler start machines and remove empty ones. It removes used nodes itself, if the search of package moves finds
// places for their pods and the nodes cost more than their pods lose.
type consolidator struct {
	Yielder
	catalog   *Catalog
	sizes     sizes
	templates map[*v1.Container]*cluster.Pod
	offers    []group // the cheapest of each pool and type
	core      float64 // the least price of a core, an hour
	next      time.Time
	grew      time.Time       // when the autoscaler last started machines
	fresh     map[string]bool // machines that were started for the pods of others
	started   int
}

// NewConsolidator returns a Scaler that leaves used nodes to the search for moves, and all else to an autoscaler.
func NewConsolidator(s Yielder, c *Catalog) Scaler {
	d := &consolidator{
		Yielder: s, catalog: c, sizes: sizes{}, templates: map[*v1.Container]*cluster.Pod{}, core: math.Inf(1), fresh: map[string]bool{},
	}
	s.Yield()
	for i := range c.Pools {
		cheapest := map[string]int{}
		for _, l := range c.Offers(&c.Pools[i]) {
			g := group{l, c.Node(l), c.Price(l)}
			d.core = min(d.core, g.price/g.node.Status.Allocatable.Cpu().AsApproximateFloat64())
			if k, known := cheapest[l.Type]; !known {
				cheapest[l.Type], d.offers = len(d.offers), append(d.offers, g)
			} else if g.price < d.offers[k].price {
				d.offers[k] = g
			}
		}
	}
	return d
}

// Step implements Scaler.
func (d *consolidator) Step(ctx context.Context, c *Cluster) (Plan, error) {
	plan, err := d.Yielder.Step(ctx, c)
	if err != nil {
		return plan, err
	}
	if len(plan.Start) > 0 {
		d.grew = c.Now
	}
	due, boots := !c.Now.Before(d.next), false
	for i := range c.Nodes {
		if n := &c.Nodes[i]; d.fresh[n.Object.Name] {
			due, boots = due || n.Ready, boots || !n.Ready
		}
	}
	if len(plan.Start) > 0 || boots || len(c.Waiting) > len(d.catalog.Unfit(c.Waiting)) { // a change comes, and a look with it
		return plan, nil
	}
	if due {
		d.next = c.Now.Add(consolidation)
		if err := d.look(ctx, c, &plan); err != nil {
			return plan, err
		}
	}
	if plan.Next.IsZero() || d.next.Before(plan.Next) {
		plan.Next = d.next
	}
	return plan, nil
}

// look removes the nodes that are worth it or, if there are none, starts a machine for the pods of some.
func (d *consolidator) look(ctx context.Context, c *Cluster, plan *Plan) error {
	names, most, err := d.MayGo(ctx, c)
	if err != nil {
		return err
	}
	hours := min(horizon, c.Now.Sub(d.grew)).Hours()
	s := d.survey(c, names, most, hours)
	clear(d.fresh)
	freed, _ := s.search()
	most = maps.Clone(most)
	for _, n := range freed {
		if left, limited := most[n.Launch.Pool]; limited {
			if left <= 0 {
				continue
			}
			most[n.Launch.Pool]--
		}
		plan.Remove = append(plan.Remove, n.Object.Name)
	}
	if len(freed) > 0 {
		return nil
	}
	if best := d.replacement(c, s, hours); best != nil {
		d.started++
		l := best.launch
		l.Name = fmt.Sprintf("%s-defrag-%d", l.Pool, d.started)
		d.fresh[l.Name] = true
		plan.Start = append(plan.Start, l)
	}
	return nil
}

// replacement returns the machine that gains most if it is started for the pods of others; nil if none gains.
func (d *consolidator) replacement(c *Cluster, s *survey, hours float64) (best *group) {
	gain, used := 0.0, c.used()
	for i := range d.offers {
		g := &d.offers[i]
		cost := g.price * (hours + d.catalog.Type(g.launch.Type).Boot.Hours())
		if cost >= s.most || d.catalog.Pool(g.launch.Pool).within(g.node, used[g.launch.Pool]) < 1 {
			continue
		}
		if more := s.with(g, c.daemonsOn(g.node)) - cost; more > gain {
			best, gain = g, more
		}
	}
	return best
}

// Notes returns what the autoscaler tells at the end.
func (d *consolidator) Notes() []string {
	if x, tells := d.Yielder.(interface{ Notes() []string }); tells {
		return x.Notes()
	}
	return nil
}

// survey is a cluster as package moves sees it. It implements moves.Rules.
type survey struct {
	*consolidator
	now   time.Time
	rows  []*Node // that take pods
	stays []string
	most  float64 // that all nodes are worth together
	worth moves.Worth

	nodes []*cluster.Node
	pods  []moves.Pod
	bins  []*bin    // by row
	of    []*v1.Pod // by pod
	at    []int32   // row, by pod
}

// survey looks at the nodes that take pods. Those that are named may go. hours is how long one that goes is not needed again.
func (d *consolidator) survey(c *Cluster, names []string, most map[string]int, hours float64) *survey {
	s := &survey{consolidator: d, now: c.Now}
	for i := range c.Nodes {
		n := &c.Nodes[i]
		if !n.Ready || n.Closed {
			continue
		}
		why, worth, used := "", d.catalog.Price(n.Launch)*hours, movable(n.Pods) > 0
		limit, limited := most[n.Launch.Pool]
		switch {
		case used && (limited && limit <= 0 || !slices.Contains(names, n.Object.Name)):
			why = "it may not go"
		case used:
			s.most += worth
		case d.fresh[n.Object.Name]:
			why = "it was started for the pods of others"
		}
		s.add(n.Object, n.Pods, worth, why)
		s.rows = append(s.rows, n)
	}
	return s
}

// add adds a node with its pods.
func (s *survey) add(n *v1.Node, pods []*v1.Pod, worth float64, why string) {
	row, out, b := int32(len(s.nodes)), kube.Node(n), s.sizes.newBin(n, pods)
	for _, p := range pods {
		asks := s.asks(p)
		on := kube.PlaceInOrder(out, []kube.RunningPod{{Requests: asks.Requests, Devices: kube.Devices(p.Annotations)}})[0]
		if OfDaemonSet(p) {
			continue
		}
		s.pods = append(s.pods, moves.Pod{Pod: asks, ID: len(s.pods), Name: p.Namespace + "/" + p.Name, Row: row, Devices: on})
		s.of, s.at, s.worth.Pods = append(s.of, p), append(s.at, row), append(s.worth.Pods, s.loss(p, asks))
	}
	kube.CloseLost(out, 0)
	s.nodes, s.bins, s.stays, s.worth.Nodes = append(s.nodes, out), append(s.bins, b), append(s.stays, why), append(s.worth.Nodes, worth)
}

// asks returns what a pod requests. Pods that were made from one template share it.
func (d *consolidator) asks(p *v1.Pod) *cluster.Pod {
	if len(p.Spec.Containers) == 0 {
		return &cluster.Pod{Requests: cluster.Resources{Pods: 1}}
	}
	key := &p.Spec.Containers[0]
	out := d.templates[key]
	if out == nil {
		x, _ := kube.Pod(p)
		out = &cluster.Pod{Requests: x.Requests, GPUModels: x.GPUModels, Tolerations: x.Tolerations}
		d.templates[key] = out
	}
	return out
}

// loss returns what is lost if a pod is evicted: its work if it finishes by itself.
func (s *survey) loss(p *v1.Pod, asks *cluster.Pod) float64 {
	out := evictionCost
	if o := metav1.GetControllerOfNoCopy(p); o != nil && o.Kind == record.KindJob && p.Status.StartTime != nil {
		out += s.now.Sub(p.Status.StartTime.Time).Hours() * float64(asks.Requests.MilliCPU) / 1000
	}
	return out * s.core
}

// search returns the nodes to remove and the gain.
func (s *survey) search() (freed []*Node, gain float64) {
	state := moves.New(s.nodes, s.pods, moves.Config{Rules: s, Track: objective.Pack{}.Track})
	out := moves.Empty(state, moves.Greedy{}, moves.Limits{Worth: &s.worth}, func() bool { return false }, func(float64) {})
	for _, row := range out.Freed {
		freed, gain = append(freed, s.rows[row]), gain+s.worth.Nodes[row]
	}
	for _, x := range out.Steps {
		gain -= s.worth.Pods[x.Pod]
	}
	return freed, gain
}

// with is search with one more machine.
func (s *survey) with(g *group, daemons []*v1.Pod) float64 {
	n := len(s.nodes)
	s.add(g.node, daemons, 0, "it would be started")
	_, gain := s.search()
	s.nodes, s.bins, s.stays, s.worth.Nodes = s.nodes[:n], s.bins[:n], s.stays[:n], s.worth.Nodes[:n]
	return gain
}

// Stays implements moves.Rules.
func (s *survey) Stays(pod int) string {
	if p := s.of[pod]; !Recreated(p) && p.Annotations[safeToEvict] != "true" {
		return "nobody makes it anew"
	}
	return ""
}

// StaysInUse implements moves.Rules.
func (s *survey) StaysInUse(row int32) string { return s.stays[row] }

// Refusal implements moves.Rules.
func (s *survey) Refusal(pod int, row int32, _ []bool) string {
	if p := s.of[pod]; s.bins[row].takes(p, s.sizes.of(p)) {
		return ""
	}
	return "it does not take the pod"
}

// Refusals implements moves.Rules.
func (s *survey) Refusals(int, []bool) string { return "no other node takes it" }

// Moved implements moves.Rules.
func (s *survey) Moved(to cluster.Move) {
	p := s.of[to.Pod]
	x := s.sizes.of(p)
	if from := s.at[to.Pod]; from >= 0 {
		s.bins[from].drop(p, x)
	}
	if s.at[to.Pod] = to.Row; to.Row >= 0 {
		s.bins[to.Row].put(p, x)
	}
}
