package vector_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"gnnsched/gnn/feature"
	"gnnsched/internal/fatal"
	"gnnsched/scheduler/encode"
	"gnnsched/scheduler/eval"
	"gnnsched/scheduler/sim"
	"gnnsched/scheduler/sim/vector"
)

func scenario(t testing.TB, name string) sim.Config {
	t.Helper()
	s := fatal.Value(eval.Find(name))(t)
	return s.Config
}

func layout(t testing.TB, sets ...string) *feature.Layout {
	t.Helper()
	return fatal.Value(feature.NewLayout(sets))(t)
}

// arrays returns arrays with room for the given rows of every kind.
func arrays(n int, w feature.Widths, slots, rows int, graph bool) *vector.Arrays {
	return vector.NewArrays(vector.Shape{
		Count: n, Slots: slots, Widths: w, Graph: graph, Raw: graph,
		Rows: vector.Counts{Candidates: rows, Nodes: rows, Groups: 9 * rows},
	})
}

func open(t testing.TB, c sim.Config, o vector.Options) *vector.Vector {
	t.Helper()
	return fatal.Value(vector.New(c, o))(t)
}

// In every layout, with one goroutine and with two, a batch shows and does what single environments do.
func TestAgreesWithTheSimulator(t *testing.T) {
	const n = 3
	for _, c := range []struct {
		scenario string
		sets     []string
		padded   bool
		graph    bool
		threads  int
	}{
		{"mixed", nil, false, false, 2}, {"mixed", nil, true, false, 2}, {"mixed", []string{"base", "whole"}, false, true, 2},
		{"lossy", nil, true, true, 1}, {"mixed-gpu95", []string{"base", "whole"}, true, false, 3},
		{"traffic", nil, false, true, 2},
	} {
		t.Run(fmt.Sprint(c), func(t *testing.T) {
			cfg, l := scenario(t, c.scenario), layout(t, c.sets...)
			v := open(t, cfg, vector.Options{Count: n, Threads: c.threads, Layout: l})
			slots := 0
			if c.padded {
				slots = v.Slots()
			}
			a := arrays(n, l.Widths, slots, n*v.Slots(), c.graph)
			seeds, singles := []uint64{1, 2, 3}, []*single{}
			for _, s := range seeds {
				singles = append(singles, newSingle(t, cfg, l, s))
			}
			fatal.If(t, v.Reset(vector.Start{Seeds: seeds}, a))
			rng, actions := rand.New(rand.NewPCG(1, 2)), make([]int64, n)
			for range 150 {
				for i, s := range singles {
					s.compare(t, a, i, l.Widths)
					actions[i] = s.choose(rng)
				}
				fatal.If(t, v.Step(actions, a))
				for i, s := range singles {
					if reward := s.step(int(actions[i])); reward != a.Reward[i] {
						t.Fatalf("reward %v, want %v", a.Reward[i], reward)
					}
				}
			}
		})
	}
}

// single is one environment without a batch.
type single struct {
	env     *sim.Env
	encoder *encode.Encoder
}

func newSingle(t *testing.T, c sim.Config, l *feature.Layout, seed uint64) *single {
	env := fatal.Value(sim.New(c))(t)
	fatal.If(t, env.Reset(seed))
	return &single{env, encode.New(l)}
}

func (s *single) choose(rng *rand.Rand) int64 {
	if s.env.Done() {
		return 0
	}
	p := s.env.Preferred()
	return int64(p[rng.IntN(len(p))])
}

func (s *single) step(choice int) float64 {
	if s.env.Done() {
		return 0
	}
	n := s.env.Snapshot().Nodes[s.env.Candidates()[choice]]
	return s.env.StepOn(choice, n.ChooseDevices(s.env.Pending().Requests))
}

// compare checks what environment i of the batch shows.
func (s *single) compare(t *testing.T, a *vector.Arrays, i int, w feature.Widths) {
	t.Helper()
	if s.env.Done() {
		if a.Unscheduled[i] < 0 || a.Objective[i] != s.env.Outcome().Cost {
			t.Fatalf("environment %d should have ended: %+v", i, a.Results)
		}
		return
	}
	g := s.encoder.Encode(s.env.Snapshot(), s.env.Pending(), s.env.Candidates())
	first, rows := i*a.Slots, len(g.Candidates)
	if a.Slots == 0 {
		first = int(a.CandidateOffsets[i])
		if got := int(a.CandidateOffsets[i+1]) - first; got != rows {
			t.Fatalf("%d candidates, want %d", got, rows)
		}
	}
	mask := make([]uint8, max(rows, a.Slots))
	for _, p := range s.env.Preferred() {
		mask[p] = 1
	}
	equal(t, "mask", a.Mask[first:first+len(mask)], mask)
	equal(t, "candidates", a.CandidateX[first*w.Candidate:(first+rows)*w.Candidate], g.CandidateX)
	equal(t, "pod", a.PodX[i*w.Pod:(i+1)*w.Pod], g.PodX)
	equal(t, "cluster", a.ClusterX[i*w.Cluster:(i+1)*w.Cluster], g.ClusterX)
	if slices.ContainsFunc(a.CandidateX[(first+rows)*w.Candidate:(first+len(mask))*w.Candidate], func(x float32) bool { return x != 0 }) {
		t.Fatal("the padding is not zero")
	}
	if a.NodeX == nil {
		return
	}
	node := int(a.NodeOffsets[i])
	equal(t, "nodes", a.NodeX[node*w.Node:int(a.NodeOffsets[i+1])*w.Node], g.NodeX)
	for k, row := range g.Candidates {
		if int(a.CandidateNode[first+k]) != node+int(row) {
			t.Fatal("a candidate has another node")
		}
	}
	at := slices.Index(a.GroupNode[:a.Rows.Groups], int64(node))
	if at >= 0 {
		equal(t, "groups", a.GroupX[at*w.Group:at*w.Group+len(g.Groups[0].X)], g.Groups[0].X)
	}
	if got, want := a.NodeRaw[node*vector.RawNode+vector.RawPod], s.env.Snapshot().Nodes[0].Requested.MilliCPU; got != want {
		t.Fatalf("requested CPU %d, want %d", got, want)
	}
}

