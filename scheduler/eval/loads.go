package eval

import (
	"fmt"
	"math"
	"path"
	"strconv"
	"strings"

	"gnnsched/internal/choice"
	"gnnsched/internal/each"
	"gnnsched/internal/exit"
	"gnnsched/scheduler/objective"
	"gnnsched/scheduler/sim"
	"gnnsched/workload/trace/openb"
)

// Filling are the metrics of scenarios in which pods request GPUs up to a load, or come and go at one: those of the openb trace and of
// MIG. Allocations are in per cent of the devices or of the compute slices.
var Filling = []Metric{
	{"allocation", "GPU allocation %", 2, func(o sim.Outcome) float64 {
		switch {
		case o.Partitions != nil:
			return 100 * o.Partitions.Allocation
		case o.Steady != nil:
			return 100 * o.Steady.Allocation
		case o.GPU != nil:
			return 100 * o.GPU.Allocation
		}
		return 0
	}, whereFilling},
	{"gpuHours", "GPU hours waited", 0, ofSteady(func(s *sim.SteadyOutcome) float64 { return s.GPUHours }), whereSteady},
	{"podsWaiting", "pods waiting", 2, func(o sim.Outcome) float64 {
		switch {
		case o.Partitions != nil:
			return o.Partitions.Waiting
		case o.Steady != nil:
			return o.Steady.Waiting
		}
		return 0
	}, nowhere},
	{"rejected", "rejected", 1, ofSteady(func(s *sim.SteadyOutcome) float64 { return float64(s.Rejected) }), whereSteady},
	{"meanWait", "mean wait", 3, ofPartitions(func(p *sim.PartitionOutcome) float64 {
		sum, pods := 0.0, 0
		for profile, n := range p.Arrived {
			sum, pods = sum+p.Waited[profile], pods+n
		}
		return sum / float64(max(pods, 1))
	}), nowhere},
}

var (
	ofSteady, whereSteady         = of(func(o sim.Outcome) *sim.SteadyOutcome { return o.Steady })
	ofPartitions, wherePartitions = of(func(o sim.Outcome) *sim.PartitionOutcome { return o.Partitions })
)

// whereFilling tells whether the scenario has the metrics of Filling.
func whereFilling(c *Comparison) bool {
	return wherePartitions(c) || whereSteady(c) || len(c.loads()) > 0
}

// atLoad is the state of an episode at the time when so much was requested.
type atLoad struct{ load, allocation, left, watts, meanWatts, bound float64 }

// atLoads returns the states at the loads of a scenario.
func atLoads(o sim.Outcome) (out []atLoad) {
	if o.GPU != nil {
		for _, l := range o.GPU.Loads {
			left := 0
			for _, n := range l.Left[:sim.Classes-1] { // the last counts pods again
				left += n
			}
			out = append(out, atLoad{l.Load, 100 * l.Allocation, float64(left), l.Watts, l.MeanWatts, 100 * l.Bound})
		}
	}
	if o.Partitions != nil {
		for _, l := range o.Partitions.Loads {
			left := 0
			for _, n := range l.Left {
				left += n
			}
			out = append(out, atLoad{load: l.Load, allocation: 100 * l.Allocation, left: float64(left)})
		}
	}
	return out
}

// byLoad are the metrics of the state at a load. The load in per cent ends their names, as in allocation95.
var byLoad = []struct {
	name, title string
	digits      int
	of          func(atLoad) float64
}{
	{"allocation", "GPU allocation %", 2, func(l atLoad) float64 { return l.allocation }},
	{"left", "GPU pods without a node", 1, func(l atLoad) float64 { return l.left }},
	{"watts", "watts", 0, func(l atLoad) float64 { return l.watts }},
	{"meanWatts", "mean watts", 0, func(l atLoad) float64 { return l.meanWatts }},
	{"bound", "bound %", 2, func(l atLoad) float64 { return l.bound }},
}

// loadMetric returns the metric of the state at a load that has a name such as allocation95, and whether there is one.
func loadMetric(name string) (Metric, bool) {
	base := strings.TrimRight(name, "0123456789.")
	percent, err := strconv.ParseFloat(name[len(base):], 64)
	for _, m := range byLoad {
		if err != nil || m.name != base {
			continue
		}
		return Metric{name, fmt.Sprintf("%s at %.4g%%", m.title, percent), m.digits, func(o sim.Outcome) float64 {
			for _, l := range atLoads(o) {
				if math.Abs(100*l.load-percent) < 1e-6 {
					return m.of(l)
				}
			}
			return math.NaN()
		}, always}, true
	}
	return Metric{}, false
}

