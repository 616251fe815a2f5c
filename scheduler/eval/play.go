package eval

import (
	"context"
	"fmt"
	"math"
	"math/bits"
	"math/rand/v2"
	"slices"

	"gnnsched/internal/cluster"
	"gnnsched/internal/cluster/mig"
	"gnnsched/scheduler/policy"
	"gnnsched/scheduler/sim"
)

// Play runs the episode of a seed with a policy that always takes a node with the best score, and
// returns the outcome. Among equal best scores ties draws one; if ties is nil, the first is taken.
func Play(env *sim.Env, seed uint64, p policy.Policy, ties *rand.Rand) (sim.Outcome, error) {
	return play(context.Background(), env, seed, watched{p, ties, nil, nil})
}

// watched is a policy with its random numbers for ties, and who watches it and lets pods move, or nil.
type watched struct {
	policy.Policy
	ties     *rand.Rand
	observer Observer
	moves    func(*sim.Env) error
}

// play is Play that stops with an error when the context ends. An episode with a thousand nodes
// takes minutes.
func play(ctx context.Context, env *sim.Env, seed uint64, p watched) (sim.Outcome, error) {
	decide := Deciding(p.Policy, p.ties)
	begun := p.moves == nil
	o, err := Episode(env, seed, func(env *sim.Env) (Choice, error) {
		err := ctx.Err()
		if err == nil && !begun {
			begun, err = true, p.moves(env)
		}
		if err != nil {
			return Choice{}, err
		}
		choice, err := decide(env)
		if err == nil && p.observer != nil {
			p.observer.Decided(env, choice)
		}
		return choice, err
	})
	if err != nil {
		return o, fmt.Errorf("%s on seed %d: %w", p.Name(), seed, err)
	}
	if p.observer != nil {
		p.observer.Ended(env)
	}
	return o, nil
}

// Observer watches one episode. It must not change the environment, and it is called from one goroutine.
type Observer interface {
	// Decided is called with each choice before it is carried out.
	Decided(env *sim.Env, c Choice)
	// Ended is called at the end of an episode that did not fail.
	Ended(env *sim.Env)
}

// Choice says where a pod goes.
type Choice struct {
	Candidate int               // index in the environment's Candidates
	Devices   cluster.DeviceSet // GPU devices of that node
	Start     int               // first memory slice of the MIG partition
	// Scores are those of the Candidates, -Inf where preferences exclude one; nil if the decider has none. They
	// are valid until the next decision.
	Scores []float32
}

// Decide chooses a node and its devices for the pending pod of the environment.
type Decide func(env *sim.Env) (Choice, error)

// Episode runs the episode of a seed, calls decide for every pod, and returns the outcome.
func Episode(env *sim.Env, seed uint64, decide Decide) (sim.Outcome, error) {
	if err := env.Reset(seed); err != nil {
		return sim.Outcome{}, err
	}
	for !env.Done() {
		choice, err := decide(env)
		if err != nil {
			return sim.Outcome{}, err
		}
		env.StepAt(choice.Candidate, choice.Devices, choice.Start)
	}
	return env.Outcome(), nil
}

// Placements runs Episode and also returns the names of the nodes that each arrival got, by its
// number in the plan. A pod has several nodes if it lost one, and no entry if no node had room.
func Placements(env *sim.Env, seed uint64, decide Decide) (sim.Outcome, map[int][]string, error) {
	at := map[int][]string{}
	o, err := Episode(env, seed, func(env *sim.Env) (Choice, error) {
		choice, err := decide(env)
		if err == nil {
			pod := env.Next()
			at[pod] = append(at[pod], env.Snapshot().Nodes[env.Candidates()[choice.Candidate]].Name)
		}
		return choice, err
	})
	return o, at, err
}

// Deciding returns decisions that take a node with the best score of a policy, as in Play.
func Deciding(p policy.Policy, ties *rand.Rand) Decide {
	var buffer []float32
	return func(env *sim.Env) (Choice, error) {
		var err error
		if buffer, err = Scores(env, p, buffer); err != nil {
			return Choice{}, err
		}
		c := Choice{Candidate: choose(buffer, ties), Scores: buffer}
		node := env.Snapshot().Nodes[env.Candidates()[c.Candidate]]
		c.Devices, c.Start, err = Place(p, node, env.Pending())
		return c, err
	}
}

// Place returns the devices that a policy gives to a pod on a node, and the first memory slice of the pod's MIG partition. A partition that
// does not fit there is an error.
func Place(p policy.Policy, node *cluster.Node, pod *cluster.Pod) (on cluster.DeviceSet, start int, err error) {
	on = policy.Devices(p, node, pod)
	if pod.Partition == mig.None {
		return on, 0, nil
	}
	gpu := bits.TrailingZeros64(uint64(on))
	if on.Len() != 1 || gpu >= len(node.Slices) {
		return on, 0, fmt.Errorf("%s chose the devices %b for a partition", p.Name(), on)
	}
	used := node.Slices[gpu]
	start = policy.Start(p, used, pod.Partition)
	if start < 0 || !slices.Contains(pod.Partition.Starts(), start) || used&pod.Partition.On(start) != 0 {
		return on, 0, fmt.Errorf("%s put %d compute slices at %d on a GPU with the memory slices %08b in use", p.Name(),
			pod.Partition.Compute(), start, used)
	}
	return on, start, nil
}

// Scores returns p's scores of the candidates of the pending pod, after preferences. The result may
// use buffer's memory.
//
// Preferences come first: a candidate that they do not leave to the policy has the score -Inf. The
// policy scores all candidates, because its scores may depend on which there are. A policy.Upstream
// has the scores of preferences added to its own instead.
func Scores(env *sim.Env, p policy.Policy, buffer []float32) ([]float32, error) {
	rows := env.Candidates()
	scores := slices.Grow(buffer[:0], len(rows))[:len(rows)]
	if err := p.Score(env.Snapshot(), env.Pending(), rows, scores); err != nil {
		return nil, err
	}
	if u, adds := p.(policy.Upstream); adds {
		for i, v := range env.PreferencesBy(u.PreferenceWeights()) {
			scores[i] += float32(v)
		}
		return scores, nil
	}
	if env.Preferences() == nil {
		return scores, nil
	}
	next := 0
	preferred := env.Preferred()
	for i := range scores {
		if next < len(preferred) && int(preferred[next]) == i {
			next++
		} else {
			scores[i] = float32(math.Inf(-1))
		}
	}
	return scores, nil
}

// choose returns the index of a best score. With ties, each of several equal best scores is equally
// likely (reservoir sampling).
func choose(scores []float32, ties *rand.Rand) int {
	best := policy.Best(scores)
	if ties == nil {
		return best
	}
	equal := 0
	for i, v := range scores {
		if v != scores[best] {
			continue
		}
		if equal++; ties.IntN(equal) == 0 {
			best = i
		}
	}
	return best
}
