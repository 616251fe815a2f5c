package plan

import (
	"context"
	"fmt"
	"math"
	"strings"
	"time"

	"gnnsched/internal/covering"
	"gnnsched/scheduler/replay"
)

// Mixes are the cheapest mixes of types that were found for each profile.
type Mixes struct {
	From       time.Time     `json:"from"`
	To         time.Time     `json:"to"`
	Types      []TypeInfo    `json:"types"`
	Workers    int           `json:"workers"` // recorded nodes that the mix replaces
	Paid       *float64      `json:"recorded_price,omitempty"`
	Control    int           `json:"control"` // nodes of the control plane, which stay and cost nothing here
	Wait       float64       `json:"target_wait_s"`
	Percentile float64       `json:"target_percentile"`
	Profiles   []MixOf       `json:"profiles"`
	Lacks      []replay.Lack `json:"lacks"`
	Notes      []string      `json:"notes,omitempty"`
}

// TypeInfo describes a type to readers.
type TypeInfo struct {
	Name     string  `json:"name"`
	Price    float64 `json:"price"` // an hour
	MilliCPU int64   `json:"cpu_milli"`
	Memory   int64   `json:"memory_bytes"`
	Pods     int64   `json:"pods"`
	GPU      int64   `json:"gpu"`
	Limit    int     `json:"limit"` // nodes at most
}

// MixOf is the cheapest mix that was found for one profile.
type MixOf struct {
	Profile  string         `json:"profile"`
	Recorded Outcome        `json:"recorded"` // on the recorded nodes
	Found    bool           `json:"found"`
	Why      string         `json:"why,omitempty"` // no mix was found
	Mix      map[string]int `json:"mix,omitempty"` // nodes of each type; types without nodes are left out
	Price    float64        `json:"price"`         // an hour
	With     Outcome        `json:"with"`          // on the mix
	Bound    float64        `json:"bound"`         // no mix that meets the target costs less
	By       string         `json:"bound_by,omitempty"`
	Ended
}

// Types are the node types of mixes, in any order.
type Types []Type

// FindMixes looks for the cheapest mix of the types that holds the recorded work, for each profile. If ctx ends, it returns its findings so
// far. progress gets the number of evaluations. The error is a *MisfitError if the number of pods that fit no type exceeds the number
// without a node on the recorded nodes.
func (l Types) FindMixes(
	ctx context.Context, s replay.Source, profiles []Profile, t Target, progress func(profile string, evaluations int),
) (Mixes, error) {
	list, control := workers(&s)
	out := Mixes{
		From: time.UnixMilli(s.From).UTC(), To: time.UnixMilli(s.To).UTC(), Workers: len(list), Control: len(control),
		Wait: t.Wait.Seconds(), Percentile: 100 * t.Share, Lacks: s.Lacks(), Notes: s.Notes,
	}
	for i := range l {
		n := &l[i].Nodes[0]
		out.Types = append(out.Types, TypeInfo{l[i].Name, l[i].Price, n.MilliCPU, n.Memory, n.Pods, n.GPU, l[i].Limit})
	}
	sets, static := daemonSets(&s)
	if len(sets) > 0 {
		out.Notes = append(out.Notes[:len(out.Notes):len(out.Notes)],
			fmt.Sprintf("%d DaemonSets have a pod on each node of the mix that takes it", len(sets)))
	}
	if static > 0 {
		out.Notes = append(out.Notes[:len(out.Notes):len(out.Notes)],
			fmt.Sprintf("%d static pods of recorded workers have none on the nodes of the mix", static))
	}
	f, err := newFleet(s, l)
	if err != nil {
		return out, err
	}
	s = anew(s)
	for _, p := range profiles {
		b := &purchase{fleet: f, tried: map[string]Outcome{}, out: MixOf{Profile: p.Name}}
		b.trials = trials{p, t, progress, &b.out.Ended}
		err := b.run(ctx, s)
		if err != nil && ctx.Err() == nil {
			return out, err
		}
		out.Profiles = append(out.Profiles, b.result())
		if ctx.Err() != nil {
			break
		}
	}
	return out, nil
}

// Recorded returns the cost of the recorded workers per hour, on average over the window; known is false if a price is missing.
func Recorded(s *replay.Source, prices *replay.Prices) (perHour float64, known bool) {
	for i := range s.Nodes {
		n := &s.Nodes[i]
		from, to := max(n.From, s.From), s.To
		if n.To != 0 {
			to = min(n.To, s.To)
		}
		if isControl(n) || to <= from {
			continue
		}
		price, known := prices.Of(n)
		if !known {
			return 0, false
		}
		perHour += price * float64(to-from) / float64(s.To-s.From)
	}
	return perHour, true
}

// purchase is the search of one profile.
type purchase struct {
	trials
	fleet *fleet

	rows   []covering.Row // offers that every mix needs to hold the work
	peaks  []float64      // the largest sums of the requests of the pods of the same rows
	there  []float64      // of that, what control-plane nodes offer
	names  []string       // of the rows
	tried  map[string]Outcome
	played [][]int // the same mixes
	fails  [][]int // mixes that do not hold the work
	best   []int   // nil: none yet
	out    MixOf
}

