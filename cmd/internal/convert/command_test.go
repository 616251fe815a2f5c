package convert

import (
	"bytes"
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	ucli "github.com/urfave/cli/v2"
	"sigs.k8s.io/yaml"

	"gnnsched/cmd/internal/plan"
	"gnnsched/internal/cluster"
	"gnnsched/internal/exit"
	"gnnsched/internal/fatal"
	"gnnsched/internal/promapi"
	"gnnsched/workload/record"
	"gnnsched/workload/record/history"
	"gnnsched/workload/record/history/historytest"
	"gnnsched/workload/record/play"
	"gnnsched/workload/trace"
)

// caseOf describes a folder of testdata/cases: the input files, and the expected messages of convert and plan.
type caseOf struct {
	About     string               `json:"about"`
	Convert   []string             `json:"convert"` // the files, as they are named
	Touch     map[string]time.Time `json:"touch"`   // times of files; others are as old as the test
	Code      int                  `json:"code"`    // exit code of convert
	Says      []string             `json:"says"`    // parts of convert's log or error
	Never     []string             `json:"never"`
	Plan      []string             `json:"plan"` // parts of plan's output; plan runs if there are any
	PlanNever []string             `json:"planNever"`
}

// Each input becomes the right record, or an error or a warning explains its fault.
func TestCases(t *testing.T) {
	cases, err := filepath.Glob("testdata/cases/*")
	if err != nil || len(cases) == 0 {
		t.Fatalf("%v, %v", cases, err)
	}
	for _, from := range cases {
		t.Run(filepath.Base(from), func(t *testing.T) {
			text := fatal.Value(os.ReadFile(filepath.Join(from, "case.yaml")))(t)
			var c caseOf
			fatal.If(t, yaml.UnmarshalStrict(text, &c))
			dir := t.TempDir()
			fatal.If(t, os.CopyFS(dir, os.DirFS(from)))
			for name, at := range c.Touch {
				fatal.If(t, os.Chtimes(filepath.Join(dir, name), at, at))
			}
			c.check(t, dir)
		})
	}
}

// check runs the commands in a copy of the case's folder.
func (c *caseOf) check(t *testing.T, dir string) {
	t.Helper()
	t.Chdir(dir)
	log, err := logged(t, c.Convert...)
	if code := exit.Code(err); code != c.Code {
		t.Fatalf("%s: %v with code %d, want %d", c.About, err, code, c.Code)
	}
	judge(t, "convert", log, c.Says, c.Never)
	if len(c.Plan) == 0 {
		return
	}
	var out bytes.Buffer
	app := &ucli.App{
		Name: "gnnsched", Commands: []*ucli.Command{plan.Command(nil, nil)}, Writer: &out, ErrWriter: &bytes.Buffer{},
		ExitErrHandler: func(*ucli.Context, error) {},
	}
	if err := app.RunContext(context.Background(), []string{"gnnsched", "plan", "--log-dir=", "--log-level=error", "x.record"}); err != nil {
		t.Fatalf("plan: %v", err)
	}
	judge(t, "plan", out.String(), c.Plan, c.PlanNever)
}

func judge(t *testing.T, command, got string, says, never []string) {
	t.Helper()
	for _, s := range says {
		if !strings.Contains(got, s) {
			t.Errorf("%s does not say %q:\n%s", command, s, got)
		}
	}
	for _, s := range never {
		if strings.Contains(got, s) {
			t.Errorf("%s says %q:\n%s", command, s, got)
		}
	}
}

// convert runs the command and returns its output.
func convert(t *testing.T, args ...string) (string, error) {
	t.Helper()
	var out bytes.Buffer
	app := &ucli.App{
		Name: "gnnsched", Version: "v1.2.3", Commands: []*ucli.Command{Command()}, Writer: &out, ErrWriter: &out,
		ExitErrHandler: func(*ucli.Context, error) {},
	}
	err := app.RunContext(context.Background(), append([]string{"gnnsched", "convert", "--log-dir=", "--log-level=error"}, args...))
	return out.String(), err
}

