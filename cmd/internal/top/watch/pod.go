package watch

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/client-go/kubernetes"

	"gnnsched/cmd/internal/top/state"
	"gnnsched/scheduler/decision/record"
)

// podInterval is the shortest time between two questions about one pod.
const podInterval = 5 * time.Second

// podLog holds the last answers of the API server and the schedulers about the requested pod.
type podLog struct {
	client  kubernetes.Interface
	servers []*server
	explain func(record.Record) (string, error)
	now     func() time.Time

	mu    sync.Mutex
	ask   state.PodAsk
	asked time.Time
	told  state.PodDetails // without the pod itself
}

// pod returns the known details of a pod.
func (s *Source) pod(ask state.PodAsk) *state.PodDetails {
	out := s.podLog.last(s.ctx, ask)
	out.ListedPod, out.Waits, out.Found = s.cluster.Pod(ask.Namespace, ask.Name)
	return &out
}

// last returns the events and the explained decision of a pod. It asks again if the last answers are old or about another pod.
func (l *podLog) last(ctx context.Context, ask state.PodAsk) state.PodDetails {
	l.mu.Lock()
	defer l.mu.Unlock()
	if now := l.now(); l.asked.IsZero() || l.ask != ask || now.Sub(l.asked) >= podInterval {
		if l.ask != ask {
			l.told = state.PodDetails{}
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
func (l *podLog) events(ctx context.Context, ask state.PodAsk) ([]state.Event, error) {
	about := fields.Set{"involvedObject.kind": "Pod", "involvedObject.name": ask.Name}
	return listEvents(ctx, l.client, ask.Namespace, metav1.ListOptions{FieldSelector: about.String(), Limit: mostEvents})
}

// decide finds the decision about a pod, and explains it unless that is done already.
func (l *podLog) decide(ctx context.Context, ask state.PodAsk) {
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
func (l *podLog) newest(ctx context.Context, ask state.PodAsk) (newest *record.Record, err error) {
	if len(l.servers) == 0 {
		return nil, errNoScheduler
	}
	lists, errs := make([][]record.Record, len(l.servers)), make([]error, len(l.servers))
	var asking sync.WaitGroup
	for i, x := range l.servers {
		asking.Go(func() {
			lists[i], errs[i] = x.decisions.asker.Last(ctx, record.Query{Namespace: ask.Namespace, Pod: ask.Name, Limit: 1})
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