// loads returns the loads of the scenario, at which every episode has a state.
func (c *Comparison) loads() []float64 {
	return each.Map(atLoads(c.Results[0].Outcomes[0]), func(l atLoad) float64 { return l.load })
}

// metrics returns the metrics that the comparison's tables, CSV and JSON have: the allocations at each load among them.
func (c *Comparison) metrics() []Metric {
	out := append([]Metric{}, Metrics...)
	if !whereFilling(c) {
		return out
	}
	out = append(out, Filling...)
	for _, load := range c.loads() {
		m, _ := loadMetric(fmt.Sprintf("allocation%.4g", 100*load))
		out = append(out, m)
	}
	return out
}

// openBPrefix begins the name of a scenario on the openb trace, which the user has to have: openb:LIST, openb:LIST+VARIANT, and each with
// @PERCENT.
const openBPrefix = "openb:"

// OpenBHelp describes the scenarios on the openb trace.
var OpenBHelp = "With --data DIR, the folder data/csv of github.com/hkust-adsl/kubernetes-scheduler-simulator, there are also the\n" +
	"openb trace's " +
	"lists of pods, such as openb:default, and patterns such as 'openb:*'. The pods arrive until they have requested 150% of the\n" +
	"GPUs, and none leaves. openb:default@95 lets them come and go at 95%, for a day after a day of warm-up. openb:default+models40\n" +
	"changes the pods; there are " + strings.Join(openb.VariantNames(), ", ") + "."

// openBLoads are the loads whose states a scenario with pods that stay tells. Figures are published for 1.3.
var openBLoads = []float64{0.2, 0.4, 0.6, 0.7, 0.8, 0.9, 0.95, 1, 1.1, 1.2, 1.3, 1.5}

// openBScenarios returns the scenarios of a name that begins with openBPrefix, on the trace in a folder.
func openBScenarios(name, dir string) (out []Scenario, err error) {
	if dir == "" {
		return nil, exit.New(exit.Usage, fmt.Errorf("%s needs the openb trace", name),
			"name its folder with --data DIR; docs/results/gpu.md says where to get it")
	}
	known, err := openb.PodLists(dir)
	if err != nil {
		return nil, err
	}
	workload, percent, leaving := strings.Cut(strings.TrimPrefix(name, openBPrefix), "@")
	o := sim.OpenB{Factor: openBLoads[len(openBLoads)-1], Loads: openBLoads}
	if leaving {
		load, err := strconv.ParseFloat(percent, 64)
		if err != nil || !(load > 0 && load <= 1000) {
			return nil, fmt.Errorf("%s: %q is no load over 0 and up to 1000, in per cent of the GPUs", name, percent)
		}
		const day = 86400
		o = sim.OpenB{Steady: &sim.Steady{Load: load / 100, WarmUp: day, Duration: day}}
	}
	pattern, variant, mixed := strings.Cut(workload, "+")
	for _, list := range known {
		if matches, err := path.Match(pattern, list); err != nil {
			return nil, fmt.Errorf("%q is not a pattern: %w", pattern, err)
		} else if !matches {
			continue
		}
		if mixed {
			list += "+" + variant
		}
		s, err := openBScenario(dir, list, o)
		if err != nil {
			return nil, err
		}
		if leaving {
			s.Name += "-" + percent
		}
		out = append(out, s)
	}
	if len(out) == 0 {
		return nil, choice.Unknown("pod list", pattern, known)
	}
	return out, nil
}

// openBScenario returns the scenario of a workload.
func openBScenario(dir, workload string, o sim.OpenB) (s Scenario, err error) {
	s = Scenario{Name: "openb-" + workload, Config: sim.Config{OpenB: &o}}
	if o.Nodes, o.Pods, s.About, err = openb.ReadWorkload(dir, workload); err != nil {
		return s, err
	}
	if o.Steady == nil {
		s.About += fmt.Sprintf(", until they have requested %.0f%% of the GPUs", 100*o.Factor)
		s.Objective, err = objective.Parse("gpu-idle")
		return s, err
	}
	s.About += fmt.Sprintf(", that come and go at %.4g%% of the GPUs", 100*o.Steady.Load)
	if err := openb.CheckLifetimes(o.Pods); err != nil {
		return s, fmt.Errorf("openb:%s: %w", workload, err)
	}
	return s, nil // without an objective: the time until the end of an episode counts, not the end
}
