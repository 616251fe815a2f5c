// Package architecture holds tests of the module's structure: which folder may import which other
// folder, and further rules that hold for the whole repository. It has no code besides tests.
package architecture

import (
	"slices"
	"strconv"
	"strings"
	"testing"
)

// may lists, for each folder, the folders of this module that its code may import. A folder includes its subfolders; the longest match
// decides. Test files may import anything.
var may = map[string][]string{
	"cmd/gnnsched":    {"cmd/internal", "deploy", "gnn", "scheduler", "workload", "internal"},
	"cmd/gnntrain":    {"cmd/internal", "gnn", "scheduler", "workload", "internal"},
	"cmd/kwokcluster": {"kwok", "workload/record", "workload/trace", "internal"},
	"cmd/gnnsched-env": {"gnn", "scheduler/eval", "scheduler/objective", "scheduler/sim",
		"internal/exit"},
	"cmd/internal":      {"cmd/internal", "deploy", "gnn", "scheduler", "workload", "internal"},
	"cmd/internal/plan": {"cmd/internal", "kwok/nodepool", "scheduler", "workload/record", "internal"},
	"deploy":            {"internal/exit", "internal/files"},
	"docs/figures":      {"scheduler/eval"},
	"gnn/feature":       {"internal/cluster"},
	"gnn/graph":         {"gnn/feature"},
	"gnn/checkpoint":    {"gnn/feature", "internal/files"},
	"gnn/infer":         {"gnn/feature", "gnn/graph", "gnn/checkpoint"},
	"gnn/torch":         {"gnn/feature", "gnn/graph", "gnn/checkpoint"},
	"internal":          {"internal"},
	"kwok":              {"kwok", "internal"},
	"kwok/nodepool":     {"workload/record", "internal"},
	"kwok/usage":        {"workload/usage", "internal"},
	"scheduler/explain": {"scheduler/decision", "scheduler/policy", "gnn/infer", "internal/cluster"},
	"scheduler/encode":  {"gnn/feature", "gnn/graph", "internal/cluster", "internal/fragmentation"},
	"scheduler/advise": {"scheduler/plugin", "scheduler/policy/preference", "scheduler/server", "internal/cluster",
		"internal/kuberelease"},
	"scheduler/decision": {"scheduler/policy", "internal/cluster", "internal/exit"},
	"scheduler/eval":     {"scheduler/policy", "scheduler/objective", "scheduler/sim", "workload", "internal"},
	"scheduler/eval/live": {"scheduler/eval", "scheduler/policy", "scheduler/sim", "scheduler/server", "scheduler/usage", "workload",
		"internal"},
	"scheduler/eval/contender": {"scheduler/eval", "scheduler/moves", "scheduler/objective", "scheduler/policy", "scheduler/sim",
		"scheduler/server", "gnn", "internal"},
	"scheduler/eval/remote":  {"scheduler/eval", "scheduler/sim", "workload/trace/openb", "internal"},
	"scheduler/eval/soak":    {"scheduler/plugin", "scheduler/server", "gnn/checkpoint", "internal"},
	"scheduler/eval/testbed": {"scheduler/server", "workload", "internal"},
	"scheduler/experience":   {"gnn/feature", "gnn/graph"},
	"scheduler/learn":        {"scheduler/objective", "scheduler/sim", "scheduler/eval", "workload", "gnn", "internal"},
	"scheduler/moves":        {"scheduler/objective", "internal/choice", "internal/cluster", "internal/fragmentation"},
	"scheduler/objective":    {"internal/cluster", "internal/fragmentation", "internal/choice"},
	"scheduler/plugin": {"scheduler/decision", "scheduler/usage", "scheduler/experience", "scheduler/policy",
		"scheduler/objective", "gnn", "workload/trace", "internal"},
	"scheduler/plugin/dra": {"scheduler/decision", "scheduler/plugin/userconfig", "internal/cluster",
		"internal/metric", "internal/watched"},
	"scheduler/plugin/learningcurve":   {},
	"scheduler/plugin/canary":          {"scheduler/plugin/userconfig", "internal/cluster/kube", "internal/choice", "internal/metric"},
	"scheduler/plugin/nodereservation": {"internal/cluster", "internal/watched"},
	"scheduler/plugin/overcommit":      {"internal/cluster/kube", "internal/metric", "internal/watched"},
	"scheduler/plugin/traffic": {"internal/cluster", "internal/metric", "internal/promapi", "internal/files",
		"internal/watched"},
	"scheduler/plugin/userconfig": {"internal"},
	"scheduler/schedbench":        {"scheduler/plugin"},
	"scheduler/serve":             {"scheduler/advise", "scheduler/plugin", "internal/exit", "internal/files", "internal/metric"},
	"scheduler/memcluster":        {"scheduler/advise", "scheduler/decision", "scheduler/objective", "scheduler/plugin", "internal"},
	"scheduler/plan": {"scheduler/advise", "scheduler/memcluster", "scheduler/moves", "scheduler/objective", "scheduler/replay",
		"workload/record", "internal"},
	"scheduler/defrag": {"scheduler/memcluster", "scheduler/plan", "scheduler/plugin/nodereservation",
		"scheduler/replay", "workload/record", "internal"},
	"scheduler/replay": {"scheduler/decision", "scheduler/memcluster", "scheduler/objective", "scheduler/plugin",
		"workload/record", "internal"},
	"scheduler/shadow": {"scheduler/advise", "scheduler/decision", "scheduler/memcluster", "scheduler/objective",
		"scheduler/plugin", "internal"},
	"scheduler/server": {"scheduler/decision", "scheduler/plugin", "scheduler/policy", "scheduler/usage", "gnn/checkpoint",
		"internal"},
	"scheduler/usage":         {"internal"},
	"scheduler/sim/vector":    {"gnn/feature", "gnn/graph", "scheduler/encode", "scheduler/sim", "internal/cluster"},
	"scheduler/sim":           {"scheduler/encode", "scheduler/objective", "scheduler/policy/preference", "workload", "internal"},
	"workload":                {"workload", "internal"},
	"workload/record":         {"internal/cluster"},
	"workload/record/play":    {"workload", "internal/cluster"},
	"workload/record/live":    {"workload/record", "internal/cluster", "internal/exit", "internal/watched"},
	"workload/record/observe": {"workload/record", "internal/cluster", "internal/exit"},
	"workload/record/history": {"workload/record", "internal/cluster", "internal/promapi"},

	"workload/record/history/historytest": {},

	"scheduler/eval/testbed/inprocess": {"scheduler/eval/testbed", "kwok", "workload/record", "workload/trace"},

	"scheduler/learn/run": {"scheduler/encode", "scheduler/eval", "scheduler/objective", "scheduler/policy",
		"scheduler/sim", "workload", "gnn", "internal/files", "internal/cluster", "internal/fragmentation",
		"internal/choice"},
	"scheduler/learn/online": {"scheduler/learn/run", "scheduler/experience", "scheduler/policy", "gnn"},
	"scheduler/learn/dqn":    {"scheduler/learn/run", "scheduler/learn/online", "scheduler/policy", "gnn"},
	"scheduler/learn/ppo":    {"scheduler/learn/run", "scheduler/learn/online", "scheduler/policy", "gnn"},
	"scheduler/learn/value": {"scheduler/learn/run", "scheduler/encode", "scheduler/eval", "scheduler/objective",
		"scheduler/policy", "scheduler/sim", "workload/trace", "gnn", "internal/cluster", "internal/fragmentation"},
	"scheduler/learn/rollouts":  {"scheduler/learn/run", "scheduler/eval", "scheduler/policy", "gnn", "scheduler/sim"},
	"scheduler/learn/cem":       {"scheduler/eval", "scheduler/policy", "scheduler/sim", "internal/choice"},
	"scheduler/learn/learntest": {"scheduler/learn/run", "scheduler/policy/preference", "scheduler/encode", "scheduler/sim", "gnn"},

	"scheduler/policy":            {"internal/cluster", "internal/fragmentation"},
	"scheduler/policy/preference": {"internal/cluster", "internal/choice"},
	"scheduler/policy/stock":      {"scheduler/policy/preference", "internal/cluster"},
	"scheduler/policy/linear": {"scheduler/policy", "gnn/feature", "internal/cluster", "internal/files",
		"internal/choice"},
	"scheduler/policy/partition": {"scheduler/policy", "internal/cluster", "internal/fragmentation", "internal/files", "internal/choice"},
	"scheduler/policy/heuristic": {"scheduler/policy", "scheduler/objective", "gnn/checkpoint", "gnn/infer",
		"internal/cluster", "internal/fragmentation", "internal/choice"},
	"scheduler/policy/neural": {"scheduler/policy", "scheduler/encode", "gnn", "internal/exit", "internal/cluster",
		"internal/fragmentation"},
	"scheduler/policy/policytest": {"scheduler/policy", "internal/cluster"},
}

