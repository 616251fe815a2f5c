package sim

import (
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"gnnsched/internal/cluster"
	"gnnsched/internal/each"
	"gnnsched/internal/fatal"
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
	which := func(seed uint64) []bool {
		return each.Map(newEnv(t, c, seed).arrivals.deployments, func(d deployment) bool { return d.pod.Usage != nil })
	}
	one, again, another := which(5), which(5), which(6)
	if !slices.Equal(one, again) || slices.Equal(one, another) || !slices.Contains(one, true) || !slices.Contains(one, false) {
		t.Errorf("known workloads: %v, %v, %v", one, again, another)
	}
}

// talking has two services that talk to each other, and one of them to itself, beside a silent one.
func talking(t *testing.T) Config {
	t.Helper()
	c := fatal.Value(decode(`
nodes: 9
sizes: [{weight: 1, allocatable: {cpu: 8, memory: 32Gi, pods: 110}}]
zones: 2
shapes:
- {name: web, weight: 2, requests: {cpu: 500m, memory: 1Gi}}
- {name: db, weight: 1, requests: {cpu: 1, memory: 2Gi}}
- {name: silent, weight: 1, requests: {cpu: 1, memory: 1Gi}}
replicas: {min: 1, max: 4}
load: 0.7
turnover: 2
preferences: declared
traffic:
  apps: 3
  racks: 2
  flows: [{from: web, to: db, rate: 600}, {from: db, to: db, rate: 1e3}]
  network: {node: {latency: 1, bandwidth: 8e3}, rack: {latency: 2, bandwidth: 8e3}, zone: {latency: 9, price: 1, bandwidth: 4e3}}
objective: traffic=1,overload=0.5
`))(t)
	return c
}

// exchanged returns what two pods exchange, from the definition of the matrix.
func exchanged(e *Env, app []int, a, b int) (rate float64) {
	x, y := e.deployment(int32(a)), e.deployment(int32(b))
	if app[e.arrivals.pods[a]] != app[e.arrivals.pods[b]] {
		return 0
	}
	for _, f := range e.cfg.Traffic.Flows {
		if x.kind == f.From && y.kind == f.To {
			rate += f.Rate / float64(y.replicas)
		}
		if y.kind == f.From && x.kind == f.To {
			rate += f.Rate / float64(x.replicas)
		}
	}
	return math.Round(rate)
}

// apps returns the application of each deployment.
func apps(e *Env) []int {
	dealt, out := map[string]int{}, []int{}
	for _, d := range e.arrivals.deployments {
		out = append(out, dealt[d.kind]%e.cfg.Traffic.Apps.Min)
		dealt[d.kind]++
	}
	return out
}

