package eval

import (
	"cmp"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"gnnsched/internal/each"
	"gnnsched/scheduler/objective"
	"gnnsched/scheduler/sim"
	"gnnsched/workload"
	"gnnsched/workload/record"
	"gnnsched/workload/trace"
)

type jsonComparison struct {
	Scenario   string       `json:"scenario"`
	Hash       string       `json:"hash,omitempty"` // Scenario.Hash
	About      string       `json:"about"`
	Objective  string       `json:"objective"`
	Seeds      []uint64     `json:"seeds"`
	Samples    int          `json:"samples"` // independent episodes: of one, intervals and p say nothing
	Baseline   string       `json:"baseline"`
	Policies   []jsonResult `json:"policies"`
	Thresholds []Verdict    `json:"thresholds,omitempty"`
	Observed   *Observed    `json:"observed,omitempty"`
}

type jsonResult struct {
	Name       string                `json:"name"`
	Kind       Kind                  `json:"kind"`
	Mean       map[string]float64    `json:"mean"`
	Difference map[string]Difference `json:"difference,omitempty"` // from the baseline
	Outcomes   []sim.Outcome         `json:"outcomes"`             // by seed
}

// MarshalJSON implements json.Marshaler. The object has every outcome, the mean of every metric
// and its difference from the baseline, and the verdicts on the thresholds.
func (c *Comparison) MarshalJSON() ([]byte, error) {
	out := jsonComparison{
		Scenario: c.Scenario.Name, Hash: c.hash, About: c.Scenario.About, Objective: c.Scenario.Objective.Name(), Seeds: c.Seeds,
		Samples:  c.Samples(),
		Baseline: c.Results[0].Name, Thresholds: c.Verdicts, Observed: c.Observed,
	}
	for i, r := range c.Results {
		j := jsonResult{Name: r.Name, Kind: r.Kind, Outcomes: r.Outcomes}
		j.Mean, j.Difference = c.Named(i, c.metrics())
		out.Policies = append(out.Policies, j)
	}
	return json.Marshal(out)
}

// Named returns the means of result i and its differences from the baseline, by the names of metrics.
func (c *Comparison) Named(i int, metrics []Metric) (mean map[string]float64, difference map[string]Difference) {
	mean, difference = map[string]float64{}, map[string]Difference{}
	for _, m := range metrics {
		if mean[m.Name] = c.Results[i].Mean(m); i > 0 {
			difference[m.Name] = c.Difference(c.Results[i], m)
		}
	}
	return mean, difference
}

// ReadJSON reads comparisons that MarshalJSON wrote, as a list. Their scenarios have a name, a sentence about
// them, an objective and thresholds, and cannot be played again.
func ReadJSON(r io.Reader) ([]*Comparison, error) {
	var list []jsonComparison
	if err := json.NewDecoder(r).Decode(&list); err != nil {
		return nil, fmt.Errorf("not the output of gnnsched eval -o json: %w", err)
	}
	var out []*Comparison
	for i, j := range list {
		c, err := j.comparison()
		if err != nil {
			return nil, fmt.Errorf("comparison %d: %w", i+1, err)
		}
		out = append(out, c)
	}
	return out, nil
}

func (j jsonComparison) comparison() (*Comparison, error) {
	c := &Comparison{
		Scenario: Scenario{Name: j.Scenario, About: j.About}, Seeds: j.Seeds, OneWorkload: j.Samples < len(j.Seeds), Verdicts: j.Thresholds,
		hash: j.Hash, Observed: j.Observed,
	}
	var err error
	if j.Objective != "" {
		if c.Scenario.Objective, err = objective.Parse(j.Objective); err != nil {
			return nil, err
		}
	}
	if len(j.Seeds) == 0 || len(j.Policies) == 0 {
		return nil, fmt.Errorf("%s has no seed or no policy", j.Scenario)
	}
	for _, v := range j.Thresholds {
		c.Scenario.Thresholds = append(c.Scenario.Thresholds, v.Threshold)
	}
	for _, p := range j.Policies {
		if len(p.Outcomes) != len(j.Seeds) {
			return nil, fmt.Errorf("%s has %d outcomes of %s, want one for each of the %d seeds", j.Scenario, len(p.Outcomes), p.Name, len(j.Seeds))
		}
		c.Results = append(c.Results, Result{Name: p.Name, Kind: p.Kind, Outcomes: p.Outcomes})
	}
	return c, nil
}

