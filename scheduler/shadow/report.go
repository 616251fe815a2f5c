package shadow

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"gnnsched/internal/exit"
	"gnnsched/internal/metric"
	"gnnsched/internal/table"
	"gnnsched/scheduler/advise"
	"gnnsched/scheduler/memcluster"
)

// version is the schema version of reports.
const version = "gnnsched.shadow/v1"

// Report holds the findings of a Watcher.
type Report struct {
	Version     string    `json:"version"`
	Profile     string    `json:"profile"`
	Policy      string    `json:"policy"`      // the heuristic, or Profile for a network
	Fingerprint string    `json:"fingerprint"` // of the network's checkpoint, in hexadecimal; 0 for a heuristic
	Of          []string  `json:"of"`          // the schedulerNames whose pods were compared
	Objective   string    `json:"objective"`
	From        time.Time `json:"from"`
	To          time.Time `json:"to"`
	Limits      Limits    `json:"limits"`

	Counts   Counts    `json:"counts"`
	OneStep  OneStep   `json:"oneStep"`
	Time     Times     `json:"time"`
	Failures []Failure `json:"failures,omitempty"` // the last ones

	// Placed is the fraction of the pods in the cluster in memory that the profile placed. While it is low, the two clusters are still alike
	// because of the initial pods.
	Placed float64 `json:"placed"`
	Whole  Block   `json:"whole"` // means over the whole time
	// Batches are the stretches of time behind the intervals, and Correlation is the correlation of a stretch with the next one.
	Batches     []Block   `json:"batches,omitempty"`
	Correlation float64   `json:"correlation"`
	Gain        *Estimate `json:"gain,omitempty"`        // of the objective's cost; over 0 if the profile is better
	MoreWaiting *Estimate `json:"moreWaiting,omitempty"` // pods that wait more than in reality
	Moves       *Moves    `json:"moves,omitempty"`       // by the last search
	Verdict     Verdict   `json:"verdict"`
}

// Moves says what moves of running pods would bring: the real cluster's cost before and after.
type Moves struct {
	Pods   int     `json:"pods"` // that would move
	Before float64 `json:"before"`
	After  float64 `json:"after"`
}

// Counts are numbers of pods.
type Counts struct {
	Bound       int             `json:"bound"`    // by the schedulers that are watched
	Compared    int             `json:"compared"` // of these
	Results     map[outcome]int `json:"results"`  // of the comparisons
	NotCompared map[string]int  `json:"notCompared,omitempty"`
	Fallbacks   int             `json:"fallbacks"` // decisions that upstream's scoring made instead of the profile's
	Skewed      int             `json:"skewed"`    // pods whose real node the profile's filters refuse
	Waited      int             `json:"waited"`    // pods that the other scheduler found no node for, at first
	WaitingOurs int             `json:"waitingOurs"`
	Errors      int             `json:"errors"` // of the program: events that it could not count

	behind bool // whether too many events wait
}

// chosen returns the number of comparisons in which there was something to choose.
func (c Counts) chosen() int { return c.Results[same] + c.Results[equal] + c.Results[different] }

// agreement returns the share of the same and equally good nodes among the pods with a choice.
func (c Counts) agreement() float64 { return share(c.Results[same]+c.Results[equal], c.chosen()) }

// OneStep compares the costs right after the single choices, each from the real state. They do not add up: every choice begins again from
// the other scheduler's state.
type OneStep struct {
	Better int     `json:"better"` // choices of ours that leave the lower cost
	Equal  int     `json:"equal"`
	Worse  int     `json:"worse"`
	Mean   float64 `json:"mean"` // of cost after theirs minus cost after ours

	sum float64 // of which Mean is the mean
}

// Times are the durations of the profile's decisions, filters included, in seconds.
type Times struct {
	Median float64 `json:"median"`
	P99    float64 `json:"p99"`
	Max    float64 `json:"max"`
}

// Failure is a pod that would have failed.
type Failure struct {
	Pod    string  `json:"pod"`
	What   outcome `json:"what"`
	Theirs string  `json:"theirs"`         // the node that it got
	Node   string  `json:"node,omitempty"` // the profile's choice
	Why    string  `json:"why"`
}