// At any time, also after nodes were lost, peers and flows are those that all pairs of running pods give.
func TestTrafficIsThatOfAllPairs(t *testing.T) {
	for _, lose := range []float64{0, 0.3} {
		c := talking(t)
		c.Lose = lose
		env := newEnv(t, c, 4)
		app, rng := apps(env), rand.New(rand.NewPCG(1, 2))
		talked, reached := false, false
		for step := 0; !env.Done(); step++ {
			if step%29 == 0 {
				want := cluster.NewTraffic(cluster.NewNetwork(c.Traffic.Network, env.Snapshot().Nodes))
				var peers, beyond []cluster.Peer
				for a, row := range env.on {
					if row < 0 {
						continue
					}
					if r := exchanged(env, app, a, env.Next()); r > 0 {
						peers = cluster.AddPeer(peers, cluster.Peer{Row: row, Pods: 1, Rate: r})
					} else if app[env.arrivals.pods[a]] == app[env.arrivals.pods[env.Next()]] && env.deployment(int32(a)).kind == "web" &&
						env.Pending().Requests.MilliCPU == 500 {
						beyond = cluster.AddPeer(beyond, cluster.Peer{Row: row, Pods: 1, Rate: 600})
					}
					for b, other := range env.on[:a] {
						if r := exchanged(env, app, a, b); other >= 0 && r > 0 {
							want.Place(row, []cluster.Peer{{Row: other, Pods: 1, Rate: r}})
						}
					}
				}
				got := cluster.TrafficOf(env.Snapshot().Nodes)
				if d := cmp.Diff(want.Flows, got.Flows, cmpopts.EquateApprox(1e-9, 1e-6)); d != "" {
					t.Fatalf("lose %v, step %d: %s", lose, step, d)
				}
				if d := cmp.Diff(peers, env.Snapshot().Peers, cmpopts.EquateEmpty()); d != "" {
					t.Fatalf("lose %v, step %d: peers: %s", lose, step, d)
				}
				divide(beyond)
				if d := cmp.Diff(beyond, env.Snapshot().Beyond, cmpopts.EquateEmpty(), cmpopts.EquateApprox(1e-9, 0)); d != "" {
					t.Fatalf("lose %v, step %d: two steps away: %s", lose, step, d)
				}
				if d := math.Abs(env.Cost() - want.MeanDistance() - 0.5*want.ExcessShare()); d > 1e-9 {
					t.Fatalf("lose %v, step %d: the cost differs by %v", lose, step, d)
				}
				talked, reached = talked || len(peers) > 1 && want.Over > 0, reached || len(beyond) > 1
			}
			env.Step(rng.IntN(len(env.Candidates())))
		}
		if o := env.Outcome().Traffic; !talked || !reached || o.Distance <= 0 || o.Latency <= 0 || o.Overload <= 0 || o.Zones <= 0 ||
			o.SameNode <= 0 {
			t.Errorf("lose %v: %+v", lose, o)
		}
	}
}

// Pods two steps away to which two partners lead count once, with what both exchange.
func TestBeyondOverSeveralPartners(t *testing.T) {
	const web, api, cart, db = 0, 1, 2, 3
	s := trafficState{
		partners: [][]partner{
			web: {{service: api, to: 60}, {service: cart, to: 20}}, api: {{service: web, from: 60}, {service: db, to: 1}},
			cart: {{service: web, from: 20}, {service: db, to: 1}}, db: {{service: api, from: 1}, {service: cart, from: 1}},
		},
		service: []int32{web}, group: []int32{web}, running: [][]member{db: {{row: 2}}},
	}
	want := []cluster.Peer{{Row: 2, Pods: 1, Rate: 80}}
	if d := cmp.Diff(want, s.beyond(&Env{arrivals: arrivalList{pods: []int32{0}}}, 0, nil)); d != "" {
		t.Error(d)
	}
}

// divide divides a rate of 600 among pods.
func divide(peers []cluster.Peer) {
	pods := each.Sum(peers, func(p cluster.Peer) float64 { return float64(p.Pods) })
	for i := range peers {
		peers[i].Rate = 600 * float64(peers[i].Pods) / pods
	}
}

// Without time after the fill the outcome is that of the last state; without traffic there is none.
func TestTrafficOutcome(t *testing.T) {
	c := talking(t)
	c.Turnover = 0
	env := newEnv(t, c, 2)
	for !env.Done() {
		env.Step(0)
	}
	flows := cluster.TrafficOf(env.Snapshot().Nodes).Flows
	if o := env.Outcome().Traffic; o.Distance != flows.MeanDistance() || o.BytesPerS != flows.Rate || flows.Rate == 0 {
		t.Errorf("%+v, want that of %+v", o, flows)
	}
	c.Traffic, c.Objective = nil, objective.Mix{{Term: objective.Balance{}, Weight: 1}}
	if env := newEnv(t, c, 2); env.Outcome().Traffic != nil || env.Snapshot().Peers != nil || env.Snapshot().Nodes[0].Traffic != nil {
		t.Error("traffic without a matrix")
	}
}

