package shadow

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/names"
	"k8s.io/utils/clock"

	"gnnsched/internal/exit"
	"gnnsched/internal/kuberelease"
	"gnnsched/internal/logging"
	"gnnsched/internal/watched"
	"gnnsched/scheduler/advise"
	"gnnsched/scheduler/decision"
	"gnnsched/scheduler/memcluster"
	"gnnsched/scheduler/objective"
	"gnnsched/scheduler/plugin"
)

// Config describes a Watcher.
type Config struct {
	Client  kubernetes.Interface // only read from
	Dynamic dynamic.Interface    // nil: none of upstream's plugins that watch by name of a resource
	// Profile would decide, in the form of kube-scheduler's configuration, and Name names it in reports. Policies that count typical pods
	// count pods with the profile's SchedulerName, so it should be one of Of.
	Profile config.KubeSchedulerProfile
	Name    string
	// Of are the schedulerNames whose pods are compared. The other pods stay where they really are.
	Of []string
	// Objective compares the two clusters. Terms about measured usage are not possible, because the cluster with the profile's choices cannot
	// be measured.
	Objective objective.Mix
	Block     time.Duration // length of the blocks of time, at first
	Limits    Limits
	Seed      uint64 // of the draws among equal nodes
	Clock     clock.WithTicker
	// Recording, if it has a book, gets the decisions about the pods that are compared.
	Recording plugin.Recording
	// Moves, if not nil, is asked every hour what moves of running pods would bring the real cluster. It may take its time.
	Moves func(context.Context) (Moves, error)
	// Tell is called every minute with the report so far.
	Tell func(Report)
}

// Validate returns an error for the first invalid value.
func (c Config) Validate() error {
	for _, w := range c.Objective {
		if objective.Measured(w.Term) {
			return fmt.Errorf("objective %s is about measured usage, which nobody can measure where the pods are not; "+
				"choose a term about requests, such as balance or pack", w.Term.Name())
		}
		if objective.Talks(w.Term) {
			return fmt.Errorf("objective %s is about traffic, which the copy of the cluster does not follow; choose a term about requests, "+
				"such as balance or pack", w.Term.Name())
		}
	}
	switch {
	case len(c.Of) == 0:
		return errors.New("there is no scheduler to watch")
	case c.Block <= 0:
		return fmt.Errorf("blocks of time last %v, must be more than 0", c.Block)
	}
	if err := c.Objective.Validate(); err != nil {
		return fmt.Errorf("objective: %w", err)
	}
	return c.Limits.Validate()
}

// Watcher compares a profile with the scheduler that places the pods. Run runs it once.
type Watcher struct {
	config Config
	queue  *queue
	shared informers.SharedInformerFactory
	named  dynamicinformer.DynamicSharedInformerFactory // nil for none
	theirs *memcluster.Cluster
	ours   *memcluster.Placements
	synced atomic.Bool
	listed []cache.InformerSynced // whether the queue has the first lists
	asked  chan chan<- Live
	ended  chan struct{} // closed at the end of Run
	log    klog.Logger

	// The rest belongs to Run.
	begun, last time.Time
	waiting     sets.Set[types.UID] // pods that the other scheduler found no node for
	blocks      timeline
	counts      Counts
	failures    []Failure
	recent      []Comparison // the last ones, the oldest first
	times       durations
	gains       OneStep
	moves       *Moves // nil until they are known
	decided     uint64 // decisions with a node that were recorded
}

