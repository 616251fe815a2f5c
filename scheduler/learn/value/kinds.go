//go:build torch

package value

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"

	"gnnsched/gnn/checkpoint"
	"gnnsched/gnn/infer"
	"gnnsched/internal/cluster"
	"gnnsched/scheduler/eval"
	"gnnsched/scheduler/learn/run"
	"gnnsched/scheduler/objective"
	"gnnsched/scheduler/policy"
	"gnnsched/scheduler/policy/heuristic"
	"gnnsched/scheduler/policy/neural"
	"gnnsched/scheduler/policy/supply"
	"gnnsched/scheduler/sim"
)

// kindTask plays scenarios in which pods of some kinds wait. The cost at a moment is the sum of what the waiting pods request. The network
// learns each kind's part of that sum.
type kindTask struct {
	config Config
	price  []float64 // what waits in each held-out episode under the rule price
}

const tagWaiting = "charts/waiting"

func (c *kindTask) learnsOn() []any { return []any{c.config.Scenarios} }

func (*kindTask) figure() (tag, text string) { return tagWaiting, "waiting %.2f%% of the cluster" }

// env returns a simulator of a scenario.
func (c *kindTask) env(n int) (*sim.Env, error) {
	s, err := eval.Find(c.config.Scenarios[n%len(c.config.Scenarios)])
	if err != nil {
		return nil, err
	}
	return sim.New(s.Config)
}

// episode implements task. In the first iterations linear plays. Some placements are random in every second episode.
func (c *kindTask) episode(i, e int, net *infer.Network) ([]snapshot, float64, error) {
	rng := c.config.rng(playing, i, e)
	env, err := c.env(rng.IntN(len(c.config.Scenarios)))
	if err != nil {
		return nil, 0, err
	}
	r := &kindRecorder{config: c.config, rng: rng, waits: map[*cluster.Kind][]float64{}}
	heard := c.config.Encoder == checkpoint.GNN
	r.stars = neural.NewKindStars(c.config.layout(), heard || c.config.actor())
	if c.config.actor() {
		r.actors = neural.NewKindStars(c.config.layout(), heard)
	}
	if r.policy = learningPolicy(net)(policy.Setting{}); i < c.config.Imitation {
		if r.policy, err = ruled("linear"); err != nil {
			return nil, 0, err
		}
	}
	if e%2 > 0 {
		r.random = c.config.Exploration * rng.Float64()
	}
	o, err := eval.Episode(env, uint64(trainingSeeds)+rng.Uint64N(trainingSeeds), r.decide)
	if err != nil {
		return nil, 0, err
	}
	return r.end(), o.Waiting, nil
}

// ruled returns the rule of a name.
func ruled(name string) (policy.Policy, error) {
	h, err := heuristic.Find(name)
	if err != nil {
		return nil, err
	}
	return h.New(policy.Setting{}), nil
}

// hold implements task.
func (c *kindTask) hold() (err error) {
	c.price, err = c.play(func() (policy.Policy, error) { return ruled("price") })
	return err
}

// play returns what waits in each held-out episode under a policy.
func (c *kindTask) play(of func() (policy.Policy, error)) ([]float64, error) {
	waiting := make([]float64, c.config.EvaluateWorkloads)
	return waiting, parallel(len(waiting), func(i int) error {
		env, err := c.env(i)
		if err != nil {
			return err
		}
		p, err := of()
		if err != nil {
			return err
		}
		o, err := eval.Play(env, heldOutSeeds+uint64(i), p, nil)
		waiting[i] = o.Waiting
		return err
	})
}

// someWaiting is added to what waits before a ratio is taken, as a share of the cluster: what hardly waits should not decide.
const someWaiting = 0.001

// evaluate implements task. The score is the geometric mean over the episodes of what waits, over that under the rule price.
func (c *kindTask) evaluate(net *infer.Network) (run.Evaluation, error) {
	waiting, err := c.play(func() (policy.Policy, error) { return learningPolicy(net)(policy.Setting{}), nil })
	if err != nil {
		return run.Evaluation{}, err
	}
	var sum, logs float64
	for i, w := range waiting {
		sum, logs = sum+w, logs+math.Log((w+someWaiting)/(c.price[i]+someWaiting))
	}
	n := float64(len(waiting))
	total := math.Exp(logs / n)
	return run.Evaluation{
		Total:   total,
		Figures: map[string]float64{"heldOutWaiting": sum / n, "heldOutWaitingOverPrice": total},
		Curves:  []run.Scalar{{Tag: "eval/waiting_over_price", Value: total}},
		Text:    fmt.Sprintf("waiting %.2f%% of the cluster, %.3f times that of the rule price", 100*sum/n, total),
		Short:   fmt.Sprintf("%.3f of price", total),
	}, nil
}

