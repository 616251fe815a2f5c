package web

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"net/http"
	"runtime/debug"
	"slices"
	"sync"
	"time"

	"gnnsched/cmd/internal/top/state"
	"gnnsched/scheduler/decision"
	"gnnsched/scheduler/plugin/learningcurve"
	"gnnsched/scheduler/shadow"
)

const (
	// maxClients bounds the number of concurrent streams.
	maxClients = 16
	// heartbeat is the time between two lines that show that the stream is alive.
	heartbeat = 15 * time.Second
)

// decisions are the decisions since the last message.
type decisions struct {
	Total   uint64            `json:"total"`   // of the scheduler since it began
	Records []json.RawMessage `json:"records"` // decision.Record without readings, the newest first
}

// stream sends events until the client or the server is gone.
func (s *server) stream(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodGet { // HEAD, which would never end
		w.WriteHeader(http.StatusMethodNotAllowed)
		return
	}
	if !s.feed.enter() {
		w.Header().Set("Retry-After", "10")
		http.Error(w, fmt.Sprintf("%d pages are open already", maxClients), http.StatusServiceUnavailable)
		return
	}
	defer s.feed.leave()
	w.Header().Set("Content-Type", "text/event-stream")
	alive := s.config.Clock.NewTicker(heartbeat)
	defer alive.Stop()
	out, seen, heard := sink{w, http.NewResponseController(w), s.config.patience}, map[string]int{}, uint64(0)
	text := []byte("retry: 3000\n\n")
	for {
		fresh, changed := s.feed.since(seen)
		for _, topic := range slices.Sorted(maps.Keys(fresh)) {
			text = appendEvent(text, topic, fresh[topic])
		}
		if d := s.decisionsAfter(heard); d != nil {
			heard = d.Total
			data, err := json.Marshal(d)
			if err != nil {
				panic(err) // its parts are JSON
			}
			text = appendEvent(text, eventDecisions, data)
		}
		if len(text) > 0 && out.send(text) != nil {
			return
		}
		text = text[:0]
		select {
		case <-r.Context().Done(): // also when the server ends
			return
		case <-changed:
		case <-alive.C():
			text = append(text, ": alive\n\n"...)
		}
	}
}

// sink writes to a client.
type sink struct {
	w        http.ResponseWriter
	control  *http.ResponseController
	patience time.Duration
}

// send writes and flushes. It fails if the client does not read in time.
func (s sink) send(text []byte) error {
	_ = s.control.SetWriteDeadline(time.Now().Add(s.patience)) // a recorder in a test has none
	if _, err := s.w.Write(text); err != nil {
		return err
	}
	return s.control.Flush()
}

// appendEvent appends an event whose data has no line feed.
func appendEvent(text []byte, name string, data []byte) []byte {
	if data == nil {
		data = []byte("null")
	}
	return fmt.Appendf(text, "event: %s\ndata: %s\n\n", name, data)
}

// decisionsAfter returns the decisions after the first n of all; nil if there is none.
func (s *server) decisionsAfter(n uint64) *decisions {
	if s.config.Book == nil {
		return nil
	}
	records, total := s.config.Book.After(n, decision.AnswerSize)
	if total == n {
		return nil
	}
	return &decisions{Total: total, Records: plain(records)}
}

// plain encodes records without the features that the policies read, which the page does not show in lists. It drops records with scores
// that JSON cannot hold.
func plain(records []decision.Record) []json.RawMessage {
	out := make([]json.RawMessage, 0, len(records))
	for i := range records {
		r := &records[i]
		for k := range r.Best {
			r.Best[k].Read = nil
		}
		if r.Default != nil {
			r.Default.Read = nil
		}
		if text, err := json.Marshal(r); err == nil {
			out = append(out, bytes.TrimSpace(text))
		}
	}
	return out
}

const (
	// tick is the time between two looks for new decisions.
	tick = 250 * time.Millisecond
	// The numbers of ticks between two states of the cluster or of the shadow, and of what was learned.
	clusterTicks  = 8
	raceTicks     = 4
	learningTicks = 40
)

// publish publishes until ctx ends, to clients if there are any.
func (s *server) publish(ctx context.Context) {
	ticker := s.config.Clock.NewTicker(tick)
	defer ticker.Stop()
	n := 0
	next := func() { n++; s.publishTick(ctx, n-1) }
	s.safely(next)
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C():
			s.safely(next)
		case <-s.feed.kicked:
			s.safely(func() {
				s.publishCluster()
				s.publishLearning()
				s.publishUsage()
				s.publishShadow(ctx)
				s.publishRace()
			})
		}
	}
}

// publishTick publishes the parts that are due at a tick.
func (s *server) publishTick(ctx context.Context, n int) {
	if !s.feed.watched() {
		return
	}
	if n%learningTicks == 0 {
		s.publishLearning()
	}
	if s.config.Book != nil {
		if _, total := s.config.Book.Held(); total != s.heard {
			s.heard = total
			s.feed.news()
		}
	}
	if n%raceTicks == 0 {
		s.publishRace()
	}
	if n%clusterTicks == 0 {
		s.publishCluster()
		s.publishUsage()
		s.publishShadow(ctx)
	}
}