func file(t *testing.T, path, text string) string {
	t.Helper()
	fatal.If(t, os.WriteFile(path, []byte(text), 0o600))
	return path
}

func TestRefuses(t *testing.T) {
	for want, args := range map[string][]string{
		"name the files":              nil,
		"name a folder with --out":    {"a.json"},
		"ends neither in .record nor": {"--out", "a.yaml", "a.json"},
		"no such file":                {"--out", "/none/a.record", "a.json"},
	} {
		if _, err := convert(t, args...); err == nil || !strings.Contains(err.Error(), want) || exit.Code(err) != exit.Usage {
			t.Errorf("%v: %v with code %d, want %q", args, err, exit.Code(err), want)
		}
	}
}

// runCommand runs the command and returns its output.
func runCommand(t *testing.T, args ...string) (string, error) {
	t.Helper()
	var out bytes.Buffer
	app := &ucli.App{
		Name: "gnnsched", Commands: []*ucli.Command{RecordCommand()}, Writer: &out, ErrWriter: &out, ExitErrHandler: func(*ucli.Context, error) {},
	}
	err := app.RunContext(context.Background(), append([]string{"gnnsched", "record", "--log-dir=", "--log-level=error"}, args...))
	return out.String(), err
}

func TestWrongFlags(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "r.record")
	for want, args := range map[string][]string{
		"--out is missing":                   nil,
		`unexpected argument "now"`:          {"--out", dir, "now"},
		"--flush 1ms is not 1s to 24h":       {"--out", dir, "--flush", "1ms"},
		"--usage 25h0m0s is not 0":           {"--out", dir, "--usage", "25h"},
		"--keep 1m0s is less than an hour":   {"--out", dir, "--keep", "1m"},
		"--for -1s is negative":              {"--out", dir, "--for", "-1s"},
		"--key-file works with --anonymise ": {"--out", dir, "--key-file", "k"},

		"--prometheus: address must be a URL":                 {"--out", dir, "--prometheus", "prometheus:9090"},
		"--prometheus measures usage":                         {"--out", dir, "--prometheus", "http://p", "--usage", "0"},
		"--prometheus-cert-file works with --prometheus only": {"--out", dir, "--prometheus-cert-file", "k"},
		"certificates for https://p":                          {"--out", dir, "--prometheus", "https://p", "--prometheus-ca-file", "/none"},
		"a token is only sent over https":                     {"--out", dir, "--prometheus", "http://p", "--prometheus-token-file", "t"},
	} {
		if _, err := runCommand(t, args...); err == nil || !strings.Contains(err.Error(), want) || exit.Code(err) != exit.Usage {
			t.Errorf("%v: %v, want %q", args, err, want)
		}
	}
	for _, args := range [][]string{{"--prometheus-token-file", "t"}, {"--prometheus", "http://p", "--usage", "0"}, {"--prometheus", "p"}} {
		_, err := runCommand(t, append(args, "--out", dir)...)
		var with *exit.Error
		if !errors.As(err, &with) || with.Hint == "" {
			t.Errorf("%v: no hint in %v", args, err)
		}
	}
	if record.Is(dir) {
		t.Error("a wrong flag made a record")
	}
}

func TestPrintRBAC(t *testing.T) {
	all, err := runCommand(t, "--print-rbac")
	if err != nil || !strings.Contains(all, "metrics.k8s.io") || !strings.Contains(all, "name: gnnsched-record") {
		t.Errorf("%s, %v", all, err)
	}
	for _, args := range [][]string{{"--usage", "0"}, {"--prometheus", "http://p"}} {
		if less, err := runCommand(t, append(args, "--print-rbac")...); err != nil || strings.Contains(less, "metrics.k8s.io") ||
			!strings.Contains(less, "pods") {
			t.Errorf("with %v: %s, %v", args, less, err)
		}
	}
}

