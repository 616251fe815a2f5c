package eval

import (
	"fmt"
	"os"
	"slices"
	"strings"

	"gnnsched/internal/choice"
	"gnnsched/internal/exit"
	"gnnsched/internal/files"
	"gnnsched/scheduler/policy/heuristic"
)

// ChooseScenarios returns the built-in scenarios that match the names and patterns, and those in
// the files, and those of openb:LIST on the openb trace in the folder data. No arguments mean [Default]. A scenario must not be chosen
// twice.
func ChooseScenarios(arguments []string, data string) ([]Scenario, error) {
	if len(arguments) == 0 {
		arguments = Default
	}
	var out []Scenario
	from := map[string]string{}
	for _, a := range arguments {
		scenarios, err := scenariosOf(a, data)
		if err != nil {
			return nil, err
		}
		for _, s := range scenarios {
			if first, twice := from[s.Name]; twice {
				return nil, fmt.Errorf("%s is there twice, from %s and from %s", s.Name, first, a)
			}
			from[s.Name] = a
			out = append(out, s)
		}
	}
	return out, nil
}

// scenariosOf reads a file or the trace, or selects by name or pattern.
func scenariosOf(argument, data string) ([]Scenario, error) {
	if strings.HasPrefix(argument, openBPrefix) {
		return openBScenarios(argument, data)
	}
	if !strings.HasSuffix(argument, ".yaml") && !strings.HasSuffix(argument, ".yml") && !strings.ContainsRune(argument, os.PathSeparator) {
		return selectScenarios(argument)
	}
	text, err := files.Read(argument, files.Text)
	if err != nil {
		return nil, err
	}
	return Read(argument, text)
}

// ChooseThresholds parses thresholds, and checks that the comparison will be able to judge each
// of them: that its scenario is chosen, and that its policies take part.
func ChooseThresholds(texts []string, scenarios []Scenario, contenders []Contender) ([]Threshold, error) {
	policies := choice.Names(contenders, func(x Contender) string { return x.Name })
	var out []Threshold
	for _, text := range texts {
		t, err := ParseThreshold(text)
		if err != nil {
			return nil, exit.New(exit.Usage, fmt.Errorf("--%w", err), "for example 'gnn.cpuStd <= 0.75*kube-scheduler.cpuStd'")
		}
		if !slices.ContainsFunc(scenarios, func(s Scenario) bool { return t.concerns(s.Name) }) {
			return nil, exit.New(exit.Usage, fmt.Errorf("--threshold %q applies to none of the scenarios", t),
				`the name before the colon is a scenario's; write a policy's name with a colon in double quotes, as in "greedy:pack".cost`)
		}
		out = append(out, t)
	}
	for _, s := range scenarios {
		for _, t := range s.judged(out) {
			if err := t.needs(s.takers(policies)); err != nil {
				return nil, exit.New(exit.Usage, fmt.Errorf("scenario %s: %w", s.Name, err), "add the policy with --policies or --checkpoint NAME=FILE")
			}
		}
	}
	return out, nil
}

// Forms are the forms of names besides those of heuristic.Forms. Of those from first-fit on there is no scheduler profile.
var Forms = []heuristic.Form{
	{Name: "stock:FILE", About: "kube-scheduler's score plugins, as a KubeSchedulerConfiguration configures them"},
	{Name: "running:POLICY", About: "POLICY, with typical pods " +
		"counted by the time for which they run, for scenarios in which they come and go"},
	{Name: "first-fit:POLICY", About: "POLICY chooses the node, and a pod gets the node's first devices with room, " +
		"as from upstream's allocator of claims"},
	{Name: "clairvoyant:POLICY", About: "a bound: rollouts of POLICY that know the arrivals and departures to come"},
	{Name: "expecting:POLICY", About: "the same with drawn futures, for steady arrivals and exponential lifetimes"},
	{Name: "defrag=SHARE/TIME:POLICY", About: "POLICY, and at each TIME up to SHARE of the running pods move where they lower the " +
		"objective or free GPUs that pods can use, such as defrag=2%/1h:fgd; without a unit, TIME is in the scenario's; " +
		"TIME/greedy makes single moves, and TIME/SEARCH those of another search of gnnsched plan"},
	{Name: "python:FILE", About: "a policy in Python, which scores the candidates of all seeds at once (docs/how-to/python.md)"},
}
