package remote

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"gnnsched/internal/workers"
	"gnnsched/scheduler/eval"
	"gnnsched/scheduler/sim"
)

// Kind is the kind of the units.
const Kind = "episode"

// Players plays episodes on the workers of a queue. It is an eval.Elsewhere.
type Players struct {
	Queue *workers.Queue
	// Waiting is called now and then while no episode ends, and Played after each one, one call at a time.
	Waiting func()
	Played  func(r workers.Result)
}

// Play implements eval.Elsewhere.
func (p *Players) Play(ctx context.Context, s eval.Scenario, turns []eval.Turn, played func(i int, o sim.Outcome)) error {
	units, watches := make([]workers.Unit, len(turns)), make([]*eval.Watch, len(turns))
	sender := sender{ctx: ctx, queue: p.Queue, weights: map[string]*File{}, pods: map[uint64]string{}}
	var err error
	if sender.name, sender.blobs, err = SendWorld(ctx, p.Queue, s.Config); err != nil {
		return err
	}
	for i, t := range turns {
		if observe := t.Contender.Observe; observe != nil {
			watches[i] = observe(t.Seed).(*eval.Watch) // there are no others
		}
		if units[i], err = sender.unit(s, t, watches[i]); err != nil {
			return fmt.Errorf("%s: %w", t.Contender.Name, err)
		}
	}
	return p.Queue.Run(ctx, units, p.Waiting, func(i int, r workers.Result) error {
		var x result
		if err := Decode(r.Data, &x); err != nil {
			return fmt.Errorf("outcome of %s: %w", units[i].About, err)
		}
		if watches[i] != nil {
			watches[i].Take(x.Seen)
		}
		p.Played(r)
		played(i, x.Outcome)
		return nil
	})
}

// sender puts what episodes need into the queue, once.
type sender struct {
	ctx     context.Context
	queue   *workers.Queue
	name    string   // of the world
	blobs   []string // of the world
	weights map[string]*File
	pods    map[uint64]string // by seed
}

// unit returns the unit of an episode.
func (s *sender) unit(scenario eval.Scenario, t eval.Turn, w *eval.Watch) (workers.Unit, error) {
	x := t.Contender
	e := episode{World: s.name, Name: x.Name, Origin: *x.Origin, RandomTies: x.RandomTies, Seed: t.Seed, Watch: w}
	u := workers.Unit{Kind: Kind, About: fmt.Sprintf("%s, %s, seed %d", scenario.Name, x.Name, t.Seed), Blobs: slices.Clone(s.blobs)}
	var err error
	if path := e.Origin.File; path != "" {
		if s.weights[path] == nil {
			if s.weights[path], err = SendFile(s.ctx, s.queue, path); err != nil {
				return u, err
			}
		}
		e.Weights, e.Origin.File = s.weights[path], ""
		u.Blobs = slices.AppendSeq(u.Blobs, maps.Values(e.Weights.Blobs))
	}
	if g := scenario.Given; g != nil {
		if e.Pods, err = s.arrivals(g, t.Seed); err != nil {
			return u, err
		}
		u.Blobs = append(u.Blobs, e.Pods)
	}
	u.Task, err = json.Marshal(e)
	return u, err
}

// arrivals sends a program's pods of a seed.
func (s *sender) arrivals(g *sim.Given, seed uint64) (string, error) {
	if s.pods[seed] == "" {
		data, err := encodeArrivals(g.Pods(seed))
		if err != nil {
			return "", err
		}
		if s.pods[seed], err = s.queue.Put(s.ctx, data); err != nil {
			return "", err
		}
	}
	return s.pods[seed], nil
}
