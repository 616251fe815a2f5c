package history

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"gnnsched/internal/fatal"
	"gnnsched/internal/promapi"
	"gnnsched/workload/record/history/historytest"
)

// exposition holds the metrics of kube-state-metrics and a kubelet, once in 30 seconds from a time on.
type exposition struct {
	begin int64
	lines map[string][]string
}

func exposed(begin time.Time) exposition { return exposition{begin.Unix(), map[string][]string{}} }

// add adds a series that has a value from one second to another.
func (e exposition) add(series, labels string, value float64, from, to int) {
	e.function(series, labels, func(int) float64 { return value }, from, to)
}

func (e exposition) function(series, labels string, value func(s int) float64, from, to int) {
	for s := from; s <= to; s += 30 {
		e.lines[series] = append(e.lines[series], fmt.Sprintf("%s{%s} %v %d", series, labels, value(s), e.begin+int64(s)))
	}
}

// also takes the lines of another exposition, whose series are others or are at other times.
func (e exposition) also(other exposition) {
	for name, lines := range other.lines {
		e.lines[name] = append(e.lines[name], lines...)
	}
}

func (e exposition) String() string {
	var out strings.Builder
	for name, lines := range e.lines {
		fmt.Fprintf(&out, "# TYPE %s gauge\n%s\n", name, strings.Join(lines, "\n"))
	}
	return out.String() + "# EOF\n"
}

func (e exposition) at(s int) float64 { return float64(e.begin + int64(s)) }

// pod adds what all pods have, and returns the labels that name it. created is 7 s before first.
func (e exposition) pod(name, node string, first, from, to int) (key string) {
	key = `namespace="shop",pod="` + name + `",uid="u-` + name + `"`
	e.add("kube_pod_info", key+`,node="`+node+`",created_by_kind="<none>",created_by_name="<none>",priority_class="system-node-critical"`,
		1, from, to)
	e.add("kube_pod_created", key, e.at(first-7), from, to)
	return key
}

func (e exposition) owner(key, kind, owner string, from, to int) {
	e.add("kube_pod_owner", key+`,owner_kind="`+kind+`",owner_name="`+owner+`",owner_is_controller="`+fmt.Sprint(kind != "")+`"`, 1, from, to)
}

// asks returns the labels of a container's request for an amount.
func asks(key, container, resource string) string {
	return key + `,container="` + container + `",node="n",resource="` + resource + `",unit="u"`
}

