package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/rs/zerolog"
	ucli "github.com/urfave/cli/v2"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"

	"gnnsched/internal/cli"
	"gnnsched/internal/each"
	"gnnsched/internal/exit"
	"gnnsched/internal/fatal"
	"gnnsched/workload"
	"gnnsched/workload/cleanup"
	"gnnsched/workload/driver/fakecluster"
)

func node(name string, simulated bool) runtime.Object {
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}
	if simulated {
		n.Annotations = map[string]string{workload.NodeTaint: workload.NodeSimulated}
	}
	return n
}

// usedCluster has the nodes, and two namespaces that one run made. In one of them is also a
// person's pod.
func usedCluster(nodes ...runtime.Object) *fakecluster.Cluster {
	ours := map[string]string{workload.LabelManagedBy: workload.ManagedBy, workload.LabelRun: "r"}
	meta := func(ns, name string, l map[string]string) metav1.ObjectMeta {
		return metav1.ObjectMeta{Namespace: ns, Name: name, Labels: l, UID: types.UID(ns + name)}
	}
	return fakecluster.New(append(nodes,
		&corev1.Namespace{ObjectMeta: meta("", "gnnsched-sim", ours)}, &corev1.Namespace{ObjectMeta: meta("", "shared", ours)},
		&appsv1.Deployment{ObjectMeta: meta("gnnsched-sim", "a", ours)}, &corev1.Pod{ObjectMeta: meta("gnnsched-sim", "a-1", ours)},
		&corev1.Pod{ObjectMeta: meta("shared", "a-2", ours)}, &corev1.Pod{ObjectMeta: meta("shared", "mine", nil)},
	)...)
}

func fakeRemoval(c *fakecluster.Cluster) (r *removal, out, errs *bytes.Buffer) {
	out, errs = &bytes.Buffer{}, &bytes.Buffer{}
	return &removal{
		cleaner: &cleanup.Client{Metadata: c.Metadata, Kinds: c, Clock: clock.RealClock{}}, format: "table",
		approval: approval{host: "https://prod", in: strings.NewReader(""), question: errs}, timeout: time.Minute, out: out, err: errs,
		log: zerolog.Nop(),
	}, out, errs
}

func podNames(t *testing.T, c *fakecluster.Cluster) string {
	t.Helper()
	l := fatal.Value(c.Client.CoreV1().Pods("").List(context.Background(), metav1.ListOptions{}))(t)
	names := each.Map(l.Items, func(p corev1.Pod) string { return p.Name })
	return strings.Join(names, " ")
}

func TestCleanclusterOnASimulatedClusterDoesNotAsk(t *testing.T) {
	c := usedCluster(node("n", true))
	e, out, errs := fakeRemoval(c)
	fatal.If(t, e.run(context.Background()))
	if got := podNames(t, c); got != "mine" {
		t.Errorf("left: %q", got)
	}
	if !strings.HasPrefix(out.String(), "removed 1 deployment, 0 replica sets, 2 pods and 1 namespace in ") {
		t.Errorf("stdout %q", out)
	}
	if want := "namespace shared is kept: it holds other objects: pods/mine\n"; errs.String() != want {
		t.Errorf("stderr %q, want %q", errs, want)
	}
	out.Reset()
	if err := e.run(context.Background()); err != nil || out.String() != "nothing to remove\n" {
		t.Errorf("the second time: %v, %q", err, out)
	}
}

func TestCleanclusterAsksOnOthers(t *testing.T) {
	for _, c := range []struct {
		name        string
		nodes       []runtime.Object
		yes         bool
		interactive bool
		answer      string
		removes     bool
		code        int
	}{
		{"yes", []runtime.Object{node("n", false)}, false, true, "y\n", true, exit.OK},
		{"YES", []runtime.Object{node("n", false)}, false, true, " Yes \n", true, exit.OK},
		{"no", []runtime.Object{node("n", false)}, false, true, "n\n", false, exit.Declined},
		{"enter", []runtime.Object{node("n", false)}, false, true, "\n", false, exit.Declined},
		{"end of input", []runtime.Object{node("n", false)}, false, true, "", false, exit.Declined},
		{"one real node among simulated ones", []runtime.Object{node("n", false), node("m", true)}, false, true, "", false, exit.Declined},
		{"no nodes at all", nil, false, true, "", false, exit.Declined},
		{"nobody there", []runtime.Object{node("n", false)}, false, false, "y\n", false, exit.Usage},
		{"--yes", []runtime.Object{node("n", false)}, true, false, "", true, exit.OK},
	} {
		fake := usedCluster(c.nodes...)
		e, _, errs := fakeRemoval(fake)
		e.yes, e.interactive, e.in = c.yes, c.interactive, strings.NewReader(c.answer)
		err := e.run(context.Background())
		if exit.Code(err) != c.code {
			t.Errorf("%s: got %v, want code %d", c.name, err, c.code)
		}
		if removed := podNames(t, fake) == "mine"; removed != c.removes {
			t.Errorf("%s: left %q", c.name, podNames(t, fake))
		}
		if asked := strings.Contains(errs.String(),
			"Remove 1 deployment, 0 replica sets, 2 pods and 1 namespace from it? [y/N]"); asked != c.interactive {
			t.Errorf("%s: stderr %q", c.name, errs)
		}
	}
}

