package sim

import (
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"gnnsched/internal/cluster"
	"gnnsched/internal/each"
	"gnnsched/internal/fatal"
	"gnnsched/workload"
)

// The nodes of pools exist beside the drawn nodes, with their labels, taints and zones. Only pods that
// select and tolerate them run there.
func TestPools(t *testing.T) {
	c := config()
	c.Nodes = Exactly(5)
	c.Zones = Exactly(2)
	c.Initial = 0
	c.Turnover = 1
	c.Load = FloatRange{0.5, 0.5}
	c.Pools = []NodePool{
		{
			Count: Exactly(3), Zone: "east", Labels: map[string]string{"pool": "gpu"},
			Allocatable: cluster.Resources{MilliCPU: 32000, Memory: 128 << 30, GPU: 8, Pods: 110},
			Taints:      []cluster.Taint{{Key: "gpu", Effect: cluster.NoSchedule}},
		},
		{Count: IntRange{1, 2}, Allocatable: AAMLNode},
	}
	c.Shapes = append(workload.DefaultShapes()[:1:1], workload.Shape{
		Name: "train", Weight: 1, Requests: cluster.Resources{MilliCPU: 1000, Memory: 1 << 30, GPU: 1, Pods: 1},
		NodeSelector: map[string]string{"pool": "gpu"}, Tolerations: []cluster.Toleration{{Key: "gpu", Exists: true}},
	}, workload.Shape{
		Name: "west", Weight: 1, Requests: cluster.Resources{MilliCPU: 1000, Memory: 1 << 30, Pods: 1},
		NodeSelector: map[string]string{"topology.kubernetes.io/zone": "zone-1"},
	})
	counts, trained := map[int]bool{}, 0
	for seed := range uint64(10) {
		e := newEnv(t, c, seed)
		nodes := e.Snapshot().Nodes
		counts[len(nodes)] = true
		names := map[string]bool{}
		for _, n := range nodes {
			names[n.Name] = true
		}
		if len(names) != len(nodes) || nodes[0].Allocatable != c.Sizes[0].Allocatable {
			t.Fatalf("seed %d: %v", seed, names)
		}
		for i, n := range nodes[6:9] {
			if n.Zone != "east" || n.Allocatable.GPU != 8 || n.Available() ||
				!cmp.Equal(n.Labels, map[string]string{"pool": "gpu", zoneLabel: "east"}) {
				t.Fatalf("seed %d: pool node %d: %+v", seed, i, n)
			}
		}
		for !e.Done() {
			gpu, west := e.Pending().Requests.GPU > 0, e.Pending().NodeSelector[zoneLabel] != ""
			for _, r := range e.Candidates() {
				if n := nodes[r]; gpu != (n.Allocatable.GPU > 0) || west && n.Zone != "zone-1" {
					t.Fatalf("seed %d: %+v may run on %+v", seed, e.Pending(), n)
				}
			}
			if gpu {
				trained++
			}
			e.Step(0)
		}
	}
	if !cmp.Equal(counts, map[int]bool{10: true, 11: true}) || trained == 0 {
		t.Errorf("clusters of %v nodes, %d pods with GPUs", counts, trained)
	}
}

// A cluster may consist of pools only.
func TestOnlyPools(t *testing.T) {
	c := config()
	c.Nodes = IntRange{}
	c.Sizes = nil
	c.Pools = []NodePool{{Count: Exactly(4), Allocatable: AAMLNode}}
	if e := newEnv(t, c, 1); len(e.Snapshot().Nodes) != 5 || e.Snapshot().Nodes[0].Available() {
		t.Errorf("%d nodes", len(e.Snapshot().Nodes))
	}
}

