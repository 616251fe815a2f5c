package convert

import (
	"bufio"
	"cmp"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"slices"
	"strings"

	"github.com/rs/zerolog"
	ucli "github.com/urfave/cli/v2"

	"gnnsched/cmd/internal/recording"
	"gnnsched/internal/cluster"
	"gnnsched/internal/exit"
	"gnnsched/workload"
	"gnnsched/workload/record"
	"gnnsched/workload/record/play"
	"gnnsched/workload/trace"
	"gnnsched/workload/trace/openb"
	"gnnsched/workload/usage"
)

// traceMissing names the parts of a cluster that the record of a trace lacks.
const traceMissing = "nodes of pods and when pods got them, affinity, spreading, priorities, usage"

// traceToRecord makes a new record of a trace, and of an openb node list if there is one among the files.
func traceToRecord(c *ucli.Context, log zerolog.Logger) error {
	var nodes []record.Node
	var pods []record.Pod
	source, missing := "", []string{traceMissing}
	for _, path := range c.Args().Slice() {
		list, err := isNodeList(path)
		switch {
		case err != nil:
		case list && len(nodes) > 0:
			err = fmt.Errorf("%s is a second node list", path)
		case !list && len(pods) > 0:
			err = fmt.Errorf("%s is a second trace; a record has the pods of one", path)
		case list:
			var all []openb.Node
			all, err = openb.LoadNodes(path)
			nodes = play.NodeRows(openb.ClusterNodes(all))
		default:
			var file trace.File
			if file, err = trace.Load(path); err == nil {
				source, pods, missing = file.Format.Name, play.PodRows(file.Arrivals), append(missing, file.Notes...)
			}
		}
		if err != nil {
			return exit.New(exit.Usage, err, "docs/reference/scenario-file.md describes the traces")
		}
	}
	out, err := record.Create(c.String("out"), record.Options{})
	if err != nil {
		return exit.New(exit.Usage, err, "name another folder with --out")
	}
	run := record.Run{
		ID: "1", Source: cmp.Or(source, "openb"), From: play.Midnight, To: play.Midnight,
		Missing: strings.Join(missing, "; "), Program: c.App.Version,
	}
	for _, n := range nodes {
		out.Node(n)
	}
	for _, o := range play.Owned(pods) {
		out.Object(o)
	}
	for i, p := range pods {
		run.To = max(run.To, p.Arrived, p.Ended)
		out.Pod(p)
		if i%100_000 == 99_999 { // a Writer holds 200,000 rows
			if _, err := out.Flush(); err != nil {
				return errors.Join(err, recording.Closed(out, log))
			}
		}
	}
	out.Run(run)
	log.Info().Str("out", c.String("out")).Str("source", run.Source).Int("nodes", len(nodes)).Int("pods", len(pods)).
		Str("lacks", run.Missing).Msg("converted")
	return recording.Closed(out, log)
}

// isTraces reports whether all files are CSV files.
func isTraces(paths []string) bool {
	return !slices.ContainsFunc(paths, func(p string) bool { return !strings.HasSuffix(p, ".csv") })
}

// isNodeList reports whether a file begins as openb's node lists do.
func isNodeList(path string) (bool, error) {
	f, err := os.Open(path)
	if err != nil {
		return false, err
	}
	defer f.Close() // it is only read
	line, err := bufio.NewReader(io.LimitReader(f, 1<<16)).ReadString('\n')
	if errors.Is(err, io.EOF) {
		err = nil
	}
	return openb.IsNodeList(strings.Split(strings.ToLower(strings.TrimSpace(line)), ",")), err
}

// maxSteps bounds the steps of a series: five years of minutes. A time that is further away is treated as a fault.
const maxSteps = 5 * 366 * 24 * 60

// levels is the number of different values in a series, so that it stays short as text.
const levels = 1000

// secondsOfDay is the number of seconds in a day.
const secondsOfDay = 86400

