package compare

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"gnnsched/cmd/internal/report"
	"gnnsched/scheduler/eval"
	"gnnsched/scheduler/replay"
	"gnnsched/scheduler/shadow"
)

// unrecorded explains why the row of the real placements is missing.
const unrecorded = "the record does not say when and where pods got their nodes"

// reality is the name of the first row.
const reality = "really"

// result holds the figures that the command prints.
type result struct {
	Scenario  string    `json:"scenario,omitempty"` // that was played; empty for a record
	About     string    `json:"about,omitempty"`    // the scenario
	From      time.Time `json:"from"`
	To        time.Time `json:"to"`
	Objective string    `json:"objective"`
	// The rows are in this order: the real placements, the present profile, the others. If the first is missing, Unrecorded explains why.
	Rows       []row         `json:"rows"`
	Unrecorded string        `json:"unrecorded,omitempty"`
	Lacks      []replay.Lack `json:"lacks"`
	Notes      []string      `json:"notes,omitempty"`
	Seeds      []uint64      `json:"seeds"`            // of the draws in the simulated rows
	Answer     string        `json:"answer,omitempty"` // of the search for a cheap setting; without a full stop
	// Verdicts are on the profiles after the present one, in their order.
	Verdicts []verdict `json:"verdicts"`
	// Observed holds frames and decisions of the first seed.
	Observed *eval.Observed `json:"observed,omitempty"`

	view
}

// view is which figures are shown.
type view struct {
	priced bool // --prices
	scaled bool // --autoscaler
}

// runs are the courses of a contender, one for each seed; what really happened has one.
type runs []replay.Course

// row has the means over the courses of a contender.
type row struct {
	Name        string             `json:"name"`
	Change      string             `json:"change,omitempty"` // of the first row, in a search
	Pods        int                `json:"pods"`
	Figures     map[string]float64 `json:"figures"`
	P95         float64            `json:"wait_p95_s"`
	Unscheduled float64            `json:"unscheduled"`
	NeverRan    float64            `json:"never_ran"`
	Preempted   float64            `json:"preempted"`
	Fallbacks   int                `json:"fallbacks,omitempty"` // of all seeds together
	Refused     int                `json:"refused,omitempty"`   // of all seeds together
	// Differences are by figure. The present profile is compared with the real placements, and the others with the present profile.
	Differences map[string]difference `json:"differences,omitempty"`
	Scaled      *activity             `json:"autoscaler,omitempty"`
	Owners      *reactions            `json:"owners,omitempty"`
}

// reactions counts what owners of pods did, in means over the courses.
type reactions struct {
	PodHours   float64 `json:"pod_hours"` // of pods with an owner, as recorded
	Off        float64 `json:"off"`       // share of these by which the pods of each owner differ from the record, over time
	Abandoned  float64 `json:"abandoned"`
	FailedJobs float64 `json:"failed_jobs"`
	Unmade     float64 `json:"unmade"`
}

// reactionsOf returns what owners did in the courses of a contender; nil if they did nothing and the record knows none.
func reactionsOf(all runs) *reactions {
	var out reactions
	n := float64(len(all))
	for _, c := range all {
		out.PodHours += c.OwnedHours / n
		out.Off += c.OffHours / n
		out.Abandoned, out.FailedJobs, out.Unmade = out.Abandoned+float64(c.Abandoned)/n, out.FailedJobs+float64(c.FailedJobs)/n,
			out.Unmade+float64(c.Unmade)/n
	}
	if out == (reactions{}) {
		return nil
	}
	if out.PodHours > 0 {
		out.Off /= out.PodHours
	}
	return &out
}

// notes returns sentences about what owners did in the row of a name. r may be nil.
func (r *reactions) notes(name string) (out []string) {
	if r == nil {
		return nil
	}
	const most = 0.01
	for _, x := range []struct {
		n    float64
		text string
	}{
		{r.Abandoned, "%s pods that lost their node are gone, because no owner makes them anew"},
		{r.FailedJobs, "%s Jobs failed, because they had no try left for a pod that lost its node"},
		{r.Unmade, "%s pods of the record were never made, because their owner waited for other pods or had failed"},
	} {
		if x.n > 0 {
			out = append(out, name+": "+fmt.Sprintf(x.text, count(x.n)))
		}
	}
	if r.Off > most {
		out = append(out, fmt.Sprintf("%s: over time, owners have %s %% other pods than recorded", name, count(100*r.Off)))
	}
	return out
}