// A record goes on with the key and the kind of names that it began with.
func TestResume(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "r.record")
	w := fatal.Value(record.Create(dir, record.Options{}))(t)
	w.Pod(record.Pod{UID: "there", Name: "there", Arrived: 1000})
	w.Pod(record.Pod{UID: "gone", Name: "gone", Arrived: 1000, Ended: 2000, End: record.Deleted})
	w.Run(record.Run{ID: "1", Source: "live", From: 1000, To: 3000, Anonymised: true})
	fatal.Value(w.Close())(t)
	s := &recordRun{dir: dir}
	if err := s.resume(true); err != nil || len(s.open.Pods) != 1 || s.open.Pods[0].UID != "there" {
		t.Errorf("open %+v, %v", s.open, err)
	}
	if err := s.resume(false); exit.Code(err) != exit.Usage || !strings.Contains(err.Error(), "anonymised true, now false") {
		t.Errorf("with other names: %v", err)
	}
	if _, err := keyOf(dir+".key", true); err == nil {
		t.Error("a new key was made for a record that goes on")
	}
	made, err := keyOf(dir+".key", false)
	if err != nil || len(made) != 32 {
		t.Fatalf("key of %d bytes, %v", len(made), err)
	}
	if read, err := keyOf(dir+".key", true); err != nil || !bytes.Equal(read, made) {
		t.Errorf("the key was not kept: %v", err)
	}
}

// The record of a history, cut off by a server that went away, is gone on with by the same command.
func TestRecordOfPrometheus(t *testing.T) {
	var away atomic.Bool
	away.Store(true)
	s := historytest.Server(t, func(w http.ResponseWriter, q url.Values) bool {
		cut := away.Load() && strings.Contains(q.Get("query"), "kube_pod_created") && q.Get("time") == fmt.Sprint(historytest.End.Unix())
		if cut {
			w.WriteHeader(http.StatusUnprocessableEntity)
			_, _ = w.Write([]byte(`{"status":"error","errorType":"execution","error":"too many samples"}`))
		}
		return cut
	})
	to := filepath.Join(t.TempDir(), "a.record")
	args := []string{
		"--out", to, "--prometheus", s.URL, "--from", historytest.Begin.Format(time.RFC3339), "--to", historytest.End.Format(time.RFC3339),
		"--chunk", historytest.Chunk.String(), "--usage", historytest.Usage.String(),
	}
	_, err := convert(t, args...)
	if exit.Code(err) != exit.Unreachable ||
		!strings.Contains(err.Error(), "the record is complete until "+historytest.Begin.Add(40*time.Minute).Format(time.RFC3339)) {
		t.Fatalf("cut off: %v", err)
	}
	away.Store(false)
	for range 2 { // the second time, nothing is left to do
		fatal.Value(convert(t, args...))(t)
	}
	r := fatal.Value(record.Open(to))(t)
	pods, err := r.Pods()
	if err != nil || len(pods) != 5 {
		t.Errorf("%d pods, %v", len(pods), err)
	}
	runs, err := r.Runs()
	if err != nil || len(runs) != 2 || runs[0].To != runs[1].From || runs[1].To != historytest.End.UnixMilli() || runs[0].Program != "v1.2.3" {
		t.Errorf("runs %+v, %v", runs, err)
	}
	other := filepath.Join(t.TempDir(), "b.record")
	fatal.Value(convert(t, "--out", other, file(t, filepath.Join(t.TempDir(), "1.json"), listed)))(t)
	args[1] = other
	if _, err := convert(t, args...); exit.Code(err) != exit.Usage || !strings.Contains(err.Error(), "of the source kubectl") {
		t.Errorf("a record of kubectl: %v", err)
	}
}