// told is the made-up history: two nodes and five pods for an hour.
func told() exposition {
	e := exposed(t0)
	for _, n := range []struct {
		name string
		to   int
	}{{"n1", 3600}, {"n2", 1500}} {
		e.add("kube_node_info", `node="`+n.name+`",internal_ip="10.0.0.`+n.name[1:]+`"`, 1, 0, n.to)
		e.add("kube_node_labels", `node="`+n.name+`",label_topology_kubernetes_io_zone="a",label_disk="ssd"`, 1, 0, min(n.to, 2300))
		for resource, v := range map[string]float64{"cpu": 4, "memory": 8 << 30, "pods": 110, "example_com_fpga": 2} {
			e.add("kube_node_status_allocatable", `node="`+n.name+`",resource="`+resource+`"`, v, 0, n.to)
		}
	}
	// Just before the look at 2400 s a label changed, and the old series is not stale yet.
	e.add("kube_node_labels", `node="n1",label_topology_kubernetes_io_zone="a",label_disk="hdd"`, 1, 2330, 3600)
	e.add("kube_node_spec_taint", `node="n1",key="gpu",value="",effect="NoSchedule"`, 1, 0, 3600)

	// An autoscaler sets the replicas of web, and the Job goes.
	e.add("kube_deployment_spec_replicas", `namespace="shop",deployment="web"`, 1, 0, 1500)
	e.add("kube_deployment_spec_replicas", `namespace="shop",deployment="web"`, 3, 1530, 3600)
	e.add("kube_deployment_spec_strategy_rollingupdate_max_surge", `namespace="shop",deployment="web"`, 1, 0, 3600)
	e.add("kube_replicaset_spec_replicas", `namespace="shop",replicaset="web-5d8f"`, 1, 0, 3600)
	e.add("kube_replicaset_owner", `namespace="shop",replicaset="web-5d8f",owner_kind="Deployment",owner_name="web",owner_is_controller="true"`,
		1, 0, 3600)
	e.add("kube_horizontalpodautoscaler_info",
		`namespace="shop",horizontalpodautoscaler="web",scaletargetref_kind="Deployment",scaletargetref_name="web"`, 1, 0, 3600)
	e.add("kube_horizontalpodautoscaler_spec_max_replicas", `namespace="shop",horizontalpodautoscaler="web"`, 5, 0, 3600)
	e.add("kube_horizontalpodautoscaler_status_desired_replicas", `namespace="shop",horizontalpodautoscaler="web"`, 3, 0, 3600)
	e.add("kube_job_spec_parallelism", `namespace="shop",job_name="job"`, 2, 600, 1260)

	web := e.pod("web", "", 30, 30, 60)
	e.pod("web", "n1", 30, 90, 3600)
	e.owner(web, "ReplicaSet", "web-5d8f", 30, 3600)
	e.add("kube_pod_status_scheduled_time", web, e.at(65), 90, 3600)
	e.add("kube_pod_labels", web+`,label_app_kubernetes_io_name="web",label_pod_template_hash="5d8f"`, 1, 30, 3600)
	e.add("kube_pod_tolerations", web+`,key="gpu",operator="Exists",effect="NoSchedule"`, 1, 30, 3600)

	job := e.pod("job", "n2", 600, 600, 1200)
	e.owner(job, "Job", "job", 600, 1200)
	e.add("kube_pod_completion_time", job, e.at(900), 930, 1200)
	e.add("kube_pod_status_phase", job+`,phase="Succeeded"`, 1, 930, 1200)

	agent := e.pod("agent", "n2", 0, 0, 1500)
	e.owner(agent, "DaemonSet", "agent", 0, 1500)
	for _, key := range []string{web, job, agent} {
		for _, c := range []string{"a", "b"} {
			e.add("kube_pod_container_resource_requests", asks(key, c, "cpu"), 0.25, 0, 3600)
		}
	}
	// Its labels, owner and requests change within the second chunk; one of the labels goes in it, and all in the third.
	e.pod("changed", "n1", 0, 0, 3600)
	changed := `namespace="shop",pod="changed",uid="u-changed"`
	e.owner(changed, "ReplicaSet", "zoo-1", 0, 1500)
	e.owner(changed, "", "", 1530, 3600)
	e.add("kube_pod_labels", changed+`,label_tier="a",label_track="x"`, 1, 0, 1500)
	e.add("kube_pod_labels", changed+`,label_tier="Z"`, 1, 1530, 2370)
	e.add("kube_pod_container_resource_requests", asks(changed, "a", "cpu"), 2, 0, 1500)
	e.add("kube_pod_container_resource_requests", asks(changed, "a", "cpu"), 0.5, 1530, 3600)

	// It has a native sidecar, an init container and overhead.
	mesh := e.pod("mesh", "n1", 1230, 1230, 3600)
	e.add("kube_pod_init_container_info", mesh+`,container="proxy",restart_policy="Always"`, 1, 1230, 3600)
	e.add("kube_pod_init_container_info", mesh+`,container="setup"`, 1, 1230, 3600)
	for resource, amounts := range map[string][3]float64{"cpu": {0.5, 0.1, 2}, "memory": {1 << 30, 1 << 29, 1 << 20}} {
		for i, c := range []string{"app", "proxy", "setup"} {
			series := "kube_pod_init_container_resource_"
			if i == 0 {
				series = "kube_pod_container_resource_"
			}
			e.add(series+"requests", asks(mesh, c, resource), amounts[i], 1230, 3600)
			if resource == "memory" {
				e.add(series+"limits", asks(mesh, c, resource), amounts[i], 1230, 3600)
			}
		}
	}
	e.add("kube_pod_overhead_cpu_cores", mesh, 0.25, 1230, 3600)
	e.add("kube_pod_overhead_memory_bytes", mesh, 128<<20, 1230, 3600)

	web = `namespace="shop",pod="web",container="a"`
	e.function(cpuUsage, web, func(s int) float64 { return float64(s) / 2 }, 0, 3600)
	e.add(memoryUsage, web, 1<<20, 0, 3600)
	e.function(cpuUsage, `id="/",instance="10.0.0.1:10250"`, func(s int) float64 { return float64(s) }, 0, 3600)
	e.add(memoryUsage, `id="/",instance="10.0.0.1:10250"`, 1<<30, 0, 3600)
	return e
}

func program(t *testing.T, name string) string {
	t.Helper()
	if path, err := exec.LookPath(name); err == nil {
		return path
	}
	path := fatal.Value(filepath.Abs("../../../.cache/prometheus/usr/bin/" + name))(t)
	if _, err := os.Stat(path); err != nil {
		t.Skip("prometheus is not installed: run make prometheus, or install Debian's package")
	}
	return path
}

// listening finds the address that Prometheus logs once it listens.
var listening = regexp.MustCompile(`msg="Listening on" address=(127\.0\.0\.1:\d+)`)

