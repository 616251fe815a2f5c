package soak

import (
	"bytes"
	"fmt"
	"math"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/google/pprof/profile"
)

// Only processes that lived all the time and kept their roles are compared, by quartiles, so that a single sample does not
// count.
func TestVerdicts(t *testing.T) {
	start := time.Unix(1000, 0)
	var m memory
	for i := range 100 {
		at := start.Add(time.Duration(i) * time.Second)
		m.add(sample{pid: 1, at: at, heap: 100 + float64(i%3), rss: 300})
		m.add(sample{pid: 2, at: at, heap: 100 + 0.2*float64(i), rss: 300})
		if i < 50 {
			m.add(sample{pid: 3, at: at, heap: 100, rss: 300})
		}
		m.add(sample{pid: 4, at: at, heap: 100 + float64(i), role: roleOf(leaseMetric + fmt.Sprint("name=\"x\"} ", i/50, "\n"))})
	}
	m.add(sample{pid: 1, at: start.Add(99 * time.Second), heap: 1e9, rss: 300})
	got := m.verdicts(start, start.Add(99*time.Second))
	if len(got) != 2 || got[0].pid != 1 || got[1].pid != 2 {
		t.Fatalf("got %v, want the processes 1 and 2", got)
	}
	if g := got[0].growth(); math.Abs(g) > 0.01 {
		t.Errorf("flat memory grew by %v", g)
	}
	if g := got[1].growth(); g < memoryTolerance || g > 0.2 {
		t.Errorf("a leak of a fifth grew by %v", g)
	}
}

// Only what the event recorder and the histograms' buckets allocated counts as bounded.
func TestInUse(t *testing.T) {
	recorder := &profile.Function{ID: 1, Name: "k8s.io/client-go/tools/events.(*eventBroadcasterImpl).recordToSink.func1.1"}
	other := &profile.Function{ID: 2, Name: "k8s.io/api/events/v1.(*Event).DeepCopy"}
	at := func(id uint64, f *profile.Function) *profile.Location {
		return &profile.Location{ID: id, Line: []profile.Line{{Function: f}}}
	}
	copied, recorded, counted := at(1, other), at(2, recorder),
		at(3, &profile.Function{ID: 3, Name: "github.com/prometheus/client_golang/prometheus.addToBucket"})
	p := profile.Profile{
		SampleType: []*profile.ValueType{{Type: "inuse_objects"}, {Type: "inuse_space"}},
		Sample: []*profile.Sample{
			{Location: []*profile.Location{copied, recorded}, Value: []int64{1, 1000}},
			{Location: []*profile.Location{recorded}, Value: []int64{2, 200}},
			{Location: []*profile.Location{copied}, Value: []int64{4, 30}},
			{Location: []*profile.Location{copied, counted}, Value: []int64{1, 5}},
		},
		Location: []*profile.Location{copied, recorded, counted}, Function: []*profile.Function{recorder, other, counted.Line[0].Function},
	}
	var file bytes.Buffer
	if err := p.Write(&file); err != nil {
		t.Fatal(err)
	}
	if all, held, err := inUse(file.Bytes()); err != nil || all != 1235 || held != 1205 {
		t.Errorf("got %v, %v, %v, want 1235 and 1205", all, held, err)
	}
	if _, _, err := inUse([]byte("no profile")); err == nil {
		t.Error("what is no profile was read")
	}
}

// The memory and the children of a process agree with the system's.
func TestProcFiles(t *testing.T) {
	if _, err := os.Stat("/proc/self/stat"); err != nil {
		t.Skip("no /proc")
	}
	if n := residentBytes(os.Getpid()); n < 1e6 || n > 1e12 {
		t.Errorf("this test has %v bytes", n)
	}
	child := exec.Command("sleep", "60")
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = child.Process.Kill(); _ = child.Wait() }()
	if pid := childOf(os.Getpid(), "sleep"); pid != child.Process.Pid {
		t.Errorf("got %d, want %d", pid, child.Process.Pid)
	}
	if pid := childOf(os.Getpid(), "other"); pid != 0 {
		t.Errorf("got %d for a program that does not run", pid)
	}
}

// A run whose memory is judged leaves the time for it.
func TestFailing(t *testing.T) {
	for run, want := range map[time.Duration]time.Duration{
		10 * time.Minute: 6 * time.Minute, 31 * time.Minute: 1116 * time.Second, 45 * time.Minute: 15 * time.Minute,
		60 * time.Minute: 30 * time.Minute, 100 * time.Minute: 60 * time.Minute,
	} {
		if got := (Config{For: run}).failing(); got != want {
			t.Errorf("everything fails for %v of %v, want %v", got, run, want)
		}
	}
}
