package watch

import (
	"context"
	"sync"
	"time"

	"gnnsched/cmd/internal/top/state"
	"gnnsched/scheduler/decision/record"
	"gnnsched/scheduler/plugin/course"
	"gnnsched/scheduler/shadow"
	"gnnsched/scheduler/usage"
)

// Asker asks a scheduler.
type Asker interface {
	// Last returns the last decisions, the newest first.
	Last(ctx context.Context, q record.Query) ([]record.Record, error)
	// Learning returns samples of how its learning goes.
	Learning(ctx context.Context) (course.Samples, error)
	// Shadow returns what it has found in the shadow of another scheduler.
	Shadow(ctx context.Context) (shadow.Live, error)
	// Usage returns what its sources of usage have measured.
	Usage(ctx context.Context) ([]usage.Report, error)
}

// Details returns what was asked for. It waits for the scheduler and the API server if the details come from there, but
// not longer than detailsTimeout.
func (s *Source) Details(ask state.Ask) state.Details {
	out := state.Details{Node: ask.Node}
	if ask.Node != "" {
		out.Pods, out.Cards = s.cluster.PodsOn(ask.Node), s.cluster.CardsOf(ask.Node)
	}
	if ask.Workloads {
		out.Workloads = s.cluster.Workloads()
	}
	if ask.Decisions {
		out.Decisions, out.DecisionsErr = s.decisions.last(s.ctx)
	}
	if ask.Events {
		out.Events, out.EventsErr = s.events.last(s.ctx)
	}
	if ask.Learning {
		out.Learning, out.LearningErr = s.learning.last(s.ctx)
	}
	if ask.Shadow {
		out.Shadow, out.ShadowErr = s.shadow.last(s.ctx)
	}
	if ask.Usage {
		out.Usage, out.UsageErr = s.usage.last(s.ctx)
	}
	return out
}

const (
	// detailsTimeout bounds the time that a frame waits for.
	detailsTimeout = 2 * time.Second
	// askedDecisions is how many decisions one answer holds at most, and keptDecisions how many are kept of several.
	askedDecisions = 300
	keptDecisions  = 3000
	// These are the shortest times between two questions. The scheduler takes a sample of its learning every 10 s, one in the
	// shadow accounts for time every second, and usage is measured every 5 s or less often.
	learningInterval = 5 * time.Second
	shadowInterval   = 2 * time.Second
	reportInterval   = 5 * time.Second
)

// answer holds the last answer of a scheduler to a question.
type answer[T any] struct {
	ask   func(context.Context) (T, error) // nil if there is no scheduler to ask
	every time.Duration                    // the shortest time between two questions
	now   func() time.Time

	mu    sync.Mutex
	asked time.Time
	known T
	err   error
}

// last returns the answer, asked for anew if the last one is old. After an error it is the old one.
func (a *answer[T]) last(ctx context.Context) (T, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.ask == nil {
		return a.known, errNoScheduler
	}
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
	asker Asker // nil if there is no scheduler to ask

	mu   sync.Mutex
	kept []record.Record // the newest first
}

// last asks for new decisions, and returns all that are kept. After an error these are the old ones.
func (l *decisionLog) last(ctx context.Context) ([]record.Record, error) {
	if l.asker == nil {
		return nil, errNoScheduler
	}
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
			if same(&page[i], &l.kept[0]) {
				fresh = i
				break
			}
		}
	}
	kept := make([]record.Record, 0, min(fresh+len(l.kept), keptDecisions))
	kept = append(kept, page[:fresh]...)
	kept = append(kept, l.kept[:min(len(l.kept), keptDecisions-fresh)]...)
	l.kept = kept // a new list, because frames hold the old one
	return kept, nil
}

// same tells whether two records are of one decision.
func same(a, b *record.Record) bool {
	return a.UID == b.UID && a.Time.Equal(b.Time) && a.Profile == b.Profile && a.Number == b.Number && a.Pod == b.Pod
}
