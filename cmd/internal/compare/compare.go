// Package compare is the command `gnnsched compare`, which replays a record under profiles and compares them with what
// really happened.
package compare

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"runtime/debug"
	"slices"
	"strings"
	"sync"

	ucli "github.com/urfave/cli/v2"

	"gnnsched/cmd/internal/recording"
	"gnnsched/cmd/internal/report"
	"gnnsched/cmd/internal/work"
	"gnnsched/internal/cli"
	"gnnsched/internal/exit"
	"gnnsched/internal/workers"
	"gnnsched/scheduler/eval"
	"gnnsched/scheduler/eval/remote"
	"gnnsched/scheduler/objective"
	"gnnsched/scheduler/policy/heuristic"
	"gnnsched/scheduler/replay"
	"gnnsched/scheduler/server"
)

// Command returns the command.
func Command() *ucli.Command {
	return &ucli.Command{
		Name:      "compare",
		Usage:     "replay a record under profiles, and compare them with what really happened",
		ArgsUsage: "RECORD",
		Description: "RECORD is a folder that gnnsched record or gnnsched convert wrote. Its pods and nodes are played again in memory, with\n" +
			"all filters of kube-scheduler and with preemption, under the profile that the cluster has now (--present) and others, several\n" +
			"times, because kube-scheduler draws among nodes that score the same. The first lines are the verdicts. A profile is better\n" +
			"only by more than the simulated present profile is from what really happened. docs/how-to/compare.md describes the figures and\n" +
			"what the replay lacks.\n\n" +
			"Examples:\n" +
			"   gnnsched compare prod.record                                       # the default scheduler and gnn\n" +
			"   gnnsched compare --profile linear-pack --profile most-allocated --objective pack prod.record\n" +
			"   gnnsched compare --checkpoint mine=my.safetensors --checkpoint stock.yaml prod.record\n" +
			"   gnnsched compare --present now=scheduler.yaml prod.record          # the cluster's kube-scheduler has a configuration\n" +
			"   gnnsched compare --prices prices.yaml prod.record                  # what the nodes in use cost\n" +
			"   gnnsched compare --autoscaler cluster-autoscaler --types types.json --nodepools pools.yaml prod.record    # what it would cost\n" +
			"   gnnsched compare --autoscaler cluster-autoscaler --at-most-waiting 0.5 prod.record    # the cheapest setting with so few waiting\n" +
			"   gnnsched compare --html report.html prod.record                    # a page, too\n" +
			"   gnnsched compare --from 2026-06-01T00:00:00Z --to 2026-06-08T00:00:00Z -o json prod.record",
		Flags: cli.Grouped(slices.Concat(flags(), work.Flags(), cli.LogFlags()),
			cli.Group{Heading: "autoscalers and what nodes cost", Flags: cli.Names(AutoscalerFlags())},
			cli.Group{Heading: "on several processes or machines", Flags: work.FlagNames}),
		Action: run,
	}
}

func flags() []ucli.Flag {
	return append([]ucli.Flag{
		&ucli.StringFlag{Name: "present", Value: server.DefaultProfile,
			Usage: "`PROFILE` that the cluster has now: the name of one, or [NAME=]FILE, as for --checkpoint"},
		&ucli.StringSliceFlag{Name: "profile", Aliases: []string{"p"}, Value: ucli.NewStringSlice("gnn"),
			Usage: "`PROFILE` to compare with it; may be given several times"},
		recording.CheckpointFlag(),
		&ucli.StringFlag{Name: "objective", Value: "balance", Usage: "`OBJECTIVE` of the column cost, such as pack or balance=1,pack=0.5"},
		recording.PricesFlag(),
		&ucli.Uint64Flag{Name: "seed", Value: 1, Usage: "first `SEED` of the draws among equal nodes; the others follow it"},
		&ucli.IntFlag{Name: "seeds", Value: 5, Usage: "play every profile with this `NUMBER` of seeds"},
		report.Flag(),
		&ucli.StringFlag{Name: "output", Aliases: []string{"o"}, Value: "table", Usage: "`FORMAT`: table, csv or json"},
	}, slices.Concat(AutoscalerFlags(), recording.WindowFlags())...)
}

// blocks is the number of stretches of time before dependent ones are joined.
const blocks = 512

// spare lets garbage grow to one and a half times what is in use, unless the user says how far: its collection would take a quarter of the
// time.
var spare = sync.OnceFunc(func() {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(150)
	}
})