// New makes a Watcher. ctx ends its plugins; it must end after the context of Run, whose last report asks them.
func New(ctx context.Context, c Config) (*Watcher, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	set.Register()
	for _, o := range outcomes { // so that a rate has a first value
		decisions.WithLabelValues(string(o))
	}
	w := &Watcher{
		config: c, queue: &queue{clock: c.Clock, more: make(chan struct{}, 1)}, asked: make(chan chan<- Live), ended: make(chan struct{}),
		log:     klog.FromContext(ctx).WithName(logging.ProjectLogger),
		shared:  kuberelease.Informers(c.Client),
		waiting: sets.New[types.UID](), blocks: timeline{length: c.Block.Seconds()},
		counts: Counts{Results: map[outcome]int{}, NotCompared: map[string]int{}},
	}
	if c.Dynamic != nil {
		w.named = dynamicinformer.NewDynamicSharedInformerFactory(c.Dynamic, 0)
	}
	of := memcluster.Config{
		Client: c.Client, Shared: w.shared, Dynamic: w.named, Profile: c.Profile, Objective: c.Objective, Clock: c.Clock, Seed: c.Seed,
		Recording: c.Recording,
	}
	var err error
	if w.theirs, err = memcluster.New(ctx, of); err != nil {
		return nil, err
	}
	of.Seed++
	of.Recording = plugin.Recording{} // the second cluster's choices are not recorded: their state is hypothetical
	// The plugins' start was logged for the first cluster.
	second, err := memcluster.New(klog.NewContext(ctx, klog.FromContext(ctx).V(1)), of)
	if err != nil {
		return nil, err
	}
	w.ours = memcluster.NewPlacements(second)
	w.ours.Preempts = slices.ContainsFunc(second.Profile().ListPlugins().PostFilter.Enabled,
		func(p config.Plugin) bool { return p.Name == names.DefaultPreemption })
	pods, err := w.shared.Core().V1().Pods().Informer().AddEventHandler(watched.Handler(func(was, is *v1.Pod, listed bool) {
		w.queue.put(event{old: was, pod: is, initial: listed})
	}))
	if err != nil {
		return nil, fmt.Errorf("watch pods: %w", err)
	}
	nodes, err := w.shared.Core().V1().Nodes().Informer().AddEventHandler(watched.Handler(func(was, is *v1.Node, listed bool) {
		w.queue.put(event{was: was, now: is, initial: listed})
	}))
	if err != nil {
		return nil, fmt.Errorf("watch nodes: %w", err)
	}
	w.listed = []cache.InformerSynced{pods.HasSynced, nodes.HasSynced}
	return w, nil
}

// Ready returns nil once the cluster has been read.
func (w *Watcher) Ready() error {
	if !w.synced.Load() {
		return errors.New("the state of the cluster has not been read yet")
	}
	return nil
}

const (
	step = time.Second // how often time is accounted for, and waiting pods are tried again
	tell = time.Minute

	// retries is the number of waiting pods that may be tried without success before the rest waits for the next step.
	retries = 20
)

// Run watches until ctx ends, and returns the report. An error is one of the plugins or of the program.
func (w *Watcher) Run(ctx context.Context) (Report, error) {
	defer close(w.ended)
	w.shared.StartWithContext(ctx)
	w.shared.WaitForCacheSync(ctx.Done())
	if w.named != nil {
		w.named.Start(ctx.Done())
		w.named.WaitForCacheSync(ctx.Done())
	}
	if w.theirs.WaitForHandlers(ctx) != nil || w.ours.WaitForHandlers(ctx) != nil || !cache.WaitForCacheSync(ctx.Done(), w.listed...) {
		return w.Report(), nil // ctx has ended
	}
	w.start(ctx)
	w.synced.Store(true)
	steps := w.config.Clock.NewTicker(step)
	defer steps.Stop()
	told := w.begun
	found := make(chan Moves)
	if w.config.Moves != nil {
		go w.search(ctx, found)
	}
	for {
		select {
		case <-ctx.Done():
			w.advance(w.config.Clock.Now())
			return w.Report(), nil
		case reply := <-w.asked:
			reply <- w.live() // it has room for one
			continue
		case m := <-found:
			w.moves = &m
			continue
		case <-w.queue.more:
		case <-steps.C():
		}
		w.work(context.WithoutCancel(ctx), w.queue.take())
		now := w.config.Clock.Now()
		if now.Sub(told) >= tell {
			told = now
			w.tell()
		}
	}
}

// search asks what moves would bring, until ctx ends.
func (w *Watcher) search(ctx context.Context, found chan<- Moves) {
	again := w.config.Clock.NewTicker(time.Hour)
	defer again.Stop()
	for {
		if m, err := w.config.Moves(ctx); err == nil {
			select {
			case found <- m:
			case <-ctx.Done():
			}
		} else if ctx.Err() == nil {
			w.log.Error(err, "It is not known what moves would bring")
		}
		select {
		case <-again.C():
		case <-ctx.Done():
			return
		}
	}
}

func (w *Watcher) tell() {
	r := w.Report()
	r.observe()
	if w.config.Tell != nil {
		w.config.Tell(r)
	}
}

