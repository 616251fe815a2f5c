package driver

import (
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"

	"gnnsched/internal/fatal"
	"gnnsched/workload/record"
	"gnnsched/workload/record/play"
	"gnnsched/workload/trace"
)

// columnChanges are changes of each column of the table pods. A partly read affinity column has changes for both of its parts.
var columnChanges = map[string][]func(*record.Pod){
	"uid":         {func(p *record.Pod) { p.UID += "x" }},
	"namespace":   {func(p *record.Pod) { p.Namespace = "other" }},
	"name":        {func(p *record.Pod) { p.Name += "x" }},
	"owner_kind":  {func(p *record.Pod) { p.OwnerKind = "Job" }},
	"owner_name":  {func(p *record.Pod) { p.OwnerName = "other" }},
	"workload":    {func(p *record.Pod) { p.Workload = "Deployment/other" }},
	"daemon":      {func(p *record.Pod) { p.Daemon = p.Name == "late" }},
	"scheduler":   {func(p *record.Pod) { p.Scheduler = "other" }},
	"priority":    {func(p *record.Pod) { p.Priority = 7 }},
	"cpu_milli":   {func(p *record.Pod) { p.MilliCPU = 200 }},
	"gpu":         {func(p *record.Pod) { p.GPU = 1 }},
	"gpu_milli":   {func(p *record.Pod) { p.GPUMilli = 300 }},
	"gpu_models":  {func(p *record.Pod) { p.GPUModels = `["T4"]` }},
	"gpu_index":   {func(p *record.Pod) { p.GPUIndex = "0" }},
	"extended":    {func(p *record.Pod) { p.Extended = `{"example.com/x":"1"}` }},
	"labels":      {func(p *record.Pod) { p.Labels = `{"a":"c"}` }},
	"tolerations": {func(p *record.Pod) { p.Tolerations = `[{"key":"k","operator":"Exists"}]` }},
	"host_ports":  {func(p *record.Pod) { p.HostPorts = `["TCP/0.0.0.0/80"]` }},
	"claims":      {func(p *record.Pod) { p.Claims = `["data"]` }},
	"images":      {func(p *record.Pod) { p.Images = `["nginx"]` }},
	"holds":       {func(p *record.Pod) { p.Holds = `["emptyDir"]` }},
	"arrived":     {func(p *record.Pod) { p.Arrived = min(p.Arrived, 10_000) }},
	"bound":       {func(p *record.Pod) { p.Bound += 4000 }},
	"ended":       {func(p *record.Pod) { p.Ended += 1000 }},
	"end":         {func(p *record.Pod) { p.End = record.Failed }},
	"node":        {func(p *record.Pod) { p.Node = "y" }},

	"do_not_disrupt":     {func(p *record.Pod) { p.DoNotDisrupt = `["karpenter.sh/do-not-disrupt=true"]` }},
	"deadline_s":         {func(p *record.Pod) { p.Deadline = 60 }},
	"health":             {func(p *record.Pod) { p.Health = record.NotReady }},
	"health_since":       {func(p *record.Pod) { p.HealthSince = 9000 }},
	"pod_group":          {func(p *record.Pod) { p.Group = "together" }},
	"priority_class":     {func(p *record.Pod) { p.PriorityClass = "other" }},
	"preemption_policy":  {func(p *record.Pod) { p.Preemption = "Never" }},
	"memory_bytes":       {func(p *record.Pod) { p.Memory = 2 << 20 }},
	"cpu_limit_milli":    {func(p *record.Pod) { p.CPULimit = 900 }},
	"memory_limit_bytes": {func(p *record.Pod) { p.MemoryLimit = 9 << 20 }},
	"node_selector":      {func(p *record.Pod) { p.NodeSelector = `{"disk":"ssd"}` }},
	"topology_spread": {func(p *record.Pod) {
		p.Spread = `[{"maxSkew":1,"topologyKey":"zone","whenUnsatisfiable":"DoNotSchedule"}]`
	}},
	"affinity": {
		func(p *record.Pod) {
			p.Affinity = `{"nodeAffinity":{"requiredDuringSchedulingIgnoredDuringExecution":{"nodeSelectorTerms":[{"matchExpressions":[{"key":"zone","operator":"In","values":["a"]}]}]}}}`
		},
		func(p *record.Pod) {
			p.Affinity = `{"podAntiAffinity":{"requiredDuringSchedulingIgnoredDuringExecution":[{"topologyKey":"zone","labelSelector":{"matchLabels":{"a":"b"}}}]}}`
		},
	},
}

