package sktrace

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/tinylib/msgp/msgp"

	"gnnsched/internal/fatal"
	"gnnsched/workload/record"
)

// lives are the lifecycles of a test's trace: a kind, namespace/name, and what SimKube writes of each pod.
type lives map[ownerKey][]any

// packed returns a trace: a JSON text with its fields, with the lifecycles, whose keys JSON cannot have.
func packed(t testing.TB, text string, pods lives) []byte {
	t.Helper()
	d := json.NewDecoder(strings.NewReader(text))
	d.UseNumber()
	fields := map[string]any{}
	fatal.If(t, d.Decode(&fields))
	b := msgp.AppendMapHeader(nil, uint32(len(fields)+1))
	for _, name := range []string{"version", "config", "events", "index", "extra"} {
		if x, has := fields[name]; has {
			b = appendValue(msgp.AppendString(b, name), x)
		}
	}
	b = msgp.AppendMapHeader(msgp.AppendString(b, "pod_lifecycles"), uint32(len(pods)))
	for k, list := range pods {
		b = appendValue(b, []any{k.kind, k.name})
		b = appendValue(msgp.AppendUint64(msgp.AppendMapHeader(b, 1), 1<<63+5), list)
	}
	return b
}

// podTemplate is a pod template with a request for CPU.
func podTemplate(cpu string) string {
	return `{"metadata":{"labels":{"app":"web"}},"spec":{"containers":[{"name":"c","resources":{"requests":{"cpu":"` + cpu + `"}}}]}}`
}

func deployment(name string, replicas int, cpu string) string {
	return fmt.Sprintf(`{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"namespace":"shop","name":%q},"spec":{"replicas":%d,"template":%s}}`,
		name, replicas, podTemplate(cpu))
}

const tracked = `"config":{"trackedObjects":{"apps/v1.Deployment":{"podSpecTemplatePath":"/spec/template","trackLifecycle":true},` +
	`"example.com/v1.Gang":{"podSpecTemplatePaths":["/spec/tasks/worker","/spec/tasks/ps"]}}},"index":{}`

// told is a trace: a Deployment that grows, changes its template, shrinks and goes; one whose pods' lifecycles are known; a Job, a bare pod,
// and others.
func told(t testing.TB) []byte {
	gang := `{"apiVersion":"example.com/v1","kind":"Gang","metadata":{"namespace":"shop","name":"gang"},"spec":{"tasks":{"worker":` +
		podTemplate("3") + `}}}`
	return packed(t, `{"version":2,`+tracked+`,"extra":1,"events":[
{"ts":100,"applied_objs":[`+deployment("web", 2, "1")+`,`+deployment("api", 1, "1")+`,`+gang+`,
 {"apiVersion":"v1","kind":"Service","metadata":{"namespace":"shop","name":"web"}},
 {"apiVersion":"batch/v1","kind":"Job","metadata":{"namespace":"shop","name":"once"},"spec":{"parallelism":3,"completions":1,"template":`+
		podTemplate("2")+`}},
 {"apiVersion":"v1","kind":"Pod","metadata":{"namespace":"shop","name":"bare"},"spec":{"containers":[{"name":"c"}]}},
 {"apiVersion":"apps/v1","kind":"DaemonSet","metadata":{"namespace":"shop","name":"logs"},"spec":{"template":`+podTemplate("1")+`}},
 {"apiVersion":"v1","kind":"Namespace","metadata":{"name":"shop","labels":{"team":"a"}}},
 {"kind":"Deployment","metadata":{}}],"deleted_objs":[]},
{"ts":200,"applied_objs":[`+deployment("web", 3, "1")+`],"deleted_objs":[]},
{"ts":300,"applied_objs":[`+deployment("web", 1, "2")+`],"deleted_objs":[{"apiVersion":"v1","kind":"Pod","metadata":{"namespace":"shop","name":"bare"}}]},
{"ts":400,"applied_objs":[],"deleted_objs":[`+deployment("web", 1, "2")+`]}]}`, lives{
		{"apps/v1.Deployment", "shop/api"}: {
			map[string]any{"Finished": []any{int64(90), int64(150)}}, map[string]any{"Running": int64(350)}, "Empty",
		},
		{"example.com/v1.Gang", "shop/gang"}:  {map[string]any{"Running": int64(120)}},
		{"apps/v1.Deployment", "shop/nobody"}: {map[string]any{"Running": int64(120)}},
	})
}