// start takes the informers' present objects as the initial state.
func (w *Watcher) start(ctx context.Context) {
	w.begun = w.config.Clock.Now()
	w.last = w.begun
	events := w.queue.take()
	slices.SortStableFunc(events, func(a, b event) int { return cmp.Compare(a.rank(), b.rank()) })
	w.work(ctx, events)
	w.log.V(1).Info("Watching", "schedulers", w.config.Of, "pods", len(w.ours.Running))
}

// work works events off, and then accounts for the time until now.
func (w *Watcher) work(ctx context.Context, events []event) {
	for i, e := range events {
		w.advance(e.at)
		w.behind(len(events) - i + w.queue.length())
		if err := w.apply(ctx, e); err != nil {
			w.counts.Errors++
			w.log.Error(err, "An event is not compared")
		}
	}
	w.advance(w.config.Clock.Now())
	if err := w.ours.Retry(ctx, retries); err != nil {
		w.counts.Errors++
		w.log.Error(err, "Waiting pods are not tried again")
	}
	w.observe()
}

// advance accounts for the time since the last call, in which nothing changed.
func (w *Watcher) advance(now time.Time) {
	d := now.Sub(w.last)
	if d <= 0 {
		return // a clock that was set back
	}
	w.last = now
	theirs, err := w.theirs.Cost()
	own, err2 := w.ours.Cost()
	if err := errors.Join(err, err2); err != nil {
		w.counts.Errors++
		w.log.Error(err, "Time is not accounted for", "seconds", d.Seconds())
		return
	}
	w.blocks.add(Block{d.Seconds(), theirs, own, float64(len(w.waiting)), float64(len(w.ours.Waiting))})
}

// watched reports whether the pod belongs to a watched scheduler.
func (w *Watcher) watched(p *v1.Pod) bool { return slices.Contains(w.config.Of, p.Spec.SchedulerName) }

// network returns what decides now.
func (w *Watcher) network() plugin.Network {
	n, err := plugin.ActiveNetwork(w.theirs.Profile())
	if err != nil {
		n.Policy = w.config.Name // upstream's own profile has none
	} else {
		n.Policy = w.policy(n.Policy, n.Fingerprint)
	}
	return n
}

// policy names the decider. For a network it is the configured name, because the profile has the watched scheduler's name.
func (w *Watcher) policy(name string, fingerprint uint64) string {
	if fingerprint != 0 {
		return w.config.Name
	}
	return name
}

// record hands the book the decision about a pod that another scheduler bound.
func (w *Watcher) record(p *v1.Pod, d *decision.Decision) {
	if d == nil {
		return
	}
	if d.Node != "" {
		w.decided++
		d.Number = w.decided
	}
	d.At, d.Really = w.config.Clock.Now(), p.Spec.NodeName
	d.Profile, d.Policy = w.config.Name, w.policy(d.Policy, d.Fingerprint)
	w.config.Recording.Book.Decided(*d)
}

// Comparison is a pod that the other scheduler bound, with the profile's choice for it.
type Comparison struct {
	Time   time.Time `json:"time"`
	Pod    string    `json:"pod"`
	What   outcome   `json:"what"`
	Theirs string    `json:"theirs"`         // the node that it got
	Node   string    `json:"node,omitempty"` // the profile's choice; empty if none fits
	Gained float64   `json:"gained"`         // cost after their choice minus cost after ours; over 0 if ours is better
	Took   float64   `json:"took"`           // seconds
	Why    string    `json:"why,omitempty"`  // of a failure
}

// Live holds the findings so far of a running Watcher. Its report has no batches.
type Live struct {
	Report
	Results   []Result     `json:"results"`
	Agreement float64      `json:"agreement"` // the share of the same and equally good nodes among the pods with a choice
	Recent    []Comparison `json:"recent"`    // the last ones, the newest first
	Course    []Block      `json:"course"`    // the time so far, in blocks of equal length
}

// Path is the path of a shadow scheduler's Live.
const Path = "/debug/shadow"

const (
	// keptComparisons is the number of comparisons kept for Live.
	keptComparisons = 100
	// mostCourse bounds the blocks of a Live. If there are more, each two become one.
	mostCourse = 240
)

