package compare

import (
	"math/rand/v2"
	"slices"
	"time"

	joined "gnnsched/internal/blocks"
	"gnnsched/scheduler/replay"
)

// unrecorded says why there is no row of what really happened.
const unrecorded = "the record does not say when and where pods got their nodes"

// reality is the name of the first row.
const reality = "really"

// result is what the command prints.
type result struct {
	From      time.Time `json:"from"`
	To        time.Time `json:"to"`
	Objective string    `json:"objective"`
	// The rows are in this order: what really happened, the present profile, the others. If the first is missing, Unrecorded says why.
	Rows       []row         `json:"rows"`
	Unrecorded string        `json:"unrecorded,omitempty"`
	Lacks      []replay.Lack `json:"lacks"`
	Notes      []string      `json:"notes,omitempty"`
	// Speed is the number of seconds of the record in a real second of the live rows; 0 without --live.
	Speed float64 `json:"speed,omitempty"`

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
	// Differences are by figure. The present profile is compared with what really happened, and the others with the present profile.
	Differences map[string]difference `json:"differences,omitempty"`
	Live        *liveRow              `json:"live,omitempty"`
}

// rowOf returns the row of a course, without differences.
func rowOf(name string, c replay.Course) row {
	out := row{Name: name, Pods: c.Pods, Figures: map[string]float64{}, P95: c.WaitQuantile(0.95), Unscheduled: c.Unscheduled,
		NeverRan: c.NeverRan, Preempted: c.Preempted, Fallbacks: c.Fallbacks, Refused: c.Refused}
	whole := c.Whole()
	for _, f := range figures {
		out.Figures[f.name] = f.of(whole)
	}
	return out
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
	amount              func(replay.Block) float64 // of what the mean is over: seconds or pods
}

func metric(m replay.Metric) func(replay.Block) float64 {
	return func(b replay.Block) float64 { return b.Mean(m) }
}

func seconds(b replay.Block) float64 { return b.Seconds }
func pods(b replay.Block) float64    { return b.Pods }

var figures = []figure{
	{"wait_s", "wait", "%.2f", replay.Block.Wait, pods},
	{"waiting_pods", "waiting", "%.2f", metric(replay.Waiting), seconds},
	{"nodes_in_use", "nodes in use", "%.2f", metric(replay.Nodes), seconds},
	{"unevenness", "unevenness", "%.4f", metric(replay.Unevenness), seconds},
	{"watts", "watts", "%.0f", metric(replay.Watts), seconds},
	{priceFigure, "price/h", "%.3f", metric(replay.Price), seconds},
	{"cost", "cost", "%.5f", metric(replay.Cost), seconds},
}

const priceFigure = "price_per_hour"

// baseline returns the index of the row of the present profile.
func (r result) baseline() int {
	if r.Unrecorded != "" {
		return 0
	}
	return 1
}

// compare makes the rows of courses. Without what really happened, the first course is that of the present profile.
func compare(s *replay.Source, names []string, courses []replay.Course, seed uint64) result {
	out := result{From: time.UnixMilli(s.From).UTC(), To: time.UnixMilli(s.To).UTC(), Lacks: s.Lacks(), Notes: slices.Clone(s.Notes)}
	if !s.Bound() {
		out.Unrecorded = unrecorded
	}
	for i, c := range courses {
		r := rowOf(names[i], c)
		if i > 0 {
			r.Differences = map[string]difference{}
			for _, f := range figures {
				r.Differences[f.name] = differ(courses[min(i-1, out.baseline())], c, f, rand.New(rand.NewPCG(seed, 1)))
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
// which are joined until they hardly depend on each other. Stretches that have nothing of what the mean is over are left out. There
// is no interval if fewer than joined.Min have some of it in both courses.
func differ(a, b replay.Course, f figure, rng *rand.Rand) difference {
	value := func(p pair) float64 { return f.of(p.b) - f.of(p.a) }
	var list []pair
	var whole pair
	for i := range a.Blocks {
		p := pair{a.Blocks[i], b.Blocks[i]}
		whole = whole.Plus(p)
		if f.amount(p.a)+f.amount(p.b) > 0 {
			list = append(list, p)
		}
	}
	out := difference{Mean: value(whole)}
	list, lag := joined.Join(list, value)
	both := 0
	for _, p := range list {
		if f.amount(p.a) > 0 && f.amount(p.b) > 0 {
			both++
		}
	}
	if both < joined.Min || lag > joined.MaxLag {
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