// activity counts what an autoscaler did, in means over the courses.
type activity struct {
	P50           float64            `json:"wait_p50_s"`
	Started       float64            `json:"started"`
	Failed        float64            `json:"failed"`
	Interrupted   float64            `json:"interrupted"`
	Evicted       float64            `json:"evicted"`
	LostCoreHours float64            `json:"lost_core_hours"`
	Hours         map[string]float64 `json:"node_hours"` // by type
}

// activityOf returns what the autoscaler did in the courses of a contender.
func activityOf(all runs) *activity {
	out := &activity{Hours: map[string]float64{}}
	n := float64(len(all))
	for _, c := range all {
		out.P50 += c.WaitQuantile(0.5) / n
		for to, x := range map[*float64]int{
			&out.Started: c.Started, &out.Failed: c.Failed, &out.Interrupted: c.Interrupted, &out.Evicted: c.Evicted,
		} {
			*to += float64(x) / n
		}
		out.LostCoreHours += c.LostCoreHours / n
		for name, hours := range c.Hours {
			out.Hours[name] += hours / n
		}
	}
	return out
}

// rowOf returns the row of a contender, without differences.
func rowOf(v view, name string, all runs) row {
	out := row{Name: name, Pods: all[0].Pods, Figures: map[string]float64{}, Owners: reactionsOf(all)}
	n := float64(len(all))
	for _, c := range all {
		out.P95 += c.WaitQuantile(0.95) / n
		out.Unscheduled, out.NeverRan, out.Preempted = out.Unscheduled+float64(c.Unscheduled)/n, out.NeverRan+float64(c.NeverRan)/n,
			out.Preempted+float64(c.Preempted)/n
		out.Fallbacks, out.Refused = out.Fallbacks+c.Fallbacks, out.Refused+c.Refused
	}
	whole := all.whole()
	for _, f := range v.figures() {
		out.Figures[f.name] = f.of(whole)
	}
	if v.scaled {
		out.Scaled = activityOf(all)
	}
	return out
}

