package compare

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"reflect"
	"slices"
	"strings"

	ucli "github.com/urfave/cli/v2"

	"gnnsched/cmd/internal/recording"
	"gnnsched/internal/workers"
	"gnnsched/scheduler/eval/remote"
	"gnnsched/scheduler/objective"
	"gnnsched/scheduler/policy/heuristic"
	"gnnsched/scheduler/replay"
	"gnnsched/scheduler/server"
)

// Kind is the kind of the units whose handler is Player.Play.
const Kind = "course"

// task is the course of a profile with a seed.
type task struct {
	Record    *remote.File
	Window    replay.Window
	Profile   server.Profile // without the path of Weights
	Weights   *remote.File   // of a network or of a linear policy; nil for others
	Objective objective.Mix
	Prices    *replay.Prices
	Seed      uint64
}

// turn is a course that a worker plays: which profile, and with which seed.
type turn struct {
	profile int
	seed    uint64
}

// away lets workers play all courses but those that the journal follows.
func (p *player) away(ctx context.Context, c *ucli.Context) error {
	t := task{Window: recording.Window(c), Objective: p.config.Objective.(objective.Mix), Prices: p.config.Prices}
	var err error
	if t.Record, err = remote.SendFile(ctx, p.pool.Queue, c.Args().First()); err != nil {
		return fmt.Errorf("send the record: %w", err)
	}
	var units []workers.Unit
	var turns []turn
	for i, profile := range p.chosen {
		if err := t.give(ctx, p.pool.Queue, profile); err != nil {
			return fmt.Errorf("%s: %w", profile.SchedulerName, err)
		}
		for _, t.Seed = range p.seeds {
			if p.journal != nil && t.Seed == p.seeds[0] {
				continue
			}
			u := workers.Unit{Kind: Kind, About: fmt.Sprintf("%s, seed %d", profile.SchedulerName, t.Seed), Blobs: t.blobs()}
			if u.Task, err = json.Marshal(t); err != nil {
				return err
			}
			units, turns = append(units, u), append(turns, turn{i, t.Seed})
		}
	}
	p.played = map[turn]replay.Course{}
	return p.pool.Queue.Run(ctx, units, p.pool.Waiting, func(i int, r workers.Result) error {
		var course replay.Course
		if err := remote.Decode(r.Data, &course); err != nil {
			return fmt.Errorf("course of %s: %w", units[i].About, err)
		}
		p.pool.Result(r)
		p.played[turns[i]] = course
		p.done++
		p.show(units[i].About, 0, units[i].About)
		return nil
	})
}

// give sets the profile, and sends its file. A profile that has more than a worker takes is an error.
func (t *task) give(ctx context.Context, queue *workers.Queue, p server.Profile) (err error) {
	path := p.Checkpoint
	if file, linear := strings.CutPrefix(p.Policy, heuristic.FromWeights("")); linear {
		path = file
	}
	if t.Profile, err = plain(p, path); err != nil || !reflect.DeepEqual(t.Profile, p) {
		return errors.Join(err, errors.New("its settings do not reach workers; leave --workers out"))
	}
	t.Weights, t.Profile.Checkpoint = nil, ""
	if path != "" {
		t.Profile.Policy = strings.TrimSuffix(p.Policy, path)
		t.Weights, err = remote.SendFile(ctx, queue, path)
	}
	return err
}

// plain returns what a worker takes of a profile: names and numbers, and the one file at path. Others would be of the worker's machine.
func plain(p server.Profile, path string) (server.Profile, error) {
	out := server.Profile{SchedulerName: p.SchedulerName, Stock: p.Stock}
	out.Variant, out.Policy, out.Deadline = p.Variant, p.Policy, p.Deadline
	file, linear := strings.CutPrefix(p.Policy, heuristic.FromWeights(""))
	switch {
	case linear && file != path, p.Checkpoint != "" && p.Checkpoint != path:
		return out, errors.New("it names a file that did not come with it")
	case !linear:
		out.Checkpoint = path
	}
	return out, nil
}

// blobs returns the data that the task needs.
func (t *task) blobs() []string {
	out := slices.Collect(maps.Values(t.Record.Blobs))
	if t.Weights != nil {
		out = slices.AppendSeq(out, maps.Values(t.Weights.Blobs))
	}
	return out
}

// Player computes the units. It keeps the last record.
type Player struct {
	key    string // of source
	source replay.Source
}

// Play is a workers.Handler.
func (p *Player) Play(ctx context.Context, data []byte, blob func(string) (string, error)) ([]byte, error) {
	var t task
	if err := json.Unmarshal(data, &t); err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "gnnsched-course-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	if err := p.read(t, dir, blob); err != nil {
		return nil, err
	}
	path := ""
	if t.Weights != nil {
		if path, err = t.Weights.Write(dir, blob); err != nil {
			return nil, err
		}
	}
	if t.Profile.Policy == heuristic.FromWeights("") {
		t.Profile.Policy += path
	}
	profile, err := plain(t.Profile, path)
	if err != nil {
		return nil, err
	}
	decoded, err := server.Config{Profiles: []server.Profile{profile}, QPS: 1}.Decode()
	if err != nil {
		return nil, err
	}
	course, err := replay.Run(ctx, p.source, replay.Config{
		Profile: decoded.Profiles[0], Objective: t.Objective, Prices: t.Prices, Blocks: blocks, Seed: t.Seed,
	})
	if err != nil {
		return nil, err
	}
	return remote.Encode(course)
}

// read reads the record of a task, unless it is the last one.
func (p *Player) read(t task, dir string, blob remote.Blob) error {
	key, err := json.Marshal([]any{t.Record, t.Window})
	if err != nil || p.key == string(key) {
		return err
	}
	if t.Record == nil {
		return errors.New("there is no record")
	}
	path, err := t.Record.Write(dir, blob)
	if err != nil {
		return err
	}
	p.key = ""
	if p.source, err = recording.Open(path, t.Window, os.Stderr); err == nil {
		p.key = string(key)
	}
	return err
}
