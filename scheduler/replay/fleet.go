package replay

import (
	"cmp"
	"container/heap"
	"context"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"gnnsched/scheduler/autoscale"
	"gnnsched/scheduler/memcluster"
	"gnnsched/workload/record"
)

// Scaling lets an autoscaler decide which nodes there are.
type Scaling struct {
	Catalog *autoscale.Catalog
	// New makes the autoscaler of a course; nil: nodes come and go as recorded, and only their prices come from the catalog.
	New func(c *autoscale.Catalog, seed uint64) (autoscale.Scaler, error)
	// DeletionCosts keeps the deletion cost of pods that have none at the utilisation of their node: scale-downs empty the least used nodes.
	DeletionCosts bool
}

// none reports whether nodes come and go as recorded.
func (s *Scaling) none() bool { return s == nil || s.New == nil }

const (
	between    = 1000           // milliseconds between two looks of an autoscaler, unless it asked for one, at least
	patience   = 15 * 60 * 1000 // milliseconds after which a machine that does not come is given back
	mostStarts = 100_000        // machines of a course; more is a fault of the autoscaler
)

// fleet is the machines of a course with an autoscaler.
type fleet struct {
	*course
	catalog  *autoscale.Catalog
	scaler   autoscale.Scaler
	draw     *rand.Rand // of interruptions and failures
	machines []*machine // all that ever were, in the order of their starts
	draining int        // how many of them drain
	there    map[string]*machine
	view     []autoscale.Node // by name
	at       map[string]int   // of view
	daemons  []*v1.Pod
	budgets  *budgets
	looked   int64
	due      int64 // the next look in the agenda; 0: none
	changes  int64
	price    float64 // of all machines, an hour
}

// machine is a machine that was started or was there at the beginning.
type machine struct {
	autoscale.Node
	price  float64 // an hour
	drains bool
	gone   bool
}

// listing is how long a recorder may take to list the nodes that were there when it began, in milliseconds.
const listing = 5_000

// newFleet returns the machines at the beginning, which the catalog knows. Their pods are on them; the pods of others wait.
func newFleet(p *course, c *Scaling) (*fleet, error) {
	scaler, err := c.New(c.Catalog, p.config.Seed)
	if err != nil {
		return nil, err
	}
	p.objects.disruption = true
	f := &fleet{
		course: p, catalog: c.Catalog, scaler: scaler, draw: rand.New(rand.NewPCG(p.config.Seed, 1)), there: map[string]*machine{},
		at: map[string]int{}, looked: math.MinInt64 / 2, daemons: p.daemonSets(), budgets: budgetsOf(p.source),
	}
	unknown, example := 0, ""
	for i := range p.source.Nodes {
		r := &p.source.Nodes[i]
		if r.From > p.source.From+listing || r.To != 0 && r.To <= p.source.From {
			continue
		}
		n := p.objects.Node(r)
		l, known := f.matched(n)
		if !known {
			unknown, example = unknown+1, cmp.Or(example, r.Name)
			continue
		}
		m := &machine{Node: autoscale.Node{Object: n, Launch: l, Started: time.UnixMilli(p.source.From), Closed: r.Unschedulable},
			price: f.catalog.Price(l)}
		f.machines, f.there[r.Name] = append(f.machines, m), m
	}
	if unknown > 0 {
		p.out.Notes = append(p.out.Notes, fmt.Sprintf(
			"%d nodes of the record, such as %s, are of no type of the catalog; they are left out, and their pods wait at the beginning",
			unknown, example))
	}
	p.out.Notes = append(p.out.Notes, f.catalog.Notes...)
	f.list()
	return f, nil
}

// events returns the events of the window: pods come, and those that ran on a known machine are there at the beginning.
func (f *fleet) events() agenda {
	var a agenda
	s := f.source
	for i := range f.machines {
		a = append(a, event{s.From, machineReady, i})
		if when := f.interruption(f.machines[i].Launch, s.From); when < s.To {
			a = append(a, event{when, machineTaken, i})
		}
	}
	for i := range s.Pods {
		p := &s.Pods[i]
		if p.Daemon || p.Arrived >= s.To || p.Ended != 0 && p.Ended <= s.From {
			continue
		}
		if p.Bound != 0 && p.Bound <= s.From && f.there[p.Node] != nil {
			a = append(a, event{s.From, podBinds, i})
		} else {
			a = append(a, event{max(p.Arrived, s.From), podArrives, i})
		}
		if p.Ended != 0 && p.Ended < s.To {
			a = append(a, event{max(p.Ended, p.Bound+1, p.Arrived+1), podEnds, i})
		}
	}
	heap.Init(&a)
	return a
}