// kindRecorder plays an episode with a policy and takes snapshots of the kinds.
type kindRecorder struct {
	config Config
	rng    *rand.Rand
	policy policy.Policy
	random float64 // share of random placements

	table  supply.Table
	stars  *neural.KindStars
	actors *neural.KindStars // of the actor; nil if there is none
	scores []float32

	decisions, fill int                         // fill: until the cluster was full
	waits           map[*cluster.Kind][]float64 // sums up to each decision, in percent of the cluster; missing zeros come first
	taken           []snapshot
	at              []int // decision of each
	kinds           [][]*cluster.Kind
}

// decide implements eval.Decide.
func (r *kindRecorder) decide(env *sim.Env) (eval.Choice, error) {
	rows, s := env.Candidates(), env.Snapshot()
	r.scores = slices.Grow(r.scores[:0], len(rows))[:len(rows)]
	if err := r.policy.Score(s, env.Pending(), rows, r.scores); err != nil {
		return eval.Choice{}, err
	}
	capacity := objective.Capacity(s.Nodes)
	for _, k := range s.Demand.Kinds {
		r.add(k, 100*k.Waiting*objective.Share(k.Pod.Requests, capacity))
	}
	if r.decisions%r.config.SnapshotEvery == 0 {
		r.take(s)
	}
	if r.decisions++; !env.Filled() {
		r.fill = r.decisions
	}
	choice := policy.Best(r.scores)
	if r.random > 0 && r.rng.Float64() < r.random {
		choice = r.rng.IntN(len(rows))
	}
	return eval.Choice{Candidate: choice, Devices: policy.Devices(r.policy, s.Nodes[rows[choice]], env.Pending())}, nil
}

// add adds what a kind waits for at this decision.
func (r *kindRecorder) add(k *cluster.Kind, waits float64) {
	sums := r.waits[k]
	for len(sums) < r.decisions {
		sums = append(sums, r.until(sums, len(sums)-1))
	}
	r.waits[k] = append(sums, r.until(sums, len(sums)-1)+waits)
}

// until returns the sum up to a decision.
func (*kindRecorder) until(sums []float64, decision int) float64 {
	if decision = min(decision, len(sums)-1); decision < 0 {
		return 0
	}
	return sums[decision]
}

// take takes a snapshot.
func (r *kindRecorder) take(s *cluster.Snapshot) {
	r.table.Sync(s)
	r.stars.Look(s, &r.table)
	x := snapshot{Cluster: slices.Clone(r.stars.Cluster()), Teacher: -1}
	as := func(int) float64 { return 0 }
	x.Nodes = r.stars.All(as)
	if r.actors != nil {
		r.actors.Look(s, &r.table)
		x.Actor, x.Before = r.actors.All(as), r.stars.All(r.stars.Loses)
		x.After = r.stars.All(func(k int) float64 { return r.stars.Loses(k) - 1 })
	}
	r.taken, r.at, r.kinds = append(r.taken, x), append(r.at, r.decisions), append(r.kinds, slices.Clone(s.Demand.Kinds))
}

// end returns the snapshots after the episode whose horizon lies within it, with their targets: for each kind the logarithm of what its
// pods wait for, on average over the horizon.
func (r *kindRecorder) end() (out []snapshot) {
	ahead := max(int(r.config.Horizon*float64(r.fill)), 1)
	for i, x := range r.taken {
		if len(r.kinds[i]) == 0 || r.at[i]+ahead >= r.decisions {
			continue
		}
		for _, k := range r.kinds[i] {
			sums := r.waits[k]
			mean := (r.until(sums, r.at[i]+ahead) - r.until(sums, r.at[i])) / float64(ahead)
			x.Targets = append(x.Targets, float32(math.Log(mean+neural.KindOffset)))
		}
		out = append(out, x)
	}
	return out
}
