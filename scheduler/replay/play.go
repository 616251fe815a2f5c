package replay

import (
	"cmp"
	"container/heap"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"

	"gnnsched/internal/kuberelease"
	"gnnsched/scheduler/autoscale"
	"gnnsched/scheduler/decision"
	"gnnsched/scheduler/memcluster"
	"gnnsched/scheduler/objective"
	"gnnsched/scheduler/plugin"
	"gnnsched/workload/record"
)

// Config describes how a source is played.
type Config struct {
	// Profile decides in Run. Its SchedulerName does not matter: all pods are its own. Terms and policies that
	// measure usage see requests.
	Profile   config.KubeSchedulerProfile
	Objective objective.Term
	Prices    *Prices  // nil: nothing costs anything
	Scaling   *Scaling // nil: nodes come and go as recorded
	Blocks    int      // number of the stretches of time
	Seed      uint64   // of the draws among equal nodes
	// Progress gets the played fraction of the window; may be nil.
	Progress func(done float64)
	Watch    Watcher // may be nil
	Frames   int     // how often Watch sees the cluster, at equal distances; at least 2, or 0 for never

	recording plugin.Recording // has a book if choices shall have their decisions
}

// Real returns what really happened.
func Real(ctx context.Context, s Source, c Config) (Course, error) { return play(ctx, s, c, true) }

// Run plays the source under the profile. If ctx ends, it returns ctx's error.
func Run(ctx context.Context, s Source, c Config) (Course, error) { return play(ctx, s, c, false) }

// course is a Course in the making.
type course struct {
	*memcluster.Placements
	source  *Source
	config  Config
	agenda  agenda
	objects *objects
	meter   *meter
	fleet   *fleet  // nil: nodes come and go as recorded
	owners  *owners // nil: pods come and go as recorded
	clock   *virtual
	real    bool // pods get the nodes that they really got; otherwise the profile places them

	rows    map[types.UID]int
	ends    map[int]int64 // end times of pods that run for their recorded duration
	since   map[int]int64 // since when a pod waits
	began   map[int]int64 // when it first did
	waits   map[int]int64 // waiting time so far, in milliseconds
	ran     map[int]bool
	again   map[int]bool // pods that an autoscaler evicted
	used    map[string]int
	nodes   map[string]*v1.Node
	prices  map[string]float64
	unknown map[string]bool   // nodes without a price
	guessed map[string]string // types of nodes whose label names no type of the catalog, by node
	now     int64
	state   state
	changed bool
	frames  int // that Watch has seen
	out     Course
}

// virtual is the record's clock.
type virtual struct{ now time.Time }

// Now implements clock.PassiveClock.
func (v *virtual) Now() time.Time { return v.now }

// Since implements clock.PassiveClock.
func (v *virtual) Since(t time.Time) time.Duration { return v.now.Sub(t) }

// play plays all events, as they really were or under the profile. Its plugins end with it.
func play(ctx context.Context, s Source, c Config, real bool) (Course, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	p, err := begin(ctx, s, c, real)
	if err != nil {
		return Course{}, err
	}
	if p.out.Fallbacks, err = plugin.FallbacksIn(v1.DefaultSchedulerName, func() error { return p.run(ctx) }); err != nil {
		return Course{}, err
	}
	return p.finish(), nil
}