// The seed decides which nodes are lost. Their pods wait again, and all other pods stay.
func TestLoss(t *testing.T) {
	for _, turnover := range []int{0, 2} {
		c := config()
		c.Nodes = Exactly(30)
		c.Turnover = turnover
		c.Lose = 0.1
		c.Load = FloatRange{0.5, 0.5}
		c.Initial = 0
		c.Sizes = c.Sizes[2:]
		var gone []string
		for choice := range 2 {
			e := newEnv(t, c, 4)
			before := e.Snapshot().Nodes
			ran := map[string]int64{}
			for i := 0; !e.Done() && len(e.Snapshot().Nodes) == len(before); i++ {
				for _, n := range before {
					ran[n.Name] = n.Requested.Pods
				}
				rows := e.Candidates()
				pick := i * (1 + 6*choice) % len(rows)
				ran[before[rows[pick]].Name]++ // nodes are lost right after the step
				e.Step(pick)
			}
			left := map[string]bool{}
			for _, n := range e.Snapshot().Nodes {
				left[n.Name] = true
			}
			var names []string
			var pods int64
			for _, n := range before {
				if !left[n.Name] {
					names, pods = append(names, n.Name), pods+ran[n.Name]
				}
			}
			if len(names) != 3 || e.evicted != int(pods) || left["control-plane-0"] != true {
				t.Fatalf("%v went with %d pods, of which %d came back", names, pods, e.evicted)
			}
			if choice == 1 && !cmp.Equal(gone, names) {
				t.Errorf("the choices decide on which nodes go: %v or %v", gone, names)
			}
			gone = names
			for !e.Done() {
				e.Step(0)
			}
			o := e.Outcome()
			running := each.Sum(e.Snapshot().Nodes, func(n *cluster.Node) int64 { return n.Requested.Pods })
			if o.Evicted == 0 || o.Nodes != 27 || o.Placed+o.Unscheduled != o.Arrived || turnover == 0 && int(running) != o.Placed {
				t.Errorf("%d pods run: %+v", running, o)
			}
		}
	}
}

func TestValidateNodes(t *testing.T) {
	for say, spoil := range map[string]func(*Config){
		"nodes: -1":                func(c *Config) { c.Pools = []NodePool{{Count: Exactly(1), Allocatable: AAMLNode}}; c.Nodes.Min = -1 },
		"pools[0].count: 0":        func(c *Config) { c.Pools = []NodePool{{Allocatable: AAMLNode}} },
		"pools[0]: a node":         func(c *Config) { c.Pools = []NodePool{{Count: Exactly(1)}} },
		"more than 10000":          func(c *Config) { c.Pools = []NodePool{{Count: Exactly(9999), Allocatable: AAMLNode}} },
		`effect "Never"`:           func(c *Config) { c.Sizes[0].Taints = []cluster.Taint{{Key: "k", Effect: "Never"}} },
		"taints[0]: key":           func(c *Config) { c.Sizes[0].Taints = []cluster.Taint{{Effect: cluster.NoSchedule}} },
		"set zone instead":         func(c *Config) { c.Sizes[0].Labels = map[string]string{zoneLabel: "a"} },
		"lose: 1 ":                 func(c *Config) { c.Lose = 1 },
		"lose: -0.1":               func(c *Config) { c.Lose = -0.1 },
		"sizes: give at least one": func(c *Config) { c.Sizes, c.Pools = nil, []NodePool{{Count: Exactly(1), Allocatable: AAMLNode}} },
	} {
		c := config()
		spoil(&c)
		if err := c.Validate(); err == nil || !strings.Contains(err.Error(), say) {
			t.Errorf("%v, want %q in it", err, say)
		}
	}
}

func scarce() Config {
	return Config{Nodes: IntRange{14, 40}, Replicas: IntRange{1, 8}, Load: FloatRange{0.7, 0.9}, Turnover: 1,
		Attributes: &Attributes{Count: IntRange{1, 6}, Pools: IntRange{2, 7}, Plain: IntRange{1, 4}, Needy: IntRange{1, 6}, Drift: 0.3}}
}

// Each kind of pods has a pool, and the load can be reached.
func TestAttributes(t *testing.T) {
	env := fatal.Value(New(scarce()))(t)
	sizes := map[int]bool{}
	for seed := range uint64(60) {
		if err := env.Reset(seed); err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		nodes := env.Nodes()
		sizes[len(nodes)] = true
		if len(nodes) < 10 || len(nodes) > env.MaxNodes() {
			t.Errorf("seed %d: %d nodes", seed, len(nodes))
		}
		needy := false
		for _, a := range env.Plan() {
			allowed := each.Count(env.source.nodes(seed), func(n *cluster.Node) bool { return n.Fit(a.Pod) == cluster.Fits })
			if allowed == 0 {
				t.Fatalf("seed %d: %+v fits on no empty node", seed, a.Pod)
			}
			needy = needy || allowed < len(nodes)
		}
		if !needy {
			t.Errorf("seed %d: every pod fits on every node", seed)
		}
	}
	if len(sizes) < 10 {
		t.Errorf("%d numbers of nodes in 60 episodes", len(sizes))
	}
}

func TestDrift(t *testing.T) {
	c := scarce()
	shapes := scarce().Attributes
	ep := shapes.draw(c, 3)
	same, other := drifted(3, ep.Shapes, 0, 0.3), drifted(3, ep.Shapes, 1, 0.3)
	for i, s := range ep.Shapes {
		if same[i].Weight != s.Weight {
			t.Error("the first fill has other weights")
		}
		if other[i].Weight == s.Weight {
			t.Error("the second fill has the same weights")
		}
	}
}