// Whose fault it is decides the exit code.
func TestHistoryError(t *testing.T) {
	stopped, stop := context.WithCancel(t.Context())
	stop()
	for _, c := range []struct {
		ctx  context.Context
		err  error
		code int
		hint string
	}{
		{t.Context(), errors.New("no space left on device"), exit.Internal, "make room on the disk"},
		{t.Context(), history.Unanswered{Err: errors.New("refused")}, exit.Unreachable, "must answer at this URL"},
		{t.Context(), history.Unanswered{Err: x509.UnknownAuthorityError{}}, exit.Usage, "into --ca-file"},
		{t.Context(), history.Unanswered{Err: syscall.ECONNREFUSED}, exit.Unreachable, "host and port in --prometheus"},
		{t.Context(), fmt.Errorf("x: %w", history.Unanswered{Err: promapi.Refused{Why: "too many"}}), exit.Unreachable, "a shorter --chunk"},
		{stopped, history.Unanswered{Err: context.Canceled}, exit.Interrupted, ""},
	} {
		err := historyError(c.ctx, "http://p", c.err)
		var with *exit.Error
		if exit.Code(err) != c.code || errors.As(err, &with) && !strings.Contains(with.Hint, c.hint) {
			t.Errorf("%v: %v with code %d", c.err, err, exit.Code(err))
		}
	}
}

func TestRecordOfPrometheusRefuses(t *testing.T) {
	var token atomic.Value
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		token.Store(r.Header.Get("Authorization"))
		w.WriteHeader(http.StatusUnprocessableEntity)
		_, _ = w.Write([]byte(`{"status":"error","error":"too many samples"}`))
	}))
	defer s.Close()
	dir := t.TempDir()
	to, from := "--out="+filepath.Join(dir, "a.record"), "--from=2026-03-01T00:00:00Z"
	for _, c := range []struct {
		args []string
		code int
		want string
	}{
		{[]string{to, from, "--token-file", file(t, filepath.Join(dir, "token"), "secret"), "--prometheus", s.URL}, exit.Unreachable,
			"too many samples"},
		{[]string{to, "--prometheus", s.URL}, exit.Usage, "needs --from"},
		{[]string{to, "--prometheus", s.URL, "--from", "noon"}, exit.Usage, `"noon" is no time`},
		{[]string{to, from, "--prometheus", s.URL, "--to", "2026-02-01T00:00:00Z"}, exit.Usage, "--to is not after --from"},
		{[]string{to, from, "--prometheus", s.URL, "--chunk", "1s"}, exit.Usage, "--chunk 1s"},
		{[]string{to, from, "--prometheus", s.URL, "--usage", "2h"}, exit.Usage, "--usage 2h0m0s"},
		{[]string{to, from, "--prometheus", "https://a:b@prometheus"}, exit.Usage, "user or a password"},
		{[]string{to, from, "--prometheus", s.URL, "pods.json"}, exit.Usage, "reads no files"},
		{[]string{to, from, "pods.json"}, exit.Usage, "--from goes with --prometheus only"},
		{[]string{from, "--prometheus", s.URL}, exit.Usage, "name a folder with --out"},
	} {
		if _, err := convert(t, c.args...); err == nil || !strings.Contains(err.Error(), c.want) || exit.Code(err) != c.code {
			t.Errorf("%v: %v, want %q", c.args, err, c.want)
		}
	}
	if token.Load() != "Bearer secret" {
		t.Errorf("it sent %v", token.Load())
	}
}