func equal[T any](t *testing.T, what string, got, want []T) {
	t.Helper()
	if d := cmp.Diff(want, got); d != "" {
		t.Fatalf("%s:\n%s", what, d)
	}
}

// With Autoreset the step after the end begins the next seed's episode and returns no reward.
func TestAutoreset(t *testing.T) {
	v := open(t, scenario(t, "tiny"), vector.Options{Count: 3, Autoreset: true})
	a, actions := arrays(3, feature.Widths{}, 0, 3*v.Slots(), false), make([]int64, 3)
	fatal.If(t, v.Reset(vector.Start{Seeds: []uint64{10, 20, 30}}, a))
	episodes, before := 0, slices.Clone(a.Terminated)
	for range 200 {
		for i := range actions {
			actions[i] = int64(slices.Index(a.Mask[a.CandidateOffsets[i]:a.CandidateOffsets[i+1]], 1))
		}
		seed := slices.Clone(a.Seed)
		fatal.If(t, v.Step(actions, a))
		for i, over := range before {
			if over == 1 && (a.Reward[i] != 0 || a.Decisions[i] != 0 || a.Seed[i] <= seed[i]) {
				t.Fatalf("environment %d after its end: %+v", i, a.Results)
			}
		}
		if before = slices.Clone(a.Terminated); slices.Contains(before, 1) {
			episodes++
		}
	}
	if episodes < 3 {
		t.Errorf("%d episodes ended", episodes)
	}
	if o, err := v.Outcome(1); err != nil || o.Arrived == 0 {
		t.Errorf("%+v, %v", o, err)
	}
}

func TestErrors(t *testing.T) {
	c := scenario(t, "small8")
	if _, err := vector.New(c, vector.Options{}); err == nil {
		t.Error("no environment is an environment")
	}
	v := open(t, c, vector.Options{Count: 2, Layout: layout(t)})
	w := layout(t).Widths
	a := arrays(2, w, 0, 2*v.Slots(), false)
	want := func(err error, text string) {
		t.Helper()
		if err == nil || !strings.Contains(err.Error(), text) {
			t.Errorf("%v, want %q", err, text)
		}
	}
	want(v.Step([]int64{0, 0}, a), "call reset first")
	want(v.Reset(vector.Start{}, a), "needs a seed")
	fatal.If(t, v.Reset(vector.Start{Seeds: []uint64{1, 2}}, a))
	want(v.Step([]int64{0}, a), "1 actions for 2")
	want(v.Step([]int64{0, 99}, a), "environment 1: seed 2: action 99 is none of")
	want(v.Step([]int64{-1, 0}, a), "none of")
	a.Mask = a.Mask[:3]
	a.CandidateX = a.CandidateX[:3*w.Candidate]
	if err := v.Observe(a); err != vector.ErrRoom || a.Rows.Candidates < 4 {
		t.Errorf("%v, %+v", err, a.Rows)
	}
	a.CandidateX = a.CandidateX[:7]
	want(v.Observe(a), "candidate_x has 7 elements, want")
	fatal.If(t, v.Close())
	want(v.Close(), "closed")
	want(v.Observe(a), "closed")
}

// BenchmarkStep steps the scenario mixed, padded or without features, with the first allowed candidate.
func BenchmarkStep(b *testing.B) {
	for _, features := range []bool{false, true} {
		for _, n := range []int{1, 16, 64, 256} {
			for _, threads := range []int{1, 2} {
				b.Run(fmt.Sprintf("features=%v/n=%d/threads=%d", features, n, threads), func(b *testing.B) {
					l, w := (*feature.Layout)(nil), feature.Widths{}
					if features {
						l = feature.Default()
						w = l.Widths
					}
					v := open(b, scenario(b, "mixed"), vector.Options{Count: n, Threads: threads, Layout: l, Autoreset: true})
					a, actions, seeds := arrays(n, w, v.Slots(), 0, false), make([]int64, n), make([]uint64, n)
					for i := range seeds {
						seeds[i] = uint64(i+1) << 32
					}
					fatal.If(b, v.Reset(vector.Start{Seeds: seeds, Skip: true}, a))
					for b.Loop() {
						for i := range actions {
							actions[i] = int64(slices.Index(a.Mask[i*a.Slots:(i+1)*a.Slots], 1))
						}
						fatal.If(b, v.Step(actions, a))
					}
					b.ReportMetric(float64(b.N*n)/b.Elapsed().Seconds(), "steps/s")
				})
			}
		}
	}
}