// begin returns a course in which nothing has happened yet. ctx ends its plugins.
func begin(ctx context.Context, s Source, c Config, real bool) (*course, error) {
	client, err := kubernetes.NewForConfig(&rest.Config{}) // it is never asked: no informer starts
	if err != nil {
		return nil, fmt.Errorf("make a client: %w", err)
	}
	shared := kuberelease.Informers(client)
	if err := fill(shared, &s); err != nil {
		return nil, err
	}
	c.Profile.SchedulerName = v1.DefaultSchedulerName
	v := &virtual{time.UnixMilli(s.From)}
	// A search plays hundreds of courses. The plugins log the same at each start, so it is for level debug.
	ctx = klog.NewContext(ctx, klog.FromContext(ctx).V(1))
	cluster, err := memcluster.New(ctx, memcluster.Config{
		Client: client, Shared: shared, Profile: c.Profile, Objective: c.Objective, Clock: v, Seed: c.Seed, Recording: c.recording,
	})
	if err != nil {
		return nil, err
	}
	p := &course{
		Placements: memcluster.NewPlacements(cluster), source: &s, config: c, agenda: agendaOf(&s, real), objects: newObjects(),
		meter: newMeter(&s, c.Blocks),
		clock: v, real: real, rows: make(map[types.UID]int, len(s.Pods)), ends: map[int]int64{}, since: map[int]int64{}, began: map[int]int64{},
		waits: map[int]int64{},
		ran:   map[int]bool{}, again: map[int]bool{}, used: map[string]int{}, nodes: map[string]*v1.Node{}, prices: map[string]float64{},
		unknown: map[string]bool{}, guessed: map[string]string{},
		now: s.From, changed: true,
	}
	p.Preempts, p.Follow = true, p
	for i := range s.Pods {
		p.rows[types.UID(s.Pods[i].UID)] = i
	}
	if !real && !c.Scaling.none() {
		if p.fleet, err = newFleet(p, c.Scaling); err != nil {
			return nil, err
		}
		p.agenda = p.fleet.events()
	}
	if real {
		return p, nil
	}
	if p.owners = newOwners(p); p.owners != nil {
		p.Anew = p.owners.anew
	}
	return p, nil
}

// run handles the agenda, one time after another.
func (p *course) run(ctx context.Context) error {
	for len(p.agenda) > 0 && p.agenda[0].at < p.source.To {
		if err := ctx.Err(); err != nil {
			return context.Cause(ctx)
		}
		if err := p.advance(p.agenda[0].at); err != nil {
			return err
		}
		for len(p.agenda) > 0 && p.agenda[0].at == p.now {
			if err := p.happens(heap.Pop(&p.agenda).(event)); err != nil {
				return err
			}
		}
		if err := p.settle(ctx); err != nil {
			return err
		}
		if p.fleet != nil {
			if err := p.fleet.look(ctx); err != nil {
				return err
			}
		}
		p.changed = true
	}
	return p.advance(p.source.To)
}

// settle lets pods get nodes, and owners go on, until nothing changes any more.
func (p *course) settle(ctx context.Context) error {
	for {
		if err := p.Settle(ctx); err != nil || p.owners == nil || !p.owners.goOn() {
			return err
		}
	}
}

// advance counts the time until now, in which nothing changed.
func (p *course) advance(now int64) error {
	if now <= p.now {
		return nil
	}
	if p.changed {
		nodes, err := p.Nodes()
		if err != nil {
			return err
		}
		p.state, p.changed = stateOf(nodes, p.used, p.prices), false
		if p.state[Cost], err = p.Placements.Cost(); err != nil {
			return err
		}
		p.state[Waiting] = float64(len(p.since))
		if p.fleet != nil {
			p.state[Machines], p.state[Bill] = float64(len(p.fleet.view)), p.fleet.price
		}
	}
	if err := p.film(now); err != nil {
		return err
	}
	p.meter.add(span{p.now, now}, p.state)
	p.now, p.clock.now = now, time.UnixMilli(now)
	if p.config.Progress != nil {
		p.config.Progress(float64(now-p.source.From) / float64(p.source.To-p.source.From))
	}
	return nil
}

func (p *course) happens(e event) error {
	switch e.kind {
	case nodeChanges:
		return p.node(&p.source.Nodes[e.row])
	case nodeGoes:
		return p.nodeGone(p.source.Nodes[e.row].Name)
	case machineReady:
		return p.fleet.ready(e.row)
	case machineMissing:
		return p.fleet.missing(e.row)
	case machineTaken:
		return p.fleet.taken(e.row)
	case podEnds:
		p.ended(e)
	case podBinds:
		r := &p.source.Pods[e.row]
		if r.Daemon || r.Bound <= p.source.From || p.real {
			p.fix(e.row)
		}
	case podArrives:
		p.arrived(e)
	}
	return nil
}