// Report returns what was found so far.
func (w *Watcher) Report() Report {
	c := w.counts
	c.Results, c.NotCompared = clone(c.Results), clone(c.NotCompared)
	c.WaitingOurs = len(w.ours.Waiting)
	n := w.network()
	r := Report{
		Version: version, Profile: w.config.Name, Policy: n.Policy, Fingerprint: strconv.FormatUint(n.Fingerprint, 16),
		Of: w.config.Of, Objective: w.config.Objective.Name(), From: w.begun, To: w.last, Limits: w.config.Limits,
		Counts: c, OneStep: w.gains, Time: w.times.quantiles(), Failures: slices.Clone(w.failures), Whole: w.blocks.all(), Moves: w.moves,
	}
	if n := len(w.ours.Running); n > 0 {
		r.Placed = float64(len(w.ours.Chosen)) / float64(n)
	}
	if list, lag := JoinBlocks(w.blocks.full, gained); len(list) >= Min {
		gain, more := estimate(list, gained), estimate(list, waitedLonger)
		r.Batches, r.Correlation, r.Gain, r.MoreWaiting = list, lag, &gain, &more
	}
	r.Verdict = judgeReport(r)
	return r
}

func clone[K comparable](m map[K]int) map[K]int {
	out := make(map[K]int, len(m))
	maps.Copy(out, m)
	return out
}

// Parse reads a report. Its errors have exit codes.
func Parse(text []byte) (Report, error) {
	var r Report
	if err := json.Unmarshal(text, &r); err != nil {
		return r, exit.New(exit.Usage, fmt.Errorf("it is not a report: %w", err), "rungnn --shadow --shadow-report FILE writes one")
	}
	if r.Version != version {
		return r, exit.New(exit.Usage, fmt.Errorf("its version is %q, not %s", r.Version, version), "read it with the program that wrote it")
	}
	return r, nil
}

// add adds a single choice.
func (s *OneStep) add(j judgement) {
	switch j.sign() {
	case 1:
		s.Better++
	case 0:
		s.Equal++
	default:
		s.Worse++
	}
	s.sum += j.gained
	s.Mean = s.sum / float64(s.Better+s.Equal+s.Worse)
}

// recent is the number of durations behind the quantiles.
const recent = 10_000

// durations keeps the last ones.
type durations struct {
	list []float64 // seconds
	next int
	most float64
}

func (d *durations) add(t time.Duration) {
	s := t.Seconds()
	d.most = max(d.most, s)
	if len(d.list) < recent {
		d.list = append(d.list, s)
		return
	}
	d.list[d.next] = s
	d.next = (d.next + 1) % recent
}

func (d *durations) quantiles() Times {
	if len(d.list) == 0 {
		return Times{}
	}
	sorted := slices.Sorted(slices.Values(d.list))
	at := func(q float64) float64 { return sorted[int(q*float64(len(sorted)-1))] }
	return Times{at(0.5), at(0.99), d.most}
}

var set metric.Set

var (
	decisions = set.Counters("shadow_decisions_total",
		"Pods that another scheduler bound, by how the profile's choice compares: same, equal, different, only, unschedulable or infeasible.",
		"result")
	notCompared = set.Counters("shadow_not_compared_total",
		"Pods that another scheduler bound and that are not compared, by reason.", "reason")
	duration = set.Histogram("shadow_decision_duration_seconds", // 0.1 ms to 0.8 s
		"Time of the profile's decision about a pod that another scheduler bound, filters included.", metric.Exponential(100e-6, 2, 14))
	costGauge = set.Gauges("shadow_cost",
		"The objective's cost now, of the real cluster (theirs) and of the one with the profile's choices (ours).", "cluster")
	waitingGauge = set.Gauges("shadow_waiting_pods",
		"Pods that wait because no node fits, in the real cluster (theirs) and in the one with the profile's choices (ours).", "cluster")
	gainGauge = set.Gauges("shadow_gain",
		"How much lower the cost is with the profile's choices, over the whole time: mean, and low and high end of the 95% interval. "+
			"It is there once enough blocks of time have passed.",
		"bound")
	movesGauge = set.Gauges("shadow_moves_gain",
		"By how much moves of 2% of the pods would lower the real cluster's cost. It is there after the first search; one is made every hour.")
	verdictGauge = set.Gauges("shadow_verdict", "1 for the verdict that holds now, 0 for the others.", "verdict")
	backlogGauge = set.Gauge("shadow_events_waiting", "Events of the cluster that have not been worked off.")
)

