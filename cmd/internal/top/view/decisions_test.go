package view

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/x/ansi"
	resourceapi "k8s.io/api/resource/v1"
	apiresource "k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"

	"gnnsched/cmd/internal/top/state"
	"gnnsched/internal/exit"
	"gnnsched/scheduler/decision"
)

// decided is n decisions of two profiles, the newest first: most with a runner-up, some without, two that failed.
func decided(n int) (out []state.Decision) {
	for i := range n {
		d := decision.Decision{
			Number: uint64(n - i), Profile: []string{"gnn", "default-scheduler"}[i%5/4], Policy: "linear", Nodes: 13, Feasible: 9, Preferred: 9,
			Pod:  decision.Pod{Namespace: "default", Name: fmt.Sprintf("app-%d", n-i), UID: fmt.Sprint("u", i)},
			At:   noon.Add(-time.Duration(i) * 700 * time.Millisecond),
			Node: fmt.Sprintf("node-%d", i*5%12), Bound: true, Latency: time.Duration(9+i*i%23) * time.Microsecond,
		}
		d.Best = []decision.Candidate{{Node: d.Node, Score: 1.5 + float32(i%7)/8}, {Node: fmt.Sprintf("node-%d", (i*5+3)%12), Score: 1.25}}
		if i%3 > 0 {
			d.Default = &decision.Default{Candidate: d.Best[i%3-1], Ties: 1, Preferred: true}
		}
		switch i {
		case 2:
			d = decision.Decision{
				Profile: "gnn", Pod: d.Pod, At: d.At, Nodes: 13,
				Refused: []decision.Refusal{{Plugin: "NodeResourcesFit", Reason: "Insufficient cpu", Nodes: 12}}, Failure: "0/13 nodes",
			}
		case 4:
			d.Best, d.Policy, d.Default, d.Feasible, d.Latency = nil, "", nil, 1, 0
		case 6:
			d.Fallback, d.Bound = "deadline", false
		case 7:
			d.Latency = 12345 * time.Microsecond
		}
		out = append(out, state.Decision{Record: decision.RecordOf(&d)})
	}
	return out
}

// inShadow turns the decisions into a shadow profile's.
func inShadow(list []state.Decision) []state.Decision {
	for i := range list {
		list[i].Profile, list[i].Outcome, list[i].Really = "gnn", decision.Shadow, fmt.Sprintf("node-%d", i*5%12+i%2)
	}
	return list
}

// withDevices gives some of the decisions devices, by claims and by numbers.
func withDevices(list []state.Decision) []state.Decision {
	for i := range list {
		switch d := (decision.ClaimedDevice{Claim: "gpu", Request: "gpu", Driver: "gpu.nvidia.com", Pool: list[i].Node, Name: "gpu-2",
			Milli: 460}); i % 4 {
		case 0:
			list[i].Claimed = []decision.ClaimedDevice{d}
		case 1:
			d.Milli = 1000
			list[i].Claimed = []decision.ClaimedDevice{d, {Driver: "net.example.com", Name: "eth1"}}
		case 2:
			list[i].Devices = []int{0, 3}
		}
	}
	return list
}

// answering gives a view the details of a cluster, and decisions or an error.
func answering(c *state.Cluster, list []state.Decision, silent ...state.Silent) func(*Config, *state.Frame) {
	return func(cfg *Config, _ *state.Frame) {
		cfg.Details = func(ask state.Ask) state.Details {
			d := state.Details{Node: ask.Node, Silent: silent}
			if ask.Node != "" {
				d.Pods = c.PodsOn(ask.Node)
			}
			if ask.Pods {
				d.Pods = c.Pods()
			}
			if ask.Pod.Name != "" {
				d.Pod = podDetails(c, ask.Pod)
			}
			if ask.Events {
				d.Events = someEvents()
			}
			if ask.Decisions {
				d.Decisions = list
			}
			if ask.Placed {
				d.Placed = c.Placed()
			}
			return d
		}
	}
}

var errAway = exit.New(exit.Unreachable, errors.New("ask the scheduler: connection refused"), "is one running? --server names another one")

