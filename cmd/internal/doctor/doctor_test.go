package doctor

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	ucli "github.com/urfave/cli/v2"
	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/version"
	apiversion "k8s.io/apimachinery/pkg/version"
	fakediscovery "k8s.io/client-go/discovery/fake"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"gnnsched/deploy"
	"gnnsched/gnn/checkpoint"
	"gnnsched/internal/bus"
	"gnnsched/internal/cli"
	"gnnsched/internal/exit"
	"gnnsched/internal/golden"
	"gnnsched/internal/kuberelease"
	"gnnsched/internal/workers"
	"gnnsched/scheduler/experience/hub"
	"gnnsched/workload/cleanup"
	"gnnsched/workload/record/history"
)

// healthy is a machine that has everything.
func healthy() machine {
	return machine{
		find: func(program string) (string, error) { return "/bin/" + program, nil },
		run: func(_ context.Context, program string, _ ...string) (string, error) {
			return program + " 1.0\nmore", nil
		},
		listen: func(string) error { return nil },
		free:   func(string) (uint64, error) { return 1 << 40, nil },
	}
}

// broken is a machine that lacks everything.
func broken() machine {
	return machine{
		find: func(program string) (string, error) {
			if program == "gnntrain" {
				return "/bin/gnntrain", nil
			}
			return "", errors.New("not found")
		},
		run: func(context.Context, string, ...string) (string, error) {
			return "libtorch.so: cannot open shared object file", errors.New("exit status 127")
		},
		listen: func(string) error { return errors.New("address already in use") },
		free:   func(string) (uint64, error) { return 1 << 20, nil },
	}
}

// cluster is an API server of a version that forbids the requests for which refused returns true.
func cluster(gitVersion string, usage bool, refused func(*authorizationv1.ResourceAttributes) bool) *fake.Clientset {
	c := fake.NewClientset()
	d := c.Discovery().(*fakediscovery.FakeDiscovery)
	d.FakedServerVersion = &apiversion.Info{GitVersion: gitVersion}
	if usage {
		d.Resources = []*metav1.APIResourceList{{GroupVersion: "metrics.k8s.io/v1beta1"}}
	}
	c.PrependReactor("create", "selfsubjectaccessreviews", func(a clienttesting.Action) (bool, runtime.Object, error) {
		review := a.(clienttesting.CreateAction).GetObject().(*authorizationv1.SelfSubjectAccessReview)
		what := review.Spec.ResourceAttributes
		if path := review.Spec.NonResourceAttributes; path != nil {
			what = &authorizationv1.ResourceAttributes{Verb: path.Verb, Name: path.Path}
		}
		review.Status.Allowed = !refused(what)
		return true, review, nil
	})
	return c
}

// released replaces the version that the test is built with by the newest release.
func released(text string) string {
	ours, newest := version.MustParseGeneric(kuberelease.Scheduler), version.MustParseGeneric("1.37")
	supported := func(v *version.Version) string {
		return fmt.Sprintf("kube-scheduler %s, which upstream supports on %s and %s", v, v, v.OffsetMinor(1))
	}
	return strings.NewReplacer(supported(ours), supported(newest), fmt.Sprintf("Kubernetes v%s.3", ours),
		fmt.Sprintf("Kubernetes v%s.3", newest)).Replace(text)
}

func TestReports(t *testing.T) {
	nobody := func(*authorizationv1.ResourceAttributes) bool { return false }
	counted := func(total, real int) func(context.Context) (cleanup.NodeCounts, error) {
		return func(context.Context) (cleanup.NodeCounts, error) {
			return cleanup.NodeCounts{Total: total, Real: real}, nil
		}
	}
	for _, c := range []struct {
		name    string
		only    []string
		machine machine
		cluster *fake.Clientset
		nodes   func(context.Context) (cleanup.NodeCounts, error)
		code    int
	}{
		{"healthy", nil, healthy(), cluster("v"+kuberelease.Scheduler+".3", true, nobody), counted(11, 0), exit.OK},
		{"broken", nil, broken(), cluster("v1.33.1", false, func(r *authorizationv1.ResourceAttributes) bool {
			return r.Verb == "delete" || r.Verb == "deletecollection" || r.Subresource == "binding" || r.Resource == "leases" ||
				r.Resource == "events" ||
				r.Resource == "services" || r.Resource == "poddisruptionbudgets" || r.Resource == "priorityclasses" || r.Name == "/debug/decisions"
		}), counted(5, 5), exit.Unreachable},
		{"hostile", []string{"usage"}, healthy(), cluster("v1.36\x1b[2J\nFAIL everything", true, nobody),
			func(context.Context) (cleanup.NodeCounts, error) {
				return cleanup.NodeCounts{}, errors.New("\x1b[31m" + strings.Repeat("x", 2000))
			}, exit.Unreachable},
		{"parts", []string{"ktop", "runsim"}, healthy(),
			cluster("v"+kuberelease.Scheduler+".3", true, func(r *authorizationv1.ResourceAttributes) bool {
				return r.Resource == "events" || r.Resource == "pods" && r.Verb == "create"
			}), counted(11, 0), exit.Unreachable},
		{"asked", []string{"compose", "gnntrain"}, broken(), nil, nil, exit.Usage},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Setenv("XDG_DATA_HOME", "/data")
			x := examination{machine: c.machine, only: c.only}
			if c.cluster != nil {
				x.onCluster(t.Context(), c.cluster, c.nodes)
			}
			x.weights("")
			x.local(t.Context())
			var out strings.Builder
			if err := write(&out, x.found); err != nil {
				t.Fatal(err)
			}
			golden.Check(t, c.name+".txt", released(out.String()))
			if err := verdict(x.found); exit.Code(err) != c.code {
				t.Errorf("%v: code %d, want %d", err, exit.Code(err), c.code)
			}
		})
	}
}