// observe sets the gauges of the two clusters.
func (w *Watcher) observe() {
	for name, c := range map[string]*memcluster.Cluster{"theirs": w.theirs, "ours": w.ours.Cluster} {
		if cost, err := c.Cost(); err == nil {
			costGauge.WithLabelValues(name).Set(cost)
		}
	}
	waitingGauge.WithLabelValues("theirs").Set(float64(len(w.waiting)))
	waitingGauge.WithLabelValues("ours").Set(float64(len(w.ours.Waiting)))
	backlogGauge.Set(float64(w.queue.length()))
}

// observe sets the gauges of the report.
func (r Report) observe() {
	if r.Gain != nil {
		gainGauge.WithLabelValues("mean").Set(r.Gain.Mean)
		gainGauge.WithLabelValues("low").Set(r.Gain.Low)
		gainGauge.WithLabelValues("high").Set(r.Gain.High)
	}
	if m := r.Moves; m != nil {
		movesGauge.WithLabelValues().Set(m.Before - m.After)
	}
	for _, a := range []Answer{Safe, notYet, notWorth} {
		value := 0.0
		if a == r.Verdict.Answer {
			value = 1
		}
		verdictGauge.WithLabelValues(string(a)).Set(value)
	}
}

// WriteText writes the report for people, the verdict first. Names that come from a file are shortened and lose their control
// characters.
func (r Report) WriteText(w io.Writer) error {
	var b bytes.Buffer
	fmt.Fprintf(&b, "%s\n\n", r.Title())
	fmt.Fprintf(&b, "%s\n", strings.ToUpper(plain(string(r.Verdict.Answer))))
	for _, why := range r.Verdict.Why {
		fmt.Fprintf(&b, "  %s\n", plain(why))
	}
	for _, note := range r.Verdict.Notes {
		fmt.Fprintf(&b, "  note: %s\n", plain(note))
	}
	if err := errors.Join(r.writeCosts(&b), r.writePods(&b)); err != nil {
		return err
	}
	for i, f := range r.Failures {
		if i == 0 {
			fmt.Fprintln(&b, "\nwould have failed, the last ones")
		}
		fmt.Fprintf(&b, "  %s: %s (really on %s): %s\n", plain(f.Pod), plain(strings.TrimSpace(string(f.What)+" "+f.Node)),
			plain(f.Theirs), plain(f.Why))
	}
	_, err := w.Write(b.Bytes())
	return err
}

func plain(text string) string { return advise.Shorten(text, 2*maxText) }

// Title names, in a line, the compared schedulers, the duration and the objective.
func (r Report) Title() string {
	length := r.To.Sub(r.From).Round(time.Second)
	return fmt.Sprintf("%s (%s) in the shadow of %s for %v, by %s", plain(r.Profile), plain(r.decider()), plain(strings.Join(r.Of, ", ")),
		length, plain(r.Objective))
}

// decider names what decides.
func (r Report) decider() string {
	if r.Fingerprint == "0" || r.Fingerprint == "" {
		return r.Policy
	}
	return "network " + r.Fingerprint
}

func (r Report) writeCosts(w io.Writer) error {
	t := table.Of("mean over the time", "real", "with "+plain(r.Profile), "difference")
	for _, m := range r.Means() {
		t.Add("  "+m.Of, m.Real, m.Ours, m.Difference)
	}
	fmt.Fprintln(w)
	err := t.Columns(w)
	if n := len(r.Batches); n > 0 {
		each := time.Duration(r.Batches[0].Seconds * float64(time.Second)).Round(time.Second)
		fmt.Fprintf(w, "  95 %% intervals from %d stretches of %v, correlation of neighbours %.2f\n", n, each, r.Correlation)
	}
	fmt.Fprintf(w, "  %.0f %% of the pods that run with %s were placed by it\n", 100*r.Placed, plain(r.Profile))
	if m := r.Moves; m != nil {
		fmt.Fprintf(w, "  moves of %d pods would lower the real cost by %.5f, from %.5f\n", m.Pods, m.Before-m.After, m.Before)
	}
	return err
}