// A limit that no cluster has is bounded, and the log counts and names such pods. The others are converted as they are.
func TestAbsurdAmounts(t *testing.T) {
	dir := t.TempDir()
	absurd := func(name, list, amount string) string {
		return `{"kind":"Pod","metadata":{"name":"` + name + `","namespace":"x","uid":"` + name +
			`"},"spec":{"containers":[{"name":"c","resources":{"` + list + `":{"cpu":"` + amount + `"}}}]}},`
	}
	pods := absurd("greedy", "limits", "1e30") + absurd("huge", "requests", "999999999999999999999999Gi") + absurd("large", "limits", "1000")
	from := file(t, filepath.Join(dir, "1.json"), strings.Replace(listed, `"items":[`, `"items":[`+pods, 1))
	to := filepath.Join(dir, "now.record")
	fatal.Value(convert(t, "--log-dir="+dir, "--log-level=warn", "--out", to, from))(t)
	log := fatal.Value(os.ReadFile(filepath.Join(dir, "convert.log")))(t)
	printed := string(log)
	r := fatal.Value(record.Open(to))(t)
	got, err := r.Pods()
	if err != nil || len(got) != 4 {
		t.Fatalf("%+v, %v", got, err)
	}
	limits, requests := map[string]int64{}, map[string]int64{}
	for _, p := range got {
		limits[p.Name], requests[p.Name] = p.CPULimit, p.MilliCPU
	}
	if limits["greedy"] != cluster.MaxMilliCPU || requests["huge"] != cluster.MaxMilliCPU || limits["large"] != 1_000_000 ||
		requests["p"] != 1000 {
		t.Errorf("limits %v, requests %v", limits, requests)
	}
	if strings.Count(printed, "the record bounds them") != 1 || !strings.Contains(printed, `"objects":2`) ||
		!strings.Contains(printed, "x/greedy") || !strings.Contains(printed, "resources.limits.cpu is 1e30") {
		t.Errorf("the log says %q", printed)
	}
}

const listed = `{"kind":"List","items":[
{"kind":"Node","metadata":{"name":"n1"},"status":{"allocatable":{"cpu":"4","memory":"8Gi","pods":"110"}}},
{"kind":"Pod","metadata":{"name":"p","namespace":"x","uid":"u","creationTimestamp":"2026-01-02T03:04:05Z"},"spec":{"nodeName":"n1","containers":[{"name":"c","resources":{"requests":{"cpu":"1"}}}]}}]}`

func TestRecordOfKubectl(t *testing.T) {
	dir := t.TempDir()
	first, second := file(t, filepath.Join(dir, "1.json"), listed),
		file(t, filepath.Join(dir, "2.json"), strings.Replace(listed, `"uid":"u"`, `"uid":"v"`, 1))
	to := filepath.Join(dir, "now.record")
	fatal.Value(convert(t, "--out", to, first, second))(t)
	r := fatal.Value(record.Open(to))(t)
	pods, err := r.Pods()
	if err != nil || len(pods) != 2 || pods[0].UID != "u" || pods[0].End != record.Unseen || pods[1].MilliCPU != 1000 ||
		pods[1].Node != "n1" || pods[1].Ended != 0 {
		t.Errorf("pods %+v, %v", pods, err)
	}
	if runs, err := r.Runs(); err != nil || len(runs) != 1 || runs[0].Source != "kubectl" || runs[0].Program != "v1.2.3" {
		t.Errorf("runs %+v, %v", runs, err)
	}
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"--out", to, first}, "is a record already"},
		{[]string{"--out", filepath.Join(dir, "a.record"), file(t, filepath.Join(dir, "bad.json"), "NAME READY")},
			"not what kubectl -o json or -o yaml prints"},
		{[]string{"--out", filepath.Join(dir, "c.record"), filepath.Join(dir, "none.json")}, "no such file"},
	} {
		if _, err := convert(t, c.args...); err == nil || !strings.Contains(err.Error(), c.want) || exit.Code(err) != exit.Usage {
			t.Errorf("%v: %v, want %q", c.args, err, c.want)
		}
	}
}

const (
	openbNodes = "sn,cpu_milli,memory_mib,gpu,model\nn-0,64000,262144,2,T4\nn-1,32000,131072,0,\n"
	openbPods  = "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos,pod_phase,creation_time,deletion_time,scheduled_time\n" +
		"p-0,6000,10240,1,460,T4,LS,Running,100,400,110\np-1,1000,1024,0,0,,BE,Running,160,,\n"
	aaml = "name,pod_count,cpu_request,cpu_limit,mem_request,mem_limit,action\nbrave-otter,2,250m,500m,512Mi,1Gi,add\n,,,,,,reset\n"
)

