package value

import (
	"context"
	"errors"
	"fmt"
	"math/bits"
	"math/rand/v2"

	"gnnsched/internal/cluster"
	"gnnsched/internal/cluster/mig"
	"gnnsched/scheduler/encode"
	"gnnsched/scheduler/eval"
	"gnnsched/scheduler/policy"
	"gnnsched/scheduler/policy/partition"
	"gnnsched/scheduler/policy/preference"
	"gnnsched/scheduler/sim"
	"gnnsched/workload/trace/openb"
)

// Partitions makes all episodes ones in which each pod requests one MIG partition (sim.MIG), and none leaves. The shares of the
// profiles are drawn uniformly from the simplex, as for mig:value. FGD is the rule mig:fgd there. All fields are required.
type Partitions struct {
	GPUs int   `json:"gpus"` // of the cluster
	Each []int `json:"each"` // GPUs of a machine, of which an episode draws one number
}

// Most GPUs of a cluster and of a machine.
const (
	maxPartitionGPUs = 4096
	maxMachineGPUs   = 16
)

func (p *Partitions) validate(c Config) error {
	switch {
	case p == nil:
		return nil
	case p.GPUs < 1 || p.GPUs > maxPartitionGPUs || len(p.Each) == 0:
		return fmt.Errorf("partitions.gpus must be 1 to %d, and partitions.each needs a number", maxPartitionGPUs)
	case c.actor():
		return errors.New("partitions: a network with head actor-critic does not learn from them")
	}
	for _, n := range p.Each {
		if n < 1 || n > maxMachineGPUs || p.GPUs%n != 0 {
			return fmt.Errorf("partitions.each: %d must be 1 to %d, and divide gpus", n, maxMachineGPUs)
		}
	}
	return nil
}

// partitioned is a workload whose pods request partitions.
type partitioned struct{ sim.MIG }

// draw draws such a workload.
func (p *Partitions) draw(rng *rand.Rand) Workload {
	each := p.Each[rng.IntN(len(p.Each))]
	out := partitioned{sim.MIG{Machines: p.GPUs / each, GPUs: each}}
	for _, profile := range mig.Profiles() {
		out.Weights[profile] = rng.ExpFloat64()
	}
	return Workload{Name: partitionsName, partitions: &out}
}

// partitionsName is the name of these workloads.
const partitionsName = "partitions"

// PartitionPods returns a workload with a pod for each profile. It stands for those of Partitions in a family, and has its typical pods.
func PartitionPods() Workload {
	out := Workload{Name: partitionsName}
	for _, p := range mig.Profiles() {
		out.Pods = append(out.Pods, openb.Pod{Name: p.Name(40), MilliCPU: sim.MIGMilliCPU(p), GPUs: 1, GPUMilli: p.Milli()})
	}
	return out
}

// allocations returns the fraction of the compute slices that a policy has allocated at each of the loads of a seed's episode.
func (p *partitioned) allocations(seed uint64, loads []float64, make func(policy.Setting) policy.Policy) (out []float64, err error) {
	env, err := p.env(loads...)
	if err != nil {
		return nil, err
	}
	o, err := eval.Contender{New: make}.Episode(context.Background(), env, seed)
	if err != nil {
		return nil, err
	}
	for _, at := range o.Partitions.Loads {
		out = append(out, at.Allocation)
	}
	return out, nil
}

// env returns the environment in which pods arrive up to the last of the ascending loads.
func (p *partitioned) env(loads ...float64) (*sim.Env, error) {
	m := p.MIG
	m.Loads = loads
	return sim.New(sim.Config{MIG: &m, Preferences: preference.Off})
}

// fate holds the outcome of an arrival.
type fate struct {
	pod   *cluster.Pod
	gpus  float64 // compute slices of the partition, in GPUs
	load  float64 // compute slices that have been requested with it, over those of the cluster
	where int32   // the node's row; -1: nowhere
}

// follow plays the arrivals of a seed up to a load with a policy, and returns what became of each. Before each it calls look with the
// arrival's index and the nodes, which change afterwards.
func (p *partitioned) follow(load float64, seed uint64, make func(policy.Setting) policy.Policy,
	look func(arrival int, nodes []*cluster.Node)) (out []fate, err error) {
	env, err := p.env(load)
	if err != nil {
		return nil, err
	}
	m := *env.Config().MIG
	all := m.Arrivals(seed)
	decide, next := eval.Deciding(make(policy.Setting{Seed: seed, Typical: env.Typical()}), nil), 0
	arrive := func(upTo int) { // those that fit nowhere arrive without a decision
		for ; next < upTo; next++ {
			look(next, env.Nodes())
		}
	}
	_, err = eval.Episode(env, seed, func(env *sim.Env) (eval.Choice, error) {
		arrive(env.Next() + 1)
		return decide(env)
	})
	if err != nil {
		return nil, err
	}
	arrive(len(all))
	asked := 0
	for i, a := range all {
		slices := a.Pod.Partition.Compute()
		asked += slices
		load := float64(asked) / float64(m.Machines*m.GPUs*mig.Compute)
		out = append(out, fate{a.Pod, float64(slices) / mig.Compute, load, env.Row(i)})
	}
	return out, nil
}