func TestValidateTraffic(t *testing.T) {
	for want, spoil := range map[string]func(*Config){
		`traffic.flows[0].to: no shape is called "dbb" (did you mean db?); there are web, db, silent`: func(c *Config) { c.Traffic.Flows[0].To = "dbb" },
		`traffic.flows[1].from: no shape is called ""`:                                                func(c *Config) { c.Traffic.Flows[1].From = "" },
		"traffic.flows[0].rate: NaN is not 1 to":                                                      func(c *Config) { c.Traffic.Flows[0].Rate = math.NaN() },
		"traffic.flows[1]: an entry before has the same " +
			"from and to": func(c *Config) { c.Traffic.Flows[1] = c.Traffic.Flows[0] },
		"traffic.flows: there are 0, want 1 to 1000": func(c *Config) { c.Traffic.Flows = nil },
		"traffic.apps: -1 to -1 is no range":         func(c *Config) { c.Traffic.Apps = Exactly(-1) },
		"traffic.racks: 1001 to 1001":                func(c *Config) { c.Traffic.Racks = Exactly(1001) },
		`traffic.network: between[0].zones: no node is in a zone "x"; there are ["zone-0" "zone-1"]`: func(c *Config) {
			c.Traffic.Network.Between = []cluster.Between{{Zones: [2]string{"zone-1", "x"}}}
		},
		"traffic.vary.rate: 0 to 2 is no range of factors within 0.01 to 100": func(c *Config) { c.Traffic.Vary.Rate = FloatRange{0, 2} },
		"traffic.vary: without the hop between zones all distances are 0": func(c *Config) {
			c.Traffic.Vary.Rate, c.Traffic.Network.Distance = FloatRange{1, 2}, "price"
		},
		"traffic: only pods of shapes talk":                                func(c *Config) { c.Requests = &workload.Requests{} },
		"traffic: the pods of initial talk to nobody":                      func(c *Config) { c.Initial = 0.1 },
		"objective: overload is about traffic, but the scenario has none;": func(c *Config) { c.Traffic = nil },
	} {
		c := talking(t)
		network := *c.Traffic
		network.Flows = slices.Clone(network.Flows)
		c.Traffic = &network
		spoil(&c)
		if err := c.Validate(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q in it", err, want)
		}
	}
}

// Episodes draw the network and the matrix from their seed: the same for the same one, and others for others. What does not vary
// stays as it is.
func TestTrafficVaries(t *testing.T) {
	c := talking(t)
	c.Zones, c.Nodes = IntRange{1, 2}, IntRange{9, 12}
	c.Traffic.Apps, c.Traffic.Racks = IntRange{2, 4}, IntRange{1, 3}
	fixed := *c.Traffic
	c.Traffic.Vary = Variation{Bandwidth: FloatRange{0.5, 2}, Latency: FloatRange{0.8, 1.2}, Rate: FloatRange{0.5, 2}}
	rates, farthest, racks := map[float64]bool{}, map[float64]bool{}, map[int]bool{}
	for seed := range uint64(20) {
		env, again := newEnv(t, c, seed), newEnv(t, c, seed)
		x, y := c.Traffic.draw(seed, env.Snapshot().Nodes), c.Traffic.draw(seed, again.Snapshot().Nodes)
		if d := cmp.Diff(x, y); d != "" {
			t.Fatal(d)
		}
		n := cluster.TrafficOf(env.Snapshot().Nodes).Network
		oneZone := x.Network.Zone == (cluster.Hop{})
		if far := n.Hops().Far.Latency; oneZone != (far == 0) || oneZone && n.Hops().Zone.Distance != 1 {
			t.Errorf("seed %d: %+v of %+v", seed, n.Hops(), x.Network)
		}
		rates[x.Flows[0].Rate], farthest[n.Hops().Far.Latency], racks[n.Racks()] = true, true, true
		if x.Flows[1].Rate/1e3 < 0.5 || x.Flows[1].Rate/1e3 > 2 || x.Network.Node.Bandwidth/8e3 < 0.5 || x.Network.Node.Bandwidth/8e3 > 2 {
			t.Errorf("seed %d: %+v", seed, x)
		}
		for !env.Done() {
			env.Step(0)
		}
	}
	if len(rates) != 20 || len(farthest) < 10 || !farthest[0] || len(racks) < 4 {
		t.Errorf("rates %v, latencies %v, racks %v", rates, farthest, racks)
	}
	if got := fixed.draw(3, nil); got.Network.Node != c.Traffic.Network.Node || got.Flows[0] != c.Traffic.Flows[0] {
		t.Errorf("without vary: %+v", got)
	}
}
