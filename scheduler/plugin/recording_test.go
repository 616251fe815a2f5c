package plugin

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/stat"
	v1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes/fake"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"

	"gnnsched/internal/fatal"
	"gnnsched/scheduler/decision"
)

// recordedBed is newBed with a book, and with upstream's refusals counted.
func recordedBed(t *testing.T, profile string, args Args) (*bed, *decision.Book) {
	t.Helper()
	if args.Deadline.Duration == 0 {
		args.Deadline = duration(time.Hour)
	}
	book := decision.NewBook(100, nil)
	b := newBedWith(t, fake.NewClientset(), profile, args, book)
	WatchFailures(b.sched, book.Decided)
	return b, book
}

// decided places a pod and returns its record.
func (b *bed) decided(t *testing.T, profile string, book *decision.Book, pod *v1.Pod) decision.Record {
	t.Helper()
	bound, state, err := b.attempt(t, profile, pod)
	fatal.If(t, err)
	b.sched.Profiles[profile].RunPostBindPlugins(b.ctx, state, bound, bound.Spec.NodeName)
	for range 1000 {
		if found := book.Last(decision.Query{Namespace: pod.Namespace, Pod: pod.Name}); len(found) > 0 {
			return found[0]
		}
		time.Sleep(time.Millisecond) // the queue's goroutine
	}
	t.Fatal("no record")
	return decision.Record{}
}

// fail lets an attempt to place a pod fail.
func (b *bed) fail(t *testing.T, profile string, pod *v1.Pod) {
	t.Helper()
	_, _, err := b.attempt(t, profile, pod)
	if err == nil {
		t.Fatal("the pod fits")
	}
	info, wrong := framework.NewPodInfo(pod)
	if wrong != nil {
		t.Fatal(wrong)
	}
	status := fwk.NewStatus(fwk.Unschedulable).WithError(err)
	b.sched.FailureHandler(b.ctx, b.sched.Profiles[profile], &framework.QueuedPodInfo{PodInfo: info}, status, nil, time.Unix(1, 0))
}

// The record of a decision has what the default profile would choose, and why nodes were refused.
func TestRecordedDecision(t *testing.T) {
	const profile = "recorded"
	b, book := recordedBed(t, profile, Args{Policy: "linear"})
	b.alike(t, profile, 5)
	for i := range 3 {
		n := gpuNode(fmt.Sprint("g", i), "T4", 1)
		n.Spec.Taints = []v1.Taint{{Key: "dedicated", Value: "x", Effect: v1.TaintEffectNoSchedule}}
		b.sched.Cache.AddNode(b.log, n)
	}
	r := b.decided(t, profile, book, benchPod(1, 0, ""))
	if r.Nodes != 8 || r.Feasible != 5 || r.Outcome != decision.Bound {
		t.Errorf("%+v", r)
	}
	if len(r.Refused) != 1 || r.Refused[0].Plugin != "TaintToleration" || r.Refused[0].Nodes != 3 ||
		!strings.Contains(r.Refused[0].Reason, "taint") {
		t.Errorf("refused %+v", r.Refused)
	}
	if r.Default == nil || r.Default.Ties != 5 || r.Default.Node != r.Best[0].Node || !r.Default.Preferred {
		t.Errorf("default %+v, best %+v", r.Default, r.Best)
	}
}

// The default profile's choice in a record is the one that the default profile makes.
func TestRecordedDefault(t *testing.T) {
	const profile = "recorded-default"
	b, book := recordedBed(t, profile, Args{Policy: "most-allocated"})
	b.alike(t, profile, 6)
	for i := range 20 {
		pod := benchPod(i, i, "")
		fatal.If(t, b.sched.Cache.UpdateSnapshot(b.log, b.snapshot(profile)))
		totals := b.totals(t, defaultProfile, pod)
		r := b.decided(t, profile, book, pod)
		best, ties := int64(-1), 0
		var at int64
		for _, n := range totals {
			switch {
			case n.TotalScore > best:
				best, ties = n.TotalScore, 1
			case n.TotalScore == best:
				ties++
			}
			if r.Default != nil && n.Name == r.Default.Node {
				at = n.TotalScore
			}
		}
		if r.Default == nil || at != best || r.Default.Ties != ties {
			t.Errorf("pod %d: %+v has %d, the best %d nodes have %d", i, r.Default, at, ties, best)
		}
	}
}

// A pod that fits nowhere leaves a record with upstream's reasons. Upstream's failure handler still runs.
func TestRecordedFailure(t *testing.T) {
	const profile = "recorded-failure"
	b, book := recordedBed(t, profile, Args{Policy: "linear"})
	pod := benchPod(1, 0, "")
	b.fail(t, profile, pod)
	r := book.Last(decision.Query{})
	if len(r) != 1 || r[0].Outcome != decision.Unschedulable || r[0].Failure != "no nodes available to schedule pods" {
		t.Errorf("without nodes: %+v", r)
	}
	b.alike(t, profile, 4)
	pod.Spec.NodeSelector = map[string]string{"disk": "none"}
	b.fail(t, profile, pod)
	r = book.Last(decision.Query{})
	if len(r) != 2 || r[0].Nodes != 4 || len(r[0].Refused) != 1 || r[0].Refused[0].Plugin != "NodeAffinity" || r[0].Refused[0].Nodes != 4 ||
		r[0].Profile != profile {
		t.Errorf("%+v", r[0])
	}
}