func TestCleanclusterDryRun(t *testing.T) {
	for format, want := range map[string]string{
		"table": "NAMESPACE     RUN  DEPLOYMENTS  REPLICASETS  PODS  CLAIMS\ngnnsched-sim  r    1            0            1     " +
			"0\nshared        r    0            0            1     0\nnamespace gnnsched-sim\n",
		"name": "deployments/a -n gnnsched-sim\npods/a-1 -n gnnsched-sim\npods/a-2 -n shared\nnamespaces/gnnsched-sim\n",
	} {
		c := usedCluster(node("n", false))
		e, out, _ := fakeRemoval(c)
		e.dryRun, e.format = true, format
		fatal.If(t, e.run(context.Background()))
		if d := cmp.Diff(want, out.String()); d != "" {
			t.Errorf("%s:\n%s", format, d)
		}
		if got := podNames(t, c); got != "a-1 a-2 mine" {
			t.Errorf("left %q", got)
		}
	}
	e, out, _ := fakeRemoval(usedCluster(node("n", true)))
	e.dryRun, e.format, e.scope.Run = true, "json", "r"
	fatal.If(t, e.run(context.Background()))
	var got struct {
		Objects    []cleanup.Object
		Namespaces []cleanup.Namespace
	}
	if err := json.Unmarshal(out.Bytes(), &got); err != nil || len(got.Objects) != 3 || len(got.Namespaces) != 2 {
		t.Errorf("%v, %+v", err, got)
	}
}

func TestCleanclusterBadInput(t *testing.T) {
	withoutCluster(t)
	dead := file(t, "kubeconfig", nobodyListens)
	for _, c := range []struct {
		args []string
		code int
		want string
	}{
		{[]string{"everything"}, exit.Usage, `unexpected argument "everything"`},
		{[]string{"--run", "a b"}, exit.Usage, `run "a b"`},
		{[]string{"-o", "wide"}, exit.Usage, `no format is called "wide"`},
		{[]string{"--timeout", "0s"}, exit.Usage, "timeout 0s"},
		{nil, exit.Kubeconfig, "kwokcluster up"},
		{[]string{"--kubeconfig", dead, "--context", "x"}, exit.Kubeconfig, "x"},
		{[]string{"--kubeconfig", dead, "--dry_run"}, exit.Unreachable, "127.0.0.1:1"},
	} {
		code, stdout, stderr := command("cleancluster", c.args...)
		if code != c.code || !strings.Contains(stderr, c.want) || stdout != "" {
			t.Errorf("%v: code %d, want %d; stdout %q, stderr %q lacks %q", c.args, code, c.code, stdout, stderr, c.want)
		}
	}
}

// cleancluster gives up when nothing is removed any more.
func TestRemovalGivesUpWithoutProgress(t *testing.T) {
	c := usedCluster(node("n", true))
	pages := 0
	c.OnDelete = func(resource string) error {
		if resource != "pods" {
			return nil
		}
		if pages++; pages == 1 {
			return nil // deletes the pods of one namespace; the next namespace's stay
		}
		return apierrors.NewTimeoutError("no", 1)
	}
	r, _, _ := fakeRemoval(c)
	r.timeout = 3 * time.Second // a loaded machine may take long for the first page
	err := r.run(context.Background())
	if err == nil || !strings.Contains(err.Error(), "objects remain, among them pods a-2 in namespace shared") ||
		!strings.Contains(err.Error(), "nothing was removed for --timeout 3s") {
		t.Errorf("got %v", err)
	}
}

