package history

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"gnnsched/internal/promapi"
	"gnnsched/workload/record"
)

// t0 is when the made-up history begins. Its cluster has two nodes and three pods for an hour.
var t0 = time.Unix(1_770_000_000, 0)

// exposition is what kube-state-metrics and a kubelet would have said, once in 30 seconds.
func exposition() string {
	families := map[string][]string{}
	add := func(series, labels string, value float64, from, to int) {
		for s := from; s <= to; s += 30 {
			families[series] = append(families[series], fmt.Sprintf("%s{%s} %v %d", series, labels, value, t0.Unix()+int64(s)))
		}
	}
	at := func(s int) float64 { return float64(t0.Unix() + int64(s)) }
	for _, n := range []struct {
		name string
		to   int
	}{{"n1", 3600}, {"n2", 1500}} {
		add("kube_node_info", `node="`+n.name+`"`, 1, 0, n.to)
		add("kube_node_labels", `node="`+n.name+`",label_topology_kubernetes_io_zone="a",label_disk="ssd"`, 1, 0, n.to)
		for resource, v := range map[string]float64{"cpu": 4, "memory": 8 << 30, "pods": 110, "example_com_fpga": 2} {
			add("kube_node_status_allocatable", `node="`+n.name+`",resource="`+resource+`"`, v, 0, n.to)
		}
	}
	add("kube_node_spec_taint", `node="n1",key="gpu",value="",effect="NoSchedule"`, 1, 0, 3600)
	began := map[string]int{} // the first second of each pod
	pod := func(name, node string, from, to int, owner, kind string) string {
		key := `namespace="shop",pod="` + name + `",uid="u-` + name + `"`
		add("kube_pod_info", key+`,node="`+node+`",created_by_kind="<none>",created_by_name="<none>",priority_class="system-node-critical"`, 1, from, to)
		add("kube_pod_owner", key+`,owner_kind="`+kind+`",owner_name="`+owner+`",owner_is_controller="true"`, 1, from, to)
		if _, known := began[name]; !known {
			began[name] = from
		}
		add("kube_pod_created", key, at(began[name]-7), from, to)
		for _, c := range []string{"a", "b"} {
			add("kube_pod_container_resource_requests", key+`,container="`+c+`",node="`+node+`",resource="cpu",unit="core"`, 0.25, from, to)
		}
		return key
	}
	web := pod("web", "", 30, 60, "web-5d8f", "ReplicaSet")
	pod("web", "n1", 90, 3600, "web-5d8f", "ReplicaSet")
	add("kube_pod_status_scheduled_time", web, at(65), 90, 3600)
	add("kube_pod_labels", web+`,label_app_kubernetes_io_name="web",label_pod_template_hash="5d8f"`, 1, 30, 3600)
	add("kube_pod_tolerations", web+`,key="gpu",operator="Exists",effect="NoSchedule"`, 1, 30, 3600)
	job := pod("job", "n2", 600, 1200, "job", "Job")
	add("kube_pod_completion_time", job, at(900), 930, 1200)
	add("kube_pod_status_phase", job+`,phase="Succeeded"`, 1, 930, 1200)
	pod("agent", "n2", 0, 1500, "agent", "DaemonSet")
	for s := 0; s <= 3600; s += 30 {
		families["container_cpu_usage_seconds_total"] = append(families["container_cpu_usage_seconds_total"], fmt.Sprintf(`container_cpu_usage_seconds_total{namespace="shop",pod="web",container="a"} %v %d`, float64(s)/2, t0.Unix()+int64(s)))
	}
	add("container_memory_working_set_bytes", `namespace="shop",pod="web",container="a"`, 1<<20, 0, 3600)
	var out strings.Builder
	for name, lines := range families {
		fmt.Fprintf(&out, "# TYPE %s gauge\n%s\n", name, strings.Join(lines, "\n"))
	}
	return out.String() + "# EOF\n"
}

func program(t *testing.T, name string) string {
	t.Helper()
	if path, err := exec.LookPath(name); err == nil {
		return path
	}
	path, err := filepath.Abs("../../../.cache/prometheus/usr/bin/" + name)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(path); err != nil {
		t.Skip("prometheus is not installed: run make prometheus, or install Debian's package")
	}
	return path
}