// away is the only scheduler, which does not answer.
var away = []state.Silent{{Err: errAway}}

// claiming is a cluster whose node-1 has GPUs in slices: one partition of a GPU and one share in use, and a whole device by
// annotation.
func claiming() *state.Cluster {
	c := sample(3, false)
	node, many, share := "node-1", true, types.UID("s")
	slots := func(n int64) map[string]resourceapi.Counter {
		return map[string]resourceapi.Counter{"memory": {Value: *apiresource.NewQuantity(n, apiresource.DecimalSI)}}
	}
	shares := map[resourceapi.QualifiedName]resourceapi.DeviceCapacity{"shares": {Value: *apiresource.NewQuantity(1000,
		apiresource.DecimalSI)}}
	part := func(name string, n int64) resourceapi.Device {
		return resourceapi.Device{Name: name, ConsumesCounters: []resourceapi.DeviceCounterConsumption{{CounterSet: "gpu-2", Counters: slots(n)}}}
	}
	for i, spec := range []resourceapi.ResourceSliceSpec{
		{Devices: []resourceapi.Device{{Name: "gpu-0", AllowMultipleAllocations: &many, Capacity: shares},
			{Name: "gpu-1", AllowMultipleAllocations: &many, Capacity: shares}, part("gpu-2", 8), part("gpu-2-mig-3g20gb-4", 4)}},
		{SharedCounters: []resourceapi.CounterSet{{Name: "gpu-2", Counters: slots(8)}}},
	} {
		spec.Driver, spec.NodeName, spec.Pool = "gpu.nvidia.com",
			&node, resourceapi.ResourcePool{Name: node, Generation: 1, ResourceSliceCount: 2}
		c.SetSlice(&resourceapi.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint(i)}, Spec: spec})
	}
	at := func(device string) resourceapi.DeviceRequestAllocationResult {
		return resourceapi.DeviceRequestAllocationResult{Driver: "gpu.nvidia.com", Pool: node, Device: device}
	}
	half := at("gpu-1")
	half.ShareID, half.ConsumedCapacity = &share,
		map[resourceapi.QualifiedName]apiresource.Quantity{"shares": *apiresource.NewQuantity(460, apiresource.DecimalSI)}
	c.SetClaim(state.Claim{Namespace: "ml", Name: "infer-gpu-x7k2p", Results: []resourceapi.DeviceRequestAllocationResult{half}})
	c.SetClaim(state.Claim{
		Namespace: "ml", Name: "tune-gpu-9qzv4", Results: []resourceapi.DeviceRequestAllocationResult{at("gpu-2-mig-3g20gb-4")},
	})
	for name, claim := range map[string]string{"infer": "infer-gpu-x7k2p", "tune": "tune-gpu-9qzv4"} {
		c.SetPod(state.Pod{
			Namespace: "ml", Name: name, Node: node, Scheduler: "gnn", CPU: 4000, Memory: 8 << 30, Claims: []string{claim},
			Created: noon.Add(-time.Hour),
		}, noon)
	}
	c.SetPod(state.Pod{Namespace: "ml", Name: "old", Node: node, Scheduler: "gnn", GPU: 1000, Devices: 1, Created: noon.Add(-time.Hour)}, noon)
	return c
}

// TestNodeOpensAndCloses: Enter opens a node from every list that has nodes, and Esc leads back there.
func TestNodeOpensAndCloses(t *testing.T) {
	c := zoned(30, 2)
	m := model(t, c, terminal{full, 120, 40}, answering(c, decided(20)))
	for _, open := range []string{"", "m"} {
		press(m, "j")
		if open != "" {
			press(m, open, "j")
		}
		from, want := name(m), m.chosenTarget().node
		press(m, "enter")
		screen := ansi.Strip(m.View().Content)
		if name(m) != "node" || want == "" || !strings.Contains(screen, "\n"+want+" · ") || !strings.Contains(screen, "WORKLOAD") {
			t.Fatalf("from %s: %s, want %s in\n%s", from, name(m), want, screen)
		}
		if press(m, "?", "?", "esc"); name(m) != from {
			t.Errorf("Esc leads to %s, want %s", name(m), from)
		}
		if open != "" {
			press(m, open)
		}
	}
	press(m, "g", "enter")
	c.DeleteNode(m.page().screen.(*nodeScreen).ask.Node)
	_, read := m.Update(tickMsg{})
	m.Update(read())
	if got := ansi.Strip(m.View().Content); !strings.Contains(got, "is not in the cluster any more") {
		t.Errorf("a node that went:\n%s", got)
	}
	if press(m, "l", "g", "j", "j", "enter"); name(m) != "pod" {
		t.Errorf("a decision without a node opens %s", name(m))
	}
}

