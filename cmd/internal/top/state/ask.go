package state

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metainternal "k8s.io/apimachinery/pkg/apis/meta/internalversion"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes"

	"gnnsched/internal/watched"
	"gnnsched/scheduler/decision"
	"gnnsched/scheduler/plugin/learningcurve"
	"gnnsched/scheduler/shadow"
)

// Server is a scheduler to ask.
type Server struct {
	Name  string // distinguishes it from the others; empty for the only one
	Asker Asker
}

// Asker asks a scheduler.
type Asker interface {
	// Last returns the last decisions, the newest first.
	Last(ctx context.Context, q decision.Query) ([]decision.Record, error)
	// Learning returns samples of how its learning goes.
	Learning(ctx context.Context) (learningcurve.Samples, error)
	// Shadow returns its findings in the shadow of another scheduler.
	Shadow(ctx context.Context) (shadow.Live, error)
}

// server is a scheduler with its last answers.
type server struct {
	name      string
	decisions decisionLog
	learning  answer[learningcurve.Samples]
	shadow    answer[shadow.Live]
}

func serversOf(cfg Config) []*server {
	all := make([]*server, len(cfg.Servers))
	for i, s := range cfg.Servers {
		all[i] = &server{
			name: s.Name, decisions: decisionLog{server: s.Name, asker: s.Asker},
			learning: answer[learningcurve.Samples]{ask: s.Asker.Learning, every: learningInterval, now: cfg.Now},
			shadow:   answer[shadow.Live]{ask: s.Asker.Shadow, every: shadowInterval, now: cfg.Now},
		}
	}
	return all
}

// Details returns what was asked for. It waits for the schedulers and the API server if the details come from there, but
// not longer than detailsTimeout.
func (s *Source) Details(ask Ask) Details {
	out := Details{Node: ask.Node}
	if ask.Node != "" {
		out.Pods, out.Cards = s.cluster.PodsOn(ask.Node), s.cluster.cardsOf(ask.Node)
	}
	if ask.Pods {
		out.Pods = s.cluster.Pods()
	}
	if ask.Pod.Name != "" {
		out.Pod = s.pod(ask.Pod)
	}
	if ask.Placed {
		out.Placed = s.cluster.Placed()
	}
	if ask.Pending {
		out.Pending = s.cluster.Pending()
	}
	if ask.Decisions {
		out.Decisions, out.Silent = s.lastDecisions()
	}
	if ask.Events {
		out.Events, out.EventsErr = s.events.last(s.ctx)
	}
	if !ask.Learning && !ask.Shadow {
		return out
	}
	if ask.Server < 0 || ask.Server >= len(s.servers) {
		out.LearningErr, out.ShadowErr = errNoScheduler, errNoScheduler
		return out
	}
	of := s.servers[ask.Server]
	if ask.Learning {
		out.Learning, out.LearningErr = of.learning.last(s.ctx)
	}
	if ask.Shadow {
		out.Shadow, out.ShadowErr = of.shadow.last(s.ctx)
	}
	return out
}

// lastDecisions asks all schedulers concurrently. It returns all decisions, the newest first, and the schedulers that did not answer.
func (s *Source) lastDecisions() (all []Decision, silent []Silent) {
	if len(s.servers) == 0 {
		return nil, []Silent{{Err: errNoScheduler}}
	}
	lists, errs := make([][]Decision, len(s.servers)), make([]error, len(s.servers))
	var asked sync.WaitGroup
	for i, x := range s.servers {
		asked.Go(func() { lists[i], errs[i] = x.decisions.last(s.ctx) })
	}
	asked.Wait()
	for i, err := range errs {
		if err != nil {
			silent = append(silent, Silent{Server: s.servers[i].name, Err: err})
		}
	}
	if len(lists) == 1 {
		return lists[0], silent
	}
	all = slices.Concat(lists...)
	slices.SortStableFunc(all, func(a, b Decision) int { return b.Time.Compare(a.Time) })
	return all, silent
}

const (
	// detailsTimeout bounds the time that a frame waits for.
	detailsTimeout = 2 * time.Second
	// These are the shortest times between two questions. The scheduler takes a sample of its learning every 10 s, and one in the
	// shadow accounts for time every second.
	learningInterval = 5 * time.Second
	shadowInterval   = 2 * time.Second
)

// answer holds the last answer to a question.
type answer[T any] struct {
	ask   func(context.Context) (T, error)
	every time.Duration // the shortest time between two questions
	now   func() time.Time

	mu    sync.Mutex
	asked time.Time
	known T
	err   error
}

