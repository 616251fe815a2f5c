package plugin

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"gnnsched/internal/fatal"
	"gnnsched/scheduler/plugin/canary"
	"gnnsched/scheduler/policy/preference"
)

func duration(d time.Duration) metav1.Duration { return metav1.Duration{Duration: d} }

func TestDecodeArgs(t *testing.T) {
	defaults := Args{Variant: "gnn", Deadline: duration(100 * time.Millisecond), ReloadInterval: duration(2 * time.Second),
		Preferences: preference.First}
	with := func(edit func(*Args)) Args {
		a := defaults
		edit(&a)
		return a
	}
	for _, c := range []struct {
		name, profile, raw string
		want               Args
		err                string // part of the message; empty for no error
	}{
		{"empty", "gnn", `{}`, defaults, ""},
		{"nothing", "gnn", ``, defaults, ""},
		{"JSON", "gnn", `{"deadline":"10ms","reloadInterval":"1m"}`,
			with(func(a *Args) { a.Deadline, a.ReloadInterval = duration(10*time.Millisecond), duration(time.Minute) }), ""},
		{"YAML", "x", "variant: acdqn\ncheckpoint: /a/b\n", with(func(a *Args) { a.Variant, a.Checkpoint = "acdqn", "/a/b" }), ""},
		{"a scheduler name of one's own with a file", "mine", `{"checkpoint":"f"}`,
			with(func(a *Args) { a.Variant, a.Checkpoint = "mine", "f" }), ""},
		{"a scheduler name of one's own alone", "mine", `{}`, Args{}, `no variant is called "mine"`},
		{"a policy", "gnn", `{"policy":"best-fit"}`, with(func(a *Args) { a.Variant, a.Policy = "", "best-fit" }), ""},
		{"a policy under any name", "mine", `{"policy":"random","deadline":"1ms"}`,
			with(func(a *Args) { a.Variant, a.Policy, a.Deadline = "", "random", duration(time.Millisecond) }), ""},
		{"policy and variant", "gnn", `{"policy":"best-fit","variant":"gnn"}`, Args{}, `policy "best-fit" excludes`},
		{"policy and checkpoint", "gnn", `{"policy":"best-fit","checkpoint":"f"}`, Args{}, `policy "best-fit" excludes`},
		{"unknown policy", "gnn", `{"policy":"Best-Fit"}`, Args{},
			`no heuristic is called "Best-Fit" (did you mean best-fit?); there are kube-scheduler, `},
		{"unknown variant", "gnn", `{"variant":"GNN"}`, Args{}, `no variant is called "GNN" (did you mean gnn?)`},
		{"kind", "gnn", `{"apiVersion":"a/v1","kind":"K"}`, with(func(a *Args) { a.APIVersion, a.Kind = "a/v1", "K" }), ""},
		{"preferences", "gnn", `{"preferences":"declared"}`, with(func(a *Args) { a.Preferences = preference.Declared }), ""},
		{"preferences off, which YAML reads as a boolean", "gnn", "preferences: off\n", with(func(a *Args) { a.Preferences = preference.Off }),
			""},
		{"unknown preferences", "gnn", `{"preferences":"last"}`, Args{}, `preferences is "last"; there are first, declared, blend, off`},
		{"unknown field", "gnn", `{"deadlin":"1ms"}`, Args{}, `unknown field "deadlin"`},
		{"twice", "gnn", "deadline: 1ms\ndeadline: 2ms\n", Args{}, "already set"},
		{"not a duration", "gnn", `{"deadline":"soon"}`, Args{}, "soon"},
		{"wrong type", "gnn", `{"checkpoint":["a"]}`, Args{}, "checkpoint"},
		{"negative deadline", "gnn", `{"deadline":"-1ms"}`, Args{}, "must be positive"},
		{"negative interval", "gnn", `{"reloadInterval":"-1ms"}`, Args{}, "must be positive"},
		{"a share", "gnn", `{"share":{"of":0.05}}`, with(func(a *Args) {
			a.Canary = &canary.Args{Of: 0.05, By: canary.ByOwner, Failures: canary.DefaultFailures, Latency: duration(canary.DefaultLatency)}
		}), ""},
		{"no share", "gnn", `{"share":{}}`, Args{}, "share: of is 0"},
		{"a share with a typo", "gnn", `{"share":{"of":0.05,"bye":"owner"}}`, Args{}, `unknown field "bye"`},
		{"a share of blended scores", "gnn", `{"share":{"of":0.05},"preferences":"blend"}`, Args{}, "share: blended scores"},
		{"malformed", "gnn", `{"deadline":`, Args{}, "profile gnn"},
		{"a list", "gnn", `[]`, Args{}, "profile gnn"},
	} {
		got, err := DecodeArgs(&runtime.Unknown{Raw: []byte(c.raw)}, c.profile)
		if d := cmp.Diff(c.want, got); d != "" {
			t.Errorf("%s: %s", c.name, d)
		}
		if (err == nil) != (c.err == "") || err != nil && !strings.Contains(err.Error(), c.err) {
			t.Errorf("%s: error %v, want %q", c.name, err, c.err)
		}
	}
}