// Live returns the findings so far of a running Watcher. It waits until the pending events are handled, or Run or ctx ends.
func (w *Watcher) Live(ctx context.Context) (Live, error) {
	reply := make(chan Live, 1)
	for asked := w.asked; ; {
		select {
		case asked <- reply:
			asked = nil
		case l := <-reply:
			return l, nil
		case <-w.ended:
			return Live{}, errors.New("the watcher has ended")
		case <-ctx.Done():
			return Live{}, fmt.Errorf("ask the watcher: %w", ctx.Err())
		}
	}
}

// live answers Live.
func (w *Watcher) live() Live {
	r := w.Report()
	// lists in JSON, also without elements
	l := Live{
		Report: r, Results: r.results(), Agreement: r.Counts.agreement(), Recent: append([]Comparison{}, w.recent...),
		Course: append([]Block{}, w.blocks.full...),
	}
	slices.Reverse(l.Recent)
	l.Batches = nil
	for len(l.Course) > mostCourse {
		l.Course = pairBlocks(l.Course)
	}
	return l
}

// ServeHTTP implements http.Handler. It answers GET with what was found so far.
func (w *Watcher) ServeHTTP(out http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		out.Header().Set("Allow", "GET, HEAD")
		http.Error(out, "only GET is answered", http.StatusMethodNotAllowed)
		return
	}
	if err := w.Ready(); err != nil {
		http.Error(out, err.Error(), http.StatusServiceUnavailable)
		return
	}
	found, err := w.Live(r.Context())
	if err != nil {
		http.Error(out, err.Error(), http.StatusServiceUnavailable)
		return
	}
	text, err := json.Marshal(found)
	if err != nil { // a cost that is not a number
		http.Error(out, err.Error(), http.StatusInternalServerError)
		return
	}
	out.Header().Set("Content-Type", "application/json")
	out.Header().Set("X-Content-Type-Options", "nosniff")
	_, _ = out.Write(text) // the caller may have gone
}

// ParseLive reads the answer of a Watcher. It returns the same errors as Parse.
func ParseLive(text []byte) (Live, error) {
	if _, err := Parse(text); err != nil {
		return Live{}, err
	}
	var l Live
	if err := json.Unmarshal(text, &l); err != nil {
		return Live{}, exit.New(exit.Usage, fmt.Errorf("it does not say what a scheduler in the shadow has found: %w", err),
			"are both programs of the same version?")
	}
	return l, nil
}

// note keeps a comparison for Live.
func (w *Watcher) note(p *v1.Pod, j judgement) {
	w.recent = append(w.recent, Comparison{
		Time: w.config.Clock.Now(), Pod: advise.Shorten(p.Namespace+"/"+p.Name, maxText), What: j.outcome,
		Theirs: advise.Shorten(p.Spec.NodeName, maxText),
		Node:   advise.Shorten(j.Node, maxText), Gained: j.gained, Took: j.Took.Seconds(), Why: advise.Shorten(j.why, maxText),
	})
	if len(w.recent) > keptComparisons {
		w.recent = slices.Delete(w.recent, 0, 1)
	}
}

// event is a change of a pod or of a node. Old is nil if it was added, new if it was deleted.
type event struct {
	at       time.Time
	initial  bool // part of the first list
	old, pod *v1.Pod
	was, now *v1.Node
}

// rank orders the events of the beginning. The first lists come in any order, but the profile may try a pod that waits only when the
// nodes and the pods that run are known; otherwise it takes their room.
func (e event) rank() int {
	switch {
	case !e.initial:
		return 3
	case e.pod == nil:
		return 0
	case e.pod.Spec.NodeName != "":
		return 1
	}
	return 2
}

// queue holds events that have not been worked off. It is safe for concurrent use.
type queue struct {
	clock clock.PassiveClock
	more  chan struct{} // holds a value if there may be events

	mu   sync.Mutex
	list []event
}

func (q *queue) put(e event) {
	e.at = q.clock.Now()
	q.mu.Lock()
	q.list = append(q.list, e)
	q.mu.Unlock()
	select {
	case q.more <- struct{}{}:
	default:
	}
}

// take returns the events that wait, and empties the queue.
func (q *queue) take() []event {
	q.mu.Lock()
	defer q.mu.Unlock()
	out := q.list
	q.list = nil
	return out
}

// length returns the number of events that wait.
func (q *queue) length() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.list)
}