// The documentation of each column agrees with the commands: a column counts as read if the played pods change with it.
func TestColumnsThatAreRead(t *testing.T) {
	documented := documentedColumns(t)
	before := played(t, func(*record.Pod) {})
	for column := range columnsOf(reflect.TypeFor[record.Pod]()) {
		changes, known := columnChanges[column]
		if !known {
			t.Errorf("no change of the column %s is tried", column)
			continue
		}
		for i, command := range []string{"runsim --replay", "scenario"} {
			read := 0
			for _, change := range changes {
				if played(t, change)[i] != before[i] {
					read++
				}
			}
			got := "part"
			switch read {
			case 0:
				got = "no"
			case len(changes):
				got = "yes"
			}
			if says := documented[column][i]; !strings.HasPrefix(says, got) {
				t.Errorf("docs/reference/record-format.md says of the column %s, read by %s: %q; it is %q", column, command, says, got)
			}
		}
	}
}

// columnsOf returns the names of a row's columns.
func columnsOf(row reflect.Type) map[string]bool {
	out := map[string]bool{}
	for i := range row.NumField() {
		name, _, _ := strings.Cut(row.Field(i).Tag.Get("parquet"), ",")
		out[name] = true
	}
	return out
}

// documentedColumns returns the cells of the table in docs/reference/record-format.md, by column.
func documentedColumns(t *testing.T) map[string][2]string {
	text, err := os.ReadFile("../../docs/reference/record-format.md")
	fatal.If(t, err)
	_, table, found := strings.Cut(string(text), "| column of `pods` | `runsim --replay` | scenario |\n|---|---|---|\n")
	if !found {
		t.Fatal("docs/reference/record-format.md has no table of the columns that are read")
	}
	out := map[string][2]string{}
	for line := range strings.Lines(table) {
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), "|")
		if len(cells) != 3 {
			break
		}
		for name := range strings.SplitSeq(cells[0], ",") {
			out[strings.Trim(name, " `")] = [2]string{strings.TrimSpace(cells[1]), strings.TrimSpace(cells[2])}
		}
	}
	return out
}

// played returns the pods that runsim --replay creates with their times, and the trace that a scenario plays, for a record with an initial
// pod and a later one, both changed.
func played(t *testing.T, change func(*record.Pod)) [2]string {
	t.Helper()
	pod := record.Pod{
		Namespace: "shop", OwnerKind: "ReplicaSet", OwnerName: "web-1", Workload: "Deployment/web", MilliCPU: 100, Memory: 1 << 20, GPUMilli: 500,
		Labels: `{"a":"b"}`, End: record.Deleted, Node: "x",
	}
	early, late := pod, pod
	early.UID, early.Name, early.Arrived, early.Bound, early.Ended = "1", "early", 1000, 2000, 60_000
	late.UID, late.Name, late.Arrived, late.Bound, late.Ended = "2", "late", 20_000, 21_000, 50_000
	dir := filepath.Join(t.TempDir(), "a.record")
	w, err := record.Create(dir, record.Options{})
	fatal.If(t, err)
	w.Run(record.Run{ID: "1", Source: "live", From: 3000, To: 90_000})
	for _, p := range []*record.Pod{&early, &late} {
		change(p)
		w.Pod(*p)
	}
	if _, err := w.Close(); err != nil {
		t.Fatal(err)
	}
	read, err := trace.Load(dir)
	fatal.If(t, err)
	return [2]string{staged(t, dir), describeJSON(t, read.Arrivals)}
}

// staged returns what runsim creates for a record.
func staged(t *testing.T, dir string) string {
	replay, err := play.LoadReplay(dir)
	fatal.If(t, err)
	client := fake.NewClientset(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "x"}}, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "y"}})
	c := Config{Client: client, SchedulerName: "gnn", Namespace: "live", RunID: "1", Simulated: true, Image: defaultImage}
	Replayed(replay, 1, 0).Pace(&c)
	c.Plan = replay.Trace.Plan()
	s, err := c.prepareStage(t.Context())
	fatal.If(t, err)
	classes, err := client.SchedulingV1().PriorityClasses().List(t.Context(), metav1.ListOptions{})
	fatal.If(t, err)
	out := []any{classes.Items}
	for _, step := range c.Plan.Steps {
		out = append(out, step.At, step.Action, s.pod(step.Deployment.Name))
	}
	return describeJSON(t, out)
}

func describeJSON(t *testing.T, of any) string {
	text, err := json.Marshal(of)
	fatal.If(t, err)
	return string(text)
}
