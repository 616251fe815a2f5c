package autoscale

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"gnnsched/internal/cluster/kube"
)

// The settings of Cluster Autoscaler that its flags have by default.
const (
	scanInterval  = 10 * time.Second // --scan-interval
	unneededTime  = 10 * time.Minute // --scale-down-unneeded-time
	delayAfterAdd = 10 * time.Minute // --scale-down-delay-after-add
	mostEmpty     = 10               // --max-scale-down-parallelism
	mostDrained   = 1                // --max-drain-parallelism
	mostCandidate = 50               // --scale-down-candidates-pool-min-count, and a tenth of the nodes
)

// Utilised is the utilisation below which Cluster Autoscaler removes nodes by default, its --scale-down-utilization-threshold.
const Utilised = 0.5

// Expanders are the ways in which Cluster Autoscaler chooses among node groups that could take waiting pods, the default first.
var Expanders = []string{"least-waste", "price", "random"}

// clusterAutoscaler is Cluster Autoscaler, restated from its documentation; ADR 33 says what is left out. A node group is a pool's machines
// of one type, zone and capacity type.
type clusterAutoscaler struct {
	catalog  *Catalog
	expander string
	below    float64 // the utilisation under which nodes may go
	draw     *rand.Rand
	groups   []group
	sizes    sizes
	// selectors are those of budgets, read once.
	selectors map[*metav1.LabelSelector]labels.Selector
	bins      map[string]known     // of nodes, until they change
	started   int                  // machines so far, for their names
	scanned   time.Time            // the last scan
	added     time.Time            // the last start
	unneeded  map[string]time.Time // since when, by node
	yields    bool                 // used nodes stay
}

// known is a node as it was at a version.
type known struct {
	version int64
	bin     *bin
	used    float64 // utilisation
}

// group is a node group.
type group struct {
	launch Launch
	node   *v1.Node // a new machine
	price  float64
}

// NewClusterAutoscaler returns Cluster Autoscaler with an expander, one of Expanders. It removes nodes whose utilisation is below a
// share. seed is of the random expander.
func NewClusterAutoscaler(c *Catalog, expander string, below float64, seed uint64) (Scaler, error) {
	if !slices.Contains(Expanders, expander) {
		return nil, fmt.Errorf("expander %q: choose one of %s", expander, strings.Join(Expanders, ", "))
	}
	a := &clusterAutoscaler{
		catalog: c, expander: expander, below: below, draw: rand.New(rand.NewPCG(seed, 0)), sizes: sizes{}, unneeded: map[string]time.Time{},
		selectors: map[*metav1.LabelSelector]labels.Selector{}, bins: map[string]known{},
	}
	for i := range c.Pools {
		for _, l := range c.Offers(&c.Pools[i]) {
			a.groups = append(a.groups, group{l, c.Node(l), c.Price(l)})
		}
	}
	return a, nil
}

// Step implements Scaler.
func (a *clusterAutoscaler) Step(_ context.Context, c *Cluster) (Plan, error) {
	if since := c.Now.Sub(a.scanned); since < scanInterval {
		return Plan{Next: a.scanned.Add(scanInterval)}, nil
	}
	a.scanned = c.Now
	out := Plan{Start: a.up(c)}
	switch {
	case len(out.Start) > 0:
		a.added, out.Next = c.Now, c.Now.Add(scanInterval) // the pods of other groups come in the next scan
	case c.Now.Sub(a.added) < delayAfterAdd:
		clear(a.unneeded)
		out.Next = a.added.Add(delayAfterAdd)
	default:
		out.Remove, out.Next = a.down(c)
	}
	return out, nil
}

// up returns the machines to start for pods that wait: as many of one group as the estimator needs for all pods that fit there.
func (a *clusterAutoscaler) up(c *Cluster) []Launch {
	waiting := a.unserved(c)
	if len(waiting) == 0 {
		return nil
	}
	used := c.used()
	var best option
	for i := range a.groups {
		o := a.estimate(c, &a.groups[i], waiting, used)
		if o.nodes == 0 {
			continue
		}
		switch {
		case a.expander == "random":
			if best.nodes == 0 || a.draw.IntN(i+1) == 0 {
				best = o
			}
		case best.nodes == 0 || o.compare(best, a.expander) < 0:
			best = o
		}
	}
	var out []Launch
	for range best.nodes {
		l := best.group.launch
		a.started++
		l.Name = fmt.Sprintf("%s-%s-%d", l.Pool, strings.ReplaceAll(l.Type, ".", "-"), a.started)
		out = append(out, l)
	}
	return out
}