func (p *course) arrived(e event) {
	if p.source.Pods[e.row].Daemon {
		return
	}
	if p.owners != nil {
		if p.owners.was(e.row, true); !p.owners.arrives(e) {
			return
		}
	}
	p.queue(e.row)
}

// queue lets a pod of the record wait for its node.
func (p *course) queue(row int) {
	p.began[row] = p.now
	if p.ran[row] { // it got its node at the same time
		return
	}
	p.since[row] = p.now
	if !p.real {
		pod := p.objects.pod(&p.source.Pods[row])
		if p.fleet != nil {
			p.fleet.budgets.comes(pod)
		}
		p.Wait(pod)
	}
}

// node takes over a state of a node.
func (p *course) node(r *record.Node) error {
	n := p.objects.Node(r)
	if err := p.Node(p.nodes[n.Name], n); err != nil {
		return err
	}
	p.nodes[n.Name] = n
	perHour, known := p.config.Prices.Of(r)
	if s := p.config.Scaling; s != nil {
		var l autoscale.Launch
		l, known = p.matched(n)
		perHour = s.Catalog.Price(l)
	}
	p.prices[n.Name] = perHour
	if !known {
		p.unknown[n.Name] = true
	}
	return nil
}

// matched returns as what machine of the catalog a recorded node counts, and remembers one that only its capacity tells.
func (p *course) matched(n *v1.Node) (autoscale.Launch, bool) {
	l, known := p.config.Scaling.Catalog.Match(n)
	if known && n.Labels[v1.LabelInstanceTypeStable] != l.Type {
		p.guessed[n.Name] = l.Type
	}
	return l, known
}

// hours returns the recorded hours of nodes, by type of the catalog.
func (p *course) hours() map[string]float64 {
	out := map[string]float64{}
	for i := range p.source.Nodes {
		n := &p.source.Nodes[i]
		l, _ := p.config.Scaling.Catalog.Match(p.objects.Node(n))
		to := p.source.To
		if n.To != 0 {
			to = min(to, n.To)
		}
		if ms := to - max(n.From, p.source.From); ms > 0 {
			out[cmp.Or(l.Type, "of no type")] += float64(ms) / 3.6e6
		}
	}
	return out
}

func (p *course) nodeGone(name string) error {
	n := p.nodes[name]
	if n == nil {
		return nil
	}
	delete(p.nodes, name)
	return p.Node(n, nil)
}

// fix puts a pod on its real node.
func (p *course) fix(row int) {
	r := &p.source.Pods[row]
	pod := memcluster.OnDevices(p.objects.pod(r), r.Node, r.GPUIndex)
	pod.Status.StartTime = startOf(r.Bound)
	p.Fix(pod)
	if !r.Daemon && r.Bound > p.source.From {
		p.watchPlacement(row, r.Node, nil)
	}
	if p.fleet != nil {
		p.fleet.budgets.comes(pod)
		p.fleet.got(pod)
	}
	if p.owners != nil && !r.Daemon {
		p.owners.was(row, true)
		p.owners.comes(row)
	}
	p.gotNode(row, r.Node)
}

// ended removes a pod, if the event is the one that ends it here.
func (p *course) ended(e event) {
	if ended := p.source.Pods[e.row].Ended; p.owners != nil && ended != 0 && ended <= e.at {
		p.owners.was(e.row, false)
	}
	at, own := p.ends[e.row]
	if own && at != e.at || !own && p.runsItsTime(e.row) {
		return
	}
	row := e.row
	if p.owners != nil && !own {
		var later bool
		if row, later = p.owners.meets(e); later {
			p.owners.hold(p.owners.of[row], e)
		}
		if later || row < 0 {
			return
		}
	}
	p.remove(row)
}

// remove takes a pod away for good.
func (p *course) remove(row int) {
	r := &p.source.Pods[row]
	uid := types.UID(r.UID)
	if pod := p.Running[uid]; pod != nil {
		p.leftNode(row, pod.Spec.NodeName)
		if p.fleet != nil {
			p.fleet.left(pod)
			p.fleet.budgets.gone(pod)
		}
	}
	p.Remove(uid)
	p.stopWaiting(row)
	if !p.ran[row] && !r.Daemon {
		p.out.NeverRan++
	}
	if p.owners != nil && !r.Daemon {
		p.owners.goes(row)
	}
}