// last returns the answer, and asks again if the last one is old. After an error it is the old one.
func (a *answer[T]) last(ctx context.Context) (T, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if now := a.now(); a.asked.IsZero() || now.Sub(a.asked) >= a.every {
		ctx, cancel := context.WithTimeout(ctx, detailsTimeout)
		defer cancel()
		fresh, err := a.ask(ctx)
		a.asked, a.err = now, err
		if err == nil {
			a.known = fresh // a new value, because frames hold the old one
		}
	}
	return a.known, a.err
}

// decisionLog keeps the decisions of a scheduler since the first question, as far as the scheduler still had them.
type decisionLog struct {
	server string // the scheduler's name
	asker  Asker

	mu   sync.Mutex
	kept []Decision // the newest first
}

// last asks for new decisions, and returns all that are kept. After an error these are the old ones.
func (l *decisionLog) last(ctx context.Context) ([]Decision, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, detailsTimeout)
	defer cancel()
	page, err := l.asker.Last(ctx, decision.Query{Limit: decision.AnswerSize})
	if err != nil {
		return l.kept, err
	}
	kept := make([]Decision, 0, len(page)+len(l.kept))
	for _, r := range page {
		// An answer may lack failures that are kept, even the newest one.
		if !slices.ContainsFunc(l.kept, func(k Decision) bool { return same(&r, &k.Record) }) {
			kept = append(kept, Decision{Record: r, Server: l.server})
		}
	}
	kept = append(kept, l.kept...)
	failed := 0
	kept = slices.DeleteFunc(kept, func(d Decision) bool { // as in the answers: pods that wait push no placement out
		if d.Node == "" {
			failed++
		}
		return d.Node == "" && failed > decision.Kept/2
	})
	kept = kept[:min(len(kept), decision.Kept)]
	l.kept = kept // a new list, because frames hold the old one
	return kept, nil
}

// same tells whether two records are of one decision.
func same(a, b *decision.Record) bool {
	return a.UID == b.UID && a.Time.Equal(b.Time) && a.Profile == b.Profile && a.Number == b.Number && a.Pod == b.Pod
}

// podInterval is the shortest time between two questions about one pod.
const podInterval = 5 * time.Second

// podLog holds the last answers of the API server and the schedulers about the requested pod.
type podLog struct {
	client  kubernetes.Interface
	servers []*server
	explain func(decision.Record) (string, error)
	now     func() time.Time

	mu    sync.Mutex
	ask   PodAsk
	asked time.Time
	told  PodDetails // without the pod itself
}

// pod returns the known details of a pod.
func (s *Source) pod(ask PodAsk) *PodDetails {
	out := s.podLog.last(s.ctx, ask)
	out.ListedPod, out.Waits, out.Found = s.cluster.Pod(ask.Namespace, ask.Name)
	return &out
}

// last returns the events and the explained decision of a pod. It asks again if the last answers are old or about another pod.
func (l *podLog) last(ctx context.Context, ask PodAsk) PodDetails {
	l.mu.Lock()
	defer l.mu.Unlock()
	if now := l.now(); l.asked.IsZero() || l.ask != ask || now.Sub(l.asked) >= podInterval {
		if l.ask != ask {
			l.told = PodDetails{}
		}
		l.ask, l.asked = ask, now
		ctx, cancel := context.WithTimeout(ctx, detailsTimeout)
		defer cancel()
		var listing sync.WaitGroup
		listing.Go(func() { l.told.Events, l.told.EventsErr = l.events(ctx, ask) })
		l.decide(ctx, ask)
		listing.Wait()
	}
	return l.told
}

// events lists the events about a pod, the newest first.
func (l *podLog) events(ctx context.Context, ask PodAsk) ([]Event, error) {
	about := fields.Set{"involvedObject.kind": "Pod", "involvedObject.name": ask.Name}
	return listEvents(ctx, l.client, ask.Namespace, metav1.ListOptions{FieldSelector: about.String(), Limit: mostEvents})
}

// decide finds the decision about a pod, and explains it unless that is done already.
func (l *podLog) decide(ctx context.Context, ask PodAsk) {
	r, err := ask.Decision, error(nil)
	if r == nil {
		r, err = l.newest(ctx, ask)
	}
	l.told.DecisionErr = err
	if err != nil || r == nil || l.told.Decision != nil && same(l.told.Decision, r) && l.told.Explained != "" {
		return
	}
	l.told.Decision, l.told.Explained = r, ""
	if l.explain == nil {
		l.told.DecisionErr = errors.New("this program does not explain decisions")
		return
	}
	l.told.Explained, l.told.DecisionErr = l.explain(*r)
}

