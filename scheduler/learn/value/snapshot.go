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
	"gnnsched/scheduler/objective"
	"gnnsched/scheduler/policy"
	"gnnsched/scheduler/sim"
	"gnnsched/workload/trace/openb"
)

// snapshot holds a part of a cluster at one decision.
type snapshot struct {
	cluster []float32       // features of the cluster
	nodes   []graph.GPUNode // some of the nodes
	idle    []float32       // devices that are idle on each of them at the end of the episode

	before, after []graph.GPUNode // nodes of some candidates, before and after the placement
	teacher       int             // index of FGD's choice among these candidates; -1 if it was not asked
}

// player makes the simulators that episodes are played in.
type player struct {
	config Config
	nodes  []openb.Node
}

// env returns a simulator of a workload.
func (p *player) env(w Workload) (*sim.Env, error) {
	env, err := sim.New(sim.Config{
		OpenB:     &sim.OpenB{Nodes: p.nodes, Pods: w.Pods, Factor: p.config.Factor},
		Objective: objective.Mix{{Term: objective.Balance{}, Weight: 1}}, // its reward is not used
	})
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

	encoder *encode.GPUNodeEncoder
	cluster *encode.GPUClusterEncoder
	scores  []float32
	count   int // decisions
	taken   []snapshot
	rows    [][]int32 // rows of each snapshot's nodes
}

// newRecorder returns a recorder whose policy is p and places no pod at random.
func newRecorder(c Config, env *sim.Env, rng *rand.Rand, p policy.Policy) *recorder {
	e := encode.NewGPUNodeEncoder(c.layout(), env.Typical())
	return &recorder{config: c, env: env, rng: rng, policy: p, encoder: e, cluster: encode.NewGPUClusterEncoder(e)}
}

// decide implements eval.Decide.
func (r *recorder) decide(env *sim.Env) (eval.Choice, error) {
	rows, nodes := env.Candidates(), env.Snapshot().Nodes
	r.scores = slices.Grow(r.scores[:0], len(rows))[:len(rows)]
	if err := r.policy.Score(env.Snapshot(), env.Pending(), rows, r.scores); err != nil {
		return eval.Choice{}, err
	}
	choice := policy.Best(r.scores)
	r.record(choice)
	if r.random > 0 && r.rng.Float64() < r.random {
		choice = r.rng.IntN(len(rows))
	}
	return eval.Choice{Candidate: choice, Devices: policy.Devices(r.policy, nodes[rows[choice]], env.Pending())}, nil
}

// record takes a snapshot at every SnapshotEvery-th decision. choice is the policy's candidate.
func (r *recorder) record(choice int) {
	if r.count++; (r.count-1)%r.config.SnapshotEvery != 0 {
		return
	}
	nodes := r.env.Snapshot().Nodes
	s := snapshot{cluster: append([]float32(nil), r.cluster.Features(nodes)...), teacher: -1}
	var rows []int32
	for range min(r.config.SnapshotNodes, len(nodes)) {
		row := r.rng.IntN(len(nodes))
		rows = append(rows, int32(row))
		s.nodes = append(s.nodes, r.encode(nodes[row], cluster.Resources{}, 0))
	}
	if r.config.actor() {
		r.placements(&s, choice)
		if r.teacher {
			s.teacher = 0
		}
	}
	r.taken, r.rows = append(r.taken, s), append(r.rows, rows)
}

// placements adds candidates to a snapshot: the choice, then its closest rivals, then random
// candidates on random devices.
func (r *recorder) placements(s *snapshot, choice int) {
	nodes := r.env.Snapshot().Nodes
	pod := r.env.Pending()
	rows := r.env.Candidates()
	add := func(n *cluster.Node, on cluster.DeviceSet) {
		s.before = append(s.before, r.encode(n, cluster.Resources{}, 0))
		s.after = append(s.after, r.encode(n, pod.Requests, on))
	}
	n := nodes[rows[choice]]
	add(n, policy.Devices(r.policy, n, pod))
	for _, at := range rivals(r.scores, choice, r.config.Placements/2) {
		n := nodes[rows[at]]
		add(n, policy.Devices(r.policy, n, pod))
	}
	for len(s.before) < min(r.config.Placements, len(rows)) {
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

// encode returns a node's features after a placement of a request on the devices.
func (r *recorder) encode(n *cluster.Node, request cluster.Resources, on cluster.DeviceSet) (g graph.GPUNode) {
	r.encoder.Node(&g, n, request, on)
	return g
}

// end returns the snapshots after the episode, with their targets.
func (r *recorder) end() []snapshot {
	nodes := r.env.Snapshot().Nodes
	for i, rows := range r.rows {
		for _, row := range rows {
			r.taken[i].idle = append(r.taken[i].idle, float32(nodes[row].IdleGPUMilli())/cluster.DeviceMilli)
		}
	}
	return r.taken
}

// actor reports whether the policy is a network of its own.
func (c Config) actor() bool { return c.Head == checkpoint.ActorCritic }