// runsItsTime reports whether a pod that the profile places runs for its recorded duration, because it finished by itself. With an
// autoscaler, so do pods of traces, which know no bindings, and evicted pods, which begin again.
func (p *course) runsItsTime(row int) bool {
	r := &p.source.Pods[row]
	own := r.End == record.Succeeded || r.End == record.Failed
	return own && !r.Daemon && !p.real && (r.Bound > p.source.From || p.again[row] || p.fleet != nil && r.Bound == 0)
}

// finish returns the course. Pods that wait have waited until now.
func (p *course) finish() Course {
	switch {
	case p.fleet != nil:
		p.fleet.finish()
	case p.config.Scaling != nil:
		p.out.Hours = p.hours()
	}
	if p.owners != nil {
		p.owners.finish()
	}
	waits := maps.Clone(p.since)
	for row := range waits {
		p.out.Unscheduled++
		p.stopWaiting(row)
	}
	for _, row := range slices.Sorted(maps.Keys(p.began)) {
		if p.source.Watched(p.began[row], p.began[row]+1) == 0 {
			continue // the other pods' changes at that time are unknown
		}
		seconds := float64(p.waits[row]) / 1000
		p.meter.waited(p.began[row], seconds)
		p.out.Waits = append(p.out.Waits, seconds)
		if _, still := waits[row]; p.config.Watch != nil {
			p.config.Watch.Waited(&p.source.Pods[row], seconds, p.ran[row] && !still)
		}
	}
	p.out.Pods = len(p.out.Waits)
	p.out.Blocks = p.meter.blocks
	p.out.Notes = append(p.out.Notes, p.objects.Notes()...)
	if n := len(p.unknown); n > 0 {
		p.out.Notes = append(p.out.Notes,
			fmt.Sprintf("the prices say nothing of %d nodes, such as %s; they cost nothing", n, slices.Min(slices.Collect(maps.Keys(p.unknown)))))
	}
	if n := len(p.guessed); n > 0 {
		name := slices.Min(slices.Collect(maps.Keys(p.guessed)))
		p.out.Notes = append(p.out.Notes,
			fmt.Sprintf("the labels of %d nodes name no type of the catalog; their capacity does, such as %s for %s", n, p.guessed[name], name))
	}
	return p.out
}

// Placed implements memcluster.Follower.
func (p *course) Placed(pod *v1.Pod, by memcluster.Choice) {
	row, known := p.rows[pod.UID]
	if !known { // a pod of a DaemonSet that comes back
		return
	}
	p.watchPlacement(row, pod.Spec.NodeName, &by)
	if p.fleet != nil {
		p.fleet.got(pod)
	}
	p.gotNode(row, pod.Spec.NodeName)
	if r := &p.source.Pods[row]; p.runsItsTime(row) {
		p.ends[row] = p.now + max(r.Ended-cmp.Or(r.Bound, r.Arrived), 1)
		heap.Push(&p.agenda, event{p.ends[row], podEnds, row})
	}
}

// Preempted implements memcluster.Follower. A pod that finishes by itself begins again.
func (p *course) Preempted(pod *v1.Pod) {
	p.out.Preempted++
	p.Lost(pod)
}

// Lost implements memcluster.Follower.
func (p *course) Lost(pod *v1.Pod) {
	row, known := p.rows[pod.UID]
	if !known { // a pod of a DaemonSet on an autoscaler's machine
		return
	}
	if p.fleet != nil {
		p.fleet.left(pod)
	}
	p.leftNode(row, pod.Spec.NodeName)
	delete(p.ends, row)
	switch {
	case p.source.Pods[row].Daemon:
		return
	case p.owners != nil: // which make it anew
		p.lostWork(row, pod)
		return
	}
	p.since[row] = p.now
	if _, counted := p.began[row]; !counted {
		p.began[row] = p.now
	}
}