// torch is the one folder tree and the two programs' folders that may name gotch.
var torch = []string{"gnn/torch", "scheduler/learn", "cmd/gnntrain"}

func TestImports(t *testing.T) {
	seen := map[string]bool{}
	for _, s := range sources(t) {
		if s.test {
			continue
		}
		room := longest(s.folder)
		if room == "" {
			t.Errorf("%s lies in no folder that the rules know", s.path)
			continue
		}
		seen[room] = true
		for _, i := range s.ast.Imports {
			name, _ := strconv.Unquote(i.Path.Value) // the parser accepted it
			check(t, s, room, name)
		}
	}
	for room := range may {
		if !seen[room] {
			t.Errorf("the rules name %s, where no code is", room)
		}
	}
}

// levels are the top folders from the ground to the roof. No import climbs.
var levels = []string{"internal", "deploy", "gnn", "workload", "kwok", "scheduler", "cmd", "docs"}

func level(folder string) int {
	top, _, _ := strings.Cut(folder, "/")
	return slices.Index(levels, top)
}

// schedulerLevels are the folders of scheduler from the ground to the roof. Folders of one level may
// import each other; no import climbs.
var schedulerLevels = [][]string{
	{"objective", "encode", "policy", "sim", "moves"}, {"experience"},
	{"decision", "plugin", "server", "usage", "advise", "serve", "explain", "memcluster", "plan", "replay", "shadow"}, {"defrag", "eval"},
	{"learn", "schedbench"},
}

