package eval

import (
	"fmt"
	"path"
	"strconv"
	"strings"

	"gnnsched/internal/choice"
	"gnnsched/internal/exit"
	"gnnsched/scheduler/objective"
	"gnnsched/scheduler/sim"
	"gnnsched/workload/trace/openb"
)

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