// Merge joins comparisons that were played on the same scenario with the same seeds, as several files may hold them: the first has the
// baseline, and a policy that is in both must have the same outcomes. Results that cannot be compared, because the scenarios have the
// same name and other contents, are an error.
func Merge(all []*Comparison) ([]*Comparison, error) {
	var out []*Comparison
next:
	for _, c := range all {
		for _, o := range out {
			if o.Scenario.Name != c.Scenario.Name || o.hash == "" || c.hash == "" {
				continue
			}
			if o.hash != c.hash {
				return nil, fmt.Errorf("%s was played from two different files (hashes %s and %s): the results cannot be compared", c.Scenario.Name,
					o.hash, c.hash)
			}
			if !slices.Equal(o.Seeds, c.Seeds) {
				continue
			}
			o.observe(c)
			if err := o.add(c.Results); err != nil {
				return nil, err
			}
			o.Scenario.Thresholds = append(o.Scenario.Thresholds, c.Scenario.Thresholds...)
			continue next
		}
		out = append(out, c)
	}
	return out, nil
}

// observe adds what was seen of the contenders that only o has.
func (c *Comparison) observe(o *Comparison) {
	if o.Observed == nil || c.Observed == nil {
		c.Observed = cmp.Or(c.Observed, o.Observed)
		return
	}
	known := func(name string) bool {
		return slices.ContainsFunc(c.Results, func(r Result) bool { return r.Name == name })
	}
	c.Observed = &Observed{
		Unit: c.Observed.Unit, Soon: c.Observed.Soon,
		Frames: append(c.Observed.Frames,
			slices.DeleteFunc(slices.Clone(o.Observed.Frames), func(f Frame) bool { return known(f.Contender) })...),
		Waits: append(c.Observed.Waits,
			slices.DeleteFunc(slices.Clone(o.Observed.Waits), func(w Waits) bool { return known(w.Contender) })...),
		Decisions: append(c.Observed.Decisions,
			slices.DeleteFunc(slices.Clone(o.Observed.Decisions), func(d Decision) bool { return known(d.Contender) })...),
	}
}

// add adds results of the same episodes.
func (c *Comparison) add(results []Result) error {
	for _, r := range results {
		known := false
		for _, o := range c.Results {
			if o.Name != r.Name {
				continue
			}
			if !reflect.DeepEqual(o.Outcomes, r.Outcomes) {
				return fmt.Errorf("%s: two files have different outcomes of %s: give one of them another name", c.Scenario.Name, r.Name)
			}
			known = true
		}
		if !known {
			c.Results = append(c.Results, r)
		}
	}
	return nil
}

// WriteCSV writes the outcomes of several comparisons as one CSV table with a header and a row for each scenario, policy and seed. Figures
// are not rounded.
func WriteCSV(w io.Writer, comparisons []*Comparison) error {
	metrics := Metrics
	for _, c := range comparisons {
		if all := c.metrics(); len(all) > len(metrics) {
			metrics = all
		}
	}
	rows := [][]string{slices.Concat([]string{"scenario", "policy", "seed"}, MetricNames(metrics), []string{"arrived", "placed", "nodes"})}
	for _, c := range comparisons {
		rows = append(rows, c.Rows([]string{c.Scenario.Name}, func(o sim.Outcome) [][]string {
			return [][]string{append(figures(o, metrics...), strconv.Itoa(o.Arrived), strconv.Itoa(o.Placed), strconv.Itoa(o.Nodes))}
		})...)
	}
	return WriteRows(w, rows)
}

// Rows returns rows for each policy and seed: labels, the policy's name, the seed, and the cells of the outcome.
func (c *Comparison) Rows(labels []string, cells func(sim.Outcome) [][]string) (rows [][]string) {
	for _, r := range c.Results {
		for i, o := range r.Outcomes {
			for _, row := range cells(o) {
				rows = append(rows, slices.Concat(labels, []string{r.Name, strconv.FormatUint(c.Seeds[i], 10)}, row))
			}
		}
	}
	return rows
}