// newest asks all schedulers for their last decision about a pod and returns the newest one. It returns an error only if no scheduler knows
// a decision and one of them did not answer.
func (l *podLog) newest(ctx context.Context, ask PodAsk) (newest *decision.Record, err error) {
	if len(l.servers) == 0 {
		return nil, errNoScheduler
	}
	lists, errs := make([][]decision.Record, len(l.servers)), make([]error, len(l.servers))
	var asking sync.WaitGroup
	for i, x := range l.servers {
		asking.Go(func() {
			lists[i], errs[i] = x.decisions.asker.Last(ctx, decision.Query{Namespace: ask.Namespace, Pod: ask.Name, Limit: 1})
		})
	}
	asking.Wait()
	for _, r := range slices.Concat(lists...) {
		if newest == nil || r.Time.After(newest.Time) {
			newest = &r
		}
	}
	if newest == nil {
		for i, e := range errs {
			if e != nil && l.servers[i].name != "" {
				e = fmt.Errorf("%s: %w", l.servers[i].name, e)
			}
			err = errors.Join(err, e)
		}
	}
	return newest, err
}

// store hands the objects of a resource to the cluster.
type store[T any] struct {
	watched.Store[T]
	feed
}

func newStore[T any](read func(any) (T, error), put, gone func(T), all func([]T)) store[T] {
	f := feed{synced: make(chan struct{}), once: &sync.Once{}}
	return store[T]{watched.Store[T]{Read: read, Put: put, Gone: gone, All: func(list []T) { all(list); f.markSynced() }}, f}
}

// feed signals that the first list of a store is complete.
type feed struct {
	synced chan struct{} // closed after the first list
	once   *sync.Once
}

func (f feed) markSynced() { f.once.Do(func() { close(f.synced) }) }

func nodeStore(c *Cluster) store[Node] {
	return newStore(strip("nodes", nodeOf), c.SetNode, func(n Node) { c.DeleteNode(n.Name) }, c.ReplaceNodes)
}

func podStore(c *Cluster, now func() time.Time) store[Pod] {
	return newStore(stripPod, func(p Pod) { c.SetPod(p, now()) }, func(p Pod) { c.deletePodNamed(p.Namespace, p.Name) },
		func(all []Pod) { c.ReplacePods(all, now()) })
}

func sliceStore(c *Cluster) store[*resourceapi.ResourceSlice] {
	as := func(s *resourceapi.ResourceSlice) *resourceapi.ResourceSlice { return s }
	return newStore(strip("resource slices", as), c.SetSlice, func(s *resourceapi.ResourceSlice) { c.deleteSlice(s.Name) }, c.replaceSlices)
}

func claimStore(c *Cluster) store[Claim] {
	return newStore(strip("resource claims", claimOf), c.SetClaim, func(x Claim) { c.deleteClaim(x.Namespace, x.Name) }, c.replaceClaims)
}

// strip returns a function that converts an API object, unless it is converted already.
func strip[API, T any](kind string, convert func(API) T) func(any) (T, error) {
	return func(obj any) (out T, err error) {
		switch o := obj.(type) {
		case API:
			return convert(o), nil
		case T:
			return o, nil
		}
		return out, fmt.Errorf("watch: a %T among the %s", obj, kind)
	}
}

func stripPod(obj any) (Pod, error) {
	if listed, is := obj.(*strippedPod); is {
		return listed.Pod, nil
	}
	return strip("pods", podOf)(obj)
}

// strippedPod wraps the few values that we keep of a pod, so that a list of client-go can carry them.
type strippedPod struct{ Pod }

// GetObjectKind implements runtime.Object.
func (*strippedPod) GetObjectKind() schema.ObjectKind { return schema.EmptyObjectKind }

// DeepCopyObject implements runtime.Object.
func (p *strippedPod) DeepCopyObject() runtime.Object {
	return new(*p)
}

func stripList(list *v1.PodList) *metainternal.List {
	out := &metainternal.List{ListMeta: list.ListMeta, Items: make([]runtime.Object, len(list.Items))}
	for i := range list.Items {
		out.Items[i] = &strippedPod{podOf(&list.Items[i])}
	}
	return out
}

