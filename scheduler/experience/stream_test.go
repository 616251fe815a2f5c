package experience

import (
	"bytes"
	"encoding/gob"
	"errors"
	"io"
	"math"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"gnnsched/gnn/feature"
	"gnnsched/gnn/graph"
)

// drawGPUState draws the state of a network on the GPU graph.
func drawGPUState(t *rapid.T) *GPUState {
	width, devices := rapid.IntRange(1, 4).Draw(t, "width"), rapid.Int64Range(1, 4)
	floats := func(n int, what string) []float32 {
		return rapid.SliceOfN(rapid.Float32Range(-1e6, 1e6), n, n).Draw(t, what)
	}
	vertices := func(n int, what string) []graph.GPUNode {
		return rapid.SliceOfN(rapid.Custom(func(t *rapid.T) graph.GPUNode {
			return graph.GPUNode{X: floats(width, "features"), Free: rapid.SliceOfN(rapid.Float32Range(0, 1), 0, 4).Draw(t, "free")}
		}), n, n).Draw(t, what)
	}
	g := &GPUState{Cluster: floats(width, "cluster"), Waiting: rapid.Float64Range(0, 1e6).Draw(t, "waiting")}
	g.Kinds = rapid.SliceOfN(rapid.Custom(func(t *rapid.T) MachineKind {
		amount := rapid.Int64Range(0, math.MaxInt64)
		return MachineKind{amount.Draw(t, "cpu"), amount.Draw(t, "memory"), devices.Draw(t, "devices"), rapid.StringN(0, 8, 32).Draw(t, "model")}
	}), 1, 3).Draw(t, "kinds")
	for range rapid.IntRange(1, 5).Draw(t, "nodes") {
		kind := rapid.Int32Range(0, int32(len(g.Kinds)-1)).Draw(t, "kind")
		g.Nodes = append(g.Nodes, GPUAmounts{
			rapid.Uint64().Draw(t, "id"), kind, rapid.Float32Range(0, float32(g.Kinds[kind].Devices)).Draw(t, "idle"),
		})
	}
	g.Rows = rapid.SliceOfN(rapid.Int32Range(0, int32(len(g.Nodes)-1)), 0, 4).Draw(t, "rows")
	g.Vertices = vertices(len(g.Rows), "vertices")
	candidates := rapid.IntRange(0, 3).Draw(t, "candidates")
	g.Before, g.After = vertices(candidates, "before"), vertices(candidates, "after")
	return g
}

// drawStep draws a step of a network on either graph.
func drawStep(t *rapid.T) Step {
	s := drawClusterStep(t)
	if rapid.Bool().Draw(t, "GPU graph") {
		s.State, s.GPU, s.Action = nil, drawGPUState(t), 0
	}
	return s
}

func drawClusterStep(t *rapid.T) Step {
	finite := rapid.Float32Range(-1e6, 1e6)
	floats := func(n int, what string) []float32 { return rapid.SliceOfN(finite, n, n).Draw(t, what) }
	nodes := rapid.IntRange(1, 5).Draw(t, "nodes")
	zones := rapid.IntRange(1, 8).Draw(t, "zones")
	g := &graph.Graph{Zones: zones}
	if rapid.Bool().Draw(t, "other features") {
		width := rapid.IntRange(0, 4)
		g.Widths = feature.Widths{
			Node: width.Draw(t, "node width"), Group: width.Draw(t, "group width"), Pod: width.Draw(t, "pod width"), Cluster: 1,
			Candidate: width.Draw(t, "candidate width"),
		}
	}
	w := g.FeatureWidths()
	g.Resize(nodes)
	copy(g.NodeX, floats(len(g.NodeX), "node"))
	for i := range nodes {
		k := rapid.IntRange(0, 3).Draw(t, "groups")
		g.Zone[i], g.Stamp[i] = rapid.Int32Range(0, int32(zones-1)).Draw(t, "zone"), graph.NextStamp()
		g.Groups[i] = graph.Groups{X: floats(k*w.Group, "group"), Weight: floats(k, "weight")}
	}
	g.PodX, g.ClusterX = floats(w.Pod, "pod"), floats(w.Cluster, "cluster")
	g.ResizeCandidates(rapid.IntRange(1, 5).Draw(t, "candidates"))
	for i := range g.Candidates {
		g.Candidates[i] = rapid.Int32Range(0, int32(nodes-1)).Draw(t, "candidate")
	}
	copy(g.CandidateX, floats(len(g.CandidateX), "edge"))
	return Step{
		Actor: rapid.String().Draw(t, "actor"), Features: rapid.StringN(0, 16, 64).Draw(t, "features"), Epoch: rapid.Uint64().Draw(t, "epoch"),
		Number: rapid.Uint64().Draw(t, "number"), State: g,
		Action: rapid.IntRange(0, len(g.Candidates)-1).Draw(t, "action"), Before: rapid.Float64Range(-1e9, 1e9).Draw(t, "before"),
		After:  rapid.Float64Range(-1e9, 1e9).Draw(t, "after"),
		Waited: rapid.Uint64().Draw(t, "waited"), Network: rapid.Uint64().Draw(t, "network"), Log: rapid.Float64Range(-1e3, 0).Draw(t, "log"),
		Overruled: rapid.Bool().Draw(t, "overruled"),
	}
}