func (s *server) publishRace() {
	if s.config.Race != nil {
		s.tell(topicRace, s.config.Race())
	}
}

// tell publishes a message, and logs why it cannot be.
func (s *server) tell(topic string, v any) {
	if err := s.feed.publish(topic, v); err != nil {
		s.config.Log.Error(err, "The page does not show everything")
	}
}

// safely calls do, and logs a panic: a fault of the page must not end the scheduler.
func (s *server) safely(do func()) {
	defer func() {
		if p := recover(); p != nil {
			s.config.Log.Error(fmt.Errorf("panic: %v", p), "The page does not show everything", "stack", string(debug.Stack()))
		}
	}()
	do()
}

// The topics of the stream, which are the names of its events. Of each, a client gets the newest message only. The
// stream of decisions is apart from them, because none of these is left out unless a client is slow.
const (
	topicCluster  = "cluster"
	topicLearning = "learning"
	topicRace     = "race"
	topicShadow   = "shadow"
	topicTrouble  = "trouble"
	topicUsage    = "usage"

	eventDecisions = "decisions"
)

// feed holds the newest message of each topic, and wakes those who wait for news.
type feed struct {
	kicked chan struct{} // asks the publisher to publish at once

	mu       sync.Mutex
	clients  int
	messages map[string]message
	changed  chan struct{} // closed when something is new
}

// message is an encoded message with its number in the topic.
type message struct {
	number int
	data   []byte
}

func newFeed() *feed {
	return &feed{kicked: make(chan struct{}, 1), messages: map[string]message{}, changed: make(chan struct{})}
}

// publish replaces the message of a topic, and wakes all waiting clients, unless it equals the previous one. nil withdraws the topic's
// message. It fails for numbers that JSON does not have.
func (f *feed) publish(topic string, v any) error {
	var data []byte
	if v != nil {
		var err error
		if data, err = json.Marshal(v); err != nil {
			return fmt.Errorf("encode the topic %s: %w", topic, err)
		}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	last := f.messages[topic]
	if !bytes.Equal(last.data, data) {
		f.messages[topic] = message{last.number + 1, data}
		f.wake()
	}
	return nil
}

// news wakes all who wait.
func (f *feed) news() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.wake()
}

func (f *feed) wake() {
	close(f.changed)
	f.changed = make(chan struct{})
}

// since returns the messages newer than seen and updates seen. The returned channel is closed at the next news.
func (f *feed) since(seen map[string]int) (fresh map[string][]byte, changed <-chan struct{}) {
	f.mu.Lock()
	defer f.mu.Unlock()
	fresh = map[string][]byte{}
	for topic, m := range f.messages {
		if m.number > seen[topic] {
			seen[topic] = m.number
			fresh[topic] = m.data
		}
	}
	return fresh, f.changed
}

// enter counts a client unless there are too many, and asks the publisher for the newest state.
func (f *feed) enter() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.clients >= maxClients {
		return false
	}
	f.clients++
	f.kick()
	return true
}

func (f *feed) leave() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.clients--
}

// watched reports whether there is a client.
func (f *feed) watched() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.clients > 0
}

func (f *feed) kick() {
	select {
	case f.kicked <- struct{}{}:
	default: // it was asked already
	}
}

// learning describes the profiles that learn.
type learning struct {
	Times    []int64   `json:"times"` // of the samples, Unix seconds
	Profiles []learned `json:"profiles"`
}

// learned describes a profile that learns.
type learned struct {
	Name     string                `json:"name"`
	Reported bool                  `json:"reported"` // by the trainer
	Totals   []learningcurve.Total `json:"totals"`   // since the scheduler began
	Curves   []learningcurve.Curve `json:"curves"`
}

// publishLearning publishes how the profiles learn, if one does.
func (s *server) publishLearning() {
	samples := s.config.Curves.Samples()
	if len(samples.Times) == 0 {
		return
	}
	out := learning{Times: samples.Times}
	for _, name := range samples.Names() {
		out.Profiles = append(out.Profiles, learned{name, samples.Reported(name), samples.Totals(name), samples.Curves(name)})
	}
	s.tell(topicLearning, out)
}

// shadowWait limits the wait for a shadow scheduler, which answers between events.
const shadowWait = 2 * time.Second

// publishShadow publishes a shadow scheduler's findings, if this is one and it answers.
func (s *server) publishShadow(ctx context.Context) {
	if s.config.Shadow == nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, shadowWait)
	defer cancel()
	if found, err := s.config.Shadow(ctx); err == nil { // otherwise it is asked again soon
		s.tell(topicShadow, found)
	}
}

// inShadow asks a shadow scheduler for its findings so far.
type inShadow func(context.Context) (shadow.Live, error)

