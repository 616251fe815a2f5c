package live

import (
	"context"
	"fmt"

	"gnnsched/scheduler/eval"
	"gnnsched/scheduler/policy"
	"gnnsched/scheduler/server"
	"gnnsched/scheduler/sim"
)

// Contender is a policy and the scheduler profile that should decide the same on a cluster.
type Contender struct {
	eval.Contender
	Profile server.Profile
	Running bool // a network that takes its typical pods from the running pods: its profile has no workload
}

// Trial is one episode in the simulator and on a cluster.
type Trial struct {
	Policy    string      `json:"policy"`
	Seed      uint64      `json:"seed"`
	Simulated sim.Outcome `json:"simulated"`
	Cluster   sim.Outcome `json:"live"`   // measured from the nodes and pods of the API server
	Placed    int         `json:"placed"` // pods that kube-scheduler bound
	// Same is the number of pods that got the same node in both. One different decision, such as
	// another random choice among equal scores, makes later decisions differ too.
	Same int `json:"same"`
	// Best is the number of the cluster's decisions that have the highest score of the simulator's
	// policy in the same state. It measures whether the two decide alike.
	Best int `json:"best"`
}

// trial plays the episode of one seed and one contender in the simulator, and then on the
// cluster.
func (c Config) trial(ctx context.Context, pods *pods, i, k int) (Trial, error) {
	x, seed := c.Contenders[k], c.Seeds[i]
	t := Trial{Policy: x.Name, Seed: seed}
	env, err := sim.New(c.Scenario.Config)
	if err != nil {
		return t, err
	}
	setting := policy.Setting{Seed: seed, Typical: env.Typical(), Running: env.TypicalRunning()}
	_, nodes, err := eval.Placements(env, seed, eval.Deciding(x.New(setting), x.Ties(seed)))
	if err != nil {
		return t, fmt.Errorf("in the simulator: %w", err)
	}
	t.Simulated = atEnd(env)
	if err := env.Reset(seed); err != nil {
		return t, err
	}
	f, err := newFollower(ctx, pods, fmt.Sprintf("pod-%d-%d", i, k), x.Profile.SchedulerName, env)
	if err != nil {
		return t, err
	}
	e := episode{follower: f, trial: &t, policy: judge{policy: x.New(setting)}, simulated: nodes}
	for !env.Done() {
		if err := e.step(ctx); err != nil {
			return t, err
		}
		done := float64(t.Placed) / float64(max(t.Simulated.Placed, 1))
		c.Progress(c.done(i, k, done), fmt.Sprintf("%s, seed %d: %s has placed %.0f%% of the pods", c.Scenario.Name, seed, x.Name, 100*done))
	}
	t.Cluster, err = f.outcome(ctx)
	return t, err
}

// episode is a running episode on the cluster.
type episode struct {
	follower  *follower
	trial     *Trial
	policy    judge
	simulated map[int][]string // nodes of the simulator's own episode by arrival, without those already compared
}

// step places the next pod on the cluster, compares its node with the simulator's, and applies the
// cluster's decision to the simulator.
func (e *episode) step(ctx context.Context) error {
	env, t := e.follower.env, e.trial
	choice, err := e.follower.place(ctx)
	if err != nil {
		return err
	}
	if err := e.policy.ask(env); err != nil {
		return err
	}
	t.Placed++
	if left := e.simulated[env.Next()]; len(left) > 0 {
		if left[0] == env.Snapshot().Nodes[env.Candidates()[choice.Candidate]].Name {
			t.Same++
		}
		e.simulated[env.Next()] = left[1:]
	}
	if e.policy.best(choice.Candidate) {
		t.Best++
	}
	env.StepOn(choice.Candidate, choice.Devices)
	if err := e.follower.lose(ctx); err != nil {
		return err
	}
	return e.follower.remove(ctx)
}

// atEnd returns the outcome at the end of the simulator's episode. Unlike env.Outcome, it has no averages over the episode.
func atEnd(env *sim.Env) sim.Outcome {
	nodes := env.Snapshot().Nodes
	all := env.Outcome()
	o := sim.Measure(nodes)
	o.GPU = devicesInUse(nodes)
	o.Cost = env.Config().Objective.Cost(nodes)
	o.Arrived = all.Arrived
	o.Placed, o.Unscheduled = all.Placed, all.Unscheduled
	return o
}

// judge checks whether a policy could have taken a decision.
type judge struct {
	policy policy.Policy
	scores []float32
}

// ask scores the candidates of the pending pod.
func (j *judge) ask(env *sim.Env) error {
	var err error
	j.scores, err = eval.Scores(env, j.policy, j.scores)
	return err
}

// tolerance is the relative difference below which two scores count as equal. The nodes on the
// cluster are in another order, which changes the rounding of sums.
const tolerance = 1e-4

// best tells whether a candidate has the highest score.
func (j *judge) best(choice int) bool {
	best := j.scores[policy.Best(j.scores)]
	return best-j.scores[choice] <= tolerance*max(best, -best, 1)
}
