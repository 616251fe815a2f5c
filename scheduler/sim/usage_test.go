package sim

import (
	"math"
	"slices"
	"strings"
	"testing"

	"gnnsched/internal/cluster"
	"gnnsched/scheduler/objective"
	"gnnsched/workload"
	"gnnsched/workload/usage"
)

// usageConfig has services that use more than they request, and batch jobs.
func usageConfig() Config {
	model := func(work float64, cpu usage.Curve) *usage.Model {
		return &usage.Model{Curves: [usage.Dimensions]usage.Curve{usage.CPU: cpu, usage.Memory: usage.Constant(1 << 30)}, Work: work}
	}
	c := config()
	c.Initial, c.Nodes, c.Load = 0, Exactly(8), FloatRange{0.8, 0.8}
	c.Shapes = []workload.Shape{
		{Name: "day", Weight: 2, Requests: cluster.Resources{MilliCPU: 500, Memory: 1 << 30, Pods: 1},
			Usage: model(0, usage.Day{Low: 0.1, High: 2, Period: 3600, Peak: 9})},
		{Name: "walk", Weight: 1, Requests: cluster.Resources{MilliCPU: 1000, Memory: 1 << 30, Pods: 1},
			Usage: model(0, usage.Walk{Low: 0, High: 3, Deviation: 2, Step: 60})},
		{Name: "batch", Weight: 1, Requests: cluster.Resources{Memory: 1 << 30, Pods: 1}, Usage: model(600, usage.Constant(2))},
		{Name: "plain", Weight: 1, Requests: cluster.Resources{MilliCPU: 500, Memory: 2 << 30, Pods: 1}},
	}
	c.Usage = &Usage{Unit: 20}
	c.WaitCost = 0
	c.Objective = objective.Mix{{Term: objective.Throttled{}, Weight: 1}}
	return c
}

// play returns an episode's outcome, the sum of its rewards and the cost at its first decision.
func playUsage(t *testing.T, c Config, choose func(e *Env) int) (o Outcome, rewards, first float64) {
	t.Helper()
	e := newEnv(t, c, 5)
	first = e.Cost()
	for !e.Done() {
		rewards += e.Step(choose(e))
	}
	return e.Outcome(), rewards, first
}

func emptiest(e *Env) (best int) {
	rows, nodes := e.Candidates(), e.Snapshot().Nodes
	for i, r := range rows {
		if nodes[r].Usage != nil && nodes[r].Used(cluster.UsedCPU).Mean/nodes[r].Capacity(cluster.UsedCPU) < nodes[rows[best]].Used(cluster.UsedCPU).Mean/nodes[rows[best]].Capacity(cluster.UsedCPU) {
			best = i
		}
	}
	return best
}

// Usage is the same each time, jobs end, and who goes by measured usage throttles less than who does not.
// Rewards add up to the fall of the cost from the first decision to the end.
func TestUsage(t *testing.T) {
	for _, process := range []string{"", poisson} {
		c := usageConfig()
		c.Arrivals.Process = process
		first := func(*Env) int { return 0 }
		o, rewards, before := playUsage(t, c, first)
		u := o.Usage
		if u == nil || u.Throttled <= 0 || u.BatchSlowdown <= 1 || u.HotTime <= 0 || u.Utilisation <= 0 || u.Utilisation > 1 || u.Imbalance <= 0 {
			t.Fatalf("%q: %+v", process, u)
		}
		if d := before - rewards - o.Cost; math.Abs(d) > 1e-9 {
			t.Errorf("%q: the rewards miss the fall of the cost by %v", process, d)
		}
		if again, _, _ := playUsage(t, c, first); *again.Usage != *u {
			t.Errorf("%q: %+v, then %+v", process, u, again.Usage)
		}
		if even, _, _ := playUsage(t, c, emptiest); even.Usage.ThrottledPart >= u.ThrottledPart || even.Usage.Finished == 0 {
			t.Errorf("%q: going by usage %+v, not doing so %+v", process, even.Usage, u)
		}
	}
}

// Playing usage changes nothing for pods that leave by their lifetimes, unless the objective is about usage.
func TestUsageLeavesTheRestAlone(t *testing.T) {
	c := usageConfig()
	c.Objective = config().Objective
	for i := range c.Shapes {
		c.Shapes[i].Usage = nil
	}
	c.Arrivals.Process = poisson
	first := func(*Env) int { return 0 }
	with, rewards, _ := playUsage(t, c, first)
	c.Usage = nil
	without, alone, _ := playUsage(t, c, first)
	if math.Abs(rewards-alone) > 1e-9 || with.Placed != without.Placed || math.Abs(with.MeanCost-without.MeanCost) > 1e-9 {
		t.Errorf("%+v and %v, without usage %+v and %v", with, rewards, without, alone)
	}
	if without.Usage != nil {
		t.Error("usage without usage")
	}
}

