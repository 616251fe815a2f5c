package eval

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"gnnsched/internal/fatal"
	"gnnsched/scheduler/objective"
	"gnnsched/scheduler/sim"
	"gnnsched/workload/record"
)

const recordBegin = 1_700_000_000_000

// days writes a record of a cluster with two nodes. A pod that never ends came a month before. On each day, a pod of 100 milli-CPU comes
// at 6:00, one of 1,000 plus the day at 18:00, and each runs for an hour. Some days may be without pods.
func days(t *testing.T, number int, without ...int) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "prod.record")
	w, err := record.Create(dir, record.Options{})
	fatal.If(t, err)
	for i := range 2 {
		w.Node(record.Node{Name: fmt.Sprint("n", i), From: recordBegin, MilliCPU: 8000, Memory: 32 << 30, Pods: 110})
	}
	pod := func(name string, cpu, at, end int64) {
		p := record.Pod{UID: name, Namespace: "shop", Name: name, MilliCPU: cpu, Memory: 1 << 20, Arrived: at, Bound: at, Ended: end, Node: "n0"}
		if end > 0 {
			p.End = record.Succeeded
		}
		w.Pod(p)
	}
	const hour = 3600_000
	pod("old", 5000, recordBegin-30*24*hour, 0)
	for d := range int64(number) {
		if slices.Contains(without, int(d)) {
			continue
		}
		day := recordBegin + d*24*hour
		pod(fmt.Sprint("morning-", d), 100, day+6*hour, day+7*hour)
		pod(fmt.Sprint("evening-", d), 1000+d, day+18*hour, day+19*hour)
	}
	w.Run(record.Run{ID: "1", Source: "live", From: recordBegin, To: recordBegin + int64(number)*24*hour})
	if _, err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return dir
}

// Whole days are drawn, those to judge on are later ones, and the pod that ran before is in every episode.
func TestOfRecord(t *testing.T) {
	r, err := OfRecord(days(t, 11), objective.Mix{{Term: objective.Balance{}, Weight: 1}}, ThreeParts)
	fatal.If(t, err)
	if r.Block != (24*time.Hour).Seconds() || r.learnBlocks != 7 || r.chooseBlocks != 2 || r.judgeBlocks != 2 {
		t.Errorf("%+v", r)
	}
	seen := map[string]map[int64]bool{"record": {}, "record-choosing": {}, "record-later": {}}
	for _, s := range []Scenario{r.Learn, *r.Choose, r.Judge} {
		for seed := range uint64(30) {
			e, err := sim.New(s.Config)
			fatal.If(t, err)
			if e.FixedWorkload() {
				t.Errorf("%s: every seed has the same pods", s.Name)
			}
			fatal.If(t, e.Reset(seed))
			if len(e.Snapshot().Nodes) != 2 {
				t.Fatalf("%d nodes", len(e.Snapshot().Nodes))
			}
			for i := 0; !e.Done(); i++ {
				cpu := e.Pending().Requests.MilliCPU
				if (cpu == 5000) != (i == 0) {
					t.Errorf("%s, seed %d: pod %d requests %d", s.Name, seed, i, cpu)
				}
				if (cpu == 100) != (i%2 == 1) && i > 0 {
					t.Errorf("%s, seed %d: pod %d requests %d; the mornings come before the evenings", s.Name, seed, i, cpu)
				}
				if cpu >= 1000 && cpu < 5000 {
					seen[s.Name][cpu-1000] = true
				}
				e.Step(0)
			}
		}
	}
	for day := range int64(11) {
		if seen["record"][day] != (day < 7) || seen["record-choosing"][day] != (day == 7 || day == 8) || seen["record-later"][day] != (day > 8) {
			t.Errorf("day %d: %v", day, seen)
		}
	}
	if got := r.String(); !strings.HasSuffix(got,
		"episodes are drawn from 7 blocks of 24h0m0s; the next 2 blocks are for choosing, 2 later blocks are for judging") {
		t.Error(got)
	}
}

// A record that is too short for three parts has two, with a note if three were requested. With two parts, learning takes all but the last.
func TestPartsOfRecord(t *testing.T) {
	for name, c := range map[string]struct {
		days         int
		without      []int // days on which no pod arrives
		parts        Parts
		learn, judge int
		choose       int
		note         string
	}{
		"two of eleven days": {days: 11, parts: TwoParts, learn: 9, judge: 2},
		"six days":           {days: 6, parts: ThreeParts, learn: 4, choose: 1, judge: 1},
		"five days": {days: 5, parts: ThreeParts, learn: 4, judge: 1,
			note: "5 blocks are too few to divide into three parts: the same blocks choose the best network and judge it, which flatters it"},
		"five days, two parts": {days: 5, parts: TwoParts, learn: 4, judge: 1},
		"nothing to choose on": {days: 7, without: []int{5}, parts: ThreeParts, learn: 6, judge: 1,
			note: "no pod arrives in one of three parts: the same blocks"},
	} {
		t.Run(name, func(t *testing.T) {
			r, err := OfRecord(days(t, c.days, c.without...), objective.Mix{{Term: objective.Balance{}, Weight: 1}}, c.parts)
			fatal.If(t, err)
			if r.learnBlocks != c.learn || r.chooseBlocks != c.choose || r.judgeBlocks != c.judge || (r.Choose != nil) != (c.choose > 0) {
				t.Errorf("%d, %d and %d blocks, want %d, %d, %d", r.learnBlocks, r.chooseBlocks, r.judgeBlocks, c.learn, c.choose, c.judge)
			}
			if got := r.String(); !strings.Contains(got, c.note) || strings.Contains(got, "flatters") != (c.note != "") {
				t.Errorf("%s\nlacks %q, or says too much", got, c.note)
			}
		})
	}
}

func TestOfRecordRefuses(t *testing.T) {
	for name, dir := range map[string]string{"is not the folder of a record": t.TempDir(), "some minutes": days(t, 0)} {
		if _, err := OfRecord(dir, nil, ThreeParts); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
