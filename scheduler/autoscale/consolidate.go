package autoscale

import (
	"context"
	"fmt"
	"maps"
	"math"
	"os"
	"slices"
	"strconv"
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

func knob(name string, otherwise float64) float64 {
	if x, err := strconv.ParseFloat(os.Getenv(name), 64); err == nil {
		return x
	}
	return otherwise
}

var (
	consolidationPeriod = time.Duration(knob("PERIOD", 60) * float64(time.Second))
	horizon             = time.Duration(knob("HORIZON", 3600) * float64(time.Second))
	evictionPrice       = knob("EVICTION", 0.01)
	workPrice           = knob("WORK", 1)
	replaces            = knob("REPLACE", 1) > 0
)

// consolidator lets an autoscaler start machines and remove empty ones. It removes used nodes itself, if the search of package moves finds
// places for their pods and the nodes cost more than their pods lose.
type consolidator struct {
	Yielder
	catalog *Catalog
	sizes   sizes
	offers  []group // the cheapest of each pool and type
	core    float64 // the least price of a core, an hour
	next    time.Time
	grew    time.Time       // when the autoscaler last started machines
	fresh   map[string]bool // machines that were started for the pods of others
	started int
}

// NewConsolidator returns a Scaler that leaves used nodes to the search for moves, and all else to an autoscaler.
func NewConsolidator(s Yielder, c *Catalog) Scaler {
	d := &consolidator{Yielder: s, catalog: c, sizes: sizes{}, core: math.Inf(1), fresh: map[string]bool{}}
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
	if len(c.Waiting) > 0 || len(plan.Start) > 0 || boots { // a change comes, and a look with it
		return plan, nil
	}
	if due {
		d.next = c.Now.Add(consolidationPeriod)
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
	var by moves.Searcher = moves.Local{}
	if knob("GREEDY", 0) > 0 {
		by = moves.Greedy{}
	}
	freed, _ := s.search(nil, by)
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
	if len(freed) > 0 || !replaces {
		return nil
	}
	var best group
	gain := 0.0
	for _, g := range d.offers {
		boot := d.catalog.Type(g.launch.Type).Boot.Hours()
		if cost := g.price * (hours + boot); cost < s.most {
			if _, worth := s.search(&g, moves.Greedy{}); worth-cost > gain {
				best, gain = g, worth-cost
			}
		}
	}
	if best.node == nil {
		return nil
	}
	d.started++
	l := best.launch
	l.Name = fmt.Sprintf("%s-defrag-%d", l.Pool, d.started)
	d.fresh[l.Name] = true
	plan.Start = append(plan.Start, l)
	return nil
}

// survey is a cluster as package moves sees it. It implements moves.Rules.
type survey struct {
	*consolidator
	cluster *Cluster
	nodes   []*Node // that take pods
	stays   []string
	worth   moves.Worth
	most    float64 // that all nodes are worth together

	bins []*bin
	pods []*v1.Pod
	at   []int32 // by pod
}

// survey looks at the nodes that take pods. Those that are named may go. hours is how long one that goes is not needed again.
func (d *consolidator) survey(c *Cluster, names []string, most map[string]int, hours float64) *survey {
	s := &survey{consolidator: d, cluster: c}
	for i := range c.Nodes {
		n := &c.Nodes[i]
		if !n.Ready || n.Closed {
			continue
		}
		why, price := "", d.catalog.Price(n.Launch)
		if limit, limited := most[n.Launch.Pool]; limited && limit <= 0 || movable(n.Pods) > 0 && !slices.Contains(names, n.Object.Name) {
			why = "it may not go"
		} else if movable(n.Pods) == 0 && d.fresh[n.Object.Name] {
			why = "it was started for the pods of others"
		} else if movable(n.Pods) > 0 {
			s.most += price * hours
		}
		s.nodes, s.stays = append(s.nodes, n), append(s.stays, why)
		s.worth.Nodes = append(s.worth.Nodes, price*hours)
	}
	return s
}

// loss returns what is lost if a pod is evicted: its work if it finishes by itself.
func (s *survey) loss(p *v1.Pod) float64 {
	out := evictionPrice
	if o := metav1.GetControllerOfNoCopy(p); o != nil && o.Kind == record.KindJob && p.Status.StartTime != nil {
		ran := s.cluster.Now.Sub(p.Status.StartTime.Time).Hours()
		out += workPrice * ran * s.core * float64(kube.Requests(p).MilliCPU) / 1000
	}
	return out
}

// search returns the nodes to remove and the gain. With a group, one more machine takes pods.
func (s *survey) search(more *group, by moves.Searcher) ([]*Node, float64) {
	s.bins, s.pods, s.at, s.worth.Pods = nil, nil, nil, nil
	var nodes []*cluster.Node
	var pods []moves.Pod
	for row, n := range s.nodes {
		nodes = append(nodes, s.place(int32(row), n, &pods))
	}
	if more != nil {
		n := &Node{Object: more.node}
		for _, p := range s.cluster.Daemons {
			if Admits(p, more.node) {
				n.Pods = append(n.Pods, p)
			}
		}
		nodes = append(nodes, s.place(int32(len(s.nodes)), n, &pods))
	}
	state := moves.New(nodes, pods, moves.Config{Rules: s, Track: objective.Pack{}.Track})
	worth := s.worth
	worth.Nodes = append(slices.Clip(worth.Nodes), 0)
	out := moves.Empty(state, by, moves.Limits{Worth: &worth}, func() bool { return false }, func(float64) {})
	var freed []*Node
	gain := 0.0
	for _, row := range out.Freed {
		freed = append(freed, s.nodes[row])
		gain += s.worth.Nodes[row]
	}
	for _, x := range out.Steps {
		gain -= s.worth.Pods[x.Pod]
	}
	return freed, gain
}

// place returns a node with its pods, and appends those that may move.
func (s *survey) place(row int32, n *Node, pods *[]moves.Pod) *cluster.Node {
	out := kube.Node(n.Object)
	for _, p := range n.Pods {
		running, _ := kube.Running(p)
		on := kube.PlaceInOrder(out, []kube.RunningPod{running})[0]
		if OfDaemonSet(p) {
			continue
		}
		asks, _ := kube.Pod(p)
		asks.Partition = 0
		*pods = append(*pods, moves.Pod{Pod: &asks, ID: len(s.pods), Name: p.Namespace + "/" + p.Name, Row: row, Devices: on})
		s.pods, s.at, s.worth.Pods = append(s.pods, p), append(s.at, row), append(s.worth.Pods, s.loss(p))
	}
	kube.CloseLost(out, 0)
	s.bins = append(s.bins, s.sizes.newBin(n.Object, n.Pods))
	return out
}

// Stays implements moves.Rules.
func (s *survey) Stays(int) string { return "" }

// StaysInUse implements moves.Rules.
func (s *survey) StaysInUse(row int32) string {
	if int(row) == len(s.nodes) {
		return "it would be started"
	}
	return s.stays[row]
}

// Refusal implements moves.Rules.
func (s *survey) Refusal(pod int, row int32, _ []bool) string {
	if s.bins[row].takes(s.pods[pod], s.sizes.of(s.pods[pod])) {
		return ""
	}
	return "it does not take the pod"
}

// Refusals implements moves.Rules.
func (s *survey) Refusals(int, []bool) string { return "no other node takes it" }

// Moved implements moves.Rules.
func (s *survey) Moved(to cluster.Move) {
	p := s.pods[to.Pod]
	x := s.sizes.of(p)
	if from := s.at[to.Pod]; from >= 0 {
		s.bins[from].drop(p, x)
	}
	if s.at[to.Pod] = to.Row; to.Row >= 0 {
		s.bins[to.Row].put(p, x)
	}
}
