package top

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"sigs.k8s.io/yaml"

	"gnnsched/cmd/internal/top/state"
	"gnnsched/internal/cluster"
	"gnnsched/internal/golden"
)

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
		if err := writeFrame(&b, c.format, c.frame); err != nil {
			t.Errorf("%s: %v", c.name, err)
		}
		golden.Check(t, c.name, b.String())
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
			if err := writeNext(&b, c.format, &f, i == 0); err != nil {
				t.Fatal(err)
			}
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
		if writeFrame(brokenPipe{}, format, &f) == nil {
			t.Errorf("%s: Write said nothing", format)
		}
		if writeNext(brokenPipe{}, format, &f, false) == nil {
			t.Errorf("%s: WriteNext said nothing", format)
		}
	}
}