// An allowance is a share of the time on average, and what is saved up is bounded.
func TestAllowance(t *testing.T) {
	const cost = 3 * time.Millisecond
	for _, c := range []struct {
		share float64
		step  time.Duration // between two decisions
		want  int           // of 10,000
	}{
		{0, time.Second, 0}, {1, time.Microsecond, 10_000}, {0.01, time.Second, 10_000},
		{0.01, time.Millisecond, 34}, // 10 s of time earn 100 ms; the first is on credit
		{0.5, time.Millisecond, 1667},
	} {
		a, now, spent := &allowance{share: c.share}, time.Unix(0, 0), 0
		for range 10_000 {
			if a.open(now) {
				a.spend(cost)
				spent++
			}
			now = now.Add(c.step)
		}
		if spent < c.want-1 || spent > c.want+1 {
			t.Errorf("share %v, every %v: %d, want %d", c.share, c.step, spent, c.want)
		}
	}
	a := &allowance{share: 0.01}
	a.open(time.Unix(0, 0))
	busy := 0
	for i := range 100 { // after a day of idleness
		if now := time.Unix(86_400, int64(i)); a.open(now) {
			a.spend(cost)
			busy++
		}
	}
	if most := int(maxEarned/cost) + 1; busy > most {
		t.Errorf("%d at once, want at most %d", busy, most)
	}
}

// The text of an event is bounded and names the default's choice.
func TestAnnouncement(t *testing.T) {
	margin := 0.25
	long := strings.Repeat("a", 253)
	r := decision.Record{Policy: long, Node: long, Feasible: 12, Best: []decision.Candidate{{}, {}}, RunnerUp: long, Margin: &margin,
		Default: &decision.Default{Candidate: decision.Candidate{Node: "x"}}, Fallback: "panic"}
	if text := announcement(r); len(text) > 1024 || !strings.HasSuffix(text, "the default profile would have chosen x") {
		t.Errorf("%d bytes: %s", len(text), text)
	}
	if got := announcement(decision.Record{Node: "n"}); got != "n was the only feasible node" {
		t.Error(got)
	}
}

// costModes are ways to record; the first one is not to.
var costModes = []string{"off", "ring", "lines"}

// journalOf opens the file of a mode; nil if it has none.
func journalOf(b *testing.B, mode string) *decision.Journal {
	if mode != "lines" {
		return nil
	}
	j, err := decision.OpenJournal(filepath.Join(b.TempDir(), "d.jsonl"), func(err error, _ uint64) { b.Error(err) })
	fatal.If(b, err)
	b.Cleanup(func() {
		if err := j.Close(); err != nil {
			b.Error(err)
		}
	})
	return j
}

// attempts returns a function that makes the attempt of a number: the filters, the choice, and the end of binding.
func attempts(b *testing.B, nodes int, mode string) func(i int) {
	profile := fmt.Sprint("cost-", nodes, mode)
	book := decision.NewBook(decision.DefaultBookSize, journalOf(b, mode))
	var listeners []decision.Listener
	if mode != costModes[0] {
		listeners = append(listeners, book)
	}
	bed := newBedWith(b, fake.NewClientset(), profile, Args{Checkpoint: untrained(b, 1, nil), Deadline: duration(time.Hour)}, listeners...)
	if mode != costModes[0] {
		bed.recorder.asks.share = 0.01
		WatchFailures(bed.sched, book.Decided)
	}
	bed.alike(b, profile, nodes)
	return func(i int) {
		bound, state, err := bed.attempt(b, profile, benchPod(i, i, ""))
		fatal.If(b, err)
		bed.sched.Profiles[profile].RunPostBindPlugins(bed.ctx, state, bound, bound.Spec.NodeName)
		fatal.If(b, bed.sched.Cache.ForgetPod(bed.log, bound))
	}
}

// BenchmarkRecording compares the CPU time of scheduling attempts, from the filters to the end of binding without the API
// server, with and without recording, in turns in one run. It reports how much more an attempt takes with each way to record, garbage
// collection and writing to the file included, with its standard error, and the time of an attempt without. A real attempt also talks to
// the API server, so recording's share of it is smaller.
func BenchmarkRecording(b *testing.B) {
	for _, nodes := range []int{10, 100, 1000} {
		b.Run(fmt.Sprint(nodes, " nodes"), func(b *testing.B) {
			var attempt []func(int)
			for _, mode := range costModes {
				attempt = append(attempt, attempts(b, nodes, mode))
			}
			const block = 64
			micros := make([][]float64, len(costModes)) // of an attempt, by mode and round
			for n := 0; n < max(b.N, 32*block); n += block {
				for k := range costModes {
					mode := (n/block + k) % len(costModes)
					before := cpuTime()
					for i := range block {
						attempt[mode](n + i)
					}
					micros[mode] = append(micros[mode], 1e6*(cpuTime()-before).Seconds()/block)
				}
			}
			for mode, name := range costModes[1:] {
				more := slices.Clone(micros[mode+1])
				floats.Sub(more, micros[0])
				mean, deviation := stat.MeanStdDev(more, nil)
				b.ReportMetric(mean, name+"-µs-more")
				b.ReportMetric(stat.StdErr(deviation, float64(len(more))), name+"-µs-error")
			}
			b.ReportMetric(stat.Mean(micros[0], nil), "µs/attempt")
		})
	}
}

// cpuTime returns the CPU time of this process.
func cpuTime() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		panic(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
