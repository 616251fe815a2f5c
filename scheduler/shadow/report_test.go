package shadow

import (
	"encoding/json"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"pgregory.net/rapid"

	"gnnsched/internal/each"
	"gnnsched/internal/exit"
	"gnnsched/internal/fatal"
	"gnnsched/scheduler/decision"
	"gnnsched/scheduler/plugin"
)

// Blocks keep the whole time and its means, however it is cut.
func TestBlocks(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		b := timeline{length: 60}
		var seconds, sum float64
		for range rapid.IntRange(1, 50).Draw(t, "stretches") {
			x := Block{Seconds: rapid.Float64Range(0, 1e4).Draw(t, "seconds"), Theirs: rapid.Float64Range(0, 1).Draw(t, "cost")}
			seconds, sum = seconds+x.Seconds, sum+x.Seconds*x.Theirs
			b.add(x)
		}
		all := b.all()
		if math.Abs(all.Seconds-seconds) > 1e-6*(1+seconds) || math.Abs(all.Theirs*all.Seconds-sum) > 1e-6*(1+sum) {
			t.Fatalf("%+v, want %v s and %v", all, seconds, sum)
		}
		for _, x := range b.full {
			if math.Abs(x.Seconds-b.length) > 1e-6*b.length {
				t.Fatalf("a block lasts %v s, not %v", x.Seconds, b.length)
			}
		}
		if len(b.full) >= maxBlocks || b.last.Seconds >= b.length {
			t.Fatalf("%d blocks and %v s", len(b.full), b.last.Seconds)
		}
	})
}

// blocksOf makes blocks of a second with the given gains.
func blocksOf(gains ...float64) []Block {
	return each.Map(gains, func(g float64) Block { return Block{Seconds: 1, Theirs: 1, Ours: 1 - g} })
}

// The interval is Student's t interval: for 1 to 5 with four degrees of freedom, 3 ± 2.7764 · 1.5811 / √5.
func TestEstimate(t *testing.T) {
	e := estimate(blocksOf(1, 2, 3, 4, 5), gained)
	if math.Abs(e.Mean-3) > 1e-12 || math.Abs(e.High-e.Mean-1.9632) > 1e-4 || math.Abs(e.Mean-e.Low-1.9632) > 1e-4 {
		t.Errorf("%+v", e)
	}
}

// good is a report with nothing against a switch.
func good() Report {
	return Report{
		Version: version, Profile: "gnn", Policy: "gnn", Fingerprint: "c0ffee", Of: []string{"default-scheduler"}, Objective: "balance",
		From: time.Unix(1e9, 0).UTC(), To: time.Unix(1e9+7200, 0).UTC(), Limits: DefaultLimits,
		Counts: Counts{
			Bound: 2100, Compared: 2000, Results: map[outcome]int{same: 700, equal: 300, different: 900, only: 100},
			NotCompared: map[string]int{volumeReason: 100},
		},
		OneStep: OneStep{Better: 500, Equal: 200, Worse: 200, Mean: 0.0001}, Time: Times{0.001, 0.004, 0.02}, Placed: 0.9,
		Whole: Block{7200, 0.1, 0.08, 0, 0}, Batches: slices.Repeat([]Block{{240, 0.1, 0.08, 0, 0}}, 30), Correlation: 0.05,
		Gain: &Estimate{0.02, 0.015, 0.025}, MoreWaiting: &Estimate{0, 0, 0},
	}
}