// described returns the rows of a trace, one a line.
func described(r Rows) string {
	var out []string
	for _, p := range r.Pods {
		out = append(out, fmt.Sprintf("pod %s of %s: %dm, %d to %d %s", p.Name, p.Workload, p.MilliCPU, p.Arrived/1000, p.Ended/1000, p.End))
	}
	for _, o := range r.Objects {
		out = append(out, fmt.Sprintf("%s %s, %d to %d, gone %v: %s%s", o.Kind, o.Name, o.From/1000, o.To/1000, o.Gone, o.Spec, o.Scale))
	}
	return strings.Join(append(out, r.Notes...), "\n") + fmt.Sprintf("\n%d to %d\n", r.From/1000, r.To/1000)
}

func TestRecordOfATrace(t *testing.T) {
	trace := fatal.Value(Parse(told(t)))(t)
	rows := fatal.Value(trace.Record())(t)
	fatal.Golden(t, "record.txt", described(rows))
}

func TestParseRefuses(t *testing.T) {
	deep := bytes.Repeat([]byte{0x91}, 200)
	object := append(append([]byte(nil), packed(t, `{"version":2,"events":[]}`, nil)...), 0xc0)
	if trace, err := Parse(object); err != nil || len(trace.notes) != 1 {
		t.Errorf("bytes after the trace: %v", err)
	}
	for want, data := range map[string][]byte{
		"it is no map":                        {0x93, 0x01},
		"the fields version and events":       packed(t, `{"version":2}`, nil),
		"version: it is 3, and":               packed(t, `{"version":3,"events":[]}`, nil),
		"version: msgp":                       packed(t, `{"version":"2","events":[]}`, nil),
		"events: msgp":                        packed(t, `{"version":2,"events":[7]}`, nil),
		"events: the time -1 is":              packed(t, `{"version":2,"events":[{"ts":-1}]}`, nil),
		"config: values are in values":        append(msgp.AppendString([]byte{0x81}, "config"), append(deep, 0xc0)...),
		"pod_lifecycles: the lifecycle \"X\"": packed(t, `{"version":2,"events":[]}`, lives{{"a", "b"}: {map[string]any{"X": int64(1)}}}),
		"msgp: too few bytes":                 told(t)[:500],
	} {
		if _, err := Parse(data); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
	greedy := fatal.Value(Parse(packed(t, `{"version":2,"events":[{"ts":1,"applied_objs":[`+deployment("web", 1<<30, "1")+`]}]}`, nil)))(t)
	if _, err := greedy.Record(); err == nil || !strings.Contains(err.Error(), "more than 2000000 pods") {
		t.Errorf("%v", err)
	}
}

// Amounts that no cluster has are bounded, and cost no time.
func TestAbsurdAmounts(t *testing.T) {
	for amount, want := range map[string]int64{"1e99": 10_000_000, "1e99999999": 10_000_000, "-1e99999999": 0, "1e-99999999": -1, "9E": 10_000_000} {
		trace := fatal.Value(Parse(packed(t, `{"version":2,"events":[{"ts":1,"applied_objs":[`+deployment("web", 1, amount)+`]}]}`, nil)))(t)
		rows, err := trace.Record()
		if err != nil || len(rows.Notes) != 1 || want >= 0 && rows.Pods[0].MilliCPU != want || want < 0 && len(rows.Pods) > 0 {
			t.Errorf("%s: %+v, %v", amount, rows, err)
		}
	}
}

// A trace of a record, read again, has its owners over time and its pods.
func TestWrite(t *testing.T) {
	pod := func(name, kind, owner, workload string, arrived, ended int64) record.Pod {
		p := record.Pod{UID: name, Namespace: "shop", Name: name, OwnerKind: kind, OwnerName: owner, Workload: workload, Arrived: arrived * 1000,
			Bound: arrived*1000 + 2000, Ended: ended * 1000, MilliCPU: 500, Labels: `{"app":"web","pod-template-hash":"1"}`, Images: `["web:1"]`}
		return p
	}
	bigger := pod("web-2-c", "ReplicaSet", "web-2", "Deployment/web", 1300, 0)
	bigger.MilliCPU, bigger.Claims, bigger.PriorityClass = 900, `["data"]`, "high"
	waits := pod("bare", "", "", "", 1400, 0)
	waits.Bound = 0
	pods := []record.Pod{pod("web-1-a", "ReplicaSet", "web-1", "Deployment/web", 900, 1300), bigger, waits,
		pod("once-x", "Job", "once", "Job/once", 1100, 1200), pod("lost", "ReplicaSet", "gone-1", "Deployment/gone", 1000, 0)}
	row := func(kind, name string, from, to int64, scale string) record.Object {
		return record.Object{Kind: kind, Namespace: "shop", Name: name, From: from * 1000, To: to * 1000, Scale: scale}
	}
	once := row(record.KindJob, "once", 1100, 1350, `{"owner":"CronJob/night","completions":1}`)
	once.Gone = true
	objects := []record.Object{
		row(record.KindDeployment, "web", 1000, 1250, `{"replicas":1,"strategy":"RollingUpdate","maxSurge":"25%","maxUnavailable":"1"}`),
		row(record.KindDeployment, "web", 1250, 0, `{"replicas":2,"strategy":"RollingUpdate","maxSurge":"25%","maxUnavailable":"1"}`),
		row(record.KindReplicaSet, "web-1", 1000, 0, `{"owner":"Deployment/web","replicas":0}`),
		row(record.KindReplicaSet, "web-2", 1250, 0, `{"owner":"Deployment/web","replicas":2}`), once,
		row(record.KindCronJob, "night", 1000, 0, `{"schedule":"@daily"}`), row(record.KindStatefulSet, "db", 1000, 0, `{"replicas":2}`),
		row(record.KindAutoscaler, "web", 1000, 0, `{"target":"Deployment/web","replicas":2}`),
	}
	out := fatal.Value(Write(pods, objects, 1_000_000, 1_500_000))(t)
	again, err := Write(pods, objects, 1_000_000, 1_500_000)
	if err != nil || !bytes.Equal(out.Trace, again.Trace) {
		t.Error("the same record makes another trace")
	}
	trace := fatal.Value(Parse(out.Trace))(t)
	var events []string
	for _, e := range trace.events {
		for what, list := range map[string][][]byte{"applied": e.applied, "deleted": e.deleted} {
			for _, b := range list {
				text := fatal.Value(toJSON(b))(t)
				events = append(events, fmt.Sprintf("%d %s %s", e.at, what, text))
			}
		}
	}
	slices.Sort(events)
	rows := fatal.Value(trace.Record())(t)
	fatal.Golden(t, "write.txt", strings.Join(events, "\n")+"\n\n"+strings.Join(out.Notes, "\n")+"\n\n"+described(rows))
	if d := cmp.Diff([2]int{2, 4}, [2]int{out.Owners, out.Pods}); d != "" {
		t.Error(d)
	}
	if _, err := Write(pods, nil, 0, 1); err == nil || !strings.Contains(err.Error(), "no owners of pods") {
		t.Errorf("an old record: %v", err)
	}
}

// For any bytes, reading a trace does not panic, and its rows are those of a record.
func FuzzParse(f *testing.F) {
	f.Add(told(f))
	f.Add([]byte{0x81})
	f.Add(packed(f, `{"version":2,"events":[{"ts":5,"applied_objs":[{"apiVersion":"v1","kind":"Pod","metadata":{"name":"p"}}]}]}`, nil))
	f.Fuzz(func(t *testing.T, data []byte) {
		trace, err := Parse(data)
		if err != nil {
			return
		}
		rows, err := trace.record(1000)
		if err != nil {
			return
		}
		for _, p := range rows.Pods {
			if err := record.Check(&p); err != nil {
				t.Errorf("%+v: %v", p, err)
			}
		}
		for _, o := range rows.Objects {
			if err := record.Check(&o); err != nil {
				t.Errorf("%+v: %v", o, err)
			}
		}
		_, _ = Write(rows.Pods, rows.Objects, rows.From, rows.To) // it does not panic
	})
}