// machine is a virtual machine or a container with what it used.
type machine struct {
	id, name string
	listed   bool // it has measurements
	cores    float64
	memory   int64 // bytes; 0: not known

	from, to int                           // numbers of the first step and of the one after the last; the first begins at from times the step
	used     [usage.Dimensions]map[int]sum // by the number of the step; nil: not measured
}

// sum is the sum and the number of the samples in one step.
type sum struct {
	total float64
	n     int
}

// add adds a sample at a time in steps. It returns false if the value or the time cannot be.
func (m *machine) add(d usage.Dimension, at, value float64) bool {
	if !(value >= 0 && value < 1e18) || !(math.Abs(at) < 1e11) {
		return false
	}
	i := int(math.Floor(at))
	from, to := i, i+1
	if m.steps() > 0 {
		from, to = min(from, m.from), max(to, m.to)
	}
	if to-from > maxSteps {
		return false
	}
	m.from, m.to = from, to
	if m.used[d] == nil {
		m.used[d] = map[int]sum{}
	}
	x := m.used[d][i]
	m.used[d][i] = sum{x.total + value, x.n + 1}
	return true
}

func (m *machine) steps() int { return m.to - m.from }

// means returns the means of n steps of a dimension. A step without samples has the value of the step before, and those before the first
// sample have its value.
func (m *machine) means(d usage.Dimension, n int) []float32 {
	if m.used[d] == nil {
		return nil
	}
	out, known := make([]float32, n), false
	for i := range out {
		x, has := m.used[d][m.from+i]
		switch {
		case has:
			out[i] = float32(x.total / float64(x.n))
			for j := 0; !known && j < i; j++ {
				out[j] = out[i]
			}
			known = true
		case i > 0:
			out[i] = out[i-1]
		}
	}
	return out
}

// shapes returns a shape for each machine: it requests the machine's size, and has the machine's usage at the same time of day. Each pod
// begins on another day of the series; a series of more than a day is cut to whole days. If a day has no whole number of steps, or the
// series is shorter than one, pods begin anywhere in it.
func (r *reading) shapes() ([]workload.Shape, error) {
	var out []workload.Shape
	short := 0
	for _, m := range r.order {
		s := workload.Shape{
			Name: m.name, Weight: 1, Usage: &usage.Model{},
			Requests: cluster.Resources{MilliCPU: int64(math.Round(m.cores * 1000)), Memory: m.memory, Pods: 1},
		}
		n := m.steps()
		if r.days > 0 {
			n = min(n, max(int(r.days*secondsOfDay/r.step), 1))
		}
		if day := secondsOfDay / r.step; day == math.Floor(day) && int(day) <= n {
			n -= n % int(day)
		} else {
			short++
		}
		full := [usage.Dimensions]float64{usage.CPU: m.cores, usage.Memory: float64(m.memory)}
		for d := range m.used {
			if values := m.means(usage.Dimension(d), n); values != nil {
				s.Usage.Curves[d] = r.curve(values, full[d], float64(m.from)*r.step)
			}
		}
		if err := s.Validate(); err != nil {
			return nil, fmt.Errorf("%s: %w", m.name, err)
		}
		out = append(out, s)
	}
	if short > 0 {
		r.notes = append(r.notes, "some machines do not follow the time of day: their series are shorter than a day, or a day has no whole "+
			"number of steps")
	}
	return out, nil
}

// curve returns the curve of values from a time on. A thousandth of full is one unit of the series; if full is 0, a thousandth of the
// largest value.
func (r *reading) curve(values []float32, full, from float64) usage.Curve {
	if full == 0 {
		full = float64(slices.Max(values))
	}
	if full == 0 {
		return usage.Constant(0)
	}
	out := make([]float32, len(values))
	for i, v := range values {
		out[i] = float32(math.Round(float64(v) / full * levels))
	}
	unit := full / levels
	if slices.Max(out) == slices.Min(out) {
		return usage.Constant(float64(out[0]) * unit)
	}
	offset := math.Mod(secondsOfDay-math.Mod(from, secondsOfDay), secondsOfDay)
	return &usage.Series{Step: r.step, Scale: unit, Values: out, Offset: offset, Clock: true, RandomStart: true}
}