// Ask selects the details that a screen shows. The zero value asks for none.
type Ask struct {
	Node      string // the pods on this node
	Pods      bool   // all pods
	Pod       PodAsk
	Decisions bool // of all asked schedulers
	Placed    bool
	Pending   bool
	Events    bool
	Learning  bool // of one scheduler
	Shadow    bool // one shadow scheduler's findings
	Server    int  // index of the scheduler for Learning and Shadow
}

// PodAsk selects a pod and the decision about it to explain. The zero value selects none.
type PodAsk struct {
	Namespace, Name string
	Decision        *decision.Record // nil for the newest one of any scheduler
}

// Details holds the part of the cluster that few screens show. Only the requested fields are set.
type Details struct {
	Node    string
	Pods    []ListedPod // the pods on Node, or all
	Pod     *PodDetails // nil unless Ask.Pod names one
	Cards   []Card
	Pending []PendingPod // all of them, the oldest first

	Decisions []Decision // the newest first
	Silent    []Silent   // the schedulers that told none, or no newer ones
	Placed    []Placed

	Events    []Event // the newest first
	EventsErr error

	Learning    learningcurve.Samples // no times: no profile of the scheduler learns
	LearningErr error                 // why there are none, or no newer ones

	Shadow    shadow.Live // no version: nothing is known
	ShadowErr error       // why nothing is known, or nothing newer
}

// Decision is a decision that a scheduler told, or a pod that the API says is bound.
type Decision struct {
	decision.Record
	Server  string // the scheduler that reported it; empty if there is only one
	Counted bool   // reported by no scheduler: the pod is bound, and Profile is its schedulerName
}

// Silent is a scheduler that does not answer.
type Silent struct {
	Server string // empty if there is only one
	Err    error
}

// Event is an event of the cluster about an object.
type Event struct {
	Time    time.Time `json:"time"` // of the last occurrence
	Type    string    `json:"type"` // Normal, Warning
	Reason  string    `json:"reason"`
	Object  string    `json:"object"` // kind and name
	From    string    `json:"from"`   // the reporter
	Message string    `json:"message"`
	Count   int       `json:"count"`
}

const (
	// eventsInterval is the shortest time between two lists of events, which the API server does not cache.
	eventsInterval = 5 * time.Second
	// mostEvents bounds the listed events. The API server sorts by name, so with more events the newest may be missing.
	mostEvents = 5000
)

// allEvents asks for all events.
func allEvents(client kubernetes.Interface) func(context.Context) ([]Event, error) {
	return func(ctx context.Context) ([]Event, error) {
		return listEvents(ctx, client, metav1.NamespaceAll, metav1.ListOptions{Limit: mostEvents})
	}
}

// listEvents lists events, the newest first.
func listEvents(ctx context.Context, client kubernetes.Interface, namespace string, o metav1.ListOptions) ([]Event, error) {
	list, err := client.CoreV1().Events(namespace).List(ctx, o)
	if err != nil {
		return nil, fmt.Errorf("list the events: %s", reason(err))
	}
	events := make([]Event, len(list.Items))
	for i := range list.Items {
		events[i] = eventOf(&list.Items[i])
	}
	slices.SortStableFunc(events, func(a, b Event) int { return cmp.Or(b.Time.Compare(a.Time), strings.Compare(a.Object, b.Object)) })
	return events, nil
}

// eventOf converts an event of either API: the older has a count and a last time, the newer a series.
func eventOf(e *v1.Event) Event {
	out := Event{
		Time: e.LastTimestamp.Time, Type: Printable(e.Type), Reason: Printable(e.Reason), Message: Printable(e.Message),
		Object: Printable(e.InvolvedObject.Kind + " " + e.InvolvedObject.Name),
		From:   Printable(cmp.Or(e.ReportingController, e.Source.Component)),
		Count:  max(int(e.Count), 1),
	}
	if ns := e.InvolvedObject.Namespace; ns != "" {
		out.Object = Printable(e.InvolvedObject.Kind + " " + ns + "/" + e.InvolvedObject.Name)
	}
	for _, t := range []time.Time{e.EventTime.Time, e.CreationTimestamp.Time} {
		if out.Time.IsZero() {
			out.Time = t
		}
	}
	if e.Series != nil {
		out.Time, out.Count = e.Series.LastObservedTime.Time, max(int(e.Series.Count), 1)
	}
	return out
}
