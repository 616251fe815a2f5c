package liverun

import (
	"math"
	"strings"
	"testing"
	"time"

	"gnnsched/internal/exit"
	"gnnsched/scheduler/replay"
	"gnnsched/workload/record"
	"gnnsched/workload/record/play"
)

func TestLoadOf(t *testing.T) {
	s := &replay.Source{From: 1000, To: 11_000, Nodes: make([]record.Node, 3), Pods: []record.Pod{
		{Arrived: 0, Bound: 100, Ended: 900}, // gone before
		{Arrived: 0, Bound: 100},             // there all the time
		{Arrived: 2000, Bound: 2100, Ended: 4000},
		{Arrived: 4000, Bound: 4100, Ended: 12_000}, // goes afterwards
		{Arrived: 11_000},                           // comes afterwards
	}}
	if got, want := loadOf(s), (load{seconds: 10, changes: 3, most: 2, nodes: 3}); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
}

func TestSpeed(t *testing.T) {
	day := 86400.0
	for _, c := range []struct {
		load
		wanted, want float64
		err          string
	}{
		{load{seconds: 60, changes: 10}, 0, 1, ""},        // no faster than needed
		{load{seconds: 3600, changes: 1000}, 0, 30, ""},   // in two minutes
		{load{seconds: 3600, changes: 12_000}, 0, 6, ""},  // at the easy rate
		{load{seconds: 600, changes: 24_000}, 0, 0.5, ""}, // slower than the record
		{load{seconds: day, changes: 0}, 0, 720, ""},
		{load{seconds: day, changes: 100_000}, 0, 0, "a profile would take 1h23m20s, and 30m0s is the most"},
		{load{seconds: 3600, changes: 12_000}, 3, 3, ""},
		{load{seconds: 3600, changes: 12_000}, 60, 0, "200 pods would come or go in a second, and 100 is the most"},
		{load{seconds: day, changes: 10}, 1, 0, "a profile would take 24h0m0s"},
	} {
		got, err := c.load.speed(c.wanted)
		if (err != nil) != (c.err != "") || err != nil && (exit.Code(err) != exit.Usage || !strings.Contains(err.Error(), c.err)) ||
			math.Abs(got-c.want) > 1e-9 {
			t.Errorf("%+v: %v, %v", c, got, err)
		}
	}
}

func TestFits(t *testing.T) {
	l := load{nodes: 1000, most: 20_000}
	if err := l.fits(8 << 30); err != nil {
		t.Error(err)
	}
	if err := l.fits(4 << 30); exit.Code(err) != exit.Usage ||
		!strings.Contains(err.Error(), "20000 pods at once takes about 7459 MiB, and this machine has 4096 MiB") {
		t.Error(err)
	}
	if free, err := freeMemory(); err != nil || free < 1<<20 {
		t.Errorf("%d bytes free, %v", free, err)
	}
}

