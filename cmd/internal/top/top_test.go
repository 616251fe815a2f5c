package top

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/url"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/charmbracelet/x/ansi"
	"go.uber.org/goleak"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	ktesting "k8s.io/client-go/testing"
	"sigs.k8s.io/yaml"

	"gnnsched/cmd/internal/top/state"
	"gnnsched/cmd/internal/top/view"
	"gnnsched/internal/cluster"
	"gnnsched/internal/cluster/kube"
	"gnnsched/internal/exit"
	"gnnsched/internal/fatal"
	"gnnsched/workload/driver"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func client() *fake.Clientset {
	node := func(name, cpu string) *v1.Node {
		return &v1.Node{
			ObjectMeta: metav1.ObjectMeta{Name: name}, Status: v1.NodeStatus{Allocatable: v1.ResourceList{"cpu": resource.MustParse(cpu)}},
		}
	}
	pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "p"}, Spec: v1.PodSpec{
		NodeName: "node-b", SchedulerName: "gnn",
		Containers: []v1.Container{{Name: "c", Resources: v1.ResourceRequirements{Requests: v1.ResourceList{"cpu": resource.MustParse("2")}}}},
	}}
	return fake.NewClientset(node("node-a", "4"), node("node-b", "8"), pod)
}

// screen collects the output, so that a test can wait for a text.
type screen struct {
	mu    sync.Mutex
	drawn bytes.Buffer
	more  chan struct{}
}

func newScreen() *screen { return &screen{more: make(chan struct{}, 1)} }

func (s *screen) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	select {
	case s.more <- struct{}{}:
	default:
	}
	return s.drawn.Write(p)
}

func (s *screen) text() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return ansi.Strip(s.drawn.String())
}

func (s *screen) waitFor(t *testing.T, text string) {
	t.Helper()
	timeout := time.After(20 * time.Second)
	for !strings.Contains(s.text(), text) {
		select {
		case <-s.more:
		case <-timeout:
			t.Errorf("%q was never drawn, but\n%s", text, s.text())
			return
		}
	}
}

// TestRun drives the view over pipes: it draws the cluster, answers keys, and leaves no goroutine,
// however it ends.
func TestRun(t *testing.T) {
	for _, c := range []struct {
		name string
		key  string
	}{
		{"q", "q"},
		{"Ctrl-C", "\x03"},
		{"the caller", ""},
	} {
		out := newScreen()
		keys, typed := io.Pipe()
		ctx, cancel := context.WithCancel(context.Background())
		done := make(chan error, 1)
		go func() {
			done <- Run(ctx, Config{
				Client: client(), Title: "unit", in: keys, Out: out, Env: []string{"TERM=xterm-256color"},
			})
		}()
		for _, text := range []string{"node-a", "node-b", "unit", "25%"} {
			out.waitFor(t, text)
		}
		if c.key == "" {
			cancel()
		} else if _, err := io.WriteString(typed, c.key); err != nil {
			t.Error(err)
		}
		select {
		case err := <-done:
			if err != nil {
				t.Errorf("%s: %v", c.name, err)
			}
		case <-time.After(20 * time.Second):
			t.Fatalf("%s does not end the view", c.name)
		}
		typed.Close()
		cancel()
		out.mu.Lock()
		if !bytes.Contains(out.drawn.Bytes(), []byte("\x1b[?1049l")) {
			t.Errorf("%s: the terminal stays on the alternate screen", c.name)
		}
		out.mu.Unlock()
	}
}

