package value

import (
	"io"
	"math/rand/v2"
	"testing"

	"gnnsched/gnn/checkpoint"
	"gnnsched/gnn/infer"
	"gnnsched/internal/cluster"
	"gnnsched/scheduler/eval"
	"gnnsched/scheduler/experience"
	"gnnsched/scheduler/objective"
	"gnnsched/scheduler/plugin/gpustep"
	"gnnsched/scheduler/policy"
	"gnnsched/scheduler/policy/neural"
	"gnnsched/scheduler/sim"
)

// lasting returns the cluster and pods of trace, with lifetimes.
func lasting() (Config, sim.Config) {
	nodes, w := trace()
	for i := range w.Pods {
		w.Pods[i].Created, w.Pods[i].Deleted = 0, float64(200+37*(i*i%50))
	}
	return small(), sim.Config{
		OpenB:     &sim.OpenB{Nodes: nodes, Pods: w.Pods, Steady: &sim.Steady{Load: 1.15, Duration: 60_000}},
		Objective: objective.Mix{{Term: objective.GPUIdle{}, Weight: 1}},
	}
}

// stream is the source of steps of a scheduler on a cluster of the simulator that pods come to and leave. It
// explores, and loads each saved network at once.
type stream struct {
	env    *sim.Env
	rng    *rand.Rand
	left   int // steps still to make
	random float64
	play   policy.Policy // nil: net plays
	net    *neural.GPUPolicy

	step  experience.Step // of the actor
	actor bool
	plan  []sim.Arrival
}

// newStream returns a source of a number of steps. It begins in a full cluster, on the episode of a seed.
func newStream(t testing.TB, c sim.Config, seed uint64, steps int) *stream {
	t.Helper()
	env, err := sim.New(c)
	if err == nil {
		err = env.Reset(seed)
	}
	if err != nil {
		t.Fatal(err)
	}
	for !env.Filled() {
		env.Step(0)
	}
	return &stream{env: env, rng: rand.New(rand.NewPCG(seed, 2)), left: steps, plan: env.Plan()}
}

// load makes a network play, or only encode if there is a policy.
func (s *stream) load(c *checkpoint.Checkpoint) error {
	net, err := infer.New(c)
	if err != nil {
		return err
	}
	s.net, s.actor = neural.New("learning", net, s.env.Typical()).(*neural.GPUPolicy), c.Manifest.Architecture.Head == checkpoint.ActorCritic
	s.step.Actor, s.step.Network, s.step.Features = "simulator", c.Fingerprint(), net.Layout().Hash()
	return nil
}

// waiting returns the thousandths of devices that pods request which wait for a node, without the pending pod.
func (s *stream) waiting() (milli int64) {
	for _, i := range s.env.Waiting() {
		milli += s.plan[i].Pod.Requests.TotalGPUMilli()
	}
	return milli
}

// Next implements experience.Source.
func (s *stream) Next() (experience.Step, error) {
	if s.left == 0 || s.env.Done() {
		return experience.Step{}, io.EOF
	}
	s.left--
	pod, rows, snapshot := s.env.Pending(), s.env.Candidates(), s.env.Snapshot()
	scores := make([]float32, len(rows))
	player := policy.Policy(s.net)
	if s.play != nil {
		player = s.play
	}
	if err := player.Score(snapshot, pod, rows, scores); err != nil {
		return experience.Step{}, err
	}
	choice := policy.Best(scores)
	if s.rng.Float64() < s.random {
		choice = s.rng.IntN(len(rows))
	}
	s.step.Number++
	out := s.step
	out.GPU = gpustep.Decision{Policy: s.net, Snapshot: snapshot, Pod: pod, Rows: rows, Scores: scores, Actor: s.actor}.State(s.rng,
		s.waiting())
	out.Before = s.env.Cost()
	out.After = out.Before - s.env.StepOn(choice, policy.Devices(player, snapshot.Nodes[rows[choice]], pod))
	return out, out.Validate()
}

// spreading takes the node with the most idle devices, so that no room for whole devices is left.
type spreading struct{}

func (spreading) Name() string { return "spreading" }

func (spreading) Score(s *cluster.Snapshot, _ *cluster.Pod, rows []int32, scores []float32) error {
	for i, row := range rows {
		scores[i] = float32(s.Nodes[row].IdleGPUMilli())
	}
	return nil
}

// steadyAllocation returns the mean allocation over time under a network, over some episodes.
func steadyAllocation(t testing.TB, c sim.Config, k *checkpoint.Checkpoint) (sum float64) {
	t.Helper()
	net, err := infer.New(k)
	if err != nil {
		t.Fatal(err)
	}
	const episodes = 3
	steady := *c.OpenB.Steady
	steady.Duration, steady.WarmUp = 8000, 2000
	open := *c.OpenB
	open.Steady, c.OpenB = &steady, &open
	for seed := range uint64(episodes) {
		env, err := sim.New(c)
		if err != nil {
			t.Fatal(err)
		}
		o, err := eval.Play(env, 900+seed, neural.New("plays", net, env.Typical()), nil)
		if err != nil {
			t.Fatal(err)
		}
		sum += o.Steady.Allocation / episodes
	}
	return sum
}