func TestUsageValidate(t *testing.T) {
	for want, edit := range map[string]func(*Config){
		"usage: is missing, but shapes have usage": func(c *Config) { c.Usage = nil },
		"throttled is about measured usage":        func(c *Config) { c.Usage = nil },
		"usage.tick: 0.5 is not 1 to 3600":         func(c *Config) { c.Usage.Tick = 0.5 },
		"usage.unit: NaN is not 0.001 to 86400":    func(c *Config) { c.Usage.Unit = math.NaN() },
		"usage.disk: -1 is not 0 to 1e+12":         func(c *Config) { c.Usage.Disk = -1 },
		"usage: the pods of initial have no usage": func(c *Config) { c.Initial = 0.1 },
	} {
		c := usageConfig()
		edit(&c)
		if err := c.Validate(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}

// Nodes list the pods that were bound during the last window and are still there. Stepping a copy leaves the lists
// alone.
func TestUsageRecent(t *testing.T) {
	c := usageConfig()
	c.Arrivals.Process, c.Usage.Known = poisson, 0.5
	e, other, listed, left := newEnv(t, c, 5), &Env{}, 0, 0
	type placed struct {
		pod, row int32
		cluster.RecentPod
	}
	var bound []placed
	for decision := 0; !e.Done(); decision++ {
		row := e.Candidates()[0]
		if e.Snapshot().Nodes[row].Usage != nil {
			p := cluster.RecentPod{ID: int(e.pending), At: e.usageAt(e.now), Requests: e.Pending().Requests, Limits: e.Pending().Limits,
				Expected: e.Pending().ExpectedAll()}
			bound = append(bound, placed{e.pending, row, p})
		}
		e.CopyTo(other)
		e.Step(0)
		other.Step(0)
		for range 3 {
			if !other.Done() {
				other.Step(0)
			}
		}
		for row, n := range e.Snapshot().Nodes {
			if n.Usage == nil {
				continue
			}
			var want []cluster.RecentPod
			for _, p := range bound {
				if p.row != int32(row) || p.At <= n.Usage.At-cluster.UsageWindow {
					continue
				}
				if e.on[p.pod] != p.row {
					left++
					continue
				}
				want = append(want, p.RecentPod)
			}
			if !slices.Equal(n.Usage.Recent, want) {
				t.Fatalf("decision %d: %s lists %v, want %v", decision, n.Name, n.Usage.Recent, want)
			}
			listed += len(want)
		}
	}
	if listed == 0 || left == 0 {
		t.Errorf("nodes listed %d pods, and %d left early", listed, left)
	}
}

// Measured and missing usage together are what the pods of a node use, if that is always the same and known, and no pod
// has left within the window.
func TestUsageMissing(t *testing.T) {
	for _, tick := range []float64{20, 60, 300} {
		c := usageConfig()
		steady := &usage.Model{}
		steady.Curves[usage.CPU] = usage.Constant(0.25)
		c.Shapes = []workload.Shape{{Name: "steady", Weight: 1, Requests: cluster.Resources{MilliCPU: 500, Memory: 1 << 30, Pods: 1},
			Usage: steady}}
		c.Arrivals.Process, c.Usage.Known, c.Usage.Tick, c.Turnover = poisson, 1, tick, 3
		e, checked := newEnv(t, c, 5), 0
		on, left := slices.Clone(e.on), make([]float64, len(e.Snapshot().Nodes)) // when a pod left the node
		for i := range left {
			left[i] = math.Inf(-1)
		}
		for decision := 0; !e.Done(); decision++ {
			for p, row := range on {
				if row >= 0 && e.on[p] != row {
					left[row] = e.usageAt(e.now)
				}
			}
			copy(on, e.on)
			for i, n := range e.Snapshot().Nodes {
				if n.Usage == nil || left[i] > n.Usage.At-cluster.UsageWindow-tick {
					continue
				}
				checked++
				if got, want := n.Used(cluster.UsedCPU).Mean, 250*float64(n.Requested.Pods); math.Abs(got-want) > 1e-6 {
					t.Fatalf("tick %v, decision %d: %s uses %v, want %v", tick, decision, n.Name, got, want)
				}
			}
			e.Step(decision % len(e.Candidates()))
		}
		if checked == 0 {
			t.Errorf("tick %v: no node was checked", tick)
		}
	}
}

// The seed decides which Deployments have a workload that ran before, and all of their pods know what it used.
func TestUsageKnown(t *testing.T) {
	c := usageConfig()
	for known, all := range map[float64]bool{0: false, 1: true} {
		c.Usage.Known = known
		for e := newEnv(t, c, 5); !e.Done(); e.Step(0) {
			if has := e.Pending().Usage != nil; has != (all && e.deployment(e.pending).usage != nil) {
				t.Fatalf("known %v: pod %s has the usage of its workload: %v", known, e.Pending().Name, has)
			}
		}
	}
	c.Usage.Known = 0.5
	which := func(seed uint64) (out []bool) {
		for _, d := range newEnv(t, c, seed).arrivals.deployments {
			out = append(out, d.pod.Usage != nil)
		}
		return out
	}
	one, again, another := which(5), which(5), which(6)
	if !slices.Equal(one, again) || slices.Equal(one, another) || !slices.Contains(one, true) || !slices.Contains(one, false) {
		t.Errorf("known workloads: %v, %v, %v", one, again, another)
	}
}