// figures returns metrics of an outcome with all digits.
func figures(o sim.Outcome, metrics ...Metric) []string {
	return each.Map(metrics, func(m Metric) string { return Exact(m.Of(o)) })
}

// Exact writes a number with all digits.
func Exact(v float64) string { return strconv.FormatFloat(v, 'g', -1, 64) }

// WriteRows writes a CSV.
func WriteRows(w io.Writer, rows [][]string) error {
	if err := csv.NewWriter(w).WriteAll(rows); err != nil {
		return fmt.Errorf("write the CSV: %w", err)
	}
	return nil
}

// Recorded holds scenarios of one record: one to learn on, and one to judge on, whose pods arrived later.
type Recorded struct {
	Learn, Judge Scenario
	// Choose is the scenario on which the best of several networks is chosen. Its pods arrived after Learn's and before Judge's. It is nil if
	// the record was divided into two parts, or is too short for three.
	Choose *Scenario
	// Block is the length in seconds of the blocks of time that episodes are drawn from: 86,400 for days.
	Block float64
	// learnBlocks, chooseBlocks and judgeBlocks are the numbers of blocks in the scenarios.
	learnBlocks, chooseBlocks, judgeBlocks int
	notes                                  []string // describe what the scenarios lack
}

// String describes the division of the record, and the notes, in one line each.
func (r Recorded) String() string {
	choose := ""
	if r.Choose != nil {
		choose = "the next " + are(r.chooseBlocks, "block") + " for choosing, "
	}
	line := fmt.Sprintf("%s: episodes are drawn from %d blocks of %v; %s%s for judging",
		r.Learn.NodesFile, r.learnBlocks, time.Duration(r.Block)*time.Second, choose, are(r.judgeBlocks, "later block"))
	return strings.Join(append([]string{line}, r.notes...), "\nnote: ")
}

// are returns the beginning of a sentence about n items.
func are(n int, thing string) string {
	if n == 1 {
		return "1 " + thing + " is"
	}
	return fmt.Sprintf("%d %ss are", n, thing)
}

// Parts is the number of parts that OfRecord divides a record into.
type Parts int

const (
	// TwoParts are one to learn on and one to judge on.
	TwoParts Parts = 2
	// ThreeParts are those two and, between them, one on which the best of several networks is chosen.
	ThreeParts Parts = 3
)

// blockLengths are the possible lengths of a block, in seconds. OfRecord takes the longest one for which a record has minBlocks.
var blockLengths = []float64{24 * 3600, 6 * 3600, 3600, 600, 60, 10}

const (
	// minBlocks is the least number of blocks in a record. The last fifth of them is for judging.
	minBlocks = 5
	// minLearnBlocks is the least number of blocks to learn on. A record that has fewer of them when it is divided into three parts is divided
	// into two.
	minLearnBlocks = minBlocks - 1
	// episodePods limits the number of pods that arrive in an episode, so that a long record does not make long episodes.
	episodePods = 2000
)

