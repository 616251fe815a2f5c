package remote

import (
	"context"
	"encoding/json"
	"fmt"
	"os"

	"gnnsched/scheduler/eval"
	"gnnsched/scheduler/sim"
)

// Player computes the units: it plays their episodes. Units of the same world follow each other, so it keeps the last one.
type Player struct {
	Contender func(eval.Origin) (eval.Contender, error) // contender.Of

	world     string // of env
	env       *sim.Env
	of        string // the contender's origin, as JSON
	contender eval.Contender
}

// Play is a workers.Handler.
func (p *Player) Play(ctx context.Context, task []byte, blob func(string) (string, error)) ([]byte, error) {
	var e episode
	if err := json.Unmarshal(task, &e); err != nil {
		return nil, err
	}
	if err := p.enter(e, blob); err != nil {
		return nil, fmt.Errorf("scenario: %w", err)
	}
	x, err := p.meet(e, blob)
	if err != nil {
		return nil, err
	}
	var r result
	if e.Watch != nil {
		x.Observe = func(uint64) eval.Observer { return e.Watch }
	}
	if r.Outcome, err = x.Episode(ctx, p.env, e.Seed); err != nil {
		return nil, err
	}
	if e.Watch != nil {
		r.Seen = e.Watch.Seen
	}
	return Encode(r)
}

// enter makes the environment of an episode.
func (p *Player) enter(e episode, blob Blob) error {
	if key := e.World + e.Pods; p.world == key {
		return nil
	}
	return Visit(e.World, blob, func(c sim.Config) error {
		if c.Given != nil {
			data, err := read(e.Pods, blob)
			if err != nil {
				return err
			}
			pods, err := decodeArrivals(data)
			if err != nil {
				return err
			}
			c.Given.Pods = func(uint64) []sim.Arrival { return pods }
		}
		if err := c.Validate(); err != nil {
			return err
		}
		var err error
		if p.env, err = sim.New(c); err == nil { // nobody reads its files any more
			p.world = e.World + e.Pods
		}
		return err
	})
}

// meet makes the contender of an episode.
func (p *Player) meet(e episode, blob Blob) (eval.Contender, error) {
	key, err := json.Marshal([]any{e.Origin, e.Weights})
	if err != nil {
		return eval.Contender{}, err
	}
	if p.of != string(key) {
		e.Origin.File = ""
		if e.Weights != nil {
			dir, err := os.MkdirTemp("", "gnnsched-weights-")
			if err != nil {
				return eval.Contender{}, err
			}
			defer os.RemoveAll(dir)
			if e.Origin.File, err = e.Weights.Write(dir, blob); err != nil {
				return eval.Contender{}, err
			}
		}
		if p.contender, err = p.Contender(e.Origin); err != nil {
			return eval.Contender{}, err
		}
		if p.contender.Origin.File != e.Origin.File { // it was read from this machine
			return eval.Contender{}, fmt.Errorf("%s names a file that did not come with it", e.Name)
		}
		p.of = string(key)
	}
	x := p.contender
	if x.PlayAll != nil { // it would run a program
		return x, fmt.Errorf("%s does not play on workers", e.Name)
	}
	x.Name, x.RandomTies = e.Name, e.RandomTies
	return x, nil
}