func TestRunWithoutACluster(t *testing.T) {
	dead := client()
	dead.PrependReactor("list", "nodes", func(ktesting.Action) (bool, runtime.Object, error) {
		return true, nil, &url.Error{Op: "Get", URL: "https://x", Err: syscall.ECONNREFUSED}
	})
	for name, look := range map[string]func(Config) error{
		"Run":    func(c Config) error { return Run(context.Background(), c) },
		"Once":   func(c Config) error { return Once(context.Background(), c, Table) },
		"Follow": func(c Config) error { return Follow(context.Background(), c, Table) },
	} {
		var out bytes.Buffer
		if err := look(Config{Client: dead, Out: &out}); exit.Code(err) != exit.Unreachable || out.Len() > 0 {
			t.Errorf("%s: %v, drawn %q", name, err, out.String())
		}
		if err := look(Config{Client: dead, Interval: time.Millisecond, Out: &out}); exit.Code(err) != exit.Usage {
			t.Errorf("%s with a wrong interval: %v", name, err)
		}
		if err := look(Config{Client: dead, Selector: "=", Out: &out}); exit.Code(err) != exit.Usage {
			t.Errorf("%s with a wrong selector: %v", name, err)
		}
	}
}

func TestFollow(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	out := newScreen()
	done := make(chan error, 1)
	go func() {
		done <- Follow(ctx, Config{Client: client(), Out: out, Interval: view.MinInterval}, JSON)
	}()
	for strings.Count(out.text(), "\n") < 3 {
		<-out.more
	}
	cancel()
	if err := <-done; exit.Code(err) != exit.Interrupted {
		t.Errorf("ended with %v", err)
	}
	for i, line := range strings.Split(strings.TrimSpace(out.text()), "\n") {
		var doc Document
		if err := json.Unmarshal([]byte(line), &doc); err != nil || doc.Totals.Nodes != 2 {
			t.Errorf("line %d: %v: %s", i, err, line)
		}
	}
	if err := Follow(context.Background(), Config{Client: client(), Out: full{}}, Table); err == nil {
		t.Error("a full disk is no error")
	}
}

type full struct{}

func (full) Write([]byte) (int, error) { return 0, errors.New("no space left on device") }

func TestLookOf(t *testing.T) {
	for _, c := range []struct {
		env  []string
		want view.Look
	}{
		{nil, view.Look{Color: true}},
		{[]string{"LANG=en_US.UTF-8"}, view.Look{Color: true, Unicode: true}},
		{[]string{"LANG=C.utf8", "NO_COLOR=1"}, view.Look{Unicode: true}},
		{[]string{"LANG=en_US.UTF-8", "LC_ALL=C"}, view.Look{Color: true}},
		{[]string{"LANG=C", "LC_CTYPE=C.UTF-8"}, view.Look{Color: true, Unicode: true}},
		{[]string{"LANG=C", "LC_ALL=", "LANG=C.UTF-8"}, view.Look{Color: true, Unicode: true}},
		{[]string{"NO_COLOR=", "LC_ALL=POSIX"}, view.Look{Color: true}},
	} {
		if got := lookOf(c.env); got != c.want {
			t.Errorf("%v: %+v, want %+v", c.env, got, c.want)
		}
	}
}