// unserved returns the waiting pods, larger first, without those that machines which boot will take.
func (a *clusterAutoscaler) unserved(c *Cluster) []*v1.Pod {
	var coming []*bin
	for i := range c.Nodes {
		if n := &c.Nodes[i]; !n.Ready && !n.Closed {
			coming = append(coming, a.sizes.newBin(n.Object, c.daemonsOn(n.Object)))
		}
	}
	waiting := slices.Clone(c.Waiting)
	slices.SortStableFunc(waiting, func(x, y *v1.Pod) int {
		p, q := a.sizes.of(x), a.sizes.of(y)
		return cmp.Or(cmp.Compare(q.amounts[v1.ResourceCPU], p.amounts[v1.ResourceCPU]),
			cmp.Compare(q.amounts[v1.ResourceMemory], p.amounts[v1.ResourceMemory]))
	})
	return slices.DeleteFunc(waiting, func(p *v1.Pod) bool {
		x := a.sizes.of(p)
		return slices.ContainsFunc(coming, func(b *bin) bool { return b.take(p, x) })
	})
}

// daemonsOn returns the pods of DaemonSets that run on a node.
func (c *Cluster) daemonsOn(n *v1.Node) (out []*v1.Pod) {
	for _, p := range c.Daemons {
		if Admits(p, n) {
			out = append(out, p)
		}
	}
	return out
}

// used returns the capacity of each pool's machines, with "nodes".
func (c *Cluster) used() map[string]kube.Quantities {
	out := map[string]kube.Quantities{}
	for i := range c.Nodes {
		n := &c.Nodes[i]
		if out[n.Launch.Pool] == nil {
			out[n.Launch.Pool] = kube.Quantities{}
		}
		out[n.Launch.Pool].Add(withCount(n.Object), 1)
	}
	return out
}

// nodesLimit is the key of a pool's limit for the number of its machines.
const nodesLimit v1.ResourceName = "nodes"

func withCount(n *v1.Node) kube.Quantities {
	out := kube.QuantitiesIn(n.Status.Capacity)
	out[nodesLimit] = 1
	return out
}

// within returns how many more machines like a node the pool may have, beside what it has.
func (p *Pool) within(n *v1.Node, has kube.Quantities) int64 {
	one, limits := withCount(n), kube.QuantitiesIn(p.Limits)
	if _, limited := limits[nodesLimit]; !limited {
		limits[nodesLimit] = MostNodes
	}
	out := int64(math.MaxInt64)
	for name, limit := range limits {
		if one[name] > 0 {
			out = min(out, max(limit-has[name], 0)/one[name])
		}
	}
	return out
}

// option says how many machines of a group would take how many waiting pods.
type option struct {
	group *group
	nodes int
	pods  int
	waste float64 // of CPU and memory, as shares, added up
}

// compare is negative if o is the better option.
func (o option) compare(b option, expander string) int {
	perPod := func(x option) float64 { return x.group.price * float64(x.nodes) / float64(x.pods) }
	byPrice, byWaste := cmp.Compare(perPod(o), perPod(b)), cmp.Compare(o.waste, b.waste)
	if expander == "price" {
		return cmp.Or(byPrice, byWaste)
	}
	return cmp.Or(byWaste, byPrice)
}