func TestVerdict(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(*Report)
		answer Answer
		why    string
	}{
		{"all is well", func(*Report) {}, Safe, "-20.00 % (-25.00 % to -15.00 %)"},
		{"few pods", func(r *Report) { r.Counts.Compared = 999 }, notYet, "999 of 1000 pods were compared"},
		{"little time", func(r *Report) { r.Gain, r.MoreWaiting = nil, nil }, notYet, "fewer than 10 blocks of time"},
		{"dependent", func(r *Report) { r.Correlation = 0.6 }, notYet, "still depend on each other"},
		{"another state", func(r *Report) { r.Counts.Skewed = 101 }, notYet, "not the one that the scheduler saw"},
		{"missed", func(r *Report) { r.Counts.NotCompared[lateReason] = 40 }, notYet, "40 of 2100 pods were missed"},
		{"unschedulable", func(r *Report) { r.Counts.Results[unschedulableForUs] = 3 }, notYet, "3 of 2000 pods would find no node"},
		{"infeasible", func(r *Report) { r.Counts.Results[infeasible] = 3 }, notYet, "upstream's filters refuse"},
		{"fallbacks", func(r *Report) { r.Counts.Fallbacks = 30 }, notYet, "decided by upstream's scores"},
		{"slow", func(r *Report) { r.Time.P99 = 0.3 }, notYet, "longer than 300 ms"},
		{"more wait", func(r *Report) { r.MoreWaiting = &Estimate{2, 1, 3} }, notWorth, "2 pods more would wait"},
		{"worse", func(r *Report) { r.Gain = &Estimate{-0.02, -0.03, -0.01} }, notWorth, "+20.00 %"},
		{"worse and failing", func(r *Report) { r.Gain = &Estimate{-0.02, -0.03, -0.01}; r.Counts.Fallbacks = 30 }, notWorth, "+20.00 %"},
		{"too small", func(r *Report) { r.Gain = &Estimate{0.0004, 0.0001, 0.0007} }, notWorth, "no reason to switch"},
		{"wide", func(r *Report) { r.Gain = &Estimate{0.02, -0.01, 0.05} }, notYet, "too wide"},
		{"no cost", func(r *Report) { r.Whole.Theirs = 0; r.Gain = &Estimate{0, 0, 0} }, notWorth, "no reason to switch"},
	} {
		r := good()
		c.change(&r)
		if v := judgeReport(r); v.Answer != c.answer || !strings.Contains(strings.Join(v.Why, "; "), c.why) {
			t.Errorf("%s: %+v, want %s: %s", c.name, v, c.answer, c.why)
		}
	}
}

// The text is for people. Text from pods' owners cannot command their terminal.
func TestText(t *testing.T) {
	r := good()
	r.Failures = []Failure{{
		Pod: "x/\x1b[31mred\ny", What: infeasible, Theirs: "a", Node: "b", Why: "Insufficient\r cpu " + strings.Repeat("z", 1000),
	}}
	r.Counts.Results[infeasible], r.Counts.Waited, r.Placed, r.Moves = 1, 3, 0.3, &Moves{Pods: 2, Before: 0.1, After: 0.07}
	r.Verdict = judgeReport(r)
	var b strings.Builder
	fatal.If(t, r.WriteText(&b))
	if strings.ContainsAny(b.String(), "\x1b\r") {
		t.Error("it has control characters")
	}
	fatal.Golden(t, "report.txt", b.String())
}

// A written report is read back equal; other files are refused.
func TestParse(t *testing.T) {
	text := fatal.Value(json.Marshal(good()))(t)
	r, err := Parse(text)
	if err != nil || r.Gain.Mean != 0.02 || r.Counts.Results[same] != 700 || len(r.Batches) != 30 {
		t.Errorf("%+v, %v", r, err)
	}
	for _, bad := range []string{"", "{}", "[]", `{"version":"gnnsched.shadow/v2"}`, string(text[:100])} {
		if _, err := Parse([]byte(bad)); exit.Code(err) != exit.Usage {
			t.Errorf("%.20q: %v", bad, err)
		}
	}
}