// A reader returns the steps that a writer got, except for the stamps, which are valid only in the process that made them.
func TestRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		steps := rapid.SliceOfN(rapid.Custom(drawStep), 0, 4).Draw(t, "steps")
		var b bytes.Buffer
		w, err := NewWriter(&b)
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range steps {
			if err := w.Write(s); err != nil {
				t.Fatal(err)
			}
		}
		whole := b.Len()
		cut := rapid.IntRange(0, whole).Draw(t, "cut at")
		half := bytes.NewReader(b.Bytes()[:cut])
		r, err := NewReader(&b)
		if err != nil {
			t.Fatal(err)
		}
		for _, want := range steps {
			got, err := r.Next()
			if err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(want, got, cmpopts.IgnoreFields(graph.Graph{}, "Stamp"), cmpopts.EquateEmpty()); d != "" {
				t.Fatal(d)
			}
		}
		if _, err := r.Next(); err != io.EOF { //nolint:errorlint // Next promises the bare io.EOF
			t.Errorf("at the end: %v", err)
		}
		checkHalf(t, half, len(steps), cut == whole)
	})
}

// checkHalf checks that a stream that ends early gives only its whole steps, and then an error.
func checkHalf(t *rapid.T, half io.Reader, steps int, whole bool) {
	r, err := NewReader(half)
	for n := 0; err == nil; n++ {
		if _, err = r.Next(); err == nil && (n >= steps || n == steps-1 && !whole) {
			t.Fatalf("step %d out of a stream that ends in it", n)
		}
	}
}

func TestReaderRefuses(t *testing.T) {
	for name, stream := range map[string]string{
		"nothing":        "",
		"another schema": magic + "0123456789abcdef",
		"another format": "gnnstep\x06" + feature.Default().Hash(),
		"a short head":   magic,
	} {
		if _, err := NewReader(bytes.NewReader([]byte(stream))); !errors.Is(err, errStream) {
			t.Errorf("%s: %v", name, err)
		}
	}
	good := rapid.Custom(drawClusterStep).Example(1)
	device := good
	device.State, device.Action = nil, 0
	for name, spoil := range map[string]func(*Step){
		"action":   func(s *Step) { s.Action = len(s.State.Candidates) },
		"NaN":      func(s *Step) { s.State.NodeX[0] = float32(math.NaN()) },
		"infinity": func(s *Step) { s.After = math.Inf(1) },
		"log":      func(s *Step) { s.Log = 0.1 },
		"no log":   func(s *Step) { s.Log = math.NaN() },
		"zone":     func(s *Step) { s.State.Zone[0] = int32(s.State.Zones) },
		"actor":    func(s *Step) { s.Actor = strings.Repeat("a", maxActor+1) },
		"zones":    func(s *Step) { s.State.Zones = math.MaxInt32 },
		"widths":   func(s *Step) { s.State.Widths.Node, s.State.NodeX = math.MaxInt, nil },
		"split":    func(s *Step) { s.State.Kept = make([]feature.Kept, s.State.Nodes()) },
		"no state": func(s *Step) { s.State = nil },
	} {
		bad := good
		bad.State = good.State.Clone()
		spoil(&bad)
		refuses(t, name, bad)
	}
	for name, spoil := range map[string]func(*GPUState){
		"NaN":       func(g *GPUState) { g.Cluster[0] = float32(math.NaN()) },
		"infinity":  func(g *GPUState) { g.Waiting = math.Inf(1) },
		"kind":      func(g *GPUState) { g.Nodes[0].Kind = int32(len(g.Kinds)) },
		"no kind":   func(g *GPUState) { g.Nodes[0].Kind = -1 },
		"idle":      func(g *GPUState) { g.Nodes[0].Idle = float32(g.Kinds[g.Nodes[0].Kind].Devices) + 1 },
		"no idle":   func(g *GPUState) { g.Nodes[0].Idle = float32(math.NaN()) },
		"devices":   func(g *GPUState) { g.Kinds[0].Devices = 0 },
		"model":     func(g *GPUState) { g.Kinds[0].Model = strings.Repeat("a", maxActor+1) },
		"row":       func(g *GPUState) { g.Rows = append(g.Rows, int32(len(g.Nodes))) },
		"no vertex": func(g *GPUState) { g.Vertices = g.Vertices[:0]; g.Rows = append(g.Rows, 0) },
		"candidates": func(g *GPUState) {
			g.Before = append(g.Before, graph.GPUNode{})
		},
		"width": func(g *GPUState) {
			g.Rows = append(g.Rows, 0, 0)
			g.Vertices = append(g.Vertices, graph.GPUNode{X: []float32{1}}, graph.GPUNode{X: []float32{1, 2}})
		},
	} {
		device.GPU = rapid.Custom(drawGPUState).Example(2)
		spoil(device.GPU)
		refuses(t, "GPU: "+name, device)
	}
}

