package compare

import (
	"math/rand/v2"
	"slices"
	"time"

	joined "gnnsched/internal/blocks"
	"gnnsched/scheduler/replay"
)

// reality is the name of the first row.
const reality = "really"

// result is what the command prints.
type result struct {
	From      time.Time     `json:"from"`
	To        time.Time     `json:"to"`
	Objective string        `json:"objective"`
	Rows      []row         `json:"rows"` // what really happened, the present profile, the others
	Lacks     []replay.Lack `json:"lacks"`
	Notes     []string      `json:"notes,omitempty"`

	priced bool
}

// row is a course.
type row struct {
	Name        string             `json:"name"`
	Pods        int                `json:"pods"`
	Figures     map[string]float64 `json:"figures"`
	P95         float64            `json:"wait_p95_s"`
	Unscheduled int                `json:"unscheduled"`
	NeverRan    int                `json:"never_ran"`
	Preempted   int                `json:"preempted"`
	Fallbacks   int                `json:"fallbacks,omitempty"`
	Refused     int                `json:"refused,omitempty"`
	// Differences are from the row before which this one is judged: the present profile's from what really happened, the others' from
	// the present profile.
	Differences map[string]difference `json:"differences,omitempty"`
}

// difference is a mean with a 95 % interval, which is nil if there are too few stretches of time.
type difference struct {
	Mean float64  `json:"mean"`
	Low  *float64 `json:"low,omitempty"`
	High *float64 `json:"high,omitempty"`
}

// figure is a column with a mean over time or pods.
type figure struct {
	name, title, format string
	of                  func(replay.Block) float64
}

func metric(m replay.Metric) func(replay.Block) float64 {
	return func(b replay.Block) float64 { return b.Mean(m) }
}

var figures = []figure{
	{"wait_s", "wait", "%.2f", replay.Block.Wait},
	{"waiting_pods", "waiting", "%.2f", metric(replay.Waiting)},
	{"nodes_in_use", "nodes in use", "%.2f", metric(replay.Nodes)},
	{"unevenness", "unevenness", "%.4f", metric(replay.Unevenness)},
	{"watts", "watts", "%.0f", metric(replay.Watts)},
	{priceFigure, "price/h", "%.3f", metric(replay.Price)},
	{"cost", "cost", "%.5f", metric(replay.Cost)},
}

const priceFigure = "price_per_hour"

// compare makes the rows of courses.
func compare(s *replay.Source, names []string, courses []replay.Course, seed uint64) result {
	out := result{From: time.UnixMilli(s.From).UTC(), To: time.UnixMilli(s.To).UTC(), Lacks: s.Lacks(), Notes: slices.Clone(s.Notes)}
	for i, c := range courses {
		whole := c.Whole()
		r := row{Name: names[i], Pods: c.Pods, Figures: map[string]float64{}, P95: c.WaitQuantile(0.95), Unscheduled: c.Unscheduled,
			NeverRan: c.NeverRan, Preempted: c.Preempted, Fallbacks: c.Fallbacks, Refused: c.Refused}
		if i > 0 {
			r.Differences = map[string]difference{}
		}
		for _, f := range figures {
			r.Figures[f.name] = f.of(whole)
			if i > 0 {
				r.Differences[f.name] = differ(courses[min(i-1, 1)], c, f.of, rand.New(rand.NewPCG(seed, 1)))
			}
		}
		out.Rows = append(out.Rows, r)
		for _, note := range c.Notes {
			if !slices.Contains(out.Notes, note) {
				out.Notes = append(out.Notes, note)
			}
		}
	}
	return out
}

// pair is a stretch of time of two courses.
type pair struct{ a, b replay.Block }

// Plus implements blocks.Block.
func (p pair) Plus(o pair) pair { return pair{p.a.Plus(o.a), p.b.Plus(o.b)} }

// resamples is the number of bootstrap samples.
const resamples = 2000

// differ returns by how much a figure of b is over that of a. The interval is the percentile bootstrap over stretches of time,
// which are joined until they hardly depend on each other.
func differ(a, b replay.Course, of func(replay.Block) float64, rng *rand.Rand) difference {
	value := func(p pair) float64 { return of(p.b) - of(p.a) }
	var list []pair
	var whole pair
	for i := range a.Blocks {
		p := pair{a.Blocks[i], b.Blocks[i]}
		whole = whole.Plus(p)
		if p.a.Seconds > 0 {
			list = append(list, p)
		}
	}
	out := difference{Mean: value(whole)}
	list, lag := joined.Join(list, value)
	if len(list) < joined.Min || lag > joined.MaxLag {
		return out
	}
	draws := make([]float64, resamples)
	for i := range draws {
		var sum pair
		for range list {
			sum = sum.Plus(list[rng.IntN(len(list))])
		}
		draws[i] = value(sum)
	}
	slices.Sort(draws)
	low, high := draws[resamples*25/1000], draws[resamples*975/1000]
	out.Low, out.High = &low, &high
	return out
}