// With affinity the seed's pools and requests are those without it; kinds of pods need families and generations instead of attributes, and
// have a pool still.
func TestDrawnAffinity(t *testing.T) {
	c := scarce()
	for seed := range uint64(100) {
		plain := c.Attributes.draw(c, seed)
		with := *c.Attributes
		with.Affinity = 1
		got := with.draw(c, seed)
		for i, p := range got.Pools {
			if want := plain.Pools[i]; p.Count != want.Count || p.Allocatable != want.Allocatable || len(p.Labels) != len(want.Labels)+2 {
				t.Fatalf("seed %d: pool %d is %+v, want %+v", seed, i, p, want)
			}
		}
		for i, s := range got.Shapes {
			want := plain.Shapes[i]
			if s.Requests != want.Requests || s.Weight != want.Weight || len(s.NodeAffinity) == 0 || len(s.NodeSelector) > 0 {
				t.Fatalf("seed %d: shape %d is %+v, want %+v", seed, i, s, want)
			}
			fatal.If(t, s.Validate())
			pod, fits := podOf(&s), false
			for _, p := range got.Pools {
				n := cluster.Node{Labels: p.Labels, Taints: p.Taints, Allocatable: p.Allocatable}
				fits = fits || n.Fit(&pod) == cluster.Fits
			}
			if !fits {
				t.Fatalf("seed %d: no pool for shape %+v", seed, s)
			}
		}
	}
}

// Pods arrive in the order of the plan. A placed pod that is in none of the environment's lists has
// left or stays for good.
func TestPlan(t *testing.T) {
	c := config()
	c.Turnover, c.Initial = 1, 0
	env := fatal.Value(New(c))(t)
	fatal.If(t, env.Reset(3))
	plan := env.Plan()
	running := map[int]bool{}
	for !env.Done() {
		next := env.Next()
		if plan[next].Pod != env.Pending() || running[next] || slices.Contains(env.Waiting(), next) {
			t.Fatalf("arrival %d is pending", next)
		}
		if life := plan[next].Lifetime; !(life > 0) || math.IsInf(life, 0) {
			t.Fatalf("arrival %d lives for %v", next, life)
		}
		env.Step(0)
		running[next] = true
		left := len(running)
		for p := range plan {
			if !env.Runs(p) {
				continue
			}
			if !running[p] {
				t.Fatalf("arrival %d runs and was never placed", p)
			}
			left--
		}
		used := each.Sum(env.Snapshot().Nodes, func(n *cluster.Node) int64 { return n.Requested.Pods })
		if int(used) != len(running)-left {
			t.Fatalf("%d pods run, %d were placed and %d of them left", used, len(running), left)
		}
	}
	if o := env.Outcome(); env.Next() != -1 || o.Placed != len(running) || o.Unscheduled != len(env.Waiting()) || o.Arrived != len(plan) {
		t.Errorf("%d of %d placed, %d wait: %+v", len(running), len(plan), len(env.Waiting()), o)
	}
}

// Training episodes with valid seeds are never episodes of the evaluation, or of the choice of the best network.
func TestApart(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		training := rapid.Uint64().Draw(t, "training")
		if rapid.Bool().Draw(t, "small") {
			training %= 4
		}
		first := rapid.Uint64Range(0, 2*evaluationEnd).Draw(t, "first")
		n := rapid.IntRange(1, 100_000).Draw(t, "seeds")
		if CheckTrainingSeed(training) != nil || CheckEvaluationSeeds(first, n) != nil {
			return
		}
		episode := TrainingEpisode(training, rapid.Uint64Range(1, math.MaxUint32).Draw(t, "episode"))
		if episode <= first+uint64(n)-1 || episode >= 1<<62 {
			t.Fatalf("episode %d of --seed %d; the evaluation uses %d to %d", episode, training, first, first+uint64(n)-1)
		}
	})
}

func TestChecks(t *testing.T) {
	for seed, ok := range map[uint64]bool{0: false, 1: true, maxTraining: true, maxTraining + 1: false, math.MaxUint64: false} {
		if err := CheckTrainingSeed(seed); (err == nil) != ok {
			t.Errorf("training with %d: %v", seed, err)
		}
	}
	for _, c := range []struct {
		first uint64
		n     int
		ok    bool
	}{
		{0, 1, true}, {evaluationEnd - 10, 10, true}, {evaluationEnd - 9, 10, false}, {evaluationEnd, 1, false}, {math.MaxUint64, 1, false},
		{math.MaxUint64, 10, false},
	} {
		if err := CheckEvaluationSeeds(c.first, c.n); (err == nil) != c.ok {
			t.Errorf("evaluation of %d from %d: %v", c.n, c.first, err)
		}
	}
}