// refuses checks that a reader refuses a step.
func refuses(t *testing.T, name string, bad Step) {
	t.Helper()
	var b bytes.Buffer
	w, err := NewWriter(&b)
	if err == nil {
		err = w.Write(bad)
	}
	if err != nil {
		t.Fatal(err)
	}
	r, err := NewReader(&b)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := r.Next(); !errors.Is(err, errStream) {
		t.Errorf("%s: %v", name, err)
	}
}

// A step over the size limit is neither written nor read.
func TestStepOverTheLimit(t *testing.T) {
	long := Step{Actor: strings.Repeat("a", maxStep)}
	var b bytes.Buffer
	w, err := NewWriter(&b)
	if err != nil {
		t.Fatal(err)
	}
	head := b.Len()
	if err := w.Write(long); err == nil || b.Len() > head {
		t.Errorf("%d bytes written, %v", b.Len()-head, err)
	}
	if err := gob.NewEncoder(&b).Encode(long); err != nil {
		t.Fatal(err)
	}
	r, err := NewReader(&b)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := r.Next(); !errors.Is(err, errStream) {
		t.Errorf("read: %v", err)
	}
}

// On arbitrary bytes the reader ends with an error, and every step before that is valid.
func FuzzReader(f *testing.F) {
	var b bytes.Buffer
	w, err := NewWriter(&b)
	if err != nil {
		f.Fatal(err)
	}
	for seed := range 3 {
		if err := w.Write(rapid.Custom(drawStep).Example(seed)); err != nil {
			f.Fatal(err)
		}
	}
	head := len(magic) + len(feature.Default().Hash())
	f.Add(b.Bytes()[head:])
	f.Add([]byte{})
	f.Add([]byte{255, 255, 255, 3, 1})
	f.Fuzz(func(t *testing.T, body []byte) {
		r, err := NewReader(io.MultiReader(bytes.NewReader(b.Bytes()[:head]), bytes.NewReader(body)))
		for err == nil {
			var s Step
			if s, err = r.Next(); err == nil && s.Validate() != nil {
				t.Fatalf("invalid step: %v", s.Validate())
			}
		}
	})
}

func TestFollows(t *testing.T) {
	first := Step{Actor: "a", Epoch: 1, Number: 7}
	for name, c := range map[string]struct {
		next Step
		want bool
	}{
		"the next one":     {Step{Actor: "a", Epoch: 1, Number: 8}, true},
		"the same one":     {first, false},
		"after a gap":      {Step{Actor: "a", Epoch: 1, Number: 9}, false},
		"of another actor": {Step{Actor: "b", Epoch: 1, Number: 8}, false},
		"after a restart":  {Step{Actor: "a", Epoch: 2, Number: 8}, false},
	} {
		if got := c.next.Follows(first); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}
