package plugin

import (
	"fmt"
	"sync"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/kubernetes/pkg/scheduler/backend/cache"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	st "k8s.io/kubernetes/pkg/scheduler/testing"
	"pgregory.net/rapid"

	"gnnsched/internal/cluster"
	"gnnsched/internal/fatal"
	"gnnsched/scheduler/policy"
	"gnnsched/scheduler/policy/heuristic"
	"gnnsched/scheduler/policy/preference"
)

// The node scores agree with the heuristic on plain values: the chosen node is one of its best, and
// the order of the nodes is kept.
func TestScoresAreTheHeuristics(t *testing.T) {
	for _, h := range heuristic.List() {
		if h.GPU || h.Name == "random" || h.Name == "round-robin" {
			continue // the last two keep state; see below
		}
		t.Run(h.Name, func(t *testing.T) {
			b := newBed(t, h.Name, Args{Policy: h.Name, Preferences: preference.Off}, service())
			rapid.Check(t, func(t *rapid.T) {
				state := drawState(t)
				defer b.load(t, state)()
				if _, err := b.decide(h.Name, state.waiting); err != nil {
					t.Skip("fits nowhere")
				}
				compareWithPolicy(t, b, h, state.waiting)
			})
			if n, err := Fallbacks(h.Name); n != 0 || err != nil {
				t.Errorf("%d decisions fell back, %v", n, err)
			}
		})
	}
}

// compareWithPolicy compares the profile's scores with the heuristic's.
func compareWithPolicy(t *rapid.T, b *bed, h heuristic.Heuristic, pod *v1.Pod) {
	nodes, _ := b.filter(t, h.Name, pod)
	infos, err := b.plugin.handle.SnapshotSharedLister().NodeInfos().List()
	fatal.If(t, err)
	m := mirror{reserved: b.reservations()}
	m.sync(infos, false)
	waiting, raw := convertPod(pod), make([]float32, len(nodes))
	fatal.If(t, h.New(policy.Setting{Seed: 1}).Score(&m.snapshot, &waiting, m.rows(nodes, nil), raw))
	best, got := raw[policy.Best(raw)], b.totals(t, h.Name, pod)
	for i, g := range got {
		if (g.TotalScore == 100) != (raw[i] == best) && (h.RandomTies || g.TotalScore == 100) {
			t.Fatalf("%s has %d, the policy gives %v of %v", g.Name, g.TotalScore, raw[i], raw)
		}
		for j := range got {
			if raw[i] > raw[j] && g.TotalScore < got[j].TotalScore {
				t.Fatalf("%s and %s changed places: %v", g.Name, got[j].Name, raw)
			}
		}
	}
}

// alike loads n nodes that differ only in their names.
func (b *bed) alike(t testing.TB, profile string, n int) {
	var state clusterState
	for i := range n {
		name := fmt.Sprint("n", i)
		state.nodes = append(state.nodes, st.MakeNode().Name(name).Capacity(map[v1.ResourceName]string{v1.ResourceCPU: "64",
			v1.ResourceMemory: "64Gi", v1.ResourcePods: "110"}).Obj())
	}
	b.load(t, state)
	fatal.If(t, b.sched.Cache.UpdateSnapshot(b.log, b.sched.Profiles[profile].SnapshotSharedLister().(*cache.Snapshot)))
}

// best runs PreScore for one pod and returns the first node with 100.
func (b *bed) best(profile string) (string, error) {
	infos, err := b.sched.Profiles[profile].SnapshotSharedLister().NodeInfos().List()
	if err != nil {
		return "", err
	}
	state := framework.NewCycleState()
	pod := st.MakePod().Name("p").Obj()
	best := ""
	if st := b.plugin.PreScore(b.ctx, state, pod, infos); !st.IsSuccess() {
		return "", st.AsError()
	}
	for _, n := range infos {
		s, st := b.plugin.Score(b.ctx, state, pod, n)
		if !st.IsSuccess() {
			return "", st.AsError()
		}
		if s == 100 && best == "" {
			best = n.Node().Name
		}
	}
	return best, nil
}

// Concurrent decisions do not damage a policy's state: of 40 at once, round robin gives each of four
// nodes ten, and random uses several nodes.
func TestStatefulHeuristicsUnderConcurrency(t *testing.T) {
	for _, name := range []string{"round-robin", "random"} {
		t.Run(name, func(t *testing.T) {
			b := newBed(t, name, Args{Policy: name})
			b.alike(t, name, 4)
			var mu sync.Mutex
			var wg sync.WaitGroup
			count := map[string]int{}
			for range 40 {
				wg.Go(func() {
					best, err := b.best(name)
					mu.Lock()
					defer mu.Unlock()
					if count[best]++; err != nil {
						t.Error(err)
					}
				})
			}
			wg.Wait()
			for i := range 4 {
				if n := count[fmt.Sprint("n", i)]; name == "round-robin" && n != 10 {
					t.Errorf("%v", count)
				}
			}
			if len(count) < 2 { // happens by chance in one run of 4³⁹
				t.Errorf("all on one node: %v", count)
			}
		})
	}
}

// Two profiles with the same heuristic do not share its state.
func TestProfilesShareNoState(t *testing.T) {
	a, b := newBed(t, "a", Args{Policy: "round-robin"}), newBed(t, "b", Args{Policy: "round-robin"})
	a.alike(t, "a", 3)
	b.alike(t, "b", 3)
	for range 2 {
		x, errX := a.best("a")
		y, errY := b.best("b")
		if x != y || errX != nil || errY != nil {
			t.Errorf("%s and %s, %v, %v", x, y, errX, errY)
		}
	}
}

// panics prefers the first node for the first pod, and panics at every other pod.
type panics struct{ asked int }

func (p *panics) Name() string { return "faulty" }

func (p *panics) Score(_ *cluster.Snapshot, _ *cluster.Pod, _ []int32, scores []float32) error {
	if p.asked++; p.asked > 1 {
		panic("a fault")
	}
	for i := range scores {
		scores[i] = -float32(i)
	}
	return nil
}

// If a heuristic panics, upstream's scoring decides and the fallback is counted. The next pod gets a new
// policy.
func TestHeuristicThatPanics(t *testing.T) {
	const profile = "faulty"
	b := newBed(t, profile, Args{Policy: "best-fit"})
	b.plugin.active.store(&heuristicDecider{Heuristic: heuristic.Heuristic{
		Name: "faulty", New: func(policy.Setting) policy.Policy { return &panics{} },
	}})
	b.alike(t, profile, 3)
	for i := range 4 {
		if best, err := b.best(profile); best == "" || err != nil {
			t.Fatalf("pod %d: %q, %v", i, best, err)
		}
		if n, want := fallbackCount(t, profile, reasonPanic), float64((i+1)/2); n != want {
			t.Errorf("after pod %d: %v fallbacks, want %v", i, n, want)
		}
	}
}