func TestWeights(t *testing.T) {
	file := filepath.Join(t.TempDir(), "net.safetensors")
	c := checkpoint.Random(checkpoint.Architecture{Encoder: checkpoint.GNN, Head: checkpoint.DQN, Hidden: 8}, rand.New(rand.NewPCG(1, 1)))
	c.Manifest.Objective = "pack"
	if err := c.Save(file); err != nil {
		t.Fatal(err)
	}
	x := examination{only: []string{"ktop"}}
	x.weights(file)
	x.weights(filepath.Join(t.TempDir(), "none"))
	if len(x.found) != 2 || x.found[0].state != fine || !strings.Contains(x.found[0].detail, "pack") || x.found[1].state != failed ||
		x.found[1].code != exit.Checkpoint {
		t.Errorf("found %+v", x.found)
	}
}

// The scheduler's rights equal the rights in the manifests.
func TestSchedulerRights(t *testing.T) {
	all, err := schedulerRights()
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	for _, r := range all {
		seen[r.namespace+" "+r.String()] = true
	}
	for _, want := range []string{" create pods/binding", " watch replicasets.apps",
		"kube-system update leases.coordination.k8s.io/gnnsched-gnn"} {
		if !seen[want] {
			t.Errorf("%q is not among %d rights", want, len(all))
		}
	}
}

// The check asks Prometheus for the series that a record needs.
func TestPrometheus(t *testing.T) {
	answers := map[string]string{}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		io.WriteString(w, `{"status":"success","data":{"resultType":"vector","result":[`+answers[r.FormValue("query")]+`]}}`) //nolint:errcheck // the client sees it
	}))
	defer s.Close()
	const one = `{"metric":{},"value":[1,"3"]}`
	whole := map[string]string{}
	for _, series := range history.Needed() {
		whole["count("+series+")"] = one
	}
	for _, c := range []struct {
		name    string
		url     string
		answers map[string]string
		args    []string
		code    int
		say     string
	}{
		{"answers", s.URL, whole, []string{"convert"}, exit.OK, "answers, and has"},
		{"lacks a series", s.URL, map[string]string{"count(" + history.Needed()[0] + ")": one}, []string{"convert"}, exit.Unreachable,
			"it has no series " + history.Needed()[1]},
		{"does not answer", "http://127.0.0.1:1", nil, []string{"convert"}, exit.Unreachable, "connection refused"},
		{"no URL", "ftp://x", nil, []string{"convert"}, exit.Usage, "must be a URL"},
		{"not named", "", nil, []string{"convert"}, exit.Usage, "--prometheus URL"},
		{"not asked", s.URL, nil, []string{"compose"}, exit.Usage, "not among the commands"},
		{"a token for nothing", "", nil, []string{"--token-file", "x", "compose"}, exit.Usage, "--token-file goes with --prometheus only"},
	} {
		t.Run(c.name, func(t *testing.T) {
			answers = c.answers
			args := []string{"gnnsched", "doctor"}
			if c.url != "" {
				args = append(args, "--prometheus", c.url)
			}
			var out strings.Builder
			app := &ucli.App{Name: "gnnsched", Writer: &out, ErrWriter: &out, Commands: []*ucli.Command{Command()}}
			if code := cli.RunContext(t.Context(), app, append(args, c.args...)); code != c.code || !strings.Contains(out.String(), c.say) {
				t.Errorf("code %d, want %d with %q: %s", code, c.code, c.say, out.String())
			}
		})
	}
}