// A trace becomes a record, which is played as the trace is.
func TestRecordOfATrace(t *testing.T) {
	dir := t.TempDir()
	list, pods := file(t, filepath.Join(dir, "nodes.csv"), openbNodes), file(t, filepath.Join(dir, "pods.csv"), openbPods)
	to := filepath.Join(dir, "openb.record")
	fatal.Value(convert(t, "--out", to, list, pods))(t)
	r := fatal.Value(record.Open(to))(t)
	nodes, err := r.NodesAt(0)
	if err != nil || len(nodes) != 2 || nodes[0].GPU != 2 || nodes[0].GPUModel != "T4" || nodes[1].MilliCPU != 32_000 {
		t.Errorf("nodes %+v, %v", nodes, err)
	}
	runs, err := r.Runs()
	if err != nil || len(runs) != 1 || runs[0].Source != "openb" || runs[0].Program != "v1.2.3" || runs[0].From != play.Midnight ||
		runs[0].To != play.Midnight+300_000 {
		t.Errorf("runs %+v, %v", runs, err)
	}
	got, err := trace.Load(to)
	if err != nil || len(got.Arrivals) != 2 || got.Arrivals[0].Lifetime != 300 || got.Arrivals[1].At != 60 ||
		got.Arrivals[0].Deployment.Shape.Requests.GPUMilli != 460 || len(got.Notes) > 0 {
		t.Errorf("%+v, %v", got, err)
	}
}

func TestRecordOfAPlan(t *testing.T) {
	dir := t.TempDir()
	to := filepath.Join(dir, "aaml.record")
	fatal.Value(convert(t, "--out", to, file(t, filepath.Join(dir, "a.csv"), aaml)))(t)
	got, err := trace.Load(to)
	if err != nil || len(got.Arrivals) != 2 || got.Arrivals[1].Deployment.Name != "brave-otter-1" || got.Arrivals[1].Lifetime != 1 ||
		got.Arrivals[1].Deployment.Shape.Limits.MilliCPU != 500 {
		t.Errorf("%+v, %v", got, err)
	}
}

// A record of instances says what of them it lacks.
func TestRecordOfInstances(t *testing.T) {
	to := filepath.Join(t.TempDir(), "dlrm.record")
	fatal.Value(convert(t, "--out", to, "../../../workload/trace/testdata/gpu-v2025.csv"))(t)
	r := fatal.Value(record.Open(to))(t)
	runs, err := r.Runs()
	const lacks = "4 instances request a share of their node's RDMA card"
	if err != nil || runs[0].Source != "gpu-v2025" || !strings.Contains(runs[0].Missing, lacks) {
		t.Errorf("runs %+v, %v", runs, err)
	}
	got, err := trace.Load(to)
	if err != nil || len(got.Arrivals) != 4 || got.Arrivals[1].Lifetime != 4000 || got.Arrivals[3].Deployment.Shape.Requests.MilliCPU != 64_000 {
		t.Errorf("%+v, %v", got, err)
	}
}

func TestRecordOfATraceRefuses(t *testing.T) {
	dir := t.TempDir()
	list, pods := file(t, filepath.Join(dir, "nodes.csv"), openbNodes), file(t, filepath.Join(dir, "pods.csv"), openbPods)
	bad := file(t, filepath.Join(dir, "bad.csv"), "arrival,cpu_request,mem_request\n0,lots,1Gi\n")
	for want, files := range map[string][]string{
		"is a second node list": {list, list},
		"is a second trace":     {pods, pods},
		"bad.csv:2":             {bad},
		"no such file":          {filepath.Join(dir, "none.csv")},
	} {
		to := filepath.Join(dir, "x.record")
		if _, err := convert(t, append([]string{"--out", to}, files...)...); err == nil || !strings.Contains(err.Error(), want) ||
			exit.Code(err) != exit.Usage {
			t.Errorf("%v, want %q", err, want)
		}
		if record.Is(to) {
			t.Errorf("%q left a record", want)
		}
	}
}