// partitionFGD is the rule mig:fgd.
func partitionFGD(s policy.Setting) policy.Policy {
	rule, _, err := partition.Find("fgd")
	if err != nil {
		panic(err) // it is part of the program
	}
	return rule("mig:fgd", partition.MixOf(s.Typical), nil)
}

// partitionRecorder takes snapshots of an episode with partitions.
type partitionRecorder struct {
	config  Config
	rng     *rand.Rand
	player  *wanderer
	encoder *encode.Stars
	taken   []snapshot
	states  []state // of each snapshot
}

// play plays the episode of a seed with a policy, of which a part of the placements is random as in recorder, and returns its snapshots and
// the compute slices that were allocated at its end over those that there are.
func (r *partitionRecorder) play(w *partitioned, seed uint64, of func(policy.Setting) policy.Policy) ([]snapshot, float64, error) {
	make := func(s policy.Setting) policy.Policy {
		r.encoder = encode.NewStars(r.config.layout(), s.Typical)
		r.player.Policy = of(s)
		return r.player
	}
	fates, err := w.follow(r.config.Factor, seed, make, r.look)
	if err != nil {
		return nil, 0, err
	}
	all := float64(w.Machines * w.GPUs)
	idle, next := all, 0
	var events []event
	for i := range fates {
		for ; next < len(r.states) && r.states[next].arrival == i; next++ {
			r.states[next].all = idle
			for j, part := range r.states[next].idle {
				r.states[next].idle[j] = part * idle / all
			}
		}
		f := fates[i]
		events = append(events, event{f.pod, f.load, f.gpus, f.where})
		if f.where >= 0 {
			idle -= f.gpus
		}
	}
	for i, t := range targets(events, w.Machines, r.config.ends(), r.states) {
		r.taken[i].Targets = t
	}
	return r.taken, 1 - idle/all, nil
}

// look takes a snapshot before every SnapshotEvery-th arrival. The idle compute slices of the cluster are shared out by the machines' GPUs,
// because the network does not see how many a machine has: memory slices do not tell. So they are no matter for a choice.
func (r *partitionRecorder) look(arrival int, nodes []*cluster.Node) {
	if r.player.until > 0 {
		used, all := 0, 0
		for _, n := range nodes {
			for _, s := range n.Slices {
				used, all = used+s.Len(), all+mig.Memory
			}
		}
		if r.player.wandering = float64(used) < r.player.until*float64(all); r.player.wandering {
			return
		}
	}
	if arrival%r.config.SnapshotEvery != 0 {
		return
	}
	s, at := snapshot{Cluster: append([]float32(nil), r.encoder.Features(nodes)...), Teacher: -1}, state{arrival: arrival}
	for _, row := range r.rng.Perm(len(nodes))[:min(r.config.SnapshotNodes, len(nodes))] {
		s.Nodes = append(s.Nodes, r.encoder.Vertex(nodes[row], cluster.Resources{}, 0))
		at.rows, at.idle = append(at.rows, int32(row)), append(at.idle, float64(len(nodes[row].GPUs)))
	}
	r.taken, r.states = append(r.taken, s), append(r.states, at)
}

// wanderer places a part of the pods at random.
type wanderer struct {
	policy.Policy
	rng       *rand.Rand
	random    float64 // share of random placements, while wandering
	until     float64 // used part of the memory slices up to which it wanders; 0: all the time
	wandering bool
	lost      bool // whether the last placement is random
}

// Score implements policy.Policy.
func (w *wanderer) Score(s *cluster.Snapshot, pod *cluster.Pod, candidates []int32, scores []float32) error {
	if w.lost = w.wandering && w.rng.Float64() < w.random; !w.lost {
		return w.Policy.Score(s, pod, candidates, scores)
	}
	for i := range scores {
		scores[i] = w.rng.Float32()
	}
	return nil
}

// Devices implements policy.DeviceChooser.
func (w *wanderer) Devices(n *cluster.Node, pod *cluster.Pod) cluster.DeviceSet {
	if !w.lost {
		return policy.Devices(w.Policy, n, pod)
	}
	var fits cluster.DeviceSet
	for i, used := range n.Slices {
		if pod.Partition.Fits(used) {
			fits |= cluster.Device(i)
		}
	}
	for range w.rng.IntN(fits.Len()) {
		fits &= fits - 1
	}
	return cluster.Device(bits.TrailingZeros64(uint64(fits)))
}