// ktop and runsim count alike: the totals are the room that runsim measures, with shares of GPUs and
// without the control plane.
func TestTotalsAgreeWithRunsim(t *testing.T) {
	node := func(name, model string, devices int64, taints ...v1.Taint) *v1.Node {
		n := &v1.Node{
			ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{kube.GPUModelLabel: model}}, Spec: v1.NodeSpec{Taints: taints},
		}
		n.Status.Allocatable = kube.Capacity(cluster.Resources{MilliCPU: 96_000, Memory: 384 << 30, Pods: 110, GPU: devices})
		n.Status.Capacity = n.Status.Allocatable
		return n
	}
	pod := func(name, on, devices string, r cluster.Resources) *v1.Pod {
		p := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, Annotations: kube.GPUAnnotations(r, nil)}}
		if devices != "" {
			p.Annotations[kube.GPUIndexAnnotation] = devices
		}
		p.Spec.NodeName = on
		p.Spec.Containers = []v1.Container{{Name: "c", Resources: v1.ResourceRequirements{Requests: kube.ResourceList(r)}}}
		return p
	}
	bare := pod("plain", "g", "", cluster.Resources{MilliCPU: 1000, GPU: 1}) // only nvidia.com/gpu
	bare.Annotations = nil
	client := fake.NewClientset(
		node("c", "", 0, v1.Taint{Key: "node-role.kubernetes.io/control-plane", Effect: v1.TaintEffectNoSchedule}), node("g", "G2", 8),
		node("t", "T4", 2),
		pod("proxy", "c", "", cluster.Resources{MilliCPU: 100, Memory: 1 << 20}), bare,
		pod("whole", "g", "0-1", cluster.Resources{MilliCPU: 8000, Memory: 1 << 30, GPU: 2}),
		pod("share", "g", "7", cluster.Resources{MilliCPU: 3000, Memory: 1 << 30, GPUMilli: 470}),
		pod("other", "t", "1", cluster.Resources{MilliCPU: 3000, GPUMilli: 810}),
		pod("waits", "", "", cluster.Resources{GPU: 8}),
	)
	room := fatal.Value(driver.Measure(t.Context(), client, nil))(t)
	f := fatal.Value(state.List(t.Context(), state.Config{Client: client}))(t)
	for name, c := range map[string]struct {
		got               state.Usage
		used, allocatable int64
	}{
		"CPU":    {f.Totals.CPU, room.Used.MilliCPU, room.Allocatable.MilliCPU},
		"memory": {f.Totals.Memory, room.Used.Memory, room.Allocatable.Memory},
		"GPU":    {f.Totals.GPU, room.Used.TotalGPUMilli(), room.Allocatable.TotalGPUMilli()},
		"pods":   {f.Totals.Pods, room.Used.Pods, room.Allocatable.Pods},
	} {
		if want := (state.Usage{Requested: c.used, Allocatable: c.allocatable}); c.got != want {
			t.Errorf("%s: %+v, runsim has %+v", name, c.got, want)
		}
	}
	if want := (state.Usage{Requested: 4280, Allocatable: 10_000}); f.Totals.GPU != want || f.Totals.Workers != room.Nodes {
		t.Errorf("GPU %+v of %d workers, want %+v of %d", f.Totals.GPU, f.Totals.Workers, want, room.Nodes)
	}
	if got, want := f.Nodes[1].Devices, []int64{1000, 1000, 1000, 0, 0, 0, 0, 470}; !slices.Equal(got, want) {
		t.Errorf("devices %v, want %v", got, want)
	}
}

var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// use holds the requests of a pod: millicores, bytes, thousandths of a device.
type use struct{ cpu, memory, gpu int64 }

// fullFrame has one of everything: a control plane, GPUs, a cordoned node, one that is down.
func fullFrame() state.Frame {
	c := state.New()
	base := state.Node{
		Status: "Ready", Ready: true, Worker: true, Version: "v1.36.3", Zone: "zone-a", InternalIP: "10.0.0.1", Roles: []string{"agent"},
		Created: noon.Add(-3 * time.Hour),
		CPU:     state.Usage{Allocatable: 64_000}, Memory: state.Usage{Allocatable: 256 << 30}, Pods: state.Usage{Allocatable: 110},
	}
	node := func(name string, change func(*state.Node)) state.Node {
		n := base
		n.Name = name
		change(&n)
		return n
	}
	c.ReplaceNodes([]state.Node{
		node("control-plane", func(n *state.Node) {
			n.Worker, n.Roles, n.Taints = false, []string{"control-plane"}, []string{"node-role.kubernetes.io/control-plane:NoSchedule"}
		}),
		node("node-1", func(*state.Node) {}),
		node("node-2", func(n *state.Node) { n.GPU.Allocatable, n.GPUModel, n.Devices = 8000, "A100", make([]int64, 8) }),
		node("node-3", func(n *state.Node) { n.Status, n.Cordoned = "Ready,SchedulingDisabled", true }),
		node("node-4", func(n *state.Node) { n.Status, n.Ready, n.Roles, n.Zone, n.Version = "NotReady", false, nil, "", "" }),
	})
	pod := func(name, on, by string, u use) state.Pod {
		return state.Pod{
			Namespace: "default", Name: name, Node: on, Scheduler: by, CPU: u.cpu, Memory: u.memory, GPU: u.gpu, Created: noon.Add(-time.Minute),
		}
	}
	c.SetUsed(map[string]state.Measured{"node-1": {CPU: 3200, Memory: 5 << 30}, "node-2": {CPU: 62_000, Memory: 100 << 30}})
	c.ReplacePods([]state.Pod{
		pod("a", "node-1", "gnn", use{12_500, 30 << 30, 0}),
		pod("b", "node-1", "gnn", use{500, 1 << 29, 0}),
		pod("c", "node-2", "default-scheduler", use{60_000, 200 << 30, 4000}),
		func() state.Pod {
			p := pod("share", "node-2", "gnn", use{0, 0, 470})
			p.Devices = cluster.Device(7)
			return p
		}(),
		pod("d", "", "gnn", use{1, 1, 0}),
		pod("e", "", "gnn", use{1, 1, 0}),
	}, noon)
	why := pod("e", "", "gnn", use{1, 1, 0})
	why.Needs = "disk=ssd"
	why.Reason, why.Message = "Unschedulable", `0/5 nodes are available: 5 Insufficient "cpu" & <memory>.`
	c.SetPod(why, noon)
	c.SetPod(pod("d", "node-2", "gnn", use{1, 1, 0}), noon)
	return c.Frame(noon, state.All)
}