// server runs a real Prometheus with the history.
func server(t *testing.T) *promapi.Client {
	t.Helper()
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	data := filepath.Join(dir, "data")
	if out, err := exec.Command(program(t, "promtool"), "tsdb", "create-blocks-from", "openmetrics", write("history", exposition()), data).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := l.Addr().String()
	_ = l.Close()
	c := exec.Command(program(t, "prometheus"), "--config.file="+write("c.yml", ""), "--storage.tsdb.path="+data, "--storage.tsdb.retention.time=100y", "--web.listen-address="+address)
	var log strings.Builder
	c.Stdout, c.Stderr = &log, &log
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = c.Process.Signal(os.Interrupt)
		_ = c.Wait()
		if t.Failed() {
			t.Log(log.String())
		}
	})
	client, err := promapi.New(promapi.Server{Address: "http://" + address})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.HTTP.CloseIdleConnections)
	for n := 0; ; n++ {
		r, err := client.HTTP.Get("http://" + address + "/-/ready")
		if err == nil {
			_ = r.Body.Close()
			if r.StatusCode == http.StatusOK {
				return client
			}
		}
		if n > 600 {
			t.Fatalf("Prometheus is not ready: %v", err)
		}
		time.Sleep(50 * time.Millisecond)
	}
}

func config(ask Asker, out Sink) Config {
	return Config{Ask: ask, Out: out, From: t0, To: t0.Add(time.Hour), Chunk: 20 * time.Minute, Usage: 5 * time.Minute, Program: "test",
		Progress: func(float64, int) {}, Pause: func(context.Context, time.Duration) error { return nil }}
}

func TestHistoryOfAPrometheus(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "r.record")
	w, err := record.Create(dir, record.Options{})
	if err != nil {
		t.Fatal(err)
	}
	got, err := Read(t.Context(), config(server(t), w))
	if err != nil || got.Nodes != 2 || got.Pods != 3 {
		t.Fatalf("%+v, %v", got, err)
	}
	if _, err := w.Close(); err != nil {
		t.Fatal(err)
	}
	r, err := record.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	pods, err := r.Pods()
	ms := func(s int64) int64 { return (t0.Unix() + s) * 1000 }
	base := record.Pod{Namespace: "shop", MilliCPU: 500, Priority: 2_000_001_000, PriorityClass: "system-node-critical"}
	web, job, agent := base, base, base
	web.UID, web.Name, web.Node, web.OwnerKind, web.OwnerName, web.Workload, web.Arrived, web.Bound = "u-web", "web", "n1", "ReplicaSet", "web-5d8f", "Deployment/web", ms(23), ms(65)
	web.Labels, web.Tolerations = `{"app.kubernetes.io/name":"web","pod-template-hash":"5d8f"}`, `[{"key":"gpu","operator":"Exists","effect":"NoSchedule"}]`
	job.UID, job.Name, job.Node, job.OwnerKind, job.OwnerName, job.Workload, job.Arrived, job.Bound, job.Ended, job.End = "u-job", "job", "n2", "Job", "job", "Job/job", ms(593), ms(593), ms(900), record.Succeeded
	agent.UID, agent.Name, agent.Node, agent.OwnerKind, agent.OwnerName, agent.Workload, agent.Daemon = "u-agent", "agent", "n2", "DaemonSet", "agent", "DaemonSet/agent", true
	agent.Arrived, agent.Bound, agent.Ended, agent.End = ms(-7), ms(-7), ms(1500), record.Deleted
	if d := cmp.Diff([]record.Pod{agent, web, job}, pods); err != nil || d != "" {
		t.Errorf("%v: %s", err, d)
	}
	nodes, err := r.Nodes()
	n1 := record.Node{Name: "n1", From: ms(0), MilliCPU: 4000, Memory: 8 << 30, Pods: 110, Extended: `{"example.com/fpga":"2"}`, Labels: `{"disk":"ssd","topology.kubernetes.io/zone":"a"}`, Taints: `[{"key":"gpu","effect":"NoSchedule"}]`}
	n2 := n1
	n2.Name, n2.Taints, n2.To, n2.Gone = "n2", "", ms(2400), true
	if d := cmp.Diff([]record.Node{n1, n2}, nodes); err != nil || d != "" {
		t.Errorf("%v: %s", err, d)
	}
	samples := 0
	err = r.Samples(func(s record.Sample) error {
		if s.Name != "web" || s.Memory != 1<<20 || s.Time > ms(300) && s.MilliCPU != 500 {
			t.Errorf("sample %+v", s)
		}
		samples++
		return nil
	})
	if err != nil || samples != 12 {
		t.Errorf("%d samples, %v", samples, err)
	}
	runs, err := r.Runs()
	if d := cmp.Diff([]record.Run{{ID: "1", Source: "prometheus", From: ms(0), To: ms(3600), Program: "test"}}, runs, cmpopts.IgnoreFields(record.Run{}, "Missing")); err != nil || d != "" {
		t.Errorf("%v: %s", err, d)
	}
	if m := runs[0].Missing; !strings.HasPrefix(m, "affinity, topology spread") || strings.Contains(m, "labels") || strings.Contains(m, "usage") {
		t.Errorf("missing %q", m)
	}
}