func (b *purchase) run(ctx context.Context, s replay.Source) error {
	var err error
	if b.out.Recorded, err = b.play(ctx, s); err != nil {
		return b.stop(ctx, err)
	}
	inner, cancel := context.WithCancel(ctx)
	defer cancel() // ends the plugins
	if err := b.fleet.settleAgents(inner, b.profile); err != nil {
		return b.stop(ctx, err)
	}
	x, err := b.fleet.classify(inner, b.profile)
	if err != nil {
		return b.stop(ctx, err)
	}
	if x.lost > b.out.Recorded.Unplaced {
		return &MisfitError{b.profile.Name, x.misfits, x.lost}
	}
	b.bound(x)
	least, ok := b.problem(0).Solve()
	if !ok {
		b.out.Why = fmt.Sprintf("all nodes of the types together offer too little %s", b.names[least.Row])
		return nil
	}
	b.out.Bound = least.Bound
	if least.Row >= 0 {
		b.out.By = b.names[least.Row]
	}
	if err := b.grow(ctx); err != nil {
		return b.stop(ctx, err)
	}
	if b.best == nil {
		return nil
	}
	return b.stop(ctx, b.search(ctx))
}

// bound computes what every mix must offer at least. Each row is an amount that the pods of a set need of the nodes on which they fit. A
// node counts with the part that pods of their sizes can fill.
func (b *purchase) bound(x *fitting) {
	f := b.fleet
	for i, set := range x.sets(len(f.types)) {
		counts := x.counts(set)
		least := need(&f.source, b.target, b.out.Recorded, counts)
		peak := need(&f.source, Target{Share: 1}, Outcome{}, counts)
		asked := sizesOf(&f.source, counts)
		for d, name := range dimensions {
			rooms := make([]float64, len(f.types))
			for k := range f.types {
				if set.on[k] {
					rooms[k] = f.offer(k)[d]
				}
			}
			r := covering.Row{Offers: asked.filled(d, rooms), Needs: least[d]}
			there := 0.0
			for i := range f.control {
				if set.control {
					there += offered(&f.control[i])[d]
				}
			}
			r.Needs -= there
			b.there = append(b.there, there)
			if i > 0 {
				name += fmt.Sprintf(" of pods that fit %s only", f.names(set))
			}
			b.rows, b.peaks, b.names = append(b.rows, r), append(b.peaks, peak[d]), append(b.names, name)
		}
	}
}

// offer returns what one node of a type offers at most, less the DaemonSets' pods that nothing preempts.
func (f *fleet) offer(k int) (most amounts) {
	for i := range f.types[k].Nodes {
		one := offered(&f.types[k].Nodes[i])
		for _, p := range f.agents[f.first[k]+i] {
			if p.Priority >= f.top {
				for d, x := range requested(&p) {
					one[d] -= x
				}
			}
		}
		for d := range one {
			most[d] = max(most[d], one[d]) // not below 0
		}
	}
	return most
}

// problem returns the cover of a level. Level 0 is the least need and 1 the pods' peak requests. Levels between are interpolated, and 2 is
// twice the peak.
func (b *purchase) problem(level float64) covering.Problem {
	p := covering.Problem{}
	for i, r := range b.rows {
		least := r.Needs + b.there[i]
		if top := max(b.peaks[i], least); level > 1 {
			r.Needs = level*top - b.there[i]
		} else {
			r.Needs += level * (top - least)
		}
		p.Rows = append(p.Rows, r)
	}
	for _, t := range b.fleet.types {
		p.Prices, p.Limits = append(p.Prices, t.Price), append(p.Limits, t.Limit)
	}
	return p
}

func (b *purchase) price(counts []int) (sum float64) {
	for k, n := range counts {
		sum += b.fleet.types[k].Price * float64(n)
	}
	return sum
}

func (b *purchase) result() MixOf {
	if b.best == nil {
		return b.out
	}
	b.out.Found, b.out.Why, b.out.Mix, b.out.Price = true, "", map[string]int{}, b.price(b.best)
	for k, n := range b.best {
		if n > 0 {
			b.out.Mix[b.fleet.types[k].Name] = n
		}
	}
	b.out.Bound = math.Min(b.out.Bound, b.out.Price) // rounding
	return b.out
}

// names lists the types of a set.
func (f *fleet) names(set class) string {
	var out []string
	for k, on := range set.on {
		if on {
			out = append(out, f.types[k].Name)
		}
	}
	if set.control {
		out = append(out, "control-plane nodes")
	}
	return among(out)
}

// among joins names; of many, it gives the first ones.
func among(names []string) string {
	const most = 4
	text := strings.Join(names[:min(len(names), most)], ", ")
	if more := len(names) - most; more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}