func TestGolden(t *testing.T) {
	full, lost, empty := fullFrame(), fullFrame(), state.New().Frame(noon, state.All)
	lost.Lost = &state.Lost{Since: noon.Add(-time.Minute), Reason: "connection refused"}
	for _, c := range []struct {
		name   string
		format Format
		frame  *state.Frame
	}{
		{"table.txt", Table, &full},
		{"wide.txt", Wide, &full},
		{"full.json", JSON, &full},
		{"full.yaml", YAML, &full},
		{"table-lost.txt", Table, &lost},
		{"lost.json", JSON, &lost},
		{"table-empty.txt", Table, &empty},
		{"empty.json", JSON, &empty},
	} {
		var b bytes.Buffer
		if err := writeFrame(&b, c.format, c.frame, false, true); err != nil {
			t.Errorf("%s: %v", c.name, err)
		}
		fatal.Golden(t, c.name, b.String())
	}
}

func TestSeveralFrames(t *testing.T) {
	f := fullFrame()
	for _, c := range []struct {
		format Format
		read   func([]byte) int // returns the number of frames that a reader finds
	}{
		{JSON, func(b []byte) (n int) {
			for d := json.NewDecoder(bytes.NewReader(b)); d.More(); n++ {
				var doc Document
				if err := d.Decode(&doc); err != nil || doc.Totals.Nodes != 5 {
					t.Errorf("document %d: %v, %+v", n, err, doc.Totals)
				}
			}
			if lines := bytes.Count(b, []byte("\n")); lines != n {
				t.Errorf("%d documents on %d lines", n, lines)
			}
			return n
		}},
		{YAML, func(b []byte) (n int) {
			for _, part := range strings.Split(string(b), "---\n")[1:] {
				var doc Document
				if err := yaml.UnmarshalStrict([]byte(part), &doc); err != nil || doc.Totals.Nodes != 5 {
					t.Errorf("document %d: %v, %+v", n, err, doc.Totals)
				}
				n++
			}
			return n
		}},
		{Table, func(b []byte) int { return bytes.Count(b, []byte("NAME ")) }},
	} {
		var b bytes.Buffer
		for i := range 3 {
			fatal.If(t, writeFrame(&b, c.format, &f, true, i == 0))
		}
		if n := c.read(b.Bytes()); n != 3 {
			t.Errorf("%s: %d frames, want 3", c.format, n)
		}
	}
}

type brokenPipe struct{}

func (brokenPipe) Write([]byte) (int, error) { return 0, errors.New("broken pipe") }

func TestWriteErrorsAreReported(t *testing.T) {
	f := fullFrame()
	for _, format := range []Format{Table, Wide, JSON, YAML} {
		for _, series := range []bool{false, true} {
			if writeFrame(brokenPipe{}, format, &f, series, false) == nil {
				t.Errorf("%s: it said nothing", format)
			}
		}
	}
}