// schedulerLevel returns -1 for scheduler itself and for a folder that no level lists.
func schedulerLevel(folder string) int {
	name, _, _ := strings.Cut(strings.TrimPrefix(folder, "scheduler/"), "/")
	return slices.IndexFunc(schedulerLevels, func(l []string) bool { return slices.Contains(l, name) })
}

func TestRulesDoNotClimb(t *testing.T) {
	for room, targets := range may {
		for _, target := range targets {
			if level(room) < 0 || level(target) < 0 || level(target) > level(room) {
				t.Errorf("the rules let %s import %s, which is not below it: %v go from the ground to the roof", room, target, levels)
			}
			if !within(room, "scheduler") || !within(target, "scheduler") {
				continue
			}
			if schedulerLevel(room) < 0 || schedulerLevel(target) < 0 || schedulerLevel(target) > schedulerLevel(room) {
				t.Errorf("the rules let %s import %s, which is not below it: %v of scheduler go from the ground to the roof",
					room, target, schedulerLevels)
			}
		}
	}
}

func check(t *testing.T, s source, room, imported string) {
	if strings.HasPrefix(imported, "github.com/sugarme/gotch") &&
		!slices.ContainsFunc(torch, func(f string) bool { return within(s.folder, f) }) {
		t.Errorf("%s imports %s: only %v may", s.path, imported, torch)
	}
	target, ours := strings.CutPrefix(imported, module)
	if !ours || within(target, room) {
		return
	}
	if !slices.ContainsFunc(may[room], func(f string) bool { return within(target, f) }) {
		t.Errorf("%s imports %s: %s may import only %v", s.path, imported, room, may[room])
	}
}

func longest(folder string) (room string) {
	for r := range may {
		if within(folder, r) && len(r) > len(room) {
			room = r
		}
	}
	return room
}

func within(folder, parent string) bool {
	return folder == parent || strings.HasPrefix(folder, parent+"/")
}
