// Package architecture holds tests of the module's structure: which folder may import which other
// folder, and further rules that hold for the whole repository. It has no code besides tests.
package architecture

import (
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"gnnsched/internal/fatal"
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
	"scheduler/encode":  {"gnn/feature", "gnn/graph", "internal/cluster", "internal/fragmentation"},
	"scheduler/advise": {"scheduler/plugin", "scheduler/policy/preference", "scheduler/server", "internal/cluster",
		"internal/kuberelease"},
	"scheduler/decision": {"scheduler/policy", "internal/cluster", "internal/exit"},
	"scheduler/eval":     {"scheduler/policy", "scheduler/objective", "scheduler/sim", "workload", "internal"},
	"scheduler/eval/live": {"scheduler/eval", "scheduler/plugin", "scheduler/policy", "scheduler/sim", "scheduler/server", "workload",
		"gnn/checkpoint", "kwok/nodepool", "internal"},
	"scheduler/eval/contender": {"scheduler/eval", "scheduler/moves", "scheduler/objective", "scheduler/policy", "scheduler/sim",
		"scheduler/server", "gnn", "internal"},
	"scheduler/eval/remote":  {"scheduler/eval", "scheduler/sim", "workload/trace/openb", "internal"},
	"scheduler/eval/testbed": {"scheduler/server", "workload", "internal"},
	"scheduler/experience":   {"gnn/feature", "gnn/graph"},
	"scheduler/learn":        {"scheduler/objective", "scheduler/sim", "scheduler/eval", "workload", "gnn", "internal"},
	"scheduler/moves":        {"scheduler/objective", "internal/choice", "internal/cluster", "internal/fragmentation"},
	"scheduler/objective":    {"internal/cluster", "internal/fragmentation", "internal/choice"},
	"scheduler/plugin": {"scheduler/decision", "scheduler/usage", "scheduler/experience", "scheduler/policy",
		"scheduler/objective", "gnn", "workload/trace", "internal"},
	"scheduler/plugin/dra": {"scheduler/decision", "scheduler/plugin/userconfig", "internal/cluster",
		"internal/metric", "internal/watched"},
	"scheduler/plugin/learningcurve": {},
	"scheduler/plugin/canary": {"scheduler/plugin/userconfig", "internal/cluster/kube", "internal/choice", "internal/metric",
		"internal/table"},
	"scheduler/plugin/nodereservation": {"internal/cluster", "internal/watched"},
	"scheduler/plugin/overcommit":      {"internal/cluster/kube", "internal/metric", "internal/watched"},
	"scheduler/plugin/traffic": {"internal/cluster", "internal/metric", "internal/promapi", "internal/files",
		"internal/watched"},
	"scheduler/plugin/userconfig": {"internal"},
	"scheduler/serve":             {"scheduler/advise", "scheduler/plugin", "internal/exit", "internal/files", "internal/metric"},
	"scheduler/memcluster":        {"scheduler/advise", "scheduler/decision", "scheduler/objective", "scheduler/plugin", "internal"},
	"scheduler/plan": {"scheduler/advise", "scheduler/memcluster", "scheduler/moves", "scheduler/objective", "scheduler/replay",
		"workload/record", "internal"},
	"scheduler/defrag": {"scheduler/memcluster", "scheduler/plan", "scheduler/plugin/nodereservation",
		"scheduler/replay", "workload/record", "internal"},
	"scheduler/autoscale":           {"scheduler/moves", "scheduler/objective", "workload/record", "internal/cluster"},
	"scheduler/autoscale/karpenter": {"internal/cluster", "internal/cluster/kube", "scheduler/autoscale"},
	"scheduler/replay": {"scheduler/autoscale", "scheduler/decision", "scheduler/memcluster", "scheduler/objective", "scheduler/plugin",
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
	"workload/record/sktrace": {"workload/record"},

	"workload/record/history/historytest": {},

	"scheduler/eval/testbed/inprocess": {"scheduler/eval/testbed", "kwok", "workload/record", "workload/trace"},

	"scheduler/learn/value": {"scheduler/experience", "scheduler/encode", "scheduler/eval", "scheduler/objective",
		"scheduler/policy", "scheduler/sim", "workload/trace", "gnn", "internal/choice", "internal/cluster", "internal/files",
		"internal/fragmentation"},
	"scheduler/learn/cem": {"scheduler/eval", "scheduler/policy", "scheduler/sim", "internal/choice"},
	"scheduler/learn/learntest": {"scheduler/eval", "scheduler/experience", "scheduler/objective", "scheduler/policy",
		"scheduler/sim", "gnn", "internal/fatal"},

	"scheduler/policy":            {"internal/cluster", "internal/fragmentation"},
	"scheduler/policy/preference": {"internal/cluster", "internal/choice"},
	"scheduler/policy/stock":      {"scheduler/policy/preference", "internal/cluster"},
	"scheduler/policy/linear": {"scheduler/policy", "gnn/feature", "internal/cluster", "internal/files",
		"internal/choice"},
	"scheduler/policy/partition": {"scheduler/policy", "internal/cluster", "internal/fragmentation", "internal/files", "internal/choice"},
	"scheduler/policy/heuristic": {"scheduler/policy", "scheduler/objective", "gnn/checkpoint", "gnn/infer",
		"internal/cluster", "internal/fragmentation", "internal/choice"},
	"scheduler/policy/neural": {"scheduler/policy", "scheduler/encode", "scheduler/objective", "gnn", "internal/exit", "internal/cluster",
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
	{"autoscale", "objective", "encode", "policy", "sim", "moves"}, {"experience"},
	{"decision", "plugin", "server", "usage", "advise", "serve", "memcluster", "plan", "replay", "shadow"}, {"defrag", "eval"},
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
	if !ours || within(target, room) || target == "internal/each" { // which stands for loops
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

// The files of the plugin are layers: the names that they take from each other make no circle.
func TestFilesOfThePluginAreLayers(t *testing.T) {
	from := namesBetweenFiles(t, filepath.Join(root, "scheduler/plugin"))
	for len(from) > 0 {
		free := slices.DeleteFunc(slices.Sorted(maps.Keys(from)), func(file string) bool {
			for other := range from[file] {
				if from[other] != nil {
					return true
				}
			}
			return false
		})
		if len(free) == 0 {
			t.Fatalf("these files need names of each other in a circle, or stand above one: %v", from)
		}
		for _, file := range free {
			delete(from, file)
		}
	}
}

// namesBetweenFiles returns, of each file of a package, the names of package level that it takes from each other file. The
// receiver of a method is none: a stage of a decision is a method of the plugin, in a file of its own.
func namesBetweenFiles(t *testing.T, dir string) map[string]map[string][]string {
	paths, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil || len(paths) == 0 {
		t.Fatalf("no files in %s: %v", dir, err)
	}
	files, home := map[string]*ast.File{}, map[string]string{}
	for _, path := range paths {
		if strings.HasSuffix(path, "_test.go") {
			continue
		}
		file := fatal.Value(parser.ParseFile(token.NewFileSet(), path, nil, 0))(t)
		files[filepath.Base(path)] = file
		for name := range file.Scope.Objects {
			home[name] = filepath.Base(path)
		}
	}
	out := map[string]map[string][]string{}
	for path, file := range files {
		out[path] = map[string][]string{}
		receivers := map[*ast.Ident]bool{}
		for _, d := range file.Decls {
			if f, is := d.(*ast.FuncDecl); is && f.Recv != nil {
				ast.Inspect(f.Recv, func(n ast.Node) bool {
					if id, is := n.(*ast.Ident); is {
						receivers[id] = true
					}
					return true
				})
			}
		}
		for _, use := range file.Unresolved {
			if receivers[use] {
				continue
			}
			if other := home[use.Name]; other != "" && !slices.Contains(out[path][other], use.Name) {
				out[path][other] = append(out[path][other], use.Name)
			}
		}
	}
	return out
}

// Kubernetes takes minutes to compile. The trainer and its tests are compiled apart from the rest, with libtorch, so they do without it.
func TestTrainerNeedsNoKubernetes(t *testing.T) {
	code, tests := importsByFolder(t)
	kubernetes := func(name string) bool { return strings.HasPrefix(name, "k8s.io/kubernetes/") }
	if path := pathTo(kubernetes, code, code["scheduler/server"], map[string]bool{}); len(path) == 0 {
		t.Fatal("no path from scheduler/server to Kubernetes was found")
	}
	for folder := range code {
		if !slices.ContainsFunc(torch, func(f string) bool { return within(folder, f) }) {
			continue
		}
		if path := pathTo(kubernetes, code, slices.Concat(code[folder], tests[folder]), map[string]bool{}); len(path) > 0 {
			t.Errorf("%s or its tests reach Kubernetes by %s", folder, strings.Join(path, ", "))
		}
	}
}

// importsByFolder returns what the code and the tests of each folder import.
func importsByFolder(t *testing.T) (code, tests map[string][]string) {
	code, tests = map[string][]string{}, map[string][]string{}
	for _, s := range sources(t) {
		of := code
		if s.test {
			of = tests
		}
		for _, i := range s.ast.Imports {
			name, _ := strconv.Unquote(i.Path.Value) // the parser accepted it
			of[s.folder] = append(of[s.folder], name)
		}
	}
	return code, tests
}

// pathTo returns a path from imports to a package that is one, nil if there is none. It notes in seen the folders it has been to.
func pathTo(one func(name string) bool, code map[string][]string, imports []string, seen map[string]bool) []string {
	for _, name := range imports {
		if one(name) {
			return []string{name}
		}
		folder, ours := strings.CutPrefix(name, module)
		if !ours || seen[folder] {
			continue
		}
		seen[folder] = true
		if rest := pathTo(one, code, code[folder], seen); rest != nil {
			return append([]string{name}, rest...)
		}
	}
	return nil
}

// nested are the modules of their own below this one's folder. Each builds this module from its folder.
var nested = []string{"scheduler/schedbench/upstream"}

var requirement = regexp.MustCompile(`(?m)^\s*(?:require\s+)?([a-z0-9./_A-Z~-]+\.[a-z0-9./_A-Z~-]+)(?:\s+=>\s+\S+)?\s+(v\S+)`)

// A nested module has the versions of this one, of all modules that the plugin needs: otherwise it does not build, or builds everything a
// second time. `go vet ./...` does not see it.
func TestNestedModulesHaveTheSameVersions(t *testing.T) {
	root := filepath.Join("..", "..")
	ours, needed := versions(t, filepath.Join(root, "go.mod")), map[string]bool{}
	code, _ := importsByFolder(t)
	pathTo(func(name string) bool {
		for path := range ours {
			if name == path || strings.HasPrefix(name, path+"/") {
				needed[path] = true
			}
		}
		return false
	}, code, code["scheduler/plugin"], map[string]bool{})
	for _, folder := range nested {
		theirs := versions(t, filepath.Join(root, folder, "go.mod"))
		if len(theirs) < 50 || len(needed) < 5 {
			t.Errorf("%s: %d requirements, want more: is the pattern right?", folder, len(theirs))
		}
		for path := range needed {
			if theirs[path] == "" {
				t.Errorf("%s lacks %s; run `make tidy`", folder, path)
			}
		}
		for key, version := range theirs {
			if want, shared := ours[key]; shared && version != want {
				t.Errorf("%s: %s %s, and %s in the main module; run `go mod tidy` in that folder", folder, key, version, want)
			}
		}
	}
}

// The module file of an older Kubernetes release differs from go.mod only in Kubernetes' own modules, in modules that only one of the
// releases needs, and in modules replaced because the release does not compile with newer ones.
func TestOlderReleasesHaveTheSameVersions(t *testing.T) {
	root := filepath.Join("..", "..")
	files, err := filepath.Glob(filepath.Join(root, "go.k*.mod"))
	if err != nil || len(files) != 1 {
		t.Fatalf("module files of older releases %v, %v, want one", files, err)
	}
	ours := versions(t, filepath.Join(root, "go.mod"))
	for _, file := range files {
		name := filepath.Base(file)
		theirs := versions(t, file)
		release := strings.TrimSuffix(strings.TrimPrefix(name, "go.k1"), ".mod")
		for key, version := range theirs {
			path := strings.TrimSuffix(key, " =>")
			switch {
			case path == "k8s.io/kubernetes" && !strings.HasPrefix(version, "v1."+release+"."):
				t.Errorf("%s: %s %s, want 1.%s", name, key, version, release)
			case strings.HasSuffix(key, " =>") && strings.HasPrefix(path, "k8s.io/") && !strings.HasPrefix(version, "v0."+release+"."):
				t.Errorf("%s: %s %s, want 0.%s", name, key, version, release)
			case strings.HasPrefix(version, "v0."+release+".") && strings.HasPrefix(path, "k8s.io/") || path == "k8s.io/kubernetes":
			case ours[key] != "" && ours[key] != version:
				t.Errorf("%s: %s %s, and %s in go.mod; run `make tidy`", name, key, version, ours[key])
			}
		}
		for key := range ours {
			if theirs[key] == "" && !strings.HasSuffix(key, " =>") && !indirect(t, filepath.Join(root, "go.mod"), key) {
				t.Errorf("%s lacks %s; run `make tidy`", name, key)
			}
		}
	}
}

// indirect reports whether a module is required for another module only.
func indirect(t *testing.T, file, path string) bool {
	t.Helper()
	text := fatal.Value(os.ReadFile(file))(t)
	return regexp.MustCompile(`(?m)^\s*` + regexp.QuoteMeta(path) + ` .*// indirect$`).Match(text)
}

// versions returns the versions in a go.mod. A replacement has its arrow in the key.
func versions(t *testing.T, path string) map[string]string {
	t.Helper()
	text := fatal.Value(os.ReadFile(path))(t)
	out := map[string]string{}
	for _, m := range requirement.FindAllStringSubmatch(string(text), -1) {
		key := m[1]
		if strings.Contains(m[0], "=>") {
			key += " =>"
		}
		out[key] = m[2]
	}
	return out
}