func run(c *ucli.Context) error {
	if err := checkFormat(c); err != nil {
		return err
	}
	p, err := playerOf(c)
	if err != nil {
		return err
	}
	page, err := report.Begin(c, "compare on "+filepath.Base(c.Args().First()), p.seeds, work.FlagNames+" log-dir log-level")
	if err != nil {
		return err
	}
	printed, err := p.report(c, formats[c.String("output")], &page)
	if err != nil {
		return err
	}
	return errors.Join(printed, page.Write(c, nil))
}

func checkFormat(c *ucli.Context) error {
	if formats[c.String("output")] == nil {
		return exit.Usagef("--output %q: choose table, csv or json", c.String("output"))
	}
	return nil
}

// report plays everything, puts the figures onto the page, and prints them. printed is the error of that.
func (p *player) report(c *ucli.Context, write func(io.Writer, result) error, page *report.Run) (printed, err error) {
	log, closer, err := cli.Log(c, c.Command.Name, cli.OnTerminal())
	if err != nil {
		return nil, err
	}
	defer closer.Close()
	p.bar = cli.NewBar(c.App.ErrWriter, cli.OnTerminal(), log)
	defer p.bar.Close()
	if c.IsSet("html") {
		p.journal = &journal{waits: eval.Tally{Soon: soon}}
	}
	r, err := p.result(c)
	p.bar.Close()
	if err != nil {
		return nil, err
	}
	r.onto(page)
	return write(c.App.Writer, r), nil
}

// result plays the profiles, on workers if there are some.
func (p *player) result(c *ucli.Context) (r result, err error) {
	ctx := c.Context
	if p.pool, err = work.Enlist(c, p.bar.Note); err != nil {
		return r, err
	}
	if p.pool != nil {
		defer p.pool.Close()
		ctx = p.pool.Until(ctx)
		if err := p.away(ctx, c); err != nil {
			return r, err
		}
	}
	return p.all(ctx)
}

// playerOf reads the flags and the record.
func playerOf(c *ucli.Context) (*player, error) {
	term, err := objective.Parse(c.String("objective"))
	if err == nil && slices.ContainsFunc(term, func(w objective.Weighted) bool { return objective.Measured(w.Term) }) {
		err = errors.New("a replay cannot measure usage; choose terms about requests, such as balance or pack")
	}
	if err == nil && slices.ContainsFunc(term, func(w objective.Weighted) bool { return objective.Talks(w.Term) }) {
		err = errors.New("a record does not say who talks to whom; choose terms about requests, such as balance or pack")
	}
	if err == nil {
		err = term.NoQueue()
	}
	if err != nil {
		return nil, exit.New(exit.Usage, fmt.Errorf("--objective: %w", err), "")
	}
	chosen, err := recording.Profiles(c)
	if err != nil {
		return nil, err
	}
	n := c.Int("seeds")
	if n < 2 || n > 1000 {
		return nil, exit.Usagef("--seeds %d is outside 2 to 1000: one seed cannot tell a difference from a draw", n)
	}
	prices, err := recording.Prices(c)
	if err != nil {
		return nil, err
	}
	search, err := searchOf(c)
	if err != nil {
		return nil, err
	}
	p, err := newPlayer(c, search, chosen, eval.Seeds(c.Uint64("seed"), n))
	if err != nil {
		return nil, err
	}
	if p.contenders[0].setting.Scaler != "" && prices != nil {
		return nil, exit.New(exit.Usage, errNoPrices, "")
	}
	p.config.Objective, p.config.Prices = term, prices
	return p, p.read(c)
}

// newPlayer returns a player of profiles, the present one first, with each autoscaler. It still needs records and an objective.
func newPlayer(c *ucli.Context, s *search, chosen []server.Profile, seeds []uint64) (*player, error) {
	spare()
	all, err := settings(c, s)
	if err != nil {
		return nil, err
	}
	var contenders []contender
	for _, x := range all {
		for i := range chosen {
			contenders = append(contenders, contender{i, x})
		}
	}
	return &player{search: s, chosen: chosen, contenders: contenders, seeds: seeds, config: replay.Config{Blocks: blocks}}, nil
}

// read reads the record.
func (p *player) read(c *ucli.Context) error {
	p.window = p.windowOf(c)
	source, err := recording.Source(c, p.window)
	p.sources = []replay.Source{source}
	return err
}

// player plays one course after another.
type player struct {
	scenario eval.Scenario // that the sources are of; without a name, they are a record
	window   replay.Window
	sources  []replay.Source  // one for all seeds, or one for each
	chosen   []server.Profile // the present one first
	// contenders are the rows to be, the present profile with the first autoscaler first.
	contenders []contender
	config     replay.Config
	journal    *journal               // nil without --html
	pool       *work.Pool             // nil: all is played here
	played     map[turn]replay.Course // by the pool
	bar        *cli.Bar
	seeds      []uint64
	search     *search // nil: there is none
	done       int
}