// whole returns the whole time of all courses as one block.
func (r runs) whole() (out replay.Block) {
	for _, c := range r {
		out = out.Plus(c.Whole())
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
	name, title string
	digits      int // after the point
	of          func(replay.Block) float64
	amount      func(replay.Block) float64 // denominator of the mean: seconds or pods
	shown       func(view) bool            // nil: always
}

func metric(m replay.Metric) func(replay.Block) float64 {
	return func(b replay.Block) float64 { return b.Mean(m) }
}

func seconds(b replay.Block) float64 { return b.Seconds }
func pods(b replay.Block) float64    { return b.Pods }

var figures = []figure{
	{"wait_s", "wait", 2, replay.Block.Wait, pods, nil},
	{"waiting_pods", "waiting", 2, metric(replay.Waiting), seconds, nil},
	{"nodes", "nodes", 2, metric(replay.Machines), seconds, withAutoscaler},
	{"idle_cores", "idle cores", 1, metric(replay.Idle), seconds, withAutoscaler},
	{"nodes_in_use", "nodes in use", 2, metric(replay.Nodes), seconds, without},
	{"imbalance", "load imbalance", 4, metric(replay.Imbalance), seconds, nil},
	{"watts", "watts", 0, metric(replay.Watts), seconds, nil},
	{priceFigure, "price/h", 3, metric(replay.Price), seconds, without},
	{"cost", "cost", 5, metric(replay.Cost), seconds, without},
	{billFigure, "price/day", 2, func(b replay.Block) float64 { return 24 * b.Mean(replay.Bill) }, seconds, withAutoscaler},
}

func withAutoscaler(v view) bool { return v.scaled }
func without(v view) bool        { return !v.scaled }

// figures returns the figures that rows have. The last one judges.
func (v view) figures() []figure {
	return slices.DeleteFunc(slices.Clone(figures), func(f figure) bool { return f.shown != nil && !f.shown(v) })
}

// judged returns the figure of the verdicts.
func (v view) judged() figure {
	all := v.figures()
	return all[len(all)-1]
}

const billFigure = "price_per_day"

const priceFigure = "price_per_hour"

// baseline returns the index of the row of the present profile.
func (r result) baseline() int {
	if r.Unrecorded != "" {
		return 0
	}
	return 1
}

// compare makes the rows of contenders. Without what really happened, the first is the present profile.
func compare(s *replay.Source, v view, names []string, courses []runs, seeds []uint64) result {
	out := result{
		view:  v,
		Seeds: seeds, From: time.UnixMilli(s.From).UTC(), To: time.UnixMilli(s.To).UTC(), Lacks: s.Lacks(), Notes: slices.Clone(s.Notes),
	}
	if !s.Bound() {
		out.Unrecorded = unrecorded
	}
	for i, c := range courses {
		r := rowOf(v, names[i], c)
		if i > 0 {
			r.Differences = map[string]difference{}
			for _, f := range v.figures() {
				r.Differences[f.name] = v.differ(courses[min(i-1, out.baseline())], c, f, rand.New(rand.NewPCG(resampling, 1)))
			}
		}
		out.Rows = append(out.Rows, r)
		for _, course := range c {
			for _, note := range course.Notes {
				if !slices.Contains(out.Notes, note) {
					out.Notes = append(out.Notes, note)
				}
			}
		}
	}
	for _, x := range out.Rows[out.baseline()+1:] {
		out.Verdicts = append(out.Verdicts, out.verdict(x))
	}
	return out
}

// stretch is a stretch of time of two contenders, by seed. One course stands for all seeds.
type stretch struct{ a, b []replay.Block }

// Plus implements shadow.Summable.
func (s stretch) Plus(o stretch) stretch { return stretch{plus(s.a, o.a), plus(s.b, o.b)} }

func plus(a, b []replay.Block) []replay.Block {
	out := slices.Clone(a)
	for i := range out {
		out[i] = out[i].Plus(b[i])
	}
	return out
}

// at returns the stretch of number i.
func (r runs) at(i int) (out []replay.Block) {
	for _, c := range r {
		out = append(out, c.Blocks[i])
	}
	return out
}

// total returns all seeds together.
func total(of []replay.Block) (out replay.Block) {
	for _, b := range of {
		out = out.Plus(b)
	}
	return out
}

// resamples is the number of bootstrap samples, and resampling the seed of their draws, which is the same for all --seed: a verdict
// must not depend on it.
const (
	resamples  = 2000
	resampling = 1
	fewSeeds   = 3 // below, an interval over seeds says nothing
)

// differ returns the figure of b minus the figure of a. The interval is a percentile bootstrap over seeds and over stretches of time;
// adjacent stretches are joined until they hardly correlate. Stretches without any amount (seconds or pods) are left out. There is no
// interval if fewer than joined.Min stretches have some amount in both contenders; with an autoscaler it is over the seeds then, because a
// node that was started stays for hours.
func (v view) differ(a, b runs, f figure, rng *rand.Rand) difference {
	value := func(s stretch) float64 { return f.of(total(s.b)) - f.of(total(s.a)) }
	var list []stretch
	whole := stretch{make([]replay.Block, len(a)), make([]replay.Block, len(b))}
	for i := range a[0].Blocks {
		s := stretch{a.at(i), b.at(i)}
		whole = whole.Plus(s)
		if f.amount(total(s.a))+f.amount(total(s.b)) > 0 {
			list = append(list, s)
		}
	}
	out := difference{Mean: value(whole)}
	list, lag := shadow.JoinBlocks(list, value)
	both := 0
	for _, s := range list {
		if f.amount(total(s.a)) > 0 && f.amount(total(s.b)) > 0 {
			both++
		}
	}
	if both < shadow.Min || lag > shadow.MaxLag {
		if !v.scaled || len(b) < fewSeeds {
			return out
		}
		list = []stretch{whole}
	}
	draws := make([]float64, resamples)
	for i := range draws {
		draws[i] = resampled(list, f, rng)
	}
	slices.Sort(draws)
	low, high := draws[resamples*25/1000], draws[resamples*975/1000]
	out.Low, out.High = &low, &high
	return out
}

// resampled returns the difference of a figure over stretches drawn with replacement, and over one seed less than there are, also drawn
// with replacement: the mean of these has the variance of the mean over all seeds.
func resampled(list []stretch, f figure, rng *rand.Rand) float64 {
	first := list[0]
	a, b := make([]replay.Block, len(first.a)), make([]replay.Block, len(first.b))
	for range list {
		s := list[rng.IntN(len(list))]
		for k, x := range s.a {
			a[k] = a[k].Plus(x)
		}
		for k, x := range s.b {
			b[k] = b[k].Plus(x)
		}
	}
	var ours, theirs replay.Block
	seeds := max(len(a), len(b))
	for range max(seeds-1, 1) {
		k := rng.IntN(seeds)
		theirs, ours = theirs.Plus(a[min(k, len(a)-1)]), ours.Plus(b[min(k, len(b)-1)])
	}
	return f.of(ours) - f.of(theirs)
}

// verdict judges a profile against the present one.
type verdict struct {
	Profile string       `json:"profile"`
	State   report.State `json:"state"`
	Text    string       `json:"text"` // a sentence without a full stop
}

// rule explains how differences are marked. Its arguments are the words for a mark and for an unclear one, and the name of the present
// profile.
const rule = "%s a difference whose 95 %% interval lies beyond the distance of the simulated %s from what really happened; " +
	"%s one whose interval excludes only 0."

// rules explains the marks. Its arguments are the words for a mark and for an unclear one.
func (r result) rules(mark, unclear string) string {
	if r.scaled {
		return mark + " a difference whose 95 % interval excludes 0: over stretches of time or, where these hang together, over the seeds alone."
	}
	return fmt.Sprintf(rule, mark, r.Rows[r.baseline()].Name, unclear)
}

// distance returns the difference of a figure between the simulated present profile and the real placements; 0 if it is not known.
func (r result) distance(f figure) float64 {
	return math.Abs(r.Rows[r.baseline()].Differences[f.name].Mean)
}

// mark returns the mark of a difference from the present profile, which must exceed the replay's distance from reality. An unknown distance
// counts as infinite. The mark is Unmarked if there is no interval or no pod came.
func (r result) mark(d difference, f figure) eval.Mark {
	if d.Low == nil || r.nothingCame() {
		return eval.Unmarked
	}
	far := r.distance(f)
	switch {
	case r.scaled: // what really happened had other nodes
		far = 0
	case r.Unrecorded != "":
		far = math.Inf(1)
	}
	return d.interval().Beyond(far)
}

// verdict judges a profile by its cost, or with an autoscaler by the price of the nodes, and by the pods that wait.
func (r result) verdict(x row) verdict {
	cost, waiting := r.judged(), figureOf("waiting_pods")
	present, d := r.Rows[r.baseline()].Name, x.Differences[cost.name]
	amount := cost.title + " " + d.text(cost)
	if r.scaled {
		amount = fmt.Sprintf("%.2f a day, not %.2f, %s", x.Figures[cost.name], r.Rows[r.baseline()].Figures[cost.name], d.text(cost))
	}
	direction := "less"
	if d.Mean > 0 {
		direction = "more"
	}
	out := verdict{Profile: x.Name}
	if r.nothingCame() {
		out.State, out.Text = report.Note, x.Name+": no pod came within this time, so nothing can be compared"
		return out
	}
	mark := r.mark(d, cost)
	switch mark {
	case eval.Unmarked:
		out.State, out.Text = report.Note, fmt.Sprintf("%s was compared with %s over too little time to tell: %s", x.Name, present, amount)
	case eval.None:
		out.State, out.Text = report.Level, fmt.Sprintf("%s costs as much as %s: %s", x.Name, present, amount)
	case eval.Unclear:
		out.State, out.Text = report.Unclear,
			fmt.Sprintf("%s costs %s than %s in the replay only: %s%s", x.Name, direction, present, amount, r.off(cost))
	case eval.Higher:
		out.State, out.Text = report.Worse, fmt.Sprintf("%s costs more than %s: %s%s", x.Name, present, amount, r.off(cost))
	case eval.Lower:
		out.State, out.Text = report.Better, fmt.Sprintf("%s costs less than %s: %s%s", x.Name, present, amount, r.off(cost))
	}
	if w := x.Differences[waiting.name]; r.mark(w, waiting) == eval.Higher && (r.scaled || mark == eval.Lower) {
		out.State, out.Text = report.Note, fmt.Sprintf("%s, but more pods wait: %s", out.Text, w.text(waiting))
	}
	return out
}

// off says how far the replay is from what really happened; "" with an autoscaler, since other nodes really were there.
func (r result) off(f figure) string {
	switch {
	case r.scaled:
		return ""
	case r.Unrecorded != "":
		return ", and how far the replay is from what really happened is not known"
	}
	return fmt.Sprintf(", and the replay is off by %.*f", f.digits, r.distance(f))
}

// nothingCame tells whether no row has a pod that waited for a node: all profiles then leave the cluster as it was.
func (r result) nothingCame() bool {
	return !slices.ContainsFunc(r.Rows, func(x row) bool { return x.Pods > 0 })
}

// figureOf returns the figure with a name that is written in this package.
func figureOf(name string) figure {
	for _, f := range figures {
		if f.name == name {
			return f
		}
	}
	panic("compare: no figure " + name)
}
