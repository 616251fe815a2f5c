package remote

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"math"
	"reflect"

	"gnnsched/gnn/checkpoint"
	"gnnsched/gnn/infer"
	"gnnsched/internal/workers"
	"gnnsched/scheduler/eval"
	world "gnnsched/scheduler/eval/remote"
	"gnnsched/scheduler/learn/run"
	"gnnsched/scheduler/sim"
)

// RolloutsKind is the kind of the units whose handler is Player.Play.
const RolloutsKind = "rollouts"

// task is the rollouts of a unit. The worker repeats the choices of the episode so far: that is exact, and takes little beside rollouts.
type task struct {
	Net   string // blob: a checkpoint
	World string // blob
	run.Rules
	run.Decision
}

// Rollouts lets the workers of a queue play rollouts. It is a run.Elsewhere.
type Rollouts struct {
	Context context.Context // of the run
	Queue   *workers.Queue
	Waiting func() // called now and then while no results come

	worlds [][]string // by configuration: the name, and those of all of its data
	net    string     // blob of the last round
}

// Costs implements run.Elsewhere. A unit is one decision: the rollouts of its candidates share what the network keeps about the nodes, and
// so their last bits.
func (p *Rollouts) Costs(r run.Rollouts) ([][]float64, error) {
	if err := p.send(r.Configs); err != nil {
		return nil, err
	}
	var net bytes.Buffer
	if err := r.Net.Write(&net); err != nil {
		return nil, err
	}
	name, err := p.Queue.Put(p.Context, net.Bytes())
	if err != nil {
		return nil, fmt.Errorf("send the network: %w", err)
	}
	var units []workers.Unit
	var of []int // by unit: its decision
	for i, d := range r.Decisions {
		if len(d.Tried) == 0 {
			continue
		}
		w := p.worlds[d.Config]
		u := workers.Unit{Kind: RolloutsKind, Blobs: append([]string{name}, w[1:]...), About: fmt.Sprintf("rollouts in episode %d", d.Seed)}
		if u.Task, err = json.Marshal(task{name, w[0], r.Rules, d}); err != nil {
			return nil, err
		}
		units, of = append(units, u), append(of, i)
	}
	costs := make([][]float64, len(r.Decisions))
	waiting := func() {
		_, _ = p.Queue.Put(p.Context, net.Bytes()) // a queue that was killed may have lost it
		p.Waiting()
	}
	err = p.Queue.Run(p.Context, units, waiting, func(i int, x workers.Result) (err error) {
		costs[of[i]], err = decodeCosts(x.Data, len(r.Decisions[of[i]].Tried))
		return err
	})
	if p.net != "" && p.net != name {
		_ = p.Queue.Forget(p.Context, p.net)
	}
	p.net = name
	return costs, err
}

// decodeCosts reads the result of a unit with a number of rollouts.
func decodeCosts(data []byte, rollouts int) (costs []float64, err error) {
	err = world.Decode(data, &costs)
	if err == nil && len(costs) != rollouts {
		err = fmt.Errorf("%d costs of %d rollouts", len(costs), rollouts)
	}
	for _, c := range costs {
		if err == nil && (math.IsNaN(c) || math.IsInf(c, 0)) {
			err = fmt.Errorf("a rollout that costs %v", c)
		}
	}
	return costs, err
}

// send sends the configurations, once.
func (p *Rollouts) send(all []sim.Config) error {
	if p.worlds != nil {
		return nil
	}
	worlds := make([][]string, len(all))
	for i, c := range all {
		name, blobs, err := world.SendWorld(p.Context, p.Queue, c)
		if err != nil {
			return fmt.Errorf("send the environment: %w", err)
		}
		worlds[i] = append([]string{name}, blobs...)
	}
	p.worlds = worlds
	return nil
}

// Player computes the units of rollouts. It keeps environments, to go on where they are.
type Player struct {
	net     string // blob of network
	network *infer.Network
	of      checkpoint.Architecture     // of network
	rollout *eval.Rollout               // by rules
	rules   run.Rules                   // of the environments
	envs    map[string]*run.Environment // by world and number
}

// maxEnvironments is how many environments a Player keeps.
const maxEnvironments = 64

// Play is a workers.Handler.
func (p *Player) Play(_ context.Context, data []byte, blob func(string) (string, error)) ([]byte, error) {
	var t task
	if err := json.Unmarshal(data, &t); err != nil {
		return nil, err
	}
	if err := p.follow(t, blob); err != nil {
		return nil, err
	}
	env, err := p.environment(t, blob)
	if err != nil {
		return nil, err
	}
	if err := env.Reach(t.Decision, p.network); err != nil {
		p.envs = nil
		return nil, err
	}
	costs, err := env.Costs(p.rollout, t.Tried)
	if err != nil {
		return nil, err
	}
	return world.Encode(costs)
}

// follow reads the network of a unit. The environments of another architecture or of other rules are of no use.
func (p *Player) follow(t task, blob world.Blob) error {
	if p.net != t.Net {
		path, err := blob(t.Net)
		if err != nil {
			return err
		}
		c, err := checkpoint.Load(path)
		if err != nil {
			return err
		}
		if p.network, err = infer.New(c); err != nil {
			return err
		}
		if a := c.Manifest.Architecture; !a.Equal(p.of) {
			p.of, p.envs = a, nil
		}
		p.net = t.Net
	}
	if !reflect.DeepEqual(p.rules, t.Rules) {
		p.rules, p.envs = t.Rules, nil
		p.rollout = &eval.Rollout{Horizon: t.Horizon, WaitCost: t.WaitCost}
	}
	return nil
}

// environment returns the environment of a unit, wherever it is.
func (p *Player) environment(t task, blob world.Blob) (env *run.Environment, err error) {
	key := fmt.Sprint(t.World, t.Env)
	if env = p.envs[key]; env != nil {
		return env, nil
	}
	err = world.Visit(t.World, blob, func(c sim.Config) (err error) {
		if err = c.Validate(); err == nil {
			env, err = run.NewReplay(c, p.of)
		}
		return err
	})
	if p.envs == nil || len(p.envs) >= maxEnvironments {
		p.envs = map[string]*run.Environment{}
	}
	if err == nil {
		p.envs[key] = env
	}
	return env, err
}