// installed runs a real Prometheus with a history, and returns its URL.
func installed(t *testing.T, past exposition) string {
	t.Helper()
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		fatal.If(t, os.WriteFile(path, []byte(text), 0o600))
		return path
	}
	data := filepath.Join(dir, "data")
	if out, err := exec.Command(program(t, "promtool"), "tsdb", "create-blocks-from", "openmetrics", write("history", past.String()),
		data).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	c := exec.Command(program(t, "prometheus"), "--config.file="+write("c.yml", ""),
		"--storage.tsdb.path="+data, "--storage.tsdb.retention.time=100y", "--web.listen-address=127.0.0.1:0")
	log := fatal.Value(c.StderrPipe())(t)
	fatal.If(t, c.Start())
	t.Cleanup(func() {
		_ = c.Process.Signal(os.Interrupt)
		_ = c.Wait()
	})
	var said bytes.Buffer
	address := ""
	for lines := bufio.NewScanner(log); address == "" && lines.Scan(); {
		fmt.Fprintln(&said, lines.Text())
		if m := listening.FindStringSubmatch(lines.Text()); m != nil {
			address = "http://" + m[1]
		}
	}
	if address == "" {
		t.Fatalf("Prometheus did not begin to listen: %s", said.String())
	}
	var rest sync.WaitGroup
	rest.Go(func() { _, _ = io.Copy(io.Discard, log) }) // until Prometheus ends
	t.Cleanup(func() { _ = c.Process.Signal(os.Interrupt); rest.Wait() })
	awaitReady(t, address)
	return address
}

// awaitReady waits until Prometheus has read its data.
func awaitReady(t *testing.T, address string) {
	t.Helper()
	client := &http.Client{Transport: &http.Transport{}}
	defer client.CloseIdleConnections()
	for {
		r := fatal.Value(client.Get(address + "/-/ready"))(t)
		_ = r.Body.Close()
		if r.StatusCode == http.StatusOK {
			return
		}
		select {
		case <-t.Context().Done():
			t.Fatal(t.Context().Err())
		default:
		}
	}
}

// tape stands before a Prometheus and keeps its answers.
type tape struct {
	*httptest.Server
	mu   sync.Mutex
	kept map[string]json.RawMessage
}

func recording(t *testing.T, address string) *tape {
	t.Helper()
	client := &http.Client{Transport: &http.Transport{}}
	out := &tape{kept: map[string]json.RawMessage{}}
	out.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err := r.ParseForm(); err != nil {
			t.Error(err)
		}
		answer, err := client.PostForm(address+r.URL.Path, r.PostForm)
		if err != nil {
			t.Error(err)
			return
		}
		defer answer.Body.Close()
		text, err := io.ReadAll(answer.Body)
		if err != nil {
			t.Error(err)
		}
		text = inOrder(t, text)
		out.mu.Lock()
		defer out.mu.Unlock()
		out.kept[historytest.Key(r.URL.Path, r.PostForm)] = text
		w.WriteHeader(answer.StatusCode)
		_, _ = w.Write(text)
	}))
	t.Cleanup(func() { out.Close(); client.CloseIdleConnections() })
	return out
}

// inOrder sorts the series of an answer, which Prometheus gives in any order.
func inOrder(t *testing.T, text []byte) []byte {
	var a struct {
		Status string `json:"status"`
		Data   struct {
			Type   string            `json:"resultType"`
			Result []json.RawMessage `json:"result"`
		} `json:"data"`
	}
	if err := json.Unmarshal(text, &a); err != nil {
		t.Errorf("%v: %s", err, text)
	}
	slices.SortFunc(a.Data.Result, func(x, y json.RawMessage) int { return cmp.Compare(string(x), string(y)) })
	out, err := json.Marshal(a)
	if err != nil {
		t.Error(err)
	}
	return out
}

// A real Prometheus gives the answers that the tests assume, and they become the record.
func TestHistoryOfAPrometheus(t *testing.T) {
	kept := recording(t, installed(t, told()))
	checkRecord(t, clientOf(t, kept.URL))
	kept.check(t, "../historytest/answers.json")
}

// check compares the answers with a file's.
func (k *tape) check(t *testing.T, file string) {
	t.Helper()
	var out strings.Builder
	e := json.NewEncoder(&out)
	e.SetEscapeHTML(false)
	e.SetIndent("", " ")
	fatal.If(t, e.Encode(k.kept))
	fatal.Golden(t, file, oneLineASeries(out.String()))
}

// oneLineASeries keeps the file of answers short enough to read.
func oneLineASeries(text string) string {
	text = regexp.MustCompile(`\n {4,}[ \]}]*`).ReplaceAllStringFunc(text, func(s string) string { return strings.TrimLeft(s, "\n ") })
	return strings.ReplaceAll(text, `{"metric"`, "\n    {\"metric\"")
}

func clientOf(t *testing.T, url string) *promapi.Client {
	t.Helper()
	client := fatal.Value(promapi.New(promapi.Server{Address: url}))(t)
	t.Cleanup(client.HTTP.CloseIdleConnections)
	return client
}