// OfRecord makes scenarios of the record in a folder, with an objective. The nodes are the nodes at the record's end. The pods of the last
// fifth of the blocks of time are for judging. With ThreeParts, the pods of the fifth before it are for choosing. The others are for
// learning. The pods that ran when a part begins come first in each of its episodes.
func OfRecord(dir string, o objective.Mix, parts Parts) (Recorded, error) {
	if !record.Is(dir) {
		return Recorded{}, fmt.Errorf("%s is not the folder of a record; gnnsched record --out writes one, "+
			"and gnnsched convert --out makes one of a trace", dir)
	}
	start, err := recordedFrom(dir)
	if err != nil {
		return Recorded{}, fmt.Errorf("%s: %w", dir, err)
	}
	read, err := trace.Load(dir)
	if err != nil {
		return Recorded{}, fmt.Errorf("%s: %w", dir, err)
	}
	pods := read.Arrivals
	span := pods[len(pods)-1].At - start
	out := Recorded{Block: blockLength(span)}
	if out.Block == 0 {
		return Recorded{}, fmt.Errorf("%s: its pods arrive within %.0f seconds; record for some minutes at least", dir, max(0, span))
	}
	blocks := int(span/out.Block) + 1
	out.judgeBlocks = blocks / minBlocks
	out.learnBlocks = blocks - out.judgeBlocks
	cut := start + float64(out.learnBlocks)*out.Block
	part := sim.Trace{File: dir, From: start, To: cut, Resampling: sim.Resampling{Resample: new(true), BlockSeconds: out.Block}}
	if parts == ThreeParts {
		if part.To, err = out.choosing(part, pods, o); err != nil {
			return out, err
		}
	}
	if out.Learn, err = ofPart("record", part, pods, o); err != nil {
		return out, err
	}
	part.From, part.To = cut, 0
	out.Judge, err = ofPart("record-later", part, pods, o)
	for _, n := range slices.Concat(read.Notes, out.Learn.Notes) {
		if !slices.Contains(out.notes, n) {
			out.notes = append(out.notes, n)
		}
	}
	return out, err
}

// choosing takes the last blocks of a part for the scenario to choose on, as many as for judging. It returns the new end of the part. If
// too little would be left, it leaves the part as it is and notes that one scenario serves for both.
func (r *Recorded) choosing(part sim.Trace, pods workload.Trace, o objective.Mix) (end float64, err error) {
	last := part
	last.From = part.To - float64(r.judgeBlocks)*r.Block
	learn := part
	learn.To = last.From
	why := ""
	switch {
	case r.learnBlocks-r.judgeBlocks < minLearnBlocks:
		why = fmt.Sprintf("%d blocks are too few to divide into three parts", r.learnBlocks+r.judgeBlocks)
	case arrived(last, pods) == 0 || arrived(learn, pods) == 0:
		why = "no pod arrives in one of three parts"
	default:
		s, err := ofPart("record-choosing", last, pods, o)
		r.Choose, r.chooseBlocks = &s, r.judgeBlocks
		r.learnBlocks -= r.judgeBlocks
		return learn.To, err
	}
	r.notes = append(r.notes, why+": the same blocks choose the best network and judge it, which flatters it; record longer")
	return part.To, nil
}

// recordedFrom returns the record's begin, in seconds of the trace of its pods.
func recordedFrom(dir string) (float64, error) {
	r, err := record.Open(dir)
	if err != nil {
		return 0, err
	}
	runs, err := r.Runs()
	if err != nil {
		return 0, err
	}
	pods, err := r.Pods()
	if err != nil {
		return 0, err
	}
	begin, first := int64(math.MaxInt64), int64(math.MaxInt64)
	for _, run := range runs {
		begin = min(begin, run.From)
	}
	for i := range pods {
		if !pods[i].Daemon {
			first = min(first, pods[i].Arrived)
		}
	}
	if len(runs) == 0 {
		return 0, nil
	}
	return max(0, float64(begin-first)/1000), nil
}

// blockLength returns the length of the blocks for arrivals within a span of seconds; 0 if it is too short.
func blockLength(span float64) float64 {
	for _, length := range blockLengths {
		if span >= (minBlocks-1)*length {
			return length
		}
	}
	return 0
}

// ofPart returns the scenario of a part of a record, whose arrivals are given.
func ofPart(name string, part sim.Trace, pods workload.Trace, o objective.Mix) (Scenario, error) {
	part.Pods = min(arrived(part, pods), episodePods)
	if part.Pods == 0 {
		return Scenario{}, fmt.Errorf("%s: no pod arrives in one of its parts, %s; record longer", part.File, name)
	}
	s := Scenario{Name: name, About: "a part of " + part.File, NodesFile: part.File, Config: sim.Config{Trace: &part, Objective: o}}
	if err := s.addNodes(); err != nil {
		return s, err
	}
	return s, s.Validate()
}

// arrived returns the number of pods that arrive in a part.
func arrived(part sim.Trace, pods workload.Trace) (n int) {
	for _, a := range pods {
		if a.At >= part.From && (a.At < part.To || part.To == 0) {
			n += a.Deployment.Replicas
		}
	}
	return n
}
