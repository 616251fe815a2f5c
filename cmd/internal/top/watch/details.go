package watch

import (
	"context"
	"slices"
	"sync"
	"time"

	"gnnsched/cmd/internal/top/state"
	"gnnsched/scheduler/decision/record"
	"gnnsched/scheduler/plugin/course"
	"gnnsched/scheduler/shadow"
	"gnnsched/scheduler/usage"
)

// Server is a scheduler to ask.
type Server struct {
	Name  string // distinguishes it from the others; empty for the only one
	Asker Asker
}

// Asker asks a scheduler.
type Asker interface {
	// Last returns the last decisions, the newest first.
	Last(ctx context.Context, q record.Query) ([]record.Record, error)
	// Learning returns samples of how its learning goes.
	Learning(ctx context.Context) (course.Samples, error)
	// Shadow returns its findings in the shadow of another scheduler.
	Shadow(ctx context.Context) (shadow.Live, error)
	// Usage returns the measurements of its sources of usage.
	Usage(ctx context.Context) ([]usage.Report, error)
}

// server is a scheduler with its last answers.
type server struct {
	name      string
	decisions decisionLog
	learning  answer[course.Samples]
	shadow    answer[shadow.Live]
	usage     answer[[]usage.Report]
}

func serversOf(cfg Config) []*server {
	all := make([]*server, len(cfg.Servers))
	for i, s := range cfg.Servers {
		all[i] = &server{
			name: s.Name, decisions: decisionLog{server: s.Name, asker: s.Asker},
			learning: answer[course.Samples]{ask: s.Asker.Learning, every: learningInterval, now: cfg.Now},
			shadow:   answer[shadow.Live]{ask: s.Asker.Shadow, every: shadowInterval, now: cfg.Now},
			usage:    answer[[]usage.Report]{ask: s.Asker.Usage, every: reportInterval, now: cfg.Now},
		}
	}
	return all
}

// Details returns what was asked for. It waits for the schedulers and the API server if the details come from there, but
// not longer than detailsTimeout.
func (s *Source) Details(ask state.Ask) state.Details {
	out := state.Details{Node: ask.Node}
	if ask.Node != "" {
		out.Pods, out.Cards = s.cluster.PodsOn(ask.Node), s.cluster.CardsOf(ask.Node)
	}
	if ask.Pods.Asked {
		out.Pods = s.cluster.Pods(ask.Pods)
	}
	if ask.Pod.Name != "" {
		out.Pod = s.pod(ask.Pod)
	}
	if ask.Devices {
		out.Devices = s.cluster.Devices()
	}
	if ask.Workloads {
		out.Workloads = s.cluster.Workloads()
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
	if !ask.Learning && !ask.Shadow && !ask.Usage {
		return out
	}
	if ask.Server < 0 || ask.Server >= len(s.servers) {
		out.LearningErr, out.ShadowErr, out.UsageErr = errNoScheduler, errNoScheduler, errNoScheduler
		return out
	}
	of := s.servers[ask.Server]
	if ask.Learning {
		out.Learning, out.LearningErr = of.learning.last(s.ctx)
	}
	if ask.Shadow {
		out.Shadow, out.ShadowErr = of.shadow.last(s.ctx)
	}
	if ask.Usage {
		out.Usage, out.UsageErr = of.usage.last(s.ctx)
	}
	return out
}

// lastDecisions asks all schedulers concurrently. It returns all decisions, the newest first, and the schedulers that did not answer.
func (s *Source) lastDecisions() (all []state.Decision, silent []state.Silent) {
	if len(s.servers) == 0 {
		return nil, []state.Silent{{Err: errNoScheduler}}
	}
	lists, errs := make([][]state.Decision, len(s.servers)), make([]error, len(s.servers))
	var asked sync.WaitGroup
	for i, x := range s.servers {
		asked.Go(func() { lists[i], errs[i] = x.decisions.last(s.ctx) })
	}
	asked.Wait()
	for i, err := range errs {
		if err != nil {
			silent = append(silent, state.Silent{Server: s.servers[i].name, Err: err})
		}
	}
	if len(lists) == 1 {
		return lists[0], silent
	}
	all = slices.Concat(lists...)
	slices.SortStableFunc(all, func(a, b state.Decision) int { return b.Time.Compare(a.Time) })
	return all, silent
}

const (
	// detailsTimeout bounds the time that a frame waits for.
	detailsTimeout = 2 * time.Second
	// askedDecisions bounds the decisions in one answer, and keptDecisions the decisions kept of several schedulers.
	askedDecisions = 300
	keptDecisions  = 3000
	// These are the shortest times between two questions. The scheduler takes a sample of its learning every 10 s, one in the
	// shadow accounts for time every second, and usage is measured every 5 s or less often.
	learningInterval = 5 * time.Second
	shadowInterval   = 2 * time.Second
	reportInterval   = 5 * time.Second
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
	kept []state.Decision // the newest first
}

// last asks for new decisions, and returns all that are kept. After an error these are the old ones.
func (l *decisionLog) last(ctx context.Context) ([]state.Decision, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, detailsTimeout)
	defer cancel()
	page, err := l.asker.Last(ctx, record.Query{Limit: askedDecisions})
	if err != nil {
		return l.kept, err
	}
	fresh := len(page)
	if len(l.kept) > 0 {
		for i := range page {
			if same(&page[i], &l.kept[0].Record) {
				fresh = i
				break
			}
		}
	}
	kept := make([]state.Decision, 0, min(fresh+len(l.kept), keptDecisions))
	for _, r := range page[:fresh] {
		kept = append(kept, state.Decision{Record: r, Server: l.server})
	}
	kept = append(kept, l.kept[:min(len(l.kept), keptDecisions-fresh)]...)
	l.kept = kept // a new list, because frames hold the old one
	return kept, nil
}

// same tells whether two records are of one decision.
func same(a, b *record.Record) bool {
	return a.UID == b.UID && a.Time.Equal(b.Time) && a.Profile == b.Profile && a.Number == b.Number && a.Pod == b.Pod
}