// all plays what really happened and the profiles, the present one first.
func (p *player) all(ctx context.Context) (result, error) {
	decoded, err := server.Config{Profiles: p.chosen, QPS: 1}.Decode()
	if err != nil {
		return result{}, err
	}
	p.config.Profile = decoded.Profiles[0]
	if p.config.Scaling, err = p.contenders[0].setting.scaling(); err != nil {
		return result{}, err
	}
	var names []string
	var courses []runs
	if p.sources[0].Bound() {
		real, err := p.play(ctx, reality, p.seeds[0], replay.Real)
		if err != nil {
			return result{}, err
		}
		names, courses = append(names, reality), append(courses, runs{real})
	}
	for i, x := range p.contenders {
		name := x.name(p.chosen)
		p.config.Profile = decoded.Profiles[x.profile]
		if p.config.Scaling, err = x.setting.scaling(); err != nil {
			return result{}, err
		}
		var all runs
		for _, seed := range p.seeds {
			course, played := p.played[turn{i, seed}]
			if !played {
				if course, err = p.play(ctx, name, seed, replay.Run); err != nil {
					return result{}, err
				}
			}
			all = append(all, course)
		}
		names, courses = append(names, name), append(courses, all)
	}
	view := view{priced: p.config.Prices != nil, scaled: p.contenders[0].setting.Scaler != ""}
	whole := p.sources[0]
	for _, s := range p.sources[1:] {
		whole.Pods, whole.To = slices.Concat(whole.Pods, s.Pods), max(whole.To, s.To)
	}
	out := compare(&whole, view, names, courses, p.seeds)
	out.Scenario, out.About = p.scenario.Name, p.scenario.About
	if p.search != nil {
		p.conclude(&out)
	}
	out.Objective, out.Observed = p.config.Objective.Name(), p.journal.observed()
	return out, nil
}

type play func(context.Context, replay.Source, replay.Config) (replay.Course, error)

// play plays the course of a profile with a seed, or of what really happened. The journal follows the first seed.
func (p *player) play(ctx context.Context, contender string, seed uint64, play play) (replay.Course, error) {
	c, name := p.config, fmt.Sprintf("%s, seed %d", contender, seed)
	if contender == reality {
		name = "what really happened"
	}
	c.Seed = seed
	source := p.sources[min(slices.Index(p.seeds, seed), len(p.sources)-1)]
	c.Progress = func(done float64) { p.show(name, done, fmt.Sprintf("%s: %.0f %%", name, 100*done)) }
	if seed == p.seeds[0] {
		p.journal.follow(&c, contender, &source, len(p.contenders)+1)
	}
	out, err := play(ctx, source, c)
	p.done++
	if err != nil {
		return out, fmt.Errorf("play %s: %w", name, err)
	}
	return out, nil
}

// show reports the progress of a part.
func (p *player) show(name string, done float64, text string) {
	p.bar.Show((float64(p.done)+done)/float64(len(p.contenders)*len(p.seeds)+1), name, text)
}

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
	Setting   setting
	Seed      uint64
}

// turn is a course that a worker plays: which contender, and with which seed.
type turn struct {
	contender int
	seed      uint64
}

// away lets workers play all courses but those that the journal follows.
func (p *player) away(ctx context.Context, c *ucli.Context) error {
	t := task{Window: p.window, Objective: p.config.Objective.(objective.Mix), Prices: p.config.Prices}
	var err error
	if t.Record, err = remote.SendFile(ctx, p.pool.Queue, c.Args().First()); err != nil {
		return fmt.Errorf("send the record: %w", err)
	}
	var units []workers.Unit
	var turns []turn
	for i, x := range p.contenders {
		profile := p.chosen[x.profile]
		t.Setting = x.setting
		if err := t.give(ctx, p.pool.Queue, profile); err != nil {
			return fmt.Errorf("%s: %w", profile.SchedulerName, err)
		}
		for _, t.Seed = range p.seeds {
			if p.journal != nil && t.Seed == p.seeds[0] {
				continue
			}
			u := workers.Unit{Kind: Kind, About: fmt.Sprintf("%s, seed %d", x.name(p.chosen), t.Seed), Blobs: t.blobs()}
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
	spare()
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
	scaling, err := t.Setting.scaling()
	if err != nil {
		return nil, err
	}
	course, err := replay.Run(ctx, p.source, replay.Config{
		Profile: decoded.Profiles[0], Objective: t.Objective, Prices: t.Prices, Scaling: scaling, Blocks: blocks, Seed: t.Seed,
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