// lostWork counts the work of a pod that finishes by itself and does not now.
func (p *course) lostWork(row int, pod *v1.Pod) {
	if r := &p.source.Pods[row]; r.End == record.Succeeded || r.End == record.Failed {
		p.out.LostCoreHours += p.hoursSince(pod.Status.StartTime) * float64(r.MilliCPU) / 1000
	}
}

// Refused implements memcluster.Follower. The pod counts nowhere.
func (p *course) Refused(pod *v1.Pod, why error) {
	row, known := p.rows[pod.UID]
	if !known {
		return
	}
	delete(p.since, row)
	delete(p.began, row)
	delete(p.waits, row)
	p.ran[row] = true // that it never ran says nothing about the profile
	if p.owners != nil {
		p.owners.goes(row)
	}
	if p.out.Refused++; p.out.Refused <= namedRefusals {
		text := fmt.Sprintf("%s/%s is left out, because a plugin failed on it: %v", pod.Namespace, pod.Name, why)
		p.out.Notes = append(p.out.Notes, strings.ToValidUTF8(text[:min(len(text), maxNote)], ""))
	}
}

const (
	namedRefusals = 5   // number of refused pods that notes name
	maxNote       = 400 // bytes of one note, which may quote text of a pod's owner
)

// gotNode counts a pod on a node.
func (p *course) gotNode(row int, node string) {
	p.stopWaiting(row)
	p.ran[row] = true
	if r := &p.source.Pods[row]; !r.Daemon {
		p.used[node]++
	}
}

func (p *course) leftNode(row int, node string) {
	r := &p.source.Pods[row]
	if !r.Daemon {
		p.used[node]--
	}
	if r.End == record.Preempted && p.real {
		p.out.Preempted++
	}
}

func (p *course) stopWaiting(row int) {
	if from, waits := p.since[row]; waits {
		p.waits[row] += p.source.Watched(from, p.now)
		delete(p.since, row)
	}
}

func startOf(ms int64) *metav1.Time { return &metav1.Time{Time: time.UnixMilli(ms)} }

func count(is bool) int {
	if is {
		return 1
	}
	return 0
}

// Newest returns the row of the pod with the name that arrived last; -1 if the source has none.
func (s *Source) Newest(namespace, name string) int {
	for i := len(s.Pods) - 1; i >= 0; i-- {
		if p := &s.Pods[i]; p.Namespace == namespace && p.Name == name {
			return i
		}
	}
	return -1
}

// Decide returns the profile's decision about the pod of a row, on the real cluster a millisecond before the pod got its node. For a pod
// that never got one, the time is the last at which it waited. The decision has everything that a record of decisions holds; it is nil if
// the profile has no network or policy. Notes describe unreadable parts of the source. An error names data that the source lacks.
func Decide(ctx context.Context, s Source, row int, profile config.KubeSchedulerProfile) (*decision.Decision, []string, error) {
	pod := &s.Pods[row]
	if pod.Daemon {
		return nil, nil, errors.New("the pod belongs to its node, so there was nothing to decide: it is static or of a DaemonSet")
	}
	when := cmp.Or(pod.Bound, pod.Ended, s.To)
	if when <= s.From || s.Watched(when-1, when) == 0 {
		return nil, nil, fmt.Errorf("nobody watched the cluster at %s, when it was decided where the pod goes", at(when))
	}
	s.From, s.To = when-1, when
	ctx, cancel := context.WithCancel(ctx)
	defer cancel() // ends the plugins
	p, err := really(ctx, s, Config{Profile: profile, recording: plugin.Recording{Book: decision.NewBook(1, nil), DefaultShare: 1}})
	if err != nil {
		return nil, nil, err
	}
	choice, err := p.Choose(ctx, memcluster.On(p.objects.pod(pod), pod.Node))
	if err != nil {
		return nil, nil, fmt.Errorf("a plugin failed on the pod: %w", err)
	}
	if d := choice.Decision; d != nil {
		d.At, d.Really = time.UnixMilli(when), pod.Node
	}
	return choice.Decision, p.objects.Notes(), nil
}