// TestBeforeTheDetails: until its answer is there, a screen shows that it reads, instead of an empty list.
func TestBeforeTheDetails(t *testing.T) {
	c := sample(3, false)
	m := model(t, c, terminal{full, 80, 24}, answering(c, nil))
	for key, empty := range map[rune]string{'l': "has decided nothing", 'e': "no events"} {
		_, read := m.Update(tea.KeyPressMsg{Code: key, Text: string(key)})
		if got := m.View().Content; !strings.Contains(got, "reading…") || strings.Contains(got, empty) {
			t.Errorf("%c before the answer:\n%s", key, ansi.Strip(got))
		}
		m.Update(read())
		if got := m.View().Content; strings.Contains(got, "reading…") {
			t.Errorf("%c after the answer:\n%s", key, ansi.Strip(got))
		}
	}
}

// TestStreamKeepsItsPlace: the cursor stays on a decision when newer ones arrive, and at the top on the newest.
func TestStreamKeepsItsPlace(t *testing.T) {
	c := sample(3, false)
	all := decided(30)
	told := all[10:]
	m := model(t, c, terminal{full, 80, 24}, func(cfg *Config, _ *state.Frame) {
		cfg.Details = func(state.Ask) state.Details { return state.Details{Decisions: told} }
	})
	press(m, "l", "j", "j")
	told = all
	_, read := m.Update(tickMsg{})
	m.Update(read())
	s := m.page().screen.(*list[state.Decision])
	if got := m.page().cursor; got != 12 || s.shown[got].Pod != all[12].Pod {
		t.Errorf("the cursor is on %d, %s", got, s.shown[got].Pod)
	}
	press(m, "/")
	typed(m, "unschedulable")
	if press(m, "enter"); len(s.shown) != 1 || s.shown[0].Node != "" {
		t.Errorf("%d decisions pass the filter", len(s.shown))
	}
}

