package migrun

import (
	"container/heap"
	"context"

	"gnnsched/internal/cluster/mig"
	"gnnsched/scheduler/eval"
	"gnnsched/scheduler/policy"
)

// Times of Steady, in mean lifetimes of pods.
const (
	warmUp  = 5.0
	measure = 20.0
)

// SteadyLoads are the offered loads of Steady, over the compute slices.
var SteadyLoads = []float64{0.8, 0.9, 0.95, 1.05}

// Queued is what happened after the warm-up where pods come and go. Times are in mean lifetimes.
type Queued struct {
	Load       float64            `json:"load"`
	Allocation float64            `json:"allocation"` // of the compute slices, 0 to 1, mean over the time
	Waiting    float64            `json:"waiting"`    // pods, mean over the time
	Arrived    [mig.Count]int     `json:"arrived"`    // by profile
	Waited     [mig.Count]float64 `json:"waited"`     // sum over the pods; those that wait at the end waited until then
	Left       [mig.Count]int     `json:"left"`       // pods without a node at the end
}

// Unscheduled returns the number of pods without a node at the end.
func (q Queued) Unscheduled() (n int) {
	for _, l := range q.Left {
		n += l
	}
	return n
}

// Wait returns the mean wait of the pods of some profiles.
func (q Queued) Wait(profiles ...mig.Profile) float64 {
	waited, arrived := 0.0, 0
	for _, p := range profiles {
		waited, arrived = waited+q.Waited[p], arrived+q.Arrived[p]
	}
	return waited / float64(max(arrived, 1))
}

// Steady plays pods that come and go. A pod that fits nowhere waits, and is tried again whenever a pod has left, in the order of arrival, as by
// kube-scheduler.
func (m Machines) Steady(ctx context.Context, x Mix, c eval.Contender, load float64, seed uint64) (Queued, error) {
	typical := m.typical(x) // lifetimes do not depend on the profile, so it is also that of the running pods
	s := newState(m, c.New(policy.Setting{Seed: seed, Typical: typical, Running: typical}), c.Ties(seed))
	q := queue{state: s, out: Queued{Load: load}}
	for _, a := range m.steady(x, load, warmUp+measure, seed) {
		if err := ctx.Err(); err != nil {
			return q.out, err
		}
		if err := q.leaveUntil(a.at); err != nil {
			return q.out, err
		}
		q.pass(a.at)
		if a.at >= warmUp {
			q.out.Arrived[a.profile]++
		}
		ok, err := q.try(a)
		if err != nil {
			return q.out, err
		}
		if !ok {
			q.waiting = append(q.waiting, a)
		}
	}
	if err := q.leaveUntil(warmUp + measure); err != nil {
		return q.out, err
	}
	q.pass(warmUp + measure)
	for _, a := range q.waiting {
		q.out.Left[a.profile]++
		q.waited(a)
	}
	q.out.Allocation /= measure
	q.out.Waiting /= measure
	return q.out, nil
}

// queue is a cluster with pods that wait and pods that leave.
type queue struct {
	*state
	now     float64
	waiting []arrival // in the order of arrival
	leaving departures
	out     Queued // Allocation and Waiting are sums over time until the end
}

// pass lets time pass.
func (q *queue) pass(until float64) {
	if span := until - max(q.now, warmUp); span > 0 {
		q.out.Allocation += span * q.allocation()
		q.out.Waiting += span * float64(len(q.waiting))
	}
	q.now = until
}

// try places a pod if it fits somewhere.
func (q *queue) try(a arrival) (bool, error) {
	at, ok, err := q.place(a)
	if ok {
		heap.Push(&q.leaving, departure{q.now + a.life, at, a.profile})
	}
	return ok, err
}

// waited counts the wait of a pod that has waited until now.
func (q *queue) waited(a arrival) {
	if a.at >= warmUp {
		q.out.Waited[a.profile] += q.now - a.at
	}
}

// leaveUntil lets pods leave until a time, and the waiting ones take their room.
func (q *queue) leaveUntil(until float64) error {
	for len(q.leaving) > 0 && q.leaving[0].at <= until {
		d := heap.Pop(&q.leaving).(departure)
		q.pass(d.at)
		q.remove(d.place, d.profile)
		if err := q.retry(); err != nil {
			return err
		}
	}
	return nil
}

// retry tries the waiting pods. If one fits nowhere, no other with its profile and model does.
func (q *queue) retry() error {
	type kind struct {
		model   int
		profile mig.Profile
	}
	futile := map[kind]bool{}
	still := q.waiting[:0]
	for i, a := range q.waiting {
		k := kind{a.model, a.profile}
		ok := false
		if !futile[k] {
			var err error
			if ok, err = q.try(a); err != nil {
				q.waiting = append(still, q.waiting[i:]...)
				return err
			}
		}
		if ok {
			q.waited(a)
		} else {
			futile[k] = true
			still = append(still, a)
		}
	}
	q.waiting = still
	return nil
}

// departure is the end of a pod.
type departure struct {
	at float64
	place
	profile mig.Profile
}

// departures implements heap.Interface: the next departure comes first.
type departures []departure

func (d departures) Len() int           { return len(d) }
func (d departures) Less(i, j int) bool { return d[i].at < d[j].at }
func (d departures) Swap(i, j int)      { d[i], d[j] = d[j], d[i] }
func (d *departures) Push(x any)        { *d = append(*d, x.(departure)) }
func (d *departures) Pop() any {
	last := (*d)[len(*d)-1]
	*d = (*d)[:len(*d)-1]
	return last
}
