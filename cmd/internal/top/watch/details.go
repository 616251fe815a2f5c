package watch

import (
	"context"
	"sync"
	"time"

	"gnnsched/cmd/internal/top/state"
	"gnnsched/scheduler/decision/record"
	"gnnsched/scheduler/plugin/course"
)

// Asker asks a scheduler.
type Asker interface {
	// Last returns the last decisions, the newest first.
	Last(ctx context.Context, q record.Query) ([]record.Record, error)
	// Learning returns samples of how its learning goes.
	Learning(ctx context.Context) (course.Samples, error)
}

// Details returns what was asked for. It waits for the scheduler and the API server if the details come from there, but
// not longer than detailsTimeout.
func (s *Source) Details(ask state.Ask) state.Details {
	out := state.Details{Node: ask.Node}
	if ask.Node != "" {
		out.Pods = s.cluster.PodsOn(ask.Node)
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
	return out
}

const (
	// detailsTimeout bounds the time that a frame waits for.
	detailsTimeout = 2 * time.Second
	// askedDecisions is how many decisions one answer holds at most, and keptDecisions how many are kept of several.
	askedDecisions = 300
	keptDecisions  = 3000
	// learningInterval is the shortest time between two questions about learning. The scheduler takes a sample every 10 s.
	learningInterval = 5 * time.Second
)

// learningLog holds the last samples of a scheduler's learning.
type learningLog struct {
	asker Asker // nil if there is no scheduler to ask
	now   func() time.Time

	mu      sync.Mutex
	asked   time.Time
	samples course.Samples
	err     error
}

// last returns the samples, asked for anew if the last ones are old. After an error these are the old ones.
func (l *learningLog) last(ctx context.Context) (course.Samples, error) {
	if l.asker == nil {
		return course.Samples{}, errNoScheduler
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if now := l.now(); l.asked.IsZero() || now.Sub(l.asked) >= learningInterval {
		ctx, cancel := context.WithTimeout(ctx, detailsTimeout)
		defer cancel()
		samples, err := l.asker.Learning(ctx)
		l.asked, l.err = now, err
		if err == nil {
			l.samples = samples // a new value, because frames hold the old one
		}
	}
	return l.samples, l.err
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