// Mean compares a figure's mean over the time in the two clusters, in texts.
type Mean struct {
	Of         string // the figure: cost or pods waiting
	Real, Ours string
	Difference string // ours minus real, with the 95 % interval once there is one
}

// Means compares the objective's cost and the number of pods that wait.
func (r Report) Means() []Mean {
	b := r.Whole
	return []Mean{
		{"cost", fmt.Sprintf("%.5f", b.Theirs), fmt.Sprintf("%.5f", b.Ours), difference(-gained(b), r.Gain, -1)},
		{"pods waiting", fmt.Sprintf("%.2f", b.TheirsWaiting), fmt.Sprintf("%.2f", b.OursWaiting), difference(waitedLonger(b), r.MoreWaiting, 1)},
	}
}

// difference renders a mean with the interval of an estimate, if there is one, times sign.
func difference(mean float64, e *Estimate, sign float64) string {
	if e == nil {
		return fmt.Sprintf("%+.5f", mean)
	}
	low, high := sign*e.Low, sign*e.High
	return fmt.Sprintf("%+.5f (%+.5f to %+.5f)", sign*e.Mean, min(low, high), max(low, high))
}

// says are the outcomes for people.
var says = map[outcome]string{
	same: "the same node", equal: "an equally good node", different: "another node", only: "only one node fits",
	unschedulableForUs: "no node fits", infeasible: "a node that upstream's filters refuse",
}

// Result counts the comparisons with one outcome.
type Result struct {
	What  outcome `json:"what"`
	Text  string  `json:"text"`            // What for people
	Fails bool    `json:"fails,omitempty"` // the pod would have failed
	Pods  int     `json:"pods"`
	Share float64 `json:"share"` // of the pods with a choice for the same, an equal and another node; else of all compared pods
}

// results counts the comparisons by outcome, in the order in which they are shown.
func (r Report) results() []Result {
	out := make([]Result, len(outcomes))
	for i, o := range outcomes {
		of := r.Counts.Compared
		if o == same || o == equal || o == different {
			of = r.Counts.chosen()
		}
		n := r.Counts.Results[o]
		out[i] = Result{What: o, Text: says[o], Fails: o == unschedulableForUs || o == infeasible, Pods: n, Share: share(n, of)}
	}
	return out
}

func (r Report) writePods(w io.Writer) error {
	c := r.Counts
	percent := func(share float64) string { return fmt.Sprintf("%.1f %%", 100*share) }
	t := table.Of("pods", "", "")
	t.Add("  bound by "+plain(strings.Join(r.Of, ", ")), c.Bound)
	t.Add("  compared", c.Compared, percent(share(c.Compared, c.Bound)))
	for _, x := range r.results() {
		t.Add("    "+x.Text, x.Pods, percent(x.Share))
	}
	t.Add("    decided by upstream's scores after a failure", c.Fallbacks, percent(share(c.Fallbacks, c.Compared)))
	t.Add("    their node is refused by our filters", c.Skewed, percent(share(c.Skewed, c.Compared)))
	for _, why := range slices.Sorted(maps.Keys(c.NotCompared)) {
		t.Add("  not compared: "+plain(why), c.NotCompared[why], percent(share(c.NotCompared[why], c.Bound)))
	}
	t.Add("  no node at first, for "+plain(strings.Join(r.Of, ", ")), c.Waited)
	t.Add("  wait now with "+plain(r.Profile), c.WaitingOurs)
	if c.Errors > 0 {
		t.Add("  errors of this program", c.Errors)
	}
	fmt.Fprintln(w)
	err := t.Columns(w)
	s := r.OneStep
	fmt.Fprintf(w, "\none step from the real state: better %d, equal %d, worse %d, cost %+.6f on average\n",
		s.Better, s.Equal, s.Worse, -s.Mean)
	fmt.Fprintf(w, "time of a decision with filters: median %.2f ms, 99 %% %.2f ms, most %.2f ms\n",
		1000*r.Time.Median, 1000*r.Time.P99, 1000*r.Time.Max)
	return err
}
