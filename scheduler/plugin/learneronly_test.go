package plugin

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"slices"
	"strings"
	"testing"

	fwk "k8s.io/kube-scheduler/framework"
)

// Without LearnArgs the plugin is of a type that cannot explore and that implements no extension
// point of a learner.
func TestNothingExploresWithoutLearn(t *testing.T) {
	b := newBed(t, "plain", Args{Checkpoint: untrained(t, 1, nil)})
	if b.plugin == nil || b.learner != nil || b.plugin.observer != observer(nobody{}) {
		t.Fatalf("plugin %v, learner %v", b.plugin, b.learner)
	}
	var made fwk.Plugin = b.plugin
	if _, reserves := made.(fwk.ReservePlugin); reserves {
		t.Error("it hears of reservations")
	}
	if _, filters := made.(fwk.PostFilterPlugin); filters {
		t.Error("it hears of pods that wait")
	}
	if _, binds := made.(fwk.PostBindPlugin); binds {
		t.Error("it hears of bindings")
	}
	b.alike(t, "plain", 5)
	_, first, _ := b.cycle(t, "plain", benchPod(0, 0, ""))
	for i := range 200 {
		state, node, ok := b.cycle(t, "plain", benchPod(i, 0, ""))
		if !ok || node != first {
			t.Fatalf("decision %d is %s, not %s", i, node, first)
		}
		if noteKey.Read(state) != nil || decisionKey.Read(state) != nil {
			t.Fatal("the decision was noted")
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
		"policy.Sample": "explore",
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
	packages, err := parser.ParseDir(set, ".", func(i fs.FileInfo) bool { return !strings.HasSuffix(i.Name(), "_test.go") }, 0)
	if err != nil {
		t.Fatal(err)
	}
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
