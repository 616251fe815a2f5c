package value

import (
	"errors"
	"math"
	"math/rand/v2"

	"gnnsched/internal/cluster"
	"gnnsched/scheduler/policy"
	"gnnsched/scheduler/sim"
	"gnnsched/workload/trace/openb"
)

// Leaving configures episodes in which pods come and go (sim.Steady), with the lifetimes that they had in the
// trace. Workloads without lifetimes are played as usual. All fields are required.
type Leaving struct {
	Share    float64 `json:"share"`    // of the episodes and of the held-out workloads; over 0, at most 1
	Least    float64 `json:"least"`    // smallest offered load, over the cluster's GPUs
	Most     float64 `json:"most"`     // largest one; an episode's is drawn between both
	Hours    float64 `json:"hours"`    // length of an episode, after the pods that run at first are placed
	HalfLife float64 `json:"halfLife"` // hours after which a moment counts half
}

func (l *Leaving) validate() error {
	switch {
	case l == nil:
		return nil
	case !(l.Share > 0 && l.Share <= 1):
		return errors.New("leaving.share: must be over 0 and at most 1")
	case !(l.Least > 0 && l.Most >= l.Least && l.Most <= 10):
		return errors.New("leaving.least and leaving.most: must be over 0 and at most 10, and least at most most")
	case !(l.HalfLife > 0 && l.Hours > l.HalfLife && l.Hours <= 1000):
		return errors.New("leaving.hours and leaving.halfLife: the half-life must be over 0 and under the hours, which are at most 1000")
	}
	return nil
}

// draw returns the offered load of an episode, 0 if no pod leaves in it.
func (l *Leaving) draw(rng *rand.Rand, w Workload) float64 {
	if l == nil || openb.CheckLifetimes(w.Pods) != nil || rng.Float64() >= l.Share {
		return 0
	}
	return l.Least + (l.Most-l.Least)*rng.Float64()
}

// heldOut returns the offered load of held-out workload i of n, 0 if no pod leaves in it. Loads are spread evenly. The last
// workloads stay, as many as Share leaves out: one at least if it leaves out any.
func (l *Leaving) heldOut(i, n int) float64 {
	if l == nil {
		return 0
	}
	leave := n
	if l.Share < 1 {
		leave = min(max(int(math.Round(l.Share*float64(n))), 1), n-1)
	}
	if i >= leave {
		return 0
	}
	return l.Least + (l.Most-l.Least)*(float64(i)+0.5)/float64(leave)
}

// ledger holds what happens in an episode in which pods leave.
type ledger struct {
	halfLife float64 // seconds
	plan     []sim.Arrival
	count    int // decisions after the start
	services []service
	moments  []moment
}

// service is a placement.
type service struct {
	pod        *cluster.Pod
	row        int32
	from, till float64
}

// moment is the pods that wait at a decision.
type moment struct {
	at      float64
	waiting float64        // devices that waiting pods request, at most the idle ones
	pods    []*cluster.Pod // of these, one of each kind
}

const (
	secondsAnHour = 3600
	// momentEvery is the number of decisions from one moment to the next. At a load of 95 % of 6,200 devices that is a minute.
	momentEvery = 20
)

// see records the present moment, if it is due.
func (l *ledger) see(env *sim.Env) {
	if l.plan == nil {
		l.plan = env.Plan()
	}
	if !env.Filled() {
		return
	}
	if l.count++; (l.count-1)%momentEvery != 0 {
		return
	}
	m := moment{at: env.Now()}
	known := map[*cluster.Pod]bool{}
	for _, arrival := range env.Waiting() {
		pod := l.plan[arrival].Pod
		m.waiting += float64(pod.Requests.TotalGPUMilli()) / cluster.DeviceMilli
		if !known[pod] {
			known[pod] = true
			m.pods = append(m.pods, pod)
		}
	}
	m.waiting = min(m.waiting, allIdle(env))
	l.moments = append(l.moments, m)
}

// serve records that the pending pod goes to the node of a row.
func (l *ledger) serve(env *sim.Env, row int32) {
	a := l.plan[env.Next()]
	l.services = append(l.services, service{a.Pod, row, env.Now(), env.Now() + a.Lifetime})
}

// due reports whether a snapshot can have targets: pods leave already, and at least a half-life follows.
func (l *ledger) due(env *sim.Env) bool {
	end := 0.0
	if s := env.Config().OpenB.Steady; s != nil {
		end = l.plan[len(l.plan)-1].At - l.halfLife
	}
	return env.Filled() && env.Now() < end
}

