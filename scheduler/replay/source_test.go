package replay

import (
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"gnnsched/internal/fatal"
	"gnnsched/scheduler/objective"
	"gnnsched/workload/record"
)

// write writes rows to a record and opens it.
func write(t *testing.T, fill func(*record.Writer)) (r *record.Record, dir string) {
	t.Helper()
	dir = filepath.Join(t.TempDir(), "x.record")
	w, err := record.Create(dir, record.Options{})
	fatal.If(t, err)
	fill(w)
	if _, err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if r, err = record.Open(dir); err != nil {
		t.Fatal(err)
	}
	return r, dir
}

// Clocks that jump, gaps and columns that cannot be read are noted, and the rest is played.
func TestBadRows(t *testing.T) {
	r, _ := write(t, func(w *record.Writer) {
		w.Node(node("a"))
		n := node("b")
		n.To, n.Extended = t0-5, `{"a":"1"}`
		w.Node(n)
		w.Pod(pod("back", 10, func(p *record.Pod) { p.Ended = p.Bound - 5000 }))
		w.Pod(pod("nameless", 10, func(p *record.Pod) { p.Node = "" }))
		w.Pod(pod("odd", 10, func(p *record.Pod) {
			p.Affinity, p.HostPorts, p.Tolerations, p.Extended = "{", `["x","TCP//99999999"]`, `{}`, `{"a":"b"}`
		}))
		w.Pod(pod("gone", 10, func(p *record.Pod) { p.OwnerKind, p.OwnerName = "ReplicaSet", "nobody-knows"; p.Labels = `{"app":"x"}` }))
		w.Run(record.Run{ID: "1", From: t0, To: seconds(20), Missing: "objects"})
		w.Run(record.Run{ID: "2", From: seconds(70), To: seconds(100)})
		w.Run(record.Run{ID: "3", From: seconds(90), To: seconds(80)})
	})
	s, err := Read(r, Window{})
	fatal.If(t, err)
	notes := strings.Join(s.Notes, "\n")
	for _, want := range []string{"1 pods were bound before", "1 pods were bound to a node without a name", "1 states of nodes",
		"1 times of watching", "nobody watched for 50s (gaps: 1)", "not recorded: objects"} {
		if !strings.Contains(notes, want) {
			t.Errorf("the notes lack %q:\n%s", want, notes)
		}
	}
	out, homes := packs(t, s)
	if w := out.Whole(); w.Seconds != 50 || homes["odd"] != "a" || homes["gone"] != "a" || out.Pods != 4 || math.IsNaN(w.Mean(Cost)) {
		t.Errorf("%+v, %v", w, homes)
	}
	for _, column := range []string{"affinity", "host_ports", "tolerations", "extended"} {
		if !strings.Contains(strings.Join(out.Notes, "\n"), "the column "+column+" of") {
			t.Errorf("no note about %s: %v", column, out.Notes)
		}
	}
}

func TestUnplayable(t *testing.T) {
	whole := func(w *record.Writer) {
		w.Node(node("a"))
		w.Pod(pod("x", 1))
		w.Run(record.Run{ID: "1", From: t0, To: seconds(9)})
	}
	for _, c := range []struct {
		name   string
		fill   func(*record.Writer)
		window Window
		say    string
	}{
		{"no pods", func(w *record.Writer) { w.Node(node("a")) }, Window{}, "no pods"},
		{"no nodes", func(w *record.Writer) { w.Pod(pod("x", 1)) }, Window{}, "no nodes"},
		{"no time", func(w *record.Writer) {
			w.Node(node("a"))
			w.Pod(pod("x", 1))
			w.Run(record.Run{ID: "1", From: t0, To: t0})
		}, Window{}, "no time is left"},
		{"another time", whole, Window{From: time.UnixMilli(seconds(20))}, "no time is left"},
	} {
		r, _ := write(t, c.fill)
		if _, err := Read(r, c.window); err == nil || !strings.Contains(err.Error(), c.say) {
			t.Errorf("%s: %v", c.name, err)
		}
	}
	// A file that is cut off is left out, and the rest is read.
	r, dir := write(t, whole)
	files, err := filepath.Glob(filepath.Join(dir, "runs-*.parquet"))
	if err != nil || len(files) != 1 || os.Truncate(files[0], 10) != nil {
		t.Fatal(files, err)
	}
	s, err := Read(r, Window{})
	if err != nil || len(s.Notes) != 1 || !strings.Contains(s.Notes[0], "left out, because it cannot be read") || s.To != seconds(3) {
		t.Errorf("%+v, %v", s.Notes, err)
	}
}