// shownPending is the number of pending pods on the page, the oldest ones.
const shownPending = 200

// trouble is why the cluster is not shown.
type trouble struct {
	Message string `json:"message"`
}

// clusterNow is the cluster at a moment. It has no time of its own, so that a cluster in which nothing happens is sent once.
type clusterNow struct {
	Title      string      `json:"title"`
	Decides    bool        `json:"decides"` // the scheduler keeps its decisions
	Lost       *lost       `json:"lost,omitempty"`
	Totals     totals      `json:"totals"`
	CPUSpread  float64     `json:"cpuSpread"` // standard deviation over the workers
	Schedulers []scheduler `json:"schedulers"`
	Nodes      []node      `json:"nodes"`
	Pending    []pending   `json:"pending"` // the oldest shownPending
}

// lost says since when the API server has not answered.
type lost struct {
	Since  time.Time `json:"since"`
	Reason string    `json:"reason"`
}

// usage is a requested and an allocatable amount.
type usage [2]int64

type totals struct {
	Nodes    int   `json:"nodes"`
	Ready    int   `json:"ready"`
	Cordoned int   `json:"cordoned"`
	Pending  int   `json:"pending"`
	CPU      usage `json:"cpu"`    // millicores
	Memory   usage `json:"memory"` // bytes
	GPU      usage `json:"gpu"`    // thousandths of devices
	Pods     usage `json:"pods"`
}

type scheduler struct {
	Name    string  `json:"name"`
	Bound   int     `json:"bound"`
	Pending int     `json:"pending"`
	Rate    float64 `json:"rate"` // pods bound per second
}

type node struct {
	Name     string `json:"name"`
	Zone     string `json:"zone"`
	Status   string `json:"status"`
	Ready    bool   `json:"ready"`
	Worker   bool   `json:"worker"`
	GPUModel string `json:"gpuModel,omitempty"`
	CPU      usage  `json:"cpu"`
	Memory   usage  `json:"memory"`
	GPU      usage  `json:"gpu"`
	Pods     usage  `json:"pods"`
	Used     *usage `json:"used,omitempty"` // measured millicores and bytes
}

type pending struct {
	Pod       string    `json:"pod"` // NAMESPACE/NAME
	Workload  string    `json:"workload,omitempty"`
	Scheduler string    `json:"scheduler"`
	Created   time.Time `json:"created"`
	Reason    string    `json:"reason"`
	Message   string    `json:"message"`
	Needs     string    `json:"needs,omitempty"` // node labels that it selects
}

// publishCluster publishes the cluster, if it is read.
func (s *server) publishCluster() {
	src := s.source.Load()
	if src == nil {
		return
	}
	f := (*src).Frame(shownPending)
	s.tell(topicTrouble, nil)
	s.tell(topicCluster, s.clusterOf(&f))
}

func (s *server) clusterOf(f *state.Frame) clusterNow {
	t := &f.Totals
	out := clusterNow{
		Title: s.config.Title, Decides: s.config.Book != nil, CPUSpread: math.Round(f.CPUSpread.Std*1e4) / 1e4,
		Totals: totals{
			Nodes: t.Nodes, Ready: t.Ready, Cordoned: t.Cordoned, Pending: f.PendingCount,
			CPU: usageOf(t.CPU), Memory: usageOf(t.Memory), GPU: usageOf(t.GPU), Pods: usageOf(t.Pods),
		},
		Schedulers: make([]scheduler, len(f.Schedulers)), Nodes: make([]node, len(f.Nodes)), Pending: make([]pending, len(f.Pending)),
	}
	if f.Lost != nil {
		out.Lost = &lost{f.Lost.Since.UTC(), f.Lost.Reason}
	}
	for i, x := range f.Schedulers {
		out.Schedulers[i] = scheduler{cmp.Or(x.Name, "-"), x.Bound, x.Pending, math.Round(x.Rate*10) / 10}
	}
	for i := range f.Nodes {
		out.Nodes[i] = nodeOf(&f.Nodes[i])
	}
	for i := range f.Pending {
		out.Pending[i] = pendingOf(&f.Pending[i])
	}
	return out
}

func nodeOf(n *state.Node) node {
	out := node{
		Name: n.Name, Zone: n.Zone, Status: n.Status, Ready: n.Ready, Worker: n.Worker, GPUModel: n.GPUModel,
		CPU: usageOf(n.CPU), Memory: usageOf(n.Memory), GPU: usageOf(n.GPU), Pods: usageOf(n.Pods),
	}
	if n.Used != nil {
		out.Used = &usage{n.Used.CPU, n.Used.Memory}
	}
	return out
}

func pendingOf(p *state.PendingPod) pending {
	return pending{p.Namespace + "/" + p.Name, p.Workload, p.Scheduler, p.Created.UTC(), p.Reason, p.Message, p.Needs}
}

func usageOf(u state.Usage) usage { return usage{u.Requested, u.Allocatable} }