// prices returns for each pod of the plan the share of the time in which a pod like it would have to wait: one that
// asks for no more waits.
func (l *ledger) prices(end float64) map[*cluster.Pod]float64 {
	type kind struct {
		pod   *cluster.Pod
		waits float64
	}
	var total float64
	waited := map[*cluster.Pod]bool{}
	for _, m := range l.moments {
		for _, p := range m.pods {
			waited[p] = true
		}
	}
	out := map[*cluster.Pod]float64{}
	var kinds []kind
	for _, s := range l.services {
		if _, known := out[s.pod]; !known {
			out[s.pod] = 0
			kinds = append(kinds, kind{pod: s.pod})
		}
	}
	harder := map[*cluster.Pod][]int{} // by a pod that waits: the kinds that ask for at least as much
	for p := range waited {
		for i := range kinds {
			if asMuch(kinds[i].pod, p) {
				harder[p] = append(harder[p], i)
			}
		}
	}
	last := make([]int, len(kinds)) // number of the latest moment in which the kind waits, from 1
	for i, m := range l.moments {
		until := end
		if i+1 < len(l.moments) {
			until = l.moments[i+1].at
		}
		total += until - m.at
		for _, p := range m.pods {
			for _, k := range harder[p] {
				if last[k] != i+1 {
					last[k] = i + 1
					kinds[k].waits += until - m.at
				}
			}
		}
	}
	for _, k := range kinds {
		out[k.pod] = k.waits / max(total, 1e-9)
	}
	return out
}

// targets returns the target of each node of each state, in devices; none for a state after which nothing scarce
// happens. The states have the order of their decisions, and end is the time at which the episode ends.
//
// The cost of a moment is the devices that pods wait for though they are idle. Its mean over the time after a state, discounted
// by the half-life, is what the targets of all nodes add up to. As in targets, the target of a node is k times its idle devices minus
// what it serves later: the mean, discounted likewise, of the devices of pods that are placed there after the state, at their prices
// (prices). k is the same number for all nodes.
func (l *ledger) targets(states []state, end float64) [][]float32 {
	if len(states) == 0 {
		return nil
	}
	start := states[0].at
	weight := func(at float64) float64 { return math.Exp2(-(min(at, end) - start) / l.halfLife) }
	prices := l.prices(end)
	served := map[int32]float64{}
	var all, cost float64
	out := make([][]float32, len(states))
	service, moment, until := len(l.services), len(l.moments), end
	for i := len(states) - 1; i >= 0; i-- {
		s := &states[i]
		for ; service > s.services; service-- {
			x := &l.services[service-1]
			devices := float64(x.pod.Requests.TotalGPUMilli()) / cluster.DeviceMilli * prices[x.pod] * (weight(x.from) - weight(x.till))
			served[x.row] += devices
			all += devices
		}
		for ; moment > 0 && l.moments[moment-1].at >= s.at; moment-- {
			m := &l.moments[moment-1]
			cost += m.waiting * (weight(m.at) - weight(until))
			until = m.at
		}
		waits := cost   // after the state
		if moment > 0 { // the moment before the state lasts until the next one
			waits += l.moments[moment-1].waiting * (weight(s.at) - weight(until))
		}
		if all+waits == 0 {
			continue
		}
		left := weight(s.at) - weight(end)
		k := (waits + all) / left / max(s.all, 1e-9)
		for j, row := range s.rows {
			out[i] = append(out[i], float32(k*s.idle[j]-served[row]/left))
		}
	}
	return out
}

// allIdle returns the idle devices of all nodes.
func allIdle(env *sim.Env) (sum float64) {
	for _, n := range env.Snapshot().Nodes {
		sum += idle(n)
	}
	return sum
}

// start returns a simulator of a workload in which pods come and go at an offered load, or stay if it is 0.
func (p *player) start(w Workload, load float64) (*sim.Env, error) {
	if load == 0 {
		return p.env(w)
	}
	return p.newEnv(w, &sim.Steady{Load: load, Duration: p.config.Leaving.Hours * secondsAnHour})
}

// setting returns what a policy may know of the workload. Where pods leave, typical pods count by the time for which they
// run, as a scheduler that has run for long counts them.
func setting(env *sim.Env) policy.Setting {
	s := policy.Setting{Typical: env.Typical()}
	if running := env.TypicalRunning(); running != nil {
		s.Typical = running
	}
	return s
}