// Pods of one owner spread over the nodes by default, though the record has no selectors.
func TestOwnersSpread(t *testing.T) {
	var pods []record.Pod
	for i := range int64(4) {
		pods = append(pods, pod(string(rune('a'+i)), 10+i, func(p *record.Pod) {
			p.OwnerKind, p.OwnerName, p.Labels = "ReplicaSet", "web", `{"app":"web"}`
		}))
	}
	if got := selectors(pods)[owner{"ReplicaSet", "shop", "web"}]; got["app"] != "web" || len(got) != 1 {
		t.Errorf("%v", got)
	}
	s := source(pods, node("a", "topology.kubernetes.io/zone", "1"), node("b", "topology.kubernetes.io/zone", "2"))
	out, err := Run(t.Context(), s, Config{Profile: profile(t, "default-scheduler"), Objective: objective.Balance{}, Blocks: 1})
	if err != nil || out.Whole().Mean(Imbalance) > 0.05 {
		t.Errorf("%v: %+v", err, out.Whole())
	}
	if lacks := s.Lacks(); len(lacks) != 1 || lacks[0].Pods != 4 || !strings.HasPrefix(lacks[0].What, "services") {
		t.Errorf("%+v", lacks)
	}
}

func TestPrices(t *testing.T) {
	for _, c := range []struct{ text, say string }{
		{"", "there are no prices"}, {"nodes: {a: -1}", "must be 0 or more"}, {"other: {core: -1}", "below 0"}, {"node: {}", "unknown field"},
	} {
		if _, err := ParsePrices([]byte(c.text)); err == nil || !strings.Contains(err.Error(), c.say) {
			t.Errorf("%q: %v", c.text, err)
		}
	}
	p, err := ParsePrices([]byte("nodes: {m: 2}"))
	fatal.If(t, err)
	m, other := node("a", "node.kubernetes.io/instance-type", "m"), node("b")
	if x, known := p.Of(&m); x != 2 || !known {
		t.Errorf("%v", x)
	}
	if _, known := p.Of(&other); known {
		t.Error("nothing prices it")
	}
}

// Resources that no node offers do not keep pods from nodes if a pod that asks for them ran. Others do.
func TestLeaveUnoffered(t *testing.T) {
	s := Source{
		Nodes: []record.Node{{Name: "a", Capacity: `{"example.com/down":"0"}`}},
		Pods: []record.Pod{
			{UID: "1", Node: "a", Extended: `{"example.com/down":"1","nvidia.com/gpumem":"4000"}`},
			{UID: "2", Extended: `{"nvidia.com/gpumem":"4000"}`}, {UID: "3", Extended: `{"example.com/never":"1"}`},
		},
	}
	s.LeaveUnoffered()
	got := []string{s.Pods[0].Extended, s.Pods[1].Extended, s.Pods[2].Extended}
	if want := []string{`{"example.com/down":"1"}`, "", `{"example.com/never":"1"}`}; !slices.Equal(got, want) || len(s.Notes) != 1 ||
		!strings.Contains(s.Notes[0], "no node offers nvidia.com/gpumem, which 2 pods request") {
		t.Errorf("%q, %q", got, s.Notes)
	}
}
