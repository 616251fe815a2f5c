package value

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"

	"gnnsched/gnn/checkpoint"
	"gnnsched/gnn/graph"
	"gnnsched/internal/cluster"
	"gnnsched/scheduler/encode"
	"gnnsched/scheduler/eval"
	"gnnsched/scheduler/policy"
	"gnnsched/scheduler/sim"
	"gnnsched/workload/trace/openb"
)

// snapshot holds a part of a cluster at one decision. The field names are those of state files.
type snapshot struct {
	Cluster []float32       // features of the cluster
	Nodes   []graph.GPUNode // some of the nodes
	Targets []float32       // of each of them; see recorder.end

	Before, After []graph.GPUNode // nodes of some candidates, before and after the placement; or kinds, before and after they lose a place
	Actor         []graph.GPUNode // kinds as the actor sees them; none of nodes
	Teacher       int             // index of FGD's choice among these candidates; -1 if it was not asked
}

// player makes the simulators that episodes are played in.
type player struct {
	config Config
	nodes  []openb.Node
}

// env returns a simulator of a workload in which no pod leaves.
func (p *player) env(w Workload) (*sim.Env, error) {
	env, err := sim.New(sim.Config{OpenB: &sim.OpenB{Nodes: p.nodes, Pods: w.Pods, Factor: p.config.Factor, Loads: p.config.loads()}})
	if err != nil {
		return nil, fmt.Errorf("workload drawn from %s: %w", w.Name, err)
	}
	return env, nil
}

// recorder plays an episode with a policy and takes snapshots.
type recorder struct {
	config  Config
	env     *sim.Env
	rng     *rand.Rand
	policy  policy.Policy
	teacher bool    // whether the policy is FGD
	random  float64 // share of random placements
	until   float64 // load up to which placements are random and nothing is recorded; 0: all the time, and all is recorded

	encoder *encode.Stars
	scores  []float32
	count   int // decisions
	taken   []snapshot
	rows    [][]int32 // of the nodes of each snapshot
}

// newRecorder returns a recorder whose policy is p and places no pod at random.
func newRecorder(c Config, env *sim.Env, rng *rand.Rand, p policy.Policy) *recorder {
	return &recorder{config: c, env: env, rng: rng, policy: p, encoder: encode.NewStars(c.layout(), env.Typical())}
}

// decide implements eval.Decide.
func (r *recorder) decide(env *sim.Env) (eval.Choice, error) {
	rows, nodes := env.Candidates(), env.Snapshot().Nodes
	r.scores = slices.Grow(r.scores[:0], len(rows))[:len(rows)]
	if err := r.policy.Score(env.Snapshot(), env.Pending(), rows, r.scores); err != nil {
		return eval.Choice{}, err
	}
	choice := policy.Best(r.scores)
	disturbed := r.until > 0 && r.load() < r.until
	if !disturbed {
		r.record(choice)
	}
	if (disturbed || r.until == 0) && r.random > 0 && r.rng.Float64() < r.random {
		choice = r.rng.IntN(len(rows))
	}
	return eval.Choice{Candidate: choice, Devices: policy.Devices(r.policy, nodes[rows[choice]], env.Pending())}, nil
}

// load returns the allocated fraction of the cluster's GPUs.
func (r *recorder) load() float64 {
	var used, devices float64
	for _, n := range r.env.Snapshot().Nodes {
		used, devices = used+float64(len(n.GPUs))-idle(n), devices+float64(len(n.GPUs))
	}
	return used / max(devices, 1)
}

// record takes a snapshot at every SnapshotEvery-th decision. choice is the policy's candidate.
func (r *recorder) record(choice int) {
	if r.count++; (r.count-1)%r.config.SnapshotEvery != 0 {
		return
	}
	nodes := r.env.Snapshot().Nodes
	s := snapshot{Cluster: append([]float32(nil), r.encoder.Features(nodes)...), Teacher: -1}
	var seen []int32
	for range min(r.config.SnapshotNodes, len(nodes)) {
		row := r.rng.IntN(len(nodes))
		seen = append(seen, int32(row))
		s.Nodes = append(s.Nodes, r.encoder.Vertex(nodes[row], cluster.Resources{}, 0))
	}
	if r.config.actor() {
		r.placements(&s, choice)
		if r.teacher {
			s.Teacher = 0
		}
	}
	r.taken, r.rows = append(r.taken, s), append(r.rows, seen)
}

// placements adds candidates to a snapshot: the choice, then its closest rivals, then random
// candidates on random devices.
func (r *recorder) placements(s *snapshot, choice int) {
	nodes := r.env.Snapshot().Nodes
	pod := r.env.Pending()
	rows := r.env.Candidates()
	add := func(n *cluster.Node, on cluster.DeviceSet) {
		s.Before = append(s.Before, r.encoder.Vertex(n, cluster.Resources{}, 0))
		s.After = append(s.After, r.encoder.Vertex(n, pod.Requests, on))
	}
	n := nodes[rows[choice]]
	add(n, policy.Devices(r.policy, n, pod))
	for _, at := range rivals(r.scores, choice, r.config.Placements/2) {
		n := nodes[rows[at]]
		add(n, policy.Devices(r.policy, n, pod))
	}
	for len(s.Before) < min(r.config.Placements, len(rows)) {
		n := nodes[rows[r.rng.IntN(len(rows))]]
		ways := policy.DeviceWays(n, pod.Requests)
		add(n, ways[r.rng.IntN(len(ways))])
	}
}

// rivals returns up to n candidates with the highest scores below the choice's, one candidate for each
// score: nodes in the same state have the same score.
func rivals(scores []float32, choice, n int) (out []int) {
	order := make([]int, len(scores))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(scores[b], scores[a]) })
	last := scores[choice]
	for _, i := range order {
		if len(out) == n {
			break
		}
		if scores[i] < last {
			out, last = append(out, i), scores[i]
		}
	}
	return out
}

// idle returns how many of a node's devices are idle, parts of them included.
func idle(n *cluster.Node) float64 { return float64(n.IdleGPUMilli()) / cluster.DeviceMilli }

// end returns the snapshots after the episode, with their targets: the devices that are idle on each node at the end, the same for every
// snapshot in which the node was seen.
func (r *recorder) end() []snapshot {
	atEnd := r.env.Snapshot().Nodes
	for i, rows := range r.rows {
		for _, row := range rows {
			r.taken[i].Targets = append(r.taken[i].Targets, float32(idle(atEnd[row])))
		}
	}
	return r.taken
}

// actor reports whether the policy is a network of its own.
func (c Config) actor() bool { return c.Head == checkpoint.ActorCritic }
