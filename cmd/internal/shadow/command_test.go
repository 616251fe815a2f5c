package shadow

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	ucli "github.com/urfave/cli/v2"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"
	st "k8s.io/kubernetes/pkg/scheduler/testing"
	"k8s.io/utils/ptr"

	"gnnsched/internal/cli"
	"gnnsched/internal/exit"
	"gnnsched/internal/fatal"
	"gnnsched/scheduler/objective"
)

// run runs the command.
func run(t *testing.T, args ...string) (code int, out, errs string) {
	t.Helper()
	var o, e bytes.Buffer
	app := &ucli.App{Name: "gnnsched", Writer: &o, ErrWriter: &e, Commands: []*ucli.Command{Command()}}
	code = cli.RunContext(context.Background(), app, append([]string{"gnnsched", "shadow"}, args...))
	return code, o.String(), e.String()
}

// report writes a report with an answer to a file.
func report(t *testing.T, answer string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "shadow.json")
	text := `{"version":"gnnsched.shadow/v1","profile":"gnn","of":["default-scheduler"],"verdict":{"answer":"` + answer +
		`","why":["because"]}}`
	fatal.If(t, os.WriteFile(path, []byte(text), 0o600))
	return path
}

func TestCommand(t *testing.T) {
	safe, notYet := report(t, "safe to switch"), report(t, "not yet")
	for _, c := range []struct {
		name string
		args []string
		code int
		say  string
	}{
		{"text", []string{safe}, exit.OK, "SAFE TO SWITCH\n  because\n"},
		{"json", []string{"-o", "json", safe}, exit.OK, `"answer": "safe to switch"`},
		{"another format", []string{"-o", "xml", safe}, exit.Usage, "choose text or json"},
		{"gate", []string{"--gate", safe}, exit.OK, "SAFE"},
		{"gate closed", []string{"--gate", notYet}, exit.Gate, "NOT YET"},
		{"without gate", []string{notYet}, exit.OK, "NOT YET"},
		{"a directory", []string{t.TempDir()}, exit.Usage, "directory"},
		{"namespace", []string{"--print-rbac", "-n", "No"}, exit.Usage, "No"},
	} {
		if code, out, errs := run(t, c.args...); code != c.code || !strings.Contains(out+errs, c.say) {
			t.Errorf("%s: code %d, want %d with %q:\n%s%s", c.name, code, c.code, c.say, out, errs)
		}
	}
}

// The printed role only reads.
func TestRole(t *testing.T) {
	code, out, errs := run(t, "--print-rbac")
	if code != exit.OK {
		t.Fatal(errs)
	}
	fatal.Golden(t, "rbac.yaml", out)
	for _, never := range []string{"create", "update", "patch", "delete", "binding\n", "leases", "*"} {
		if strings.Contains(out, never) {
			t.Errorf("it says %q", never)
		}
	}
}

// The moves are those that lower the objective and that the limits of gnnsched defrag allow: a pod without a controller stays.
func TestLower(t *testing.T) {
	made := metav1.NewTime(time.Now().Add(-time.Hour))
	running := func(name, node string) *v1.Pod {
		p := st.MakePod().Namespace("default").Name(name).UID(name).Node(node).Phase(v1.PodRunning).StartTime(made).
			CreationTimestamp(made).Req(map[v1.ResourceName]string{v1.ResourceCPU: "1"}).Obj()
		p.Status.Conditions = []v1.PodCondition{{Type: v1.PodScheduled, Status: v1.ConditionTrue, LastTransitionTime: made}}
		return p
	}
	node := func(name string) *v1.Node {
		n := st.MakeNode().Name(name).
			Capacity(map[v1.ResourceName]string{v1.ResourceCPU: "4", v1.ResourceMemory: "4Gi", v1.ResourcePods: "9"}).Obj()
		n.CreationTimestamp = made
		return n
	}
	bare, owned := running("bare", "a"), running("owned", "b")
	by := objective.Mix{{Term: objective.Pack{}, Weight: 1}}
	for _, want := range []int{0, 1} {
		got, err := lower(t.Context(), fake.NewClientset(node("a"), node("b"), bare, owned), by)
		if err != nil || got.Pods != want || got.After < got.Before != (want == 1) {
			t.Errorf("%+v, %v, want %d pods to move", got, err, want)
		}
		owned.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: "web", UID: "web", Controller: ptr.To(true)}}
	}
}
