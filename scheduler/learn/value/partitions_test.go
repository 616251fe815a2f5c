package value

import (
	"math/rand/v2"
	"strings"
	"testing"

	"gnnsched/internal/cluster/mig"
	"gnnsched/internal/fatal"
	"gnnsched/scheduler/policy"
	"gnnsched/scheduler/policy/partition"
)

// withPartitions returns a small configuration in which all pods request partitions.
func withPartitions() Config {
	c := small()
	c.Features = []string{"base", "partitions"}
	c.Partitions = &Partitions{GPUs: 16, Each: []int{2, 8}}
	return c
}

func TestReadPartitions(t *testing.T) {
	c, err := Read("a.yaml", []byte("features: [base, partitions]\npartitions: {gpus: 64, each: [1, 8]}\n"))
	if err != nil || c.Partitions.GPUs != 64 || len(c.Partitions.Each) != 2 {
		t.Errorf("%+v, %v", c.Partitions, err)
	}
	for text, say := range map[string]string{
		"partitions: {gpus: 64}":                                "partitions.each needs a number",
		"partitions: {gpus: 64, each: [3]}":                     "partitions.each: 3 must be 1 to 16, and divide gpus",
		"head: actor-critic\npartitions: {gpus: 64, each: [1]}": "does not learn from them",
	} {
		if _, err := Read("a.yaml", []byte(text)); err == nil || !strings.Contains(err.Error(), say) {
			t.Errorf("%q: %v, want %q", text, err, say)
		}
	}
}

// Each workload has machines and a mix of its own.
func TestDrawPartitions(t *testing.T) {
	nodes, w := trace()
	c := withPartitions()
	p, machines := player{c, nodes}, map[int]bool{}
	for i := range 100 {
		got := p.draw(rand.New(rand.NewPCG(uint64(i), 1)), w).partitions
		machines[got.Machines] = true
		if got.Machines*got.GPUs != 16 || !(got.Weights[mig.Seven] > 0) {
			t.Fatalf("%+v", got)
		}
	}
	if len(machines) != 2 {
		t.Errorf("machines with %v GPUs, want 2 and 8", machines)
	}
	if got := TypicalPods([]Workload{PartitionPods()}).Pods; len(got) != len(mig.Profiles()) || got[0].GPUMilli != mig.One.Milli() ||
		got[5].GPU != 1 {
		t.Errorf("typical pods %+v", got)
	}
}

// The targets of the nodes add up to a cost that ranks policies as the allocation does: learned values, FGD, and random placements.
// So they do with each configuration in runs that has partitions.
func TestPartitionTargetsTellPoliciesApart(t *testing.T) {
	small := withPartitions()
	small.SnapshotNodes = 8
	all := map[string]Config{"small": small}
	for name, c := range configurations(t) {
		if c.Partitions != nil {
			all[name] = c
		}
	}
	if len(all) < 2 {
		t.Error("no configuration in runs has partitions")
	}
	for name, c := range all {
		t.Run(name, func(t *testing.T) { partitionTargetsTell(t, c) })
	}
}

func partitionTargetsTell(t *testing.T, c Config) {
	t.Helper()
	rule := func(name string) func(policy.Setting) policy.Policy {
		find, _, err := partition.Find(name)
		fatal.If(t, err)
		return func(s policy.Setting) policy.Policy { return find(name, partition.MixOf(s.Typical), nil) }
	}
	var costs, allocated [3]float64
	for seed := range uint64(60) {
		w := c.Partitions.draw(rand.New(rand.NewPCG(seed, 1))).partitions
		for i, of := range []func(policy.Setting) policy.Policy{rule("value"), rule("fgd"), rule("first-fit")} {
			rng := rand.New(rand.NewPCG(seed, 2))
			r := partitionRecorder{config: c, rng: rng, player: &wanderer{rng: rng, wandering: true}}
			if i == 2 {
				r.player.random = 1
			}
			taken, allocation, err := r.play(w, seed, of)
			fatal.If(t, err)
			if len(taken) < 3 || len(taken[0].Targets) != w.Machines || len(taken[0].Nodes) != w.Machines {
				t.Fatalf("%d snapshots, %d targets of %d machines", len(taken), len(taken[0].Targets), w.Machines)
			}
			for _, x := range taken[0].Targets {
				costs[i] += float64(x)
			}
			allocated[i] += allocation
		}
	}
	if !(costs[0] < costs[1] && costs[1] < costs[2]) || !(allocated[0] > allocated[1] && allocated[1] > allocated[2]) {
		t.Errorf("costs %v, allocations %v", costs, allocated)
	}
}

// The targets leave out how many compute slices a machine has left, which the network does not see.
func TestPartitionTargetsOfEqualMachines(t *testing.T) {
	c := withPartitions()
	w := c.Partitions.draw(rand.New(rand.NewPCG(3, 1))).partitions
	rng := rand.New(rand.NewPCG(3, 2))
	r := partitionRecorder{config: c, rng: rng, player: &wanderer{rng: rng, wandering: true}}
	taken, allocation, err := r.play(w, 3, partitionFGD)
	fatal.If(t, err)
	last := r.states[len(taken)-1]
	for j := range last.idle {
		if last.idle[j] != last.all/float64(w.Machines) {
			t.Errorf("machine %d has %v of %v idle devices", j, last.idle[j], last.all)
		}
	}
	if first := r.states[0]; first.all != 16 || last.all >= first.all || allocation < 0.7 {
		t.Errorf("from %v to %v idle devices, %v allocated", first.all, last.all, allocation)
	}
}
