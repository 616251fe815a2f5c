package agreement

import (
	"context"
	"fmt"

	"k8s.io/client-go/kubernetes"

	"gnnsched/scheduler/eval"
	"gnnsched/scheduler/policy"
	"gnnsched/scheduler/server"
	"gnnsched/scheduler/sim"
)

// Contender is a policy and the profile that is to do the same on a cluster.
type Contender struct {
	eval.Contender
	Profile server.Profile
}

// Trial is one episode in the simulator and on a cluster.
type Trial struct {
	Policy    string      `json:"policy"`
	Seed      uint64      `json:"seed"`
	Simulated sim.Outcome `json:"simulated"`
	Cluster   sim.Outcome `json:"live"` // measured from the nodes and pods of the API server
	Placed    int         `json:"placed"`
	// Same is how many pods got the same node in both. Once two runs differ in one decision,
	// which chance between equals is enough for, the later ones differ too.
	Same int `json:"same"`
	// Best is how many of the cluster's decisions the simulator's policy would have taken in
	// the same state: their score is the highest there. This is what tells one from the other.
	Best int `json:"best"`
}

// trial plays the episode of one seed and one contender in the simulator, and then on the
// cluster.
func (c Config) trial(ctx context.Context, client kubernetes.Interface, i, k int) (Trial, error) {
	x, seed := c.Contenders[k], c.Seeds[i]
	t := Trial{Policy: x.Name, Seed: seed}
	env, err := sim.New(c.Scenario.Config)
	if err != nil {
		return t, err
	}
	setting := policy.Setting{Seed: seed, Typical: env.Typical()}
	_, nodes, err := eval.Placements(env, seed, eval.Deciding(x.New(setting), x.Ties(seed)))
	if err != nil {
		return t, fmt.Errorf("in the simulator: %w", err)
	}
	t.Simulated = atEnd(env)
	if err := env.Reset(seed); err != nil {
		return t, err
	}
	b, err := newBoard(ctx, client, x.Profile.SchedulerName, env)
	if err != nil {
		return t, err
	}
	defer b.close()
	e := episode{board: b, trial: &t, policy: judge{policy: x.New(setting)}, simulated: nodes}
	for !env.Done() {
		if err := e.step(ctx); err != nil {
			return t, err
		}
		done := float64(t.Placed) / float64(max(t.Simulated.Placed, 1))
		c.Progress(c.done(i, k, done), fmt.Sprintf("%s, seed %d: %s has placed %.0f%% of the pods", c.Scenario.Name, seed, x.Name, 100*done))
	}
	t.Cluster, err = b.outcome(ctx)
	return t, err
}

// episode is an episode on the cluster under way.
type episode struct {
	board     *board
	trial     *Trial
	policy    judge
	simulated map[int][]string // the nodes that the simulator gave each arrival and that are not compared yet
}

// step places the next pod on the cluster, compares its node with the simulator's, and brings
// the simulator's state after the cluster's.
func (e *episode) step(ctx context.Context) error {
	env, t := e.board.env, e.trial
	choice, err := e.board.place(ctx)
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
	if err := e.board.lose(ctx); err != nil {
		return err
	}
	return e.board.remove(ctx, env.Leaving())
}

// atEnd is how the simulator's episode ended. Other than its own outcome nothing in it is
// averaged over the episode, which a cluster cannot be asked for.
func atEnd(env *sim.Env) sim.Outcome {
	nodes, all := env.Snapshot().Nodes, env.Outcome()
	o := sim.Measure(nodes)
	o.GPU = devicesInUse(nodes)
	o.Cost = env.Config().Objective.Cost(nodes)
	o.Arrived, o.Placed, o.Unscheduled = all.Arrived, all.Placed, all.Unscheduled
	return o
}

// judge tells whether a policy would have chosen what was chosen.
type judge struct {
	policy policy.Policy
	scores []float32
}

func (j *judge) ask(env *sim.Env) error {
	rows := env.Candidates()
	j.scores = append(j.scores[:0], make([]float32, len(rows))...)
	return j.policy.Score(env.Snapshot(), env.Pending(), rows, j.scores)
}

// tolerance is how far two scores may be apart that are the same but for rounding, relative
// to the larger: the cluster's nodes are in another order, and sums of floats depend on it.
const tolerance = 1e-4

func (j *judge) best(choice int) bool {
	best := j.scores[policy.Best(j.scores)]
	return best-j.scores[choice] <= tolerance*max(best, -best, 1)
}