// TestHostileDetails: texts that steer a terminal, in every column, stay within their cells.
func TestHostileDetails(t *testing.T) {
	const evil = "a\x1b[2J\x1b]0;owned\a\nb\u202e世界"
	r := decided(2)[1]
	for _, s := range []*string{&r.Pod, &r.Namespace, &r.Node, &r.RunnerUp, &r.Profile, &r.Server, &r.Policy, &r.Fallback, &r.Failure,
		&r.Default.Node} {
		*s = evil
	}
	samples, live := learned(20, "gnn"+evil), found(t, 10)
	samples.Profiles["gnn"+evil][evil] = samples.Profiles["gnn"+evil]["loss"]
	for _, s := range []*string{&live.Profile, &live.Policy, &live.Fingerprint, &live.Objective, &live.Of[0], &live.Verdict.Why[0],
		&live.Verdict.Notes[0], &live.Results[0].Text, &live.Recent[0].Pod, &live.Recent[0].Theirs, &live.Recent[2].Why, &live.Failures[0].Why} {
		*s = evil
	}
	live.Verdict.Answer, live.Recent[0].What, live.Failures[0].What = evil, evil, evil
	for _, size := range [][2]int{{80, 24}, {200, 50}, {9, 12}, {1, 1}} {
		m := model(t, sample(2, false), terminal{full, size[0], size[1]}, func(cfg *Config, f *state.Frame) {
			cfg.Title = evil
			f.Lost = &state.Lost{Since: noon, Reason: evil}
			cfg.Details = func(ask state.Ask) state.Details {
				return state.Details{
					Node: ask.Node, Decisions: []state.Decision{r}, Silent: []state.Silent{{Server: evil, Err: errors.New(evil)}},
					Placed: []state.Placed{{Scheduler: evil, Bound: 1, Last: []state.Decision{{Record: r.Record, Counted: true}}}},
					Pods:   []state.ListedPod{{Namespace: evil, Name: evil, Workload: evil, Scheduler: evil}},
					Pod: &state.PodDetails{
						ListedPod: state.ListedPod{Namespace: evil, Name: evil, Status: evil, Node: evil, Workload: evil, Scheduler: evil}, Found: true,
						Waits: evil, Events: []state.Event{{Reason: evil, Message: evil}}, Explained: evil, DecisionErr: errors.New(evil),
					},
					Events: []state.Event{{Type: evil, Reason: evil, Object: evil, From: evil, Message: evil}}, EventsErr: errors.New(evil),
					Learning: samples, Shadow: live, ShadowErr: errors.New(evil),
				}
			}
		})
		for _, keys := range hostileViews {
			press(m, keys...)
			got := m.View().Content
			if strings.Contains(got, "\x1b]") || strings.Contains(got, "\x1b[2J") || strings.Count(got, "\n") != size[1]-1 ||
				strings.ContainsRune(got, '\u202e') {
				t.Errorf("%v in %v: %q", keys, size, got)
			}
			for _, l := range strings.Split(got, "\n") {
				if ansi.StringWidth(l) > size[0] {
					t.Errorf("%v in %v: a line of %d cells", keys, size, ansi.StringWidth(l))
				}
			}
		}
		m.Update(tea.WindowSizeMsg{})
	}
}

var hostileViews = [][]string{{"l"}, {"enter"}, {"esc"}, {"esc", "j", "enter"}, {"enter"}, {"P"}, {"e"}, {"z"}, {"v"}, {"t"}, {"s"}, {"f"}}

// workloads gives a cluster pods of several controllers.
func workloads(c *state.Cluster) *state.Cluster {
	for i := range 60 {
		p := state.Pod{
			Namespace: []string{"shop", "data"}[i%2], Name: fmt.Sprint("w-", i), Status: "Running", Scheduler: "gnn", CPU: int64(100 * (i%4 + 1)),
			Memory: 1 << 28, Created: noon.Add(-time.Hour),
		}
		p.Workload = []string{
			"Deployment/web", "StatefulSet/db", "Job/train-with-a-name-that-is-longer-than-the-column-of-a-narrow-window", "DaemonSet/agent",
		}[i*i%7%4]
		if i%9 > 0 {
			p.Node = fmt.Sprintf("node-%d", i%11)
		} else {
			p.Status = "Pending"
		}
		c.SetPod(p, noon)
	}
	return c
}

func someEvents() (out []state.Event) {
	for i := range 30 {
		e := state.Event{
			Time: noon.Add(-time.Duration(i*i) * time.Second), Type: "Normal", Reason: "Scheduled", From: "gnn", Count: 1,
			Object: fmt.Sprintf("Pod shop/web-%d", i), Message: fmt.Sprintf("Successfully assigned shop/web-%d to node-%d", i, i%12),
		}
		if i%4 == 1 {
			e.Type, e.Reason, e.Count = "Warning", "FailedScheduling", i
			e.Message = "0/13 nodes are available: 1 node(s) had untolerated taint {node-role.kubernetes.io/control-plane: }, 12 Insufficient cpu."
		}
		out = append(out, e)
	}
	return out
}