// The recorder's observations become rows in the record's time.
func TestCourse(t *testing.T) {
	s := replay.Source{From: 100_000, To: 200_000, Notes: []string{"old"}}
	pods := []record.Pod{
		{UID: "1", Name: "old", MilliCPU: 100, Arrived: 50_000, Bound: 60_000, Node: "n"},
		{UID: "2", Name: "new", MilliCPU: 200, Arrived: 110_000, Bound: 110_100, Ended: 150_000, End: record.Deleted, Node: "n"},
	}
	played, err := play.Window{From: s.From, To: s.To, Lead: 20}.Replay(pods, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	if a := played.Trace; len(a) != 2 || a[0].At != 0 || a[1].At != 30 || a[1].Lifetime != 40 || !math.IsInf(a[0].Lifetime, 1) {
		t.Errorf("%+v", a)
	}
	start := time.UnixMilli(1_000_000)
	r := &rows{pods: map[string]record.Pod{}, nodes: map[string]record.Node{}}
	r.Node(record.Node{Name: "n-0", From: 990_000})
	r.Node(record.Node{Name: "n-0", From: 980_000, To: 990_000})
	r.Pod(record.Pod{UID: "a", Name: "old", Arrived: 991_000, Bound: 991_000, Node: "n-0"})
	r.Pod(record.Pod{UID: "b", Name: "new", Arrived: 1_001_100, Bound: 1_001_200, Node: "n-0"})
	r.Pod(record.Pod{UID: "b", Name: "new", Arrived: 1_001_100, Bound: 1_001_200, Ended: 1_002_000, End: record.Preempted, Node: "n-0"})
	r.Pod(record.Pod{UID: "c", Name: "new", Arrived: 1_003_000, Bound: 1_004_000, Ended: 1_010_000, End: record.Deleted, Node: "n-0"})
	r.Pod(record.Pod{UID: "d", Name: "other", Arrived: 1_003_000})
	got, late := r.course(s, played, pace{from: s.From, start: start, speed: 10})
	if late != (Late{1, 1}) || len(got.Notes) != 0 || len(got.Nodes) != 1 || got.Nodes[0].From != s.From || got.Nodes[0].To != 0 ||
		len(got.Pods) != 3 {
		t.Fatalf("%+v, %+v", late, got)
	}
	if p := got.Pods[0]; p.UID != "a" || p.Arrived != 50_000 || p.Bound != 60_000 || p.Node != "n-0" || p.MilliCPU != 100 {
		t.Errorf("%+v", p)
	}
	if p := got.Pods[1]; p.UID != "b" || p.Arrived != 111_000 || p.Bound != 112_000 || p.Ended != 120_000 || p.End != record.Preempted ||
		p.MilliCPU != 200 {
		t.Errorf("%+v", p)
	}
	if p := got.Pods[2]; p.Arrived != 130_000 || p.Bound != 140_000 || p.Ended != 0 || p.End != "" {
		t.Errorf("%+v", p) // it ended with the run
	}
}

// An initial pod that is preempted ends, and comes again as another pod that waits. It did not run before the beginning.
func TestPreemptedFromTheBeginning(t *testing.T) {
	s := replay.Source{From: 100_000, To: 200_000}
	pods := []record.Pod{{UID: "1", Name: "old", OwnerKind: "ReplicaSet", MilliCPU: 100, Arrived: 50_000, Bound: 60_000, Node: "n"}}
	played, err := play.Window{From: s.From, To: s.To, Lead: 20}.Replay(pods, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	r := &rows{pods: map[string]record.Pod{}, nodes: map[string]record.Node{}}
	r.Pod(record.Pod{UID: "z", Name: "old", Arrived: 991_000, Bound: 991_000, Ended: 1_002_000, End: record.Preempted, Node: "n-0"})
	r.Pod(record.Pod{UID: "a", Name: "old", Arrived: 1_002_100, Bound: 1_005_000, Node: "n-1"})
	got, _ := r.course(s, played, pace{from: s.From, start: time.UnixMilli(1_000_000), speed: 10})
	if len(got.Pods) != 2 {
		t.Fatalf("%+v", got.Pods)
	}
	if p := got.Pods[0]; p.UID != "z" || p.Arrived != 50_000 || p.Bound != 60_000 || p.Ended != 120_000 || p.End != record.Preempted ||
		p.Node != "n-0" {
		t.Errorf("%+v", p)
	}
	if p := got.Pods[1]; p.UID != "a" || p.Arrived != 121_000 || p.Bound != 150_000 || p.Ended != 0 || p.Node != "n-1" {
		t.Errorf("%+v", p)
	}
}

// The cluster has the nodes that the recorder found at first, and the notes name the unplayed parts.
func TestNodesFrom(t *testing.T) {
	s := &replay.Source{From: 1000, To: 100_000, Nodes: []record.Node{
		{Name: "a", From: 1200}, {Name: "b", From: 1900, To: 50_000, Gone: true}, {Name: "c", From: 60_000},
	}}
	at := nodesFrom(s)
	if n := changes(s.Nodes, at, s.To); at != 1900 || n != 2 {
		t.Errorf("at %d, %d changes", at, n)
	}
}
