package architecture

import (
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const module = "gnnsched/"

// may lists, for each folder, the folders of this module that its code may import. A folder
// covers those below it; the longest match rules. Test files may import what they like.
var may = map[string][]string{
	"cmd/gnnsched":             {"cmd/internal", "gnn", "scheduler", "workload", "internal"},
	"cmd/gnntrain":             {"cmd/internal", "gnn", "scheduler", "workload", "internal"},
	"cmd/kwokcluster":          {"kwok", "workload/trace", "internal"},
	"cmd/schedbench":           {"scheduler", "gnn", "kwok", "internal"},
	"cmd/internal":             {"cmd/internal", "gnn", "scheduler", "workload", "internal"},
	"gnn/feature":              {"internal/cluster"},
	"gnn/graph":                {"gnn/feature"},
	"gnn/checkpoint":           {"gnn/feature"},
	"gnn/infer":                {"gnn/feature", "gnn/graph", "gnn/checkpoint"},
	"gnn/torch":                {"gnn/feature", "gnn/graph", "gnn/checkpoint"},
	"internal":                 {"internal"},
	"kwok":                     {"kwok", "internal"},
	"scheduler/encode":         {"gnn/feature", "gnn/graph", "internal/cluster", "internal/fragmentation"},
	"scheduler/decision":       {"internal/cluster"},
	"scheduler/eval":           {"scheduler/policy", "scheduler/objective", "scheduler/sim", "workload", "internal"},
	"scheduler/eval/agreement": {"scheduler/eval", "scheduler/policy", "scheduler/sim", "scheduler/server", "workload", "internal"},
	"scheduler/eval/contender": {"scheduler/eval", "scheduler/learn/tabular", "scheduler/policy", "scheduler/server", "gnn", "internal"},
	"scheduler/eval/testbed":   {"scheduler/server", "workload", "internal"},
	"scheduler/eval/tracerun":  {"scheduler/eval", "scheduler/plugin", "scheduler/objective", "scheduler/policy", "scheduler/sim", "scheduler/server", "workload", "internal"},
	"scheduler/experience":     {"gnn/feature", "gnn/graph"},
	"scheduler/learn":          {"scheduler/objective", "scheduler/sim", "scheduler/eval", "workload", "gnn", "internal"},
	"scheduler/objective":      {"internal/cluster", "internal/fragmentation"},
	"scheduler/plugin":         {"scheduler/decision", "scheduler/experience", "scheduler/policy", "scheduler/objective", "gnn", "workload/trace", "internal"},
	"scheduler/server":         {"scheduler/plugin", "scheduler/policy", "gnn/checkpoint", "internal"},
	"scheduler/sim":            {"scheduler/encode", "scheduler/objective", "workload", "internal"},
	"workload":                 {"workload", "internal"},

	"scheduler/eval/testbed/inprocess": {"scheduler/eval/testbed", "kwok", "workload/trace"},

	"scheduler/learn/run":       {"scheduler/encode", "scheduler/eval", "scheduler/objective", "scheduler/policy", "scheduler/sim", "gnn"},
	"scheduler/learn/online":    {"scheduler/learn/run", "scheduler/experience", "scheduler/policy", "gnn"},
	"scheduler/learn/dqn":       {"scheduler/learn/run", "scheduler/learn/online", "scheduler/policy", "gnn"},
	"scheduler/learn/ppo":       {"scheduler/learn/run", "scheduler/learn/online", "scheduler/policy", "gnn"},
	"scheduler/learn/value":     {"scheduler/encode", "scheduler/eval", "scheduler/objective", "scheduler/policy", "scheduler/sim", "workload/trace", "gnn", "internal/cluster"},
	"scheduler/learn/linear":    {"scheduler/eval", "scheduler/policy", "scheduler/sim"},
	"scheduler/learn/tabular":   {"scheduler/policy", "scheduler/sim", "internal/cluster"},
	"scheduler/learn/learntest": {"scheduler/encode", "scheduler/objective", "scheduler/sim", "workload", "gnn", "internal/cluster"},

	"scheduler/policy":            {"internal/cluster", "internal/fragmentation"},
	"scheduler/policy/cache":      {"internal/cluster"},
	"scheduler/policy/spread":     {},
	"scheduler/policy/linear":     {"scheduler/policy", "internal/cluster"},
	"scheduler/policy/heuristic":  {"scheduler/policy", "scheduler/objective", "internal/cluster", "internal/fragmentation"},
	"scheduler/policy/neural":     {"scheduler/policy", "scheduler/encode", "gnn/graph", "gnn/infer", "internal/cluster", "internal/fragmentation"},
	"scheduler/policy/policytest": {"scheduler/policy", "internal/cluster"},
}

// torch is the one folder tree and the two programs' folders that may name gotch.
var torch = []string{"gnn/torch", "scheduler/learn", "cmd/gnntrain"}

func TestImports(t *testing.T) {
	root := filepath.Join("..", "..")
	seen := map[string]bool{}
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, _ := filepath.Rel(root, path)
		if d.IsDir() && (strings.HasPrefix(d.Name(), ".") && rel != "." || d.Name() == "testdata") {
			return fs.SkipDir
		}
		if !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return nil
		}
		folder := filepath.ToSlash(filepath.Dir(rel))
		room := longest(folder)
		if room == "" {
			t.Errorf("%s lies in no folder that the rules know", rel)
			return nil
		}
		seen[room] = true
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ImportsOnly)
		if err != nil {
			return err
		}
		for _, i := range file.Imports {
			name, _ := strconv.Unquote(i.Path.Value)
			check(t, rel, folder, room, name)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for room := range may {
		if !seen[room] {
			t.Errorf("the rules name %s, where no code is", room)
		}
	}
}

func check(t *testing.T, file, folder, room, imported string) {
	if strings.HasPrefix(imported, "github.com/sugarme/gotch") && !slices.ContainsFunc(torch, func(f string) bool { return within(folder, f) }) {
		t.Errorf("%s imports %s: only %v may", file, imported, torch)
	}
	target, ours := strings.CutPrefix(imported, module)
	if !ours || within(target, room) {
		return
	}
	if !slices.ContainsFunc(may[room], func(f string) bool { return within(target, f) }) {
		t.Errorf("%s imports %s: %s may import only %v", file, imported, room, may[room])
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
