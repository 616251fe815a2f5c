package value

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"

	"gnnsched/gnn/checkpoint"
	"gnnsched/gnn/feature"
	"gnnsched/gnn/graph"
	"gnnsched/internal/cluster"
	"gnnsched/scheduler/encode"
	"gnnsched/scheduler/eval"
	"gnnsched/scheduler/objective"
	"gnnsched/scheduler/policy"
	"gnnsched/scheduler/sim"
	"gnnsched/workload/trace/openb"
)

// snapshot is what is kept of a cluster at one decision.
type snapshot struct {
	cluster []float32       // GPUClusterDim
	nodes   []graph.GPUNode // some of the nodes
	idle    []float32       // on each of them at the end of the episode, in devices

	before, after []graph.GPUNode // of some candidates of the pending pod: what the placement changes
	teacher       int             // FGD's choice among them; -1 where nobody asked
}

// player plays episodes.
type player struct {
	config Config
	nodes  []openb.Node
}

// env is a simulator of a workload.
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

// watcher takes snapshots of an episode.
type watcher struct {
	config  Config
	env     *sim.Env
	rng     *rand.Rand
	encoder *encode.GPU
	cluster *encode.GPUCluster
	taken   []snapshot
	rows    [][]int32 // that each snapshot's nodes are
	count   int
}

func newWatcher(c Config, env *sim.Env, rng *rand.Rand) *watcher {
	e := encode.NewGPU(feature.DefaultGPU(), env.Typical())
	return &watcher{config: c, env: env, rng: rng, encoder: e, cluster: encode.NewGPUCluster(e)}
}

// following decides as p does, shows every decision to the watcher, and places at random instead
// with the probability epsilon. teacher says that p is FGD.
func (w *watcher) following(p policy.Policy, teacher bool, epsilon float64) eval.Decide {
	var scores []float32
	return func(env *sim.Env) (eval.Choice, error) {
		rows, nodes := env.Candidates(), env.Snapshot().Nodes
		scores = slices.Grow(scores[:0], len(rows))[:len(rows)]
		if err := p.Score(env.Snapshot(), env.Pending(), rows, scores); err != nil {
			return eval.Choice{}, err
		}
		choice := policy.Best(scores)
		w.look(choice, scores, teacher, func(n *cluster.Node, pod *cluster.Pod) cluster.DeviceSet { return policy.Devices(p, n, pod) })
		if epsilon > 0 && w.rng.Float64() < epsilon {
			choice = w.rng.IntN(len(rows))
		}
		return eval.Choice{Candidate: choice, Devices: policy.Devices(p, nodes[rows[choice]], env.Pending())}, nil
	}
}

// look takes a snapshot where it is time to. choice is the candidate that was chosen by the
// scores, on the devices, and teacher says that FGD did.
func (w *watcher) look(choice int, scores []float32, teacher bool, devices func(*cluster.Node, *cluster.Pod) cluster.DeviceSet) {
	if w.count++; (w.count-1)%w.config.SnapshotEvery != 0 {
		return
	}
	nodes := w.env.Snapshot().Nodes
	s := snapshot{cluster: append([]float32(nil), w.cluster.Features(nodes)...), teacher: -1}
	var rows []int32
	for range min(w.config.SnapshotNodes, len(nodes)) {
		row := w.rng.IntN(len(nodes))
		rows = append(rows, int32(row))
		s.nodes = append(s.nodes, w.encode(nodes[row], cluster.Resources{}, 0))
	}
	if w.config.actor() {
		w.placements(&s, choice, scores, devices)
		if teacher {
			s.teacher = 0
		}
	}
	w.taken, w.rows = append(w.taken, s), append(w.rows, rows)
}

// placements keeps the choice, first, its closest rivals, and other candidates drawn at random
// on devices drawn at random.
func (w *watcher) placements(s *snapshot, choice int, scores []float32, devices func(*cluster.Node, *cluster.Pod) cluster.DeviceSet) {
	nodes, pod, rows := w.env.Snapshot().Nodes, w.env.Pending(), w.env.Candidates()
	keep := func(n *cluster.Node, on cluster.DeviceSet) {
		s.before = append(s.before, w.encode(n, cluster.Resources{}, 0))
		s.after = append(s.after, w.encode(n, pod.Requests, on))
	}
	n := nodes[rows[choice]]
	keep(n, devices(n, pod))
	for _, at := range rivals(scores, choice, w.config.Placements/2) {
		n := nodes[rows[at]]
		keep(n, devices(n, pod))
	}
	for len(s.before) < min(w.config.Placements, len(rows)) {
		n := nodes[rows[w.rng.IntN(len(rows))]]
		ways := policy.DeviceWays(n, pod.Requests)
		keep(n, ways[w.rng.IntN(len(ways))])
	}
}

// rivals are up to n candidates of the highest scores next to that of the choice, one of each
// score: nodes in the same state have the same.
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

func (w *watcher) encode(n *cluster.Node, r cluster.Resources, on cluster.DeviceSet) (g graph.GPUNode) {
	w.encoder.Node(&g, n, r, on)
	return g
}

// end returns the snapshots once the episode is over.
func (w *watcher) end() []snapshot {
	nodes := w.env.Snapshot().Nodes
	for i, rows := range w.rows {
		for _, row := range rows {
			w.taken[i].idle = append(w.taken[i].idle, float32(nodes[row].IdleGPUMilli())/cluster.DeviceMilli)
		}
	}
	return w.taken
}

// actor tells whether the policy is a network of its own.
func (c Config) actor() bool { return c.Head == checkpoint.ActorCritic }
