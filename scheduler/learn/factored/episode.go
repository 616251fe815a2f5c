package factored

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"

	"gnnsched/gnn/graph"
	"gnnsched/scheduler/cluster"
	"gnnsched/scheduler/encode"
	"gnnsched/scheduler/objective"
	"gnnsched/scheduler/policy"
	"gnnsched/scheduler/sim"
	"gnnsched/workload/openb"
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

// play plays an episode to its end and returns the fraction of the GPUs that are given then.
// each, which may be nil, is called before every placement with the scores of the candidates, and
// may change the choice.
func play(env *sim.Env, seed uint64, pol policy.Policy, each func(choice int, scores []float32) (int, error)) (float64, error) {
	if err := env.Reset(seed); err != nil {
		return 0, err
	}
	var scores []float32
	for !env.Done() {
		rows := env.Candidates()
		for len(scores) < len(rows) {
			scores = append(scores, 0)
		}
		if err := pol.Score(env.Snapshot(), env.Pending(), rows, scores[:len(rows)]); err != nil {
			return 0, err
		}
		choice := policy.Best(scores[:len(rows)])
		if each != nil {
			var err error
			if choice, err = each(choice, scores[:len(rows)]); err != nil {
				return 0, err
			}
		}
		env.StepOn(choice, policy.Devices(pol, env.Snapshot().Nodes[rows[choice]], env.Pending()))
	}
	return env.Outcome().GPU.Allocation, nil
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
	e := encode.NewGPU(env.Typical())
	return &watcher{config: c, env: env, rng: rng, encoder: e, cluster: encode.NewGPUCluster(e)}
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
func (c Config) actor() bool { return c.Head == "actor-critic" }