// estimate fills new machines of a group with the waiting pods, each with the first machine that takes it.
func (a *clusterAutoscaler) estimate(c *Cluster, g *group, waiting []*v1.Pod, used map[string]kube.Quantities) option {
	out := option{group: g}
	pool := a.catalog.Pool(g.launch.Pool)
	most := pool.within(g.node, used[pool.Name])
	daemons := c.daemonsOn(g.node)
	empty := a.sizes.newBin(g.node, daemons)
	var bins []*bin
	first := 0 // bins before it are full for pods like the last one
	var last *v1.Container
	taken := kube.Quantities{}
	for _, p := range waiting {
		x := a.sizes.of(p)
		if !holds(empty.left, x.amounts) || !Admits(p, g.node) {
			continue
		}
		if kind := &p.Spec.Containers[0]; kind != last {
			first, last = 0, kind
		}
		for ; first < len(bins) && !bins[first].take(p, x); first++ {
		}
		if first == len(bins) {
			if int64(len(bins)) >= most {
				continue
			}
			b := a.sizes.newBin(g.node, daemons)
			b.put(p, x)
			bins = append(bins, b)
		}
		out.pods++
		taken.Add(x.amounts, 1)
	}
	out.nodes = len(bins)
	for _, name := range []v1.ResourceName{v1.ResourceCPU, v1.ResourceMemory} {
		q := g.node.Status.Allocatable[name]
		whole := float64(kube.QuantitiesIn(v1.ResourceList{name: q})[name]) * float64(max(out.nodes, 1))
		out.waste += (whole - float64(taken[name])) / whole
	}
	return out
}

// down returns the nodes to remove, and when the next one may go.
func (a *clusterAutoscaler) down(c *Cluster) (remove []string, next time.Time) {
	candidates := a.candidates(c)
	still := map[string]time.Time{}
	var empty, drained []string
	draining := 0
	for i := range c.Nodes {
		n := &c.Nodes[i]
		if n.Closed && movable(n.Pods) > 0 {
			draining++
		}
	}
	for _, n := range candidates {
		name := n.Object.Name
		since, known := a.unneeded[name]
		if !known {
			since = c.Now
		}
		still[name] = since
		at := since.Add(unneededTime)
		switch {
		case at.After(c.Now):
			if next.IsZero() || at.Before(next) {
				next = at
			}
		case movable(n.Pods) == 0:
			empty = append(empty, name)
		default:
			drained = append(drained, name)
		}
	}
	a.unneeded = still
	if len(empty) > 0 {
		return empty[:min(len(empty), mostEmpty)], c.Now.Add(scanInterval)
	}
	if n := min(len(drained), max(mostDrained-draining, 0)); n > 0 {
		return drained[:n], c.Now.Add(scanInterval)
	}
	if len(drained) > 0 {
		next = c.Now.Add(scanInterval)
	}
	return nil, next
}

// candidates returns the nodes that are used by less than half, and whose pods all fit on others that stay, the least used first.
func (a *clusterAutoscaler) candidates(c *Cluster) (out []*Node) {
	type one struct {
		*Node
		used float64
	}
	var low []one
	var stay []*bin
	for i := range c.Nodes {
		n := &c.Nodes[i]
		if !n.Ready || n.Closed {
			continue
		}
		k := a.known(n)
		stay = append(stay, k.bin)
		if a.yields && movable(n.Pods) > 0 {
			continue
		}
		if n.Launch.Pool != "" && k.used < a.below && a.mayGo(c, n) {
			low = append(low, one{n, k.used})
		}
	}
	slices.SortStableFunc(low, func(x, y one) int { return cmp.Compare(x.used, y.used) })
	if most := max(mostCandidate, len(c.Nodes)/10); len(low) > most {
		busy := slices.DeleteFunc(slices.Clone(low), func(x one) bool { return movable(x.Pods) == 0 })
		low = slices.DeleteFunc(low, func(x one) bool { return movable(x.Pods) > 0 })
		low = append(low, busy[:min(len(busy), most)]...)
	}
	gone := map[*bin]bool{}
	var all []move
	for _, x := range low {
		b := a.bins[x.Object.Name].bin
		gone[b] = true
		moves, ok := a.elsewhere(x.Node, stay, gone)
		if all = append(all, moves...); ok {
			out = append(out, x.Node)
		} else {
			delete(gone, b)
		}
	}
	a.undo(all)
	return out
}

// known returns what is known of a node as it is.
func (a *clusterAutoscaler) known(n *Node) known {
	k := a.bins[n.Object.Name]
	if k.bin == nil || k.version != n.Version {
		b := a.sizes.newBin(n.Object, n.Pods)
		k = known{n.Version, b, utilisation(n.Object, b.left)}
		a.bins[n.Object.Name] = k
	}
	return k
}

// move is a pod that was put onto a node in thought.
type move struct {
	pod *v1.Pod
	to  *bin
}

// undo takes pods away again.
func (a *clusterAutoscaler) undo(moves []move) {
	for _, m := range moves {
		m.to.drop(m.pod, a.sizes.of(m.pod))
	}
}