func FuzzParse(f *testing.F) {
	text, _ := json.Marshal(good())
	f.Add(text)
	f.Add([]byte(`{"version":"gnnsched.shadow/v1","batches":[{}],"counts":{"results":null}}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		r, err := Parse(text)
		if err != nil {
			return
		}
		var b strings.Builder
		fatal.If(t, r.WriteText(&b))
		if strings.ContainsRune(b.String(), '\x1b') {
			t.Fatal("a control character")
		}
	})
}

type value float64

func (v value) Plus(o value) value { return (v + o) / 2 }

func number(v value) float64 { return float64(v) }

// Blocks that depend on the one before are joined; independent ones are not.
func TestJoin(t *testing.T) {
	var slow, fast, rising, same []value
	for i := range 512 {
		slow = append(slow, value(i/8%2))
		fast = append(fast, value(i*i%7))
		rising = append(rising, value(i))
		same = append(same, 3)
	}
	for _, c := range []struct {
		name        string
		list        []value
		least, most int
		independent bool
	}{
		{"independent", fast, 512, 512, true},
		{"dependent", slow, Min, 128, true},
		{"a trend never becomes independent", rising, Min, 2*Min - 1, false},
		{"constant", same, 512, 512, true},
	} {
		list, lag := JoinBlocks(c.list, number)
		if len(list) < c.least || len(list) > c.most || (lag <= MaxLag) != c.independent {
			t.Errorf("%s: %d blocks, correlation %v", c.name, len(list), lag)
		}
	}
}

func TestPairs(t *testing.T) {
	if got := pairBlocks([]value{1, 3, 5, 7, 100}); len(got) != 2 || got[0] != 2 || got[1] != 6 {
		t.Errorf("%v", got)
	}
}

// The book has the decision about each compared pod: the profile's node, the real node, and the features that the policy read of both. The
// choices of the cluster in memory are not in it.
func TestRecords(t *testing.T) {
	book := decision.NewBook(10, nil)
	b := recordingBench(t, plugin.Recording{Book: book, DefaultShare: 1}, "linear", "a", "b", "c", "d", "e", "f", "g")
	b.binds(pod("first").Obj(), "a")
	b.binds(pod("apart").Obj(), "a")
	b.binds(pod("pinned").NodeSelector(map[string]string{v1.LabelHostname: "c"}).Obj(), "c")
	b.binds(pod("nowhere").NodeSelector(map[string]string{v1.LabelHostname: "none"}).Obj(), "b")
	list := book.Last(decision.Query{})
	if len(list) != 4 {
		t.Fatalf("%d records: %+v", len(list), list)
	}
	slices.Reverse(list)
	for i, r := range list {
		want := []string{"a", "a", "c", "b"}[i]
		if r.Outcome != decision.Shadow || r.Really != want || r.Profile != "linear" || r.Nodes != 7 || r.UID != r.Pod ||
			!r.Time.Equal(b.clock.Now()) {
			t.Errorf("%+v, want it really on %s", r, want)
		}
	}
	// A linear policy spreads: the pod would go elsewhere, and a, the last by its score, has the last place with what was read.
	apart := list[1]
	at := slices.IndexFunc(apart.Best, func(c decision.Candidate) bool { return c.Node == "a" })
	if apart.Node == "a" || apart.Number != 2 || apart.Feasible != 7 || apart.Policy != "linear" || at != len(apart.Best)-1 ||
		apart.Best[at].Read == nil || apart.Default == nil {
		t.Errorf("%+v", apart)
	}
	if pinned := list[2]; pinned.Node != "c" || pinned.Feasible != 1 || len(pinned.Best) > 0 || pinned.Number != 3 {
		t.Errorf("%+v", pinned)
	}
	nowhere := list[3]
	if nowhere.Node != "" || nowhere.Number != 0 || nowhere.Failure != "0/7 nodes are available" || len(nowhere.Refused) != 1 ||
		nowhere.Refused[0].Nodes != 7 || nowhere.Refused[0].Reason == "" {
		t.Errorf("%+v", nowhere)
	}
}

// A network has its own name in records, not the watched scheduler's.
func TestRecordsNameNetworks(t *testing.T) {
	b := newBench(t, "linear", "a")
	if got := b.policy("default-scheduler", 7); got != "linear" {
		t.Errorf("a network is called %s", got)
	}
	if got := b.policy("best-fit", 0); got != "best-fit" {
		t.Errorf("a heuristic is called %s", got)
	}
}