// The check of a server for learning makes nothing there, and says what to do.
func TestExperience(t *testing.T) {
	dir := t.TempDir()
	s, err := workers.Serve(workers.Serving{Dir: dir, Listen: "127.0.0.1:0"})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	check := func(url, dir string, code int, say string) {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		defer cancel()
		var out strings.Builder
		app := &ucli.App{Name: "gnnsched", Writer: &out, ErrWriter: &out, Commands: []*ucli.Command{Command()}}
		got := cli.RunContext(ctx, app, []string{"gnnsched", "doctor", "--experience", url, "--queue", dir, "compose"})
		if !strings.Contains(out.String(), say) || (got == exit.Unreachable) != (code == exit.Unreachable) {
			t.Errorf("code %d, want %d with %q: %s", got, code, say, out.String())
		}
	}
	for range 2 {
		check(s.URL(), dir, exit.Unreachable, "start gnntrain --online --experience")
	}
	check(s.URL(), t.TempDir(), exit.Unreachable, "with --queue")
	check("nats://a:b@127.0.0.1:1", dir, exit.Usage, "NATS_PASSWORD")
	token, err := bus.Token(dir)
	if err != nil {
		t.Fatal(err)
	}
	small := checkpoint.Architecture{Encoder: checkpoint.MLP, Head: checkpoint.DQN, Hidden: 4}
	h, err := hub.Open(t.Context(), s.URL(), checkpoint.Random(small, rand.New(rand.NewPCG(1, 1))), token)
	if err != nil {
		t.Fatal(err)
	}
	h.Close()
	check(s.URL(), dir, exit.OK, "0 steps of schedulers, for 0 networks")
}

// The check of a work queue makes nothing there.
func TestWorkQueue(t *testing.T) {
	dir := t.TempDir()
	s, err := workers.Serve(workers.Serving{Dir: dir, Listen: "127.0.0.1:0"})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	var out strings.Builder
	app := &ucli.App{Name: "gnnsched", Writer: &out, ErrWriter: &out, Commands: []*ucli.Command{Command()}}
	cli.RunContext(t.Context(), app, []string{"gnnsched", "doctor", "--workers", s.URL(), "--queue", dir, "work"})
	if !strings.Contains(out.String(), "no worker answers") {
		t.Error(out.String())
	}
	token, err := bus.Token(dir)
	if err != nil {
		t.Fatal(err)
	}
	nc, err := nats.Connect(s.URL(), token)
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	for name := range js.StreamNames(t.Context()).Name() {
		t.Errorf("the check made the stream %s", name)
	}
}

// Every command that needs rights on a cluster has some, and they equal the rights in the printed roles.
func TestNeeds(t *testing.T) {
	for _, command := range onClusters {
		if n, err := needsOf(command); err != nil || len(n.always) == 0 || len(n.parts) > 0 && n.without == "" {
			t.Errorf("%s: %+v, %v", command, n, err)
		}
		if !slices.Contains(slices.Concat(expected, optional), command) {
			t.Errorf("%s cannot be asked for", command)
		}
	}
	for command, want := range map[string]string{
		"record": "watch poddisruptionbudgets.policy", "shadow": "create tokenreviews.authentication.k8s.io", "explain": "get /debug/decisions",
		"share": "update leases.coordination.k8s.io/kube-scheduler",
	} {
		n, err := needsOf(command)
		if err != nil || !slices.ContainsFunc(n.always, func(r right) bool { return r.String() == want }) {
			t.Errorf("%s does not need %q: %v, %v", command, want, n.always, err)
		}
	}
}

// The roles that the hint about a share names have the rights.
func TestShareRights(t *testing.T) {
	rules, err := deploy.Rules(deploy.Options{Name: "gnnsched", Namespace: "gnnsched", Mode: "replacement"})
	if err != nil {
		t.Fatal(err)
	}
	var given []right
	for _, r := range rules {
		given = append(given, rightsIn(r.Namespace, r.PolicyRule)...)
	}
	for _, need := range needsOfOthers["share"].always {
		if !slices.Contains(given, need) {
			t.Errorf("the replacement may not %s", need)
		}
	}
}

// This machine's own answers.
func TestThisMachine(t *testing.T) {
	m := thisMachine()
	if _, err := m.find("no-such-program"); err == nil {
		t.Error("a program that is not there is found")
	}
	if n, err := m.free(filepath.Join(t.TempDir(), "not", "made", "yet")); err != nil || n == 0 {
		t.Errorf("%d bytes free, error %v", n, err)
	}
	if err := m.listen("127.0.0.1:0"); err != nil {
		t.Error(err)
	}
	if text, err := m.run(t.Context(), "echo", "a"); err != nil || text != "a" {
		t.Errorf("echo says %q, %v", text, err)
	}
}