// podDetails are the details of a pod, as the schedulers and the API server tell them.
func podDetails(c *state.Cluster, ask state.PodAsk) *state.PodDetails {
	p := &state.PodDetails{Decision: ask.Decision}
	p.ListedPod, p.Waits, p.Found = c.Pod(ask.Namespace, ask.Name)
	for _, e := range someEvents()[:3] {
		if p.Found {
			p.Events = append(p.Events, e)
		}
	}
	switch {
	case ask.Name == "away":
		p.DecisionErr, p.EventsErr = errAway, errors.New("list the events: forbidden")
	case ask.Decision != nil:
		p.Explained = "Pod " + ask.Namespace + "/" + ask.Name + ", scheduler gnn.\nNetwork gnn (weights b59c5f61d3727281) chose " + p.Node +
			" among 6 feasible nodes in 72 µs.\n\nNODE    SCORE\n" + p.Node + "  -0.37437  chosen\n"
	}
	return p
}

// TestEnterLeadsOn: Enter on a pod, a decision and an event opens the row's object, and Esc leads back.
func TestEnterLeadsOn(t *testing.T) {
	c := workloads(sample(12, false))
	for _, x := range []struct {
		keys  []string
		want  string // the screen
		shows string
	}{
		{[]string{"P", "j", "enter"}, "pod", "Events"},
		{[]string{"p", "enter"}, "pod", "without a node"},
		{[]string{"l", "j", "enter"}, "pod", "Network gnn"},
		{[]string{"e", "enter"}, "pod", "shop/web-0"},
		{[]string{"j", "enter", "enter"}, "pod", "on node-0"},
	} {
		m := model(t, c, terminal{full, 120, 40}, answering(c, decided(20)))
		press(m, x.keys...)
		if screen := ansi.Strip(m.View().Content); name(m) != x.want || !strings.Contains(screen, x.shows) {
			t.Errorf("%v leads to %s, want %s with %q:\n%s", x.keys, name(m), x.want, x.shows, screen)
		}
		for range x.keys {
			press(m, "esc")
		}
		if name(m) != "nodes" {
			t.Errorf("%v: Esc leads to %s", x.keys, name(m))
		}
	}
}

// The screen gives a reason for each unknown detail of a pod.
func TestPodWithoutAnswers(t *testing.T) {
	c := sample(2, false)
	m := model(t, c, terminal{full, 100, 30},
		answering(c, []state.Decision{{Counted: true, Record: decision.Record{Namespace: "default", Pod: "away"}}}))
	press(m, "l", "enter")
	screen := ansi.Strip(m.View().Content)
	for _, want := range []string{"default/away", "not in the cluster any more", "connection refused", "is one running?",
		"list the events: forbidden"} {
		if !strings.Contains(screen, want) {
			t.Errorf("%q is missing:\n%s", want, screen)
		}
	}
	press(m, "esc", "P", "enter")
	if screen := ansi.Strip(m.View().Content); !strings.Contains(screen, "no scheduler that is asked knows a decision") {
		t.Errorf("without a decision:\n%s", screen)
	}
}

// zoned is a sample whose workers are spread over zones.
func zoned(workers, zones int) *state.Cluster {
	c := sample(workers, true)
	f := c.Frame(noon, 0)
	for i, n := range f.Nodes {
		if n.Worker {
			n.Zone = fmt.Sprintf("zone-%c", 'a'+i%zones)
			c.SetNode(n)
		}
	}
	used := map[string]state.Measured{}
	for i, n := range f.Nodes {
		if i%7 != 0 {
			used[n.Name] = state.Measured{CPU: n.CPU.Requested / 3, Memory: n.Memory.Requested / 2}
		}
	}
	c.SetUsed(used)
	return c
}

// TestHeatMapShowsEveryNode: in every window, each worker is in one cell, and the cell is visible if the window has a line for each zone.
func TestHeatMapShowsEveryNode(t *testing.T) {
	for _, nodes := range []int{1, 10, 333, 5000} {
		m := model(t, zoned(nodes, 3), terminal{full, 80, 24}, nil)
		press(m, "m")
		for _, size := range [][2]int{{80, 24}, {200, 50}, {31, 12}, {10, 9}} {
			m.Update(tea.WindowSizeMsg{Width: size[0], Height: size[1]})
			s := m.page().screen.(*heatScreen)
			l := s.layout(&m.canvas)
			seen := 0
			for _, line := range l.lines {
				for i := range l.cells(line) {
					seen += len(l.cell(line, i))
				}
				if used := l.label + l.cells(line)*l.width; used > size[0] && l.perRow > 1 {
					t.Errorf("%d nodes in %v: a line of %d", nodes, size, used)
				}
			}
			if seen != nodes || len(l.lines) > max(m.rows(), 3) {
				t.Errorf("%d nodes in %v: %d seen on %d lines of %d", nodes, size, seen, len(l.lines), m.rows())
			}
		}
	}
}

