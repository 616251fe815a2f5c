package plugin

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/component-base/metrics/testutil"
	"k8s.io/kubernetes/pkg/scheduler/backend/cache"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	st "k8s.io/kubernetes/pkg/scheduler/testing"
	"pgregory.net/rapid"

	"gnnsched/gnn/checkpoint"
	"gnnsched/gnn/infer"
	"gnnsched/internal/cluster"
	"gnnsched/internal/fatal"
	"gnnsched/scheduler/policy"
	"gnnsched/scheduler/policy/heuristic"
	"gnnsched/scheduler/policy/preference"
)

func loads(t *testing.T, profile, result string) float64 {
	t.Helper()
	return fatal.Value(testutil.GetCounterMetricValue(reloads.WithLabelValues(profile, result)))(t)
}

// current returns the network that decides; nil without one.
func current(m *model) *infer.Network {
	if d, is := m.active.load().(*networkDecider); is {
		return d.net
	}
	return nil
}

func copyFile(t *testing.T, from, to string) {
	t.Helper()
	in := fatal.Value(os.Open(from))(t)
	defer in.Close()
	out := fatal.Value(os.Create(to))(t)
	fatal.Value(io.Copy(out, in))(t)
	fatal.If(t, out.Close())
}

func rename(t *testing.T, from, to string) {
	t.Helper()
	fatal.If(t, os.Rename(from, to))
}

// A checkpoint file appears, is replaced, damaged, removed and comes back. The last network that could
// be loaded decides all the time.
func TestModelFollowsItsFile(t *testing.T) {
	set.Register()
	countFromZero()
	const profile = "reload"
	file := filepath.Join(t.TempDir(), "net.safetensors")
	m := openModel(context.Background(), Args{Checkpoint: file}, profile, new(activeDecider))
	var last *infer.Network
	expect := func(step string, fresh bool, ok, failed float64) {
		t.Helper()
		m.reload(context.Background())
		m.reload(context.Background()) // a second look finds nothing new
		now := current(m)
		if fresh && (now == nil || now == last) || !fresh && now != last {
			t.Errorf("%s: network %p, before %p", step, now, last)
		}
		if a, b := loads(t, profile, "ok"), loads(t, profile, "error"); a != ok || b != failed {
			t.Errorf("%s: %v loaded and %v failed, want %v and %v", step, a, b, ok, failed)
		}
		last = now
	}
	expect("not there", false, 0, 1)
	rename(t, untrained(t, 1, nil), file)
	expect("comes later", true, 1, 1)
	rename(t, untrained(t, 2, nil), file)
	expect("replaced", true, 2, 1)
	rename(t, untrained(t, 3, exploding), file)
	expect("replaced by one that fails in trial decisions", false, 2, 1)
	if n := loads(t, profile, "refused"); n != 1 {
		t.Errorf("%v refused, want 1", n)
	}
	fatal.If(t, os.WriteFile(file, []byte("half a checkp"), 0o600))
	expect("broken", false, 2, 2)
	fatal.If(t, os.Remove(file))
	expect("gone", false, 2, 3)
	copyFile(t, untrained(t, 4, nil), file)
	expect("back", true, 3, 3)
	fatal.If(t, errors.Join(os.Remove(file), syscall.Mkfifo(file, 0o600)))
	expect("replaced by a pipe, which must not block", false, 3, 4)
	rename(t, untrained(t, 5, nil), file)
	expect("a file again", true, 4, 4)
}

// A copy that keeps the original's time (cp -p, tar) has the same time and size, and is still loaded.
func TestModelSeesAFileOfTheSameTimeAndSize(t *testing.T) {
	set.Register()
	file, other := untrained(t, 1, nil), untrained(t, 2, nil)
	when := time.Now().Add(-time.Hour)
	for _, f := range []string{file, other} {
		fatal.If(t, os.Chtimes(f, when, when))
	}
	m := openModel(context.Background(), Args{Checkpoint: file}, "same-time", new(activeDecider))
	first := current(m)
	rename(t, other, file)
	m.reload(context.Background())
	if first == nil || current(m) == first {
		t.Error("the new file was not loaded")
	}
}

// A shipped checkpoint never changes, so watch ends at once.
func TestWatchOfAShippedCheckpointEnds(t *testing.T) {
	set.Register()
	m := openModel(context.Background(), Args{Variant: "gnn"}, "shipped", new(activeDecider))
	m.watch(context.Background(), time.Millisecond)
}

// A file may change from one kind of network to the other and back; the decider changes with it.
func TestModelChangesTheKindOfNetwork(t *testing.T) {
	set.Register()
	file := filepath.Join(t.TempDir(), "net.safetensors")
	m := openModel(context.Background(), Args{Checkpoint: file, Deadline: duration(time.Minute)}, "kinds", new(activeDecider))
	for i, want := range []checkpoint.Graph{checkpoint.ClusterGraph, checkpoint.GPUGraph, checkpoint.ClusterGraph} {
		written := untrained(t, uint64(i), nil)
		if want == checkpoint.GPUGraph {
			written = untrainedOf(t, gpuArchitecture, 1, nil)
		}
		c := fatal.Value(checkpoint.Load(written))(t)
		rename(t, written, file)
		m.reload(context.Background())
		d := m.active.load().(*networkDecider)
		if got := d.net.Architecture().Graph; got != want || d.readsDevices() != (want != checkpoint.ClusterGraph) ||
			d.fingerprint() != c.Fingerprint() || d.policyName() != "kinds" {
			t.Errorf("file %d: graph %q of %x, want %q of %x", i, got, d.fingerprint(), want, c.Fingerprint())
		}
	}
}

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
	infos := fatal.Value(b.plugin.handle.SnapshotSharedLister().NodeInfos().List())(t)
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