func TestDecodeArgsWithoutRawBytes(t *testing.T) {
	if a, err := DecodeArgs(nil, "dqn"); err != nil || a.Variant != "dqn" {
		t.Errorf("nil: %+v, %v; want the defaults", a, err)
	}
	if _, err := DecodeArgs(&v1.Pod{}, "dqn"); err == nil {
		t.Error("a typed object of another kind: no error")
	}
}

// Accepted arguments have positive durations, which the plugin relies on.
func FuzzDecodeArgs(f *testing.F) {
	for _, s := range []string{`{}`, `{"deadline":"1ms"}`, "variant: gnn\n", `{"checkpoint":"x"}`, `[`, `{"a":1}`,
		`{"deadline":"-9223372036854775808ns"}`, `null`, `{"share":{"of":1e-300,"by":"namespace","latency":"1ms"}}`, `{"share":{"of":2}}`} {
		f.Add([]byte(s), "gnn")
	}
	f.Fuzz(func(t *testing.T, raw []byte, profile string) {
		a, err := DecodeArgs(&runtime.Unknown{Raw: raw}, profile)
		if err == nil && a.Canary != nil && (!(a.Canary.Of > 0 && a.Canary.Of <= 1) || a.Canary.Latency.Duration <= 0 ||
			!(a.Canary.Failures > 0)) {
			t.Fatalf("accepted %q as %+v", raw, a.Canary)
		}
		if err == nil && (a.Deadline.Duration <= 0 || a.ReloadInterval.Duration <= 0) {
			t.Fatalf("accepted %q as %+v", raw, a)
		}
	})
}

// A profile with traffic says that default spreading is weighed against it, unless that is off.
func TestSpreadsBeforeTraffic(t *testing.T) {
	for text, want := range map[string]bool{
		`{"policy": "greedy:traffic"}`: false,
		`{"policy": "greedy:traffic", "traffic": {"network": {"zone": {"latency": 1}}, "measured": {"address": "https://p"}}}`:                            true,
		`{"policy": "greedy:traffic", "traffic": {"network": {"zone": {"latency": 1}}, "measured": {"address": "https://p"}}, "preferences": "declared"}`: false,
		`{"policy": "greedy:traffic", "traffic": {"network": {"zone": {"latency": 1}}, "measured": {"address": "https://p"}}, "preferences": "off"}`:      false,
	} {
		args := fatal.Value(DecodeArgs(&runtime.Unknown{Raw: []byte(text)}, "talkers"))(t)
		if got := args.spreadsBesideTraffic(); got != want {
			t.Errorf("%s: %v", text, got)
		}
	}
}

// Only learner explores, and only newPlugin makes one, behind a check of the argument. The test reads the
// source.
func TestExplorationHangsOnTheArgument(t *testing.T) {
	for name, want := range map[string]string{
		"newLearner":    "newPlugin, if args.Learn != nil",
		"l.explore":     "scored",
		"preferAnother": "explore",
		"learner{":      "newLearner",
	} {
		if got := uses(t, name); !slices.Equal(got, []string{want}) {
			t.Errorf("%s is in %q, want %q alone", name, got, want)
		}
	}
}

// uses lists the functions that call name, assign to it or make a value of it, each with the condition
// about args around the use.
func uses(t *testing.T, name string) []string {
	t.Helper()
	set := token.NewFileSet()
	packages := fatal.Value(parser.ParseDir(set, ".", func(i fs.FileInfo) bool { return !strings.HasSuffix(i.Name(), "_test.go") }, 0))(t)
	var out []string
	for _, file := range packages["plugin"].Files {
		for _, d := range file.Decls {
			if f, ok := d.(*ast.FuncDecl); ok && f.Body != nil {
				walk(f.Body, name, f.Name.Name, func(where string) { out = append(out, where) })
			}
		}
	}
	return out
}

func walk(n ast.Node, name, where string, found func(string)) {
	ast.Inspect(n, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.IfStmt:
			if c := expression(n.Cond); strings.Contains(c, "args.") {
				walk(n.Body, name, where+", if "+c, found)
				return false
			}
		case *ast.CallExpr:
			if expression(n.Fun) == name {
				found(where)
			}
		case *ast.AssignStmt:
			if len(n.Lhs) == 1 && expression(n.Lhs[0])+" =" == name {
				found(where)
			}
		case *ast.CompositeLit:
			if n.Type != nil && expression(n.Type)+"{" == name && len(n.Elts) > 0 {
				found(where)
			}
		}
		return true
	})
}

func expression(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.Ident:
		return e.Name
	case *ast.SelectorExpr:
		return expression(e.X) + "." + e.Sel.Name
	case *ast.BinaryExpr:
		return expression(e.X) + " " + e.Op.String() + " " + expression(e.Y)
	}
	return ""
}