// daemonSets returns a pod of each DaemonSet of the window, the newest, without a node.
func (p *course) daemonSets() (out []*v1.Pod) {
	last := map[owner]*record.Pod{}
	for i := range p.source.Pods {
		r := &p.source.Pods[i]
		if r.Daemon && r.OwnerKind == "DaemonSet" && r.Arrived < p.source.To {
			last[owner{r.OwnerKind, r.Namespace, r.OwnerName}] = r
		}
	}
	for _, r := range last {
		out = append(out, anywhere(memcluster.On(p.objects.pod(r), "")))
	}
	slices.SortFunc(out, func(a, b *v1.Pod) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
	return out
}

// anywhere drops the terms of a DaemonSet's node affinity that named the pod's node. A record has them empty, and those match no node.
func anywhere(p *v1.Pod) *v1.Pod {
	a := p.Spec.Affinity
	if a == nil || a.NodeAffinity == nil || a.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution == nil {
		return p
	}
	a = a.DeepCopy()
	required := a.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution
	required.NodeSelectorTerms = slices.DeleteFunc(required.NodeSelectorTerms, func(t v1.NodeSelectorTerm) bool {
		return len(t.MatchExpressions)+len(t.MatchFields) == 0
	})
	if len(required.NodeSelectorTerms) == 0 {
		a.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution = nil
	}
	p.Spec.Affinity = a
	return p
}

// list makes the view and the price anew, after machines came or went.
func (f *fleet) list() {
	f.view, f.price = f.view[:0], 0
	for _, m := range f.there {
		f.view = append(f.view, m.Node)
	}
	slices.SortFunc(f.view, func(a, b autoscale.Node) int { return cmp.Compare(a.Object.Name, b.Object.Name) })
	clear(f.at)
	for i := range f.view {
		f.at[f.view[i].Object.Name] = i
		f.price += f.there[f.view[i].Object.Name].price
	}
}

// changed shows the autoscaler a changed machine.
func (f *fleet) changed(m *machine) {
	f.changes++
	m.Version = f.changes
	if i, there := f.at[m.Object.Name]; there {
		f.view[i] = m.Node
	}
}

// ready lets a machine take pods, with those of DaemonSets on it.
func (f *fleet) ready(row int) error {
	m := f.machines[row]
	if m.gone {
		return nil
	}
	name := m.Object.Name
	if m.Ready = true; m.Closed {
		m.Object = m.Object.DeepCopy()
		m.Object.Spec.Unschedulable = true
	}
	if err := f.Node(nil, m.Object); err != nil {
		return err
	}
	f.nodes[name], f.prices[name] = m.Object, m.price
	for _, d := range f.daemons {
		if !autoscale.Admits(d, m.Object) {
			continue
		}
		pod := memcluster.On(d, name)
		pod.Name = d.Name + "-" + name
		pod.UID = types.UID(fmt.Sprintf("%s/%s", d.UID, name))
		f.Fix(pod)
		m.Pods = append(m.Pods, pod)
	}
	f.changed(m)
	return nil
}

// missing gives back a machine that did not come in time.
func (f *fleet) missing(row int) error {
	m := f.machines[row]
	if m.gone {
		return nil
	}
	f.out.Failed++
	return f.leave(m)
}

// start asks for a machine.
func (f *fleet) start(l autoscale.Launch) error {
	t := f.catalog.Type(l.Type)
	switch {
	case t == nil:
		return fmt.Errorf("the autoscaler wants a machine of type %q, which the catalog lacks", l.Type)
	case f.there[l.Name] != nil || l.Name == "":
		return fmt.Errorf("the autoscaler starts machine %q twice", l.Name)
	case len(f.machines) >= mostStarts:
		return fmt.Errorf("the autoscaler has started %d machines: it goes in circles", mostStarts)
	}
	m := &machine{Node: autoscale.Node{Object: f.catalog.Node(l), Launch: l, Started: time.UnixMilli(f.now)},
		price: f.catalog.Price(l)}
	row := len(f.machines)
	f.machines, f.there[l.Name] = append(f.machines, m), m
	f.out.Started++
	at := f.now + t.Boot.Milliseconds()
	if t.Failures > 0 && f.draw.Float64() < t.Failures {
		heap.Push(&f.agenda, event{f.now + patience, machineMissing, row})
		return nil
	}
	heap.Push(&f.agenda, event{at, machineReady, row})
	if when := f.interruption(l, at); when < f.source.To {
		heap.Push(&f.agenda, event{when, machineTaken, row})
	}
	return nil
}

// interruption draws when the provider takes back a machine that is ready at a time; the end of time if it does not.
func (f *fleet) interruption(l autoscale.Launch, ready int64) int64 {
	t := f.catalog.Type(l.Type)
	if !l.Spot || t.Interruptions == 0 {
		return math.MaxInt64
	}
	ms := f.draw.ExpFloat64() / t.Interruptions * 3.6e6
	return ready + int64(min(ms, math.MaxInt64/4))
}

// taken evicts the pods of a spot machine that the provider takes back, budgets or not.
func (f *fleet) taken(row int) error {
	m := f.machines[row]
	if m.gone || !m.Ready {
		return nil
	}
	f.out.Interrupted++
	for _, p := range slices.Clone(m.Pods) {
		f.evict(m, p)
	}
	return f.leave(m)
}

// look shows the autoscaler the cluster, and does what it wants.
func (f *fleet) look(ctx context.Context) error {
	now, before := f.now, f.changes
	asked := f.due != 0 && f.due <= now
	if asked {
		f.due = 0
	}
	if soonest := f.looked + between; now < soonest && !asked {
		f.lookAt(soonest)
		return nil
	}
	f.looked = now
	plan, err := f.scaler.Step(ctx, &autoscale.Cluster{
		Now: time.UnixMilli(now), Nodes: f.view, Waiting: slices.Clone(f.Waiting), Daemons: f.daemons, Budgets: f.budgets.now(),
	})
	if err != nil {
		return fmt.Errorf("autoscaler: %w", err)
	}
	for _, l := range plan.Start {
		if err := f.start(l); err != nil {
			return err
		}
	}
	if len(plan.Start) > 0 {
		f.list()
	}
	for _, name := range plan.Close {
		if err := f.closed(name, true); err != nil {
			return err
		}
	}
	for _, name := range plan.Open {
		if err := f.closed(name, false); err != nil {
			return err
		}
	}
	for _, name := range plan.Remove {
		if m := f.there[name]; m != nil && !m.drains {
			m.drains = true
			f.draining++
			if err := f.closed(name, true); err != nil {
				return err
			}
		}
	}
	if err := f.drain(); err != nil {
		return err
	}
	if err := f.settle(ctx); err != nil {
		return err
	}
	if !plan.Next.IsZero() {
		f.lookAt(max(plan.Next.UnixMilli(), now+1))
	}
	if f.changes > before {
		f.lookAt(now + between)
	}
	return nil
}

// lookAt lets the autoscaler look at a time, unless it looks earlier.
func (f *fleet) lookAt(at int64) {
	if f.due == 0 || at < f.due {
		f.due = at
		heap.Push(&f.agenda, event{at, looks, 0})
	}
}

// closed closes a machine for new pods, or opens it.
func (f *fleet) closed(name string, is bool) error {
	m := f.there[name]
	if m == nil || m.Closed == is {
		return nil
	}
	m.Closed = is
	f.changed(m)
	if !m.Ready {
		return nil
	}
	n := m.Object.DeepCopy()
	n.Spec.Unschedulable = is
	if err := f.Node(m.Object, n); err != nil {
		return err
	}
	m.Object, f.nodes[name] = n, n
	f.changed(m)
	return nil
}

// drain evicts the pods of machines that are to go, as far as budgets allow, and gives back those that are empty.
func (f *fleet) drain() error {
	if f.draining == 0 {
		return nil
	}
	blocked := false
	for _, m := range f.machines {
		if m.gone || !m.drains {
			continue
		}
		stays := false
		for _, p := range slices.Clone(m.Pods) {
			switch {
			case autoscale.OfDaemonSet(p):
			case f.budgets.allows(p):
				f.evict(m, p)
			default:
				stays = true
			}
		}
		if blocked = blocked || stays; stays {
			continue
		}
		if err := f.leave(m); err != nil {
			return err
		}
	}
	if blocked {
		f.lookAt(f.now + retryDrain)
	}
	return nil
}

// retryDrain is when a blocked eviction is tried again, in milliseconds.
const retryDrain = 10_000

// evict takes a pod off a machine. If its owner makes it anew, it waits; one that finishes by itself begins again.
func (f *fleet) evict(m *machine, p *v1.Pod) {
	row, known := f.rows[p.UID]
	f.Remove(p.UID)
	if !known { // of a DaemonSet
		return
	}
	f.out.Evicted++
	f.leftNode(row, m.Object.Name)
	f.left(p)
	f.lostWork(row, p)
	delete(f.ends, row)
	if f.owners != nil {
		if next := f.owners.anew(p); next != nil {
			f.Wait(next)
		}
		return
	}
	if !autoscale.Recreated(p) {
		f.budgets.gone(p)
		f.out.Abandoned++
		return
	}
	f.again[row] = true
	f.since[row] = f.now
	if _, counted := f.began[row]; !counted {
		f.began[row] = f.now
	}
	f.Wait(memcluster.On(p, ""))
}

// hoursSince returns the time since a start; 0 if it is not known.
func (p *course) hoursSince(start *metav1.Time) float64 {
	if start == nil {
		return 0
	}
	return float64(p.now-start.UnixMilli()) / 3.6e6
}

// leave gives a machine back. Its pods have left it, but for those of DaemonSets.
func (f *fleet) leave(m *machine) error {
	name := m.Object.Name
	if m.gone = true; m.drains {
		f.draining--
	}
	delete(f.there, name)
	hours := float64(f.now-m.Started.UnixMilli()) / 3.6e6
	f.count(m.Launch, hours)
	f.list()
	if !m.Ready {
		return nil
	}
	for _, p := range m.Pods {
		f.Remove(p.UID)
	}
	delete(f.nodes, name)
	was := m.Object
	m.Object, m.Pods = nil, nil // weeks have thousands of machines
	return f.Node(was, nil)
}

// count counts hours of a machine.
func (f *fleet) count(l autoscale.Launch, hours float64) {
	if f.out.Hours == nil {
		f.out.Hours = map[string]float64{}
	}
	f.out.Hours[l.Type] += hours
}

// finish counts the hours of the machines that are still there.
func (f *fleet) finish() {
	for _, m := range f.machines {
		if !m.gone {
			f.count(m.Launch, float64(f.source.To-m.Started.UnixMilli())/3.6e6)
		}
	}
	if x, tells := f.scaler.(interface{ Notes() []string }); tells {
		f.out.Notes = append(f.out.Notes, x.Notes()...)
	}
	if unfit := f.catalog.Unfit(f.Waiting); len(unfit) > 0 {
		f.out.Notes = append(f.out.Notes, fmt.Sprintf("%d pods that wait at the end, such as %s/%s, fit no machine of any pool",
			len(unfit), unfit[0].Namespace, unfit[0].Name))
	}
	if types := f.useless(); len(types) > 0 {
		f.out.Notes = append(f.out.Notes, fmt.Sprintf("%d types, such as %s, fit no pod of this time", len(types), types[0]))
	}
	if n, example := f.budgets.blocking(); n > 0 {
		f.out.Notes = append(f.out.Notes, fmt.Sprintf(
			"%d disruption budgets, such as %s, allow no eviction at the end: an autoscaler leaves the nodes of their pods", n, example))
	}
}

// useless returns the types of the catalog that fit no pod that was seen.
func (f *fleet) useless() []string {
	pods := slices.Collect(maps.Values(f.objects.templates))
	if len(pods) == 0 {
		return nil
	}
	return f.catalog.Useless(pods)
}

// got shows a pod on its machine.
func (f *fleet) got(p *v1.Pod) {
	if m := f.there[p.Spec.NodeName]; m != nil {
		m.Pods = append(slices.Clip(m.Pods), p)
		f.changed(m)
	}
	f.budgets.count(p, 1)
}

// left takes a pod off its machine's list.
func (f *fleet) left(p *v1.Pod) {
	if m := f.there[p.Spec.NodeName]; m != nil {
		m.Pods = slices.DeleteFunc(slices.Clone(m.Pods), func(x *v1.Pod) bool { return x.UID == p.UID })
		f.changed(m)
	}
	f.budgets.count(p, -1)
}