// owned is a Deployment with its ReplicaSet and its pod, and a pod of a StatefulSet that the file lacks, as kubectl prints them.
const owned = `{"apiVersion":"v1","kind":"List","items":[
{"apiVersion":"v1","kind":"Node","metadata":{"name":"n1"},"status":{"allocatable":{"cpu":"4","memory":"8Gi","pods":"110"}}},
{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"web","namespace":"shop"},"spec":{"replicas":2}},
{"apiVersion":"apps/v1","kind":"ReplicaSet","metadata":{"name":"web-1","namespace":"shop",
 "ownerReferences":[{"kind":"Deployment","name":"web","controller":true}]},"spec":{"replicas":2}},
{"apiVersion":"v1","kind":"Pod","metadata":{"name":"web-1-a","namespace":"shop","uid":"u","creationTimestamp":"2026-01-02T03:04:05Z",
 "ownerReferences":[{"apiVersion":"apps/v1","kind":"ReplicaSet","name":"web-1","controller":true}]},
 "spec":{"nodeName":"n1","containers":[{"name":"c","image":"web:1","resources":{"requests":{"cpu":"1"}}}]}},
{"apiVersion":"v1","kind":"Pod","metadata":{"name":"db-0","namespace":"shop","uid":"v","creationTimestamp":"2026-01-02T03:04:05Z",
 "ownerReferences":[{"apiVersion":"apps/v1","kind":"StatefulSet","name":"db","controller":true}]},
 "spec":{"nodeName":"n1","containers":[{"name":"c"}]}}]}`

// A record with owners becomes a trace of SimKube, and this a record with nodes of a list.
func TestTracesOfSimkube(t *testing.T) {
	dir := t.TempDir()
	in := func(name string) string { return filepath.Join(dir, name) }
	_, err := convert(t, "--out", in("now.record"), file(t, in("now.json"), owned))
	fatal.If(t, err)
	_, err = convert(t, "--out", in("now.sktrace"), in("now.record"))
	fatal.If(t, err)
	_, err = convert(t, "--out", in("again.record"), in("now.sktrace"), file(t, in("nodes.csv"), openbNodes))
	fatal.If(t, err)
	r := fatal.Value(record.Open(in("again.record")))(t)
	pods := fatal.Value(r.Pods())(t)
	nodes := fatal.Value(r.Nodes())(t)
	runs, err := r.Runs()
	if err != nil || len(pods) != 1 || pods[0].MilliCPU != 1000 || pods[0].Workload != "Deployment/web" || len(nodes) != 2 ||
		runs[0].Source != "simkube" || nodes[0].From != runs[0].From {
		t.Errorf("%v: pods %+v, nodes %+v, runs %+v", err, pods, nodes, runs)
	}
	fatal.If(t, os.WriteFile(in("bad.sktrace"), []byte("\x81\xa7version\x03"), 0o600))
	for want, args := range map[string][]string{
		"bad.sktrace: no trace of SimKube: version: it is 3": {"--out", in("b.record"), in("bad.sktrace")},
		"is a second trace":     {"--out", in("c.record"), in("now.sktrace"), in("now.sktrace")},
		"is made of one record": {"--out", in("d.sktrace"), in("now.json")},
		"is a record already":   {"--out", in("again.record"), in("now.sktrace")},
	} {
		if _, err := convert(t, args...); err == nil || !strings.Contains(err.Error(), want) || exit.Code(err) != exit.Usage {
			t.Errorf("%v: %v, want %q", args, err, want)
		}
	}
}