func TestWindow(t *testing.T) {
	at := func(text string) time.Time {
		return fatal.Value(time.Parse(time.DateTime, text))(t)
	}
	for _, c := range []struct {
		window, now string
		want        time.Duration
	}{
		{"", "2026-03-01 12:00:00", 0},
		{"02:00-05:00", "2026-03-01 02:00:00", 0},
		{"02:00-05:00", "2026-03-01 04:59:59", 0},
		{"02:00-05:00", "2026-03-01 05:00:00", 21 * time.Hour},
		{"02:00-05:00", "2026-03-01 01:30:00", 30 * time.Minute},
		{"22:00-05:00", "2026-03-01 23:00:00", 0},
		{"22:00-05:00", "2026-03-01 03:00:00", 0},
		{"22:00-05:00", "2026-03-01 12:00:00", 10 * time.Hour},
		{"00:00-00:30", "2026-02-28 23:59:00", time.Minute},
	} {
		w, err := parseWindow(c.window)
		if got := w.until(at(c.now)); err != nil || got != c.want {
			t.Errorf("%s at %s: %v, %v", c.window, c.now, got, err)
		}
	}
}

func TestFlags(t *testing.T) {
	for _, c := range []struct{ args, want string }{
		{"--moves many", "--moves"},
		{"--moves 1.5", "--moves"},
		{"--moves -1", "--moves"},
		{"--moves NaN", "--moves"},
		{"--moves 200%", "--moves"},
		{"--memory x", "--memory"},
		{"--for train-0", "namespace/name"},
		{"--every 1h", "without --apply"},
		{"--yes", "without --apply"},
		{"--search greedy --for ml/train-0", "--search has no effect with --for"},
		{"--objective balance --for ml/train-0", "--objective has no effect with --for"},
		{"--objective speed", "no term is called"},
		{"--objective throttled", "measured after a move"},
		{"--between 1-2 --apply", "--between"},
		{"--between 02:00-02:00 --apply", "--between"},
		{"--apply prod.record", "not of the record"},
		{"--wait 0s", "--wait"},
		{"-o xml", "--output"},
		{"no.record", "read the record"},
		{"--print-rbac --apply", ""},
	} {
		var out bytes.Buffer
		command := defragCommand()
		app := &ucli.App{Name: "gnnsched", Commands: []*ucli.Command{command}, Writer: &out, ErrWriter: &out}
		code := cli.Run(app, append([]string{"gnnsched", "defrag", "--log-dir="}, strings.Fields(c.args)...))
		if c.want == "" && code == 0 && strings.Contains(out.String(), "pods/eviction") {
			continue
		}
		if code != exit.Usage || c.want != "" && !strings.Contains(out.String(), c.want) {
			t.Errorf("%s: code %d\n%s", c.args, code, &out)
		}
	}
}

// defrag --apply asks before it moves pods of a cluster that is not simulated. A user without rights ends every command with one code.
func TestAsksBeforeMoves(t *testing.T) {
	nodes, forbidden := `{"kind":"PartialObjectMetadataList","apiVersion":"meta.k8s.io/v1","metadata":{},"items":[{"metadata":{"name":"n1"}}]}`,
		`{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Forbidden","code":403,"message":"nodes is forbidden: `+
			`User \"jane\" cannot list resource \"nodes\" in API group \"\" at the cluster scope"}`
	answer := func(path string) (int, string) { return http.StatusOK, nodes }
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodGet {
			t.Errorf("%s %s", r.Method, r.URL)
		}
		code, text := answer(r.URL.Path)
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(code)
		fmt.Fprint(w, text)
	}))
	defer s.Close()
	k := file(t, "kubeconfig", strings.ReplaceAll(nobodyListens, "https://127.0.0.1:1", s.URL))
	code, _, stderr := command("gnnsched", "defrag", "--log-dir=", "--apply", "--kubeconfig", k)
	if want := "cluster at " + s.URL + " is not simulated: 1 of its 1 nodes are real"; code != exit.Usage ||
		!strings.Contains(stderr, want) || !strings.Contains(stderr, "look without --apply") {
		t.Errorf("code %d, want %q in %s", code, want, stderr)
	}
	answer = func(path string) (int, string) { return http.StatusForbidden, forbidden } // of /readyz too, which is no reason to end
	for _, args := range [][]string{{"defrag"}, {"defrag", "--apply"}, {"runsim", "--csv="}, {"cleancluster"}, {"ktop", "--once"}} {
		args = append(args, "--log-dir=", "--kubeconfig", k)
		if code, _, stderr := command("gnnsched", args...); code != exit.Kubeconfig || !strings.Contains(stderr, "cannot list resource") {
			t.Errorf("%v: code %d, %s", args, code, stderr)
		}
	}
	if code, stdout, _ := command("gnnsched", "version"); code != exit.OK || !strings.HasPrefix(stdout, "gnnsched version dev, Kubernetes v1.") {
		t.Errorf("code %d: %s", code, stdout)
	}
}