// elsewhere puts the pods of a node onto others in thought. If one fits nowhere, all is as before.
func (a *clusterAutoscaler) elsewhere(n *Node, stay []*bin, gone map[*bin]bool) (done []move, ok bool) {
	for _, p := range n.Pods {
		if OfDaemonSet(p) {
			continue
		}
		x := a.sizes.of(p)
		i := slices.IndexFunc(stay, func(b *bin) bool { return !gone[b] && b.take(p, x) })
		if i < 0 {
			a.undo(done)
			return nil, false
		}
		done = append(done, move{p, stay[i]})
	}
	return done, true
}

// Utilisation returns the share of a node that is requested, as Cluster Autoscaler computes it.
func (n *Node) Utilisation() float64 {
	return utilisation(n.Object, sizes{}.newBin(n.Object, n.Pods).left)
}

// utilisation returns the larger share of CPU and memory that is requested, or that of GPUs on nodes with some.
func utilisation(n *v1.Node, left kube.Quantities) float64 {
	whole := kube.QuantitiesIn(n.Status.Allocatable)
	share := func(name v1.ResourceName) float64 { return 1 - float64(left[name])/float64(whole[name]) }
	for name := range whole {
		if strings.HasSuffix(string(name), "/gpu") && whole[name] > 0 {
			return share(name)
		}
	}
	return max(share(v1.ResourceCPU), share(v1.ResourceMemory))
}

// movable returns the number of pods that do not belong to their node.
func movable(pods []*v1.Pod) (n int) {
	for _, p := range pods {
		if !OfDaemonSet(p) {
			n++
		}
	}
	return n
}

// The annotations with which an owner forbids or allows to remove a pod's node.
const (
	safeToEvict  = "cluster-autoscaler.kubernetes.io/safe-to-evict"
	localStorage = "cluster-autoscaler.kubernetes.io/safe-to-evict-local-volumes"
)

// mayGo reports whether every pod of a node may be evicted: it has an owner that makes it anew, no local data, no budget that forbids it,
// and is none of the system's without a budget.
func (a *clusterAutoscaler) mayGo(c *Cluster, n *Node) bool {
	for _, p := range n.Pods {
		if OfDaemonSet(p) {
			continue
		}
		budget := a.budgetOf(p, c.Budgets)
		switch {
		case p.Annotations[safeToEvict] == "true":
		case p.Annotations[safeToEvict] == "false", !Recreated(p), local(p), p.Namespace == metav1.NamespaceSystem && budget == nil:
			return false
		}
		if budget != nil && budget.Status.DisruptionsAllowed <= 0 {
			return false
		}
	}
	return true
}

// Yield implements Yielder.
func (a *clusterAutoscaler) Yield() { a.yields = true }

// MayGo implements Yielder.
func (a *clusterAutoscaler) MayGo(_ context.Context, c *Cluster) (nodes []string, most map[string]int, err error) {
	for i := range c.Nodes {
		if n := &c.Nodes[i]; n.Launch.Pool != "" && n.Ready && !n.Closed && movable(n.Pods) > 0 && a.mayGo(c, n) {
			nodes = append(nodes, n.Object.Name)
		}
	}
	return nodes, nil, nil
}

// local reports whether a pod has data that end with it.
func local(p *v1.Pod) bool {
	if p.Annotations[localStorage] != "" {
		return false
	}
	return slices.ContainsFunc(p.Spec.Volumes, func(x v1.Volume) bool { return x.EmptyDir != nil || x.HostPath != nil })
}

// budgetOf returns the first disruption budget that covers a pod; nil without one.
func (a *clusterAutoscaler) budgetOf(p *v1.Pod, all []*policyv1.PodDisruptionBudget) *policyv1.PodDisruptionBudget {
	for _, b := range all {
		if b.Namespace != p.Namespace {
			continue
		}
		selector, known := a.selectors[b.Spec.Selector]
		if !known {
			var err error
			if selector, err = metav1.LabelSelectorAsSelector(b.Spec.Selector); err != nil {
				selector = labels.Nothing()
			}
			a.selectors[b.Spec.Selector] = selector
		}
		if selector.Matches(labels.Set(p.Labels)) {
			return b
		}
	}
	return nil
}