// TestHeatMapLeadsToNodes: Enter opens the chosen node, and Tab leaves out GPUs where there are none.
func TestHeatMapLeadsToNodes(t *testing.T) {
	m := model(t, zoned(100, 3), terminal{full, 80, 24}, nil)
	press(m, "m", "j", "right", "right")
	want := m.chosenTarget().node
	s := m.page().screen.(*heatScreen)
	if l := s.layout(&m.canvas); want != l.lines[1].nodes[2].Name {
		t.Fatalf("chosen %q", want)
	}
	if press(m, "enter"); name(m) != "node" || !strings.Contains(ansi.Strip(m.View().Content), want) {
		t.Errorf("Enter leads to %s", name(m))
	}
	if press(m, "esc"); name(m) != "map" {
		t.Errorf("Esc leads to %s", name(m))
	}
	without := model(t, sample(12, false), terminal{full, 80, 24}, nil)
	press(without, "m")
	for _, want := range []string{"memory requested", "CPU requested"} {
		if press(without, "tab"); !strings.Contains(ansi.Strip(without.View().Content), want) {
			t.Errorf("Tab does not lead to %s", want)
		}
	}
}

// TestBar: a bar has the given width and grows with the fraction; only 0 looks empty, and only 1 or
// more looks full.
func TestBar(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		st := newStyles(Look{Color: rapid.Bool().Draw(t, "color")})
		width := rapid.IntRange(1, 50).Draw(t, "width")
		a, b := rapid.Float64Range(0, 1.5).Draw(t, "a"), rapid.Float64Range(0, 1.5).Draw(t, "b")
		if a > b {
			a, b = b, a
		}
		length := func(f float64) float64 {
			s := ansi.Strip(st.Bar(width, f, false))
			if ansi.StringWidth(s) != width {
				t.Fatalf("%q is not %d wide", s, width)
			}
			n := float64(strings.Count(s, "━")) + float64(strings.Count(s, "╸"))/2
			if (n == 0) != (f == 0) && width > 1 || (n == float64(width)) != (f >= 1) && width > 1 {
				t.Fatalf("%v is drawn as %q", f, s)
			}
			return n
		}
		if length(a) > length(b) {
			t.Fatalf("%v is longer than %v", a, b)
		}
	})
}

// A name that is cut keeps its end, by which the pods of a workload differ.
func TestFitMiddle(t *testing.T) {
	st := newStyles(Look{})
	for _, c := range []struct {
		name  string
		width int
		want  string
	}{
		{"shop/valiant-maple-6f7c9d8b5-gcjkv", 34, "shop/valiant-maple-6f7c9d8b5-gcjkv"},
		{"shop/valiant-maple-6f7c9d8b5-gcjkv", 24, "shop/valiant-maple…gcjkv"},
		{"gnnsched-sim/valiant-maple-6f7c9d8b5-gcjkv", 24, "gnnsched-sim/valia…gcjkv"},
		{"name/without.dashes.but.very.long", 20, "name/with….very.long"},
		{"short/", 8, "short/  "},
	} {
		if got := st.fitMiddle(c.name, c.width); got != c.want {
			t.Errorf("%s in %d: %q, want %q", c.name, c.width, got, c.want)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		s, width := rapid.StringMatching(`[a-zé世/-]{0,40}`).Draw(t, "name"), rapid.IntRange(0, 50).Draw(t, "width")
		st := newStyles(Look{})
		if got := st.fitMiddle(s, width); ansi.StringWidth(got) != width {
			t.Fatalf("%q in %d cells is %q", s, width, got)
		}
	})
}
