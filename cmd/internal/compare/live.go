package compare

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"

	ucli "github.com/urfave/cli/v2"

	"gnnsched/internal/exit"
	"gnnsched/scheduler/eval/liverun"
	"gnnsched/scheduler/eval/testbed"
	"gnnsched/scheduler/replay"
)

// liveConfig holds the settings of --live.
type liveConfig struct {
	launcher testbed.Launcher
	dir      string // of the record
	logDir   string
	speed    float64
}

// liveRow has the figures of a profile's real scheduler on a simulated cluster.
type liveRow struct {
	row                  // with its differences from the simulated row
	Late    liverun.Late `json:"late"`    // delay of pods against the record
	Differs []string     `json:"differs"` // why it may differ from the simulated row
}

// readLive reads the flags of --live, and checks that the machine can play the record.
func (p *player) readLive(c *ucli.Context, launcher func(string) (testbed.Launcher, error)) error {
	if !c.Bool("live") {
		for _, name := range []string{"speed", "kwokcluster"} {
			if c.IsSet(name) {
				return exit.New(exit.Usage, fmt.Errorf("--%s has no effect without --live", name), "add --live")
			}
		}
		return nil
	}
	if s := c.Float64("speed"); c.IsSet("speed") && !(s > 0 && s <= 1e6) {
		return exit.Usagef("--speed %v: choose a number over 0 and up to 1e6; 60 plays an hour of the record in a minute", s)
	}
	speed, err := liverun.Speed(&p.source, c.Float64("speed"))
	if err != nil {
		return err
	}
	l, err := launcher(c.String("kwokcluster"))
	if err != nil {
		return err
	}
	p.live = &liveConfig{launcher: l, dir: c.Args().First(), logDir: c.String("log-dir"), speed: speed}
	p.parts, p.courses = p.parts+len(p.chosen), p.courses+len(p.chosen)
	return nil
}

// confirm adds a live row to each simulated one, whose courses are given.
func (p *player) confirm(ctx context.Context, r *result, simulated []runs) error {
	r.Speed = p.live.speed
	for i, profile := range p.chosen {
		name := profile.SchedulerName
		profile.Deadline.Duration = 0 // that of a scheduler which is deployed
		out, err := liverun.Run(ctx, liverun.Config{
			Launcher: p.live.launcher, Dir: p.live.dir, Source: p.source, Profile: profile, Speed: p.live.speed, LogDir: p.live.logDir, Log: p.log,
			Progress: func(done float64, text string) { p.show(name+" live", done, name+" live: "+text) },
		})
		p.done++
		if err != nil {
			return fmt.Errorf("play %s live: %w", name, err)
		}
		config := p.config
		p.journal.follow(&config, name+liveSuffix, &out.Source, p.courses)
		course, err := replay.Real(ctx, out.Source, config)
		if err != nil {
			return fmt.Errorf("sum up %s live: %w", name, err)
		}
		live := rowOf(name, runs{course})
		live.Fallbacks, live.Differences = out.Fallbacks, map[string]difference{}
		for _, f := range figures {
			live.Differences[f.name] = differ(simulated[i], runs{course}, f, rand.New(rand.NewPCG(p.config.Seed, 1)))
		}
		r.Rows[r.baseline()+i].Live = &liveRow{row: live, Late: out.Late, Differs: out.Differs}
	}
	return nil
}

// confirmed describes the differences between the live rows and the simulated ones, and their possible causes. It is empty without --live.
func (r result) confirmed() (lines []string) {
	if r.Speed == 0 {
		return nil
	}
	lines = append(lines, fmt.Sprintf("How far live is from simulated, at speed %.3g", r.Speed))
	var why []string
	for _, x := range r.Rows[r.baseline():] {
		if x.Live == nil {
			lines = append(lines, fmt.Sprintf("  %s: not played live to the end", x.Name))
			continue
		}
		lines = append(lines, fmt.Sprintf("  %s: %s", x.Name, r.list(x.Live.Differences)))
		for _, w := range x.Live.Differs {
			if !slices.Contains(why, w) {
				why = append(why, w)
			}
		}
		why = append(why, fmt.Sprintf("%s: pods came %.1f s of the record late on average, %.1f s at most",
			x.Name, x.Live.Late.Mean, x.Live.Late.Most))
	}
	if len(why) > 0 {
		lines = append(lines, "They may differ because")
		for _, w := range why {
			lines = append(lines, "  "+w)
		}
	}
	return lines
}

// list renders the differences of a row.
func (r result) list(d map[string]difference) string {
	var out []string
	for _, f := range r.shown() {
		out = append(out, f.title+" "+d[f.name].text(f))
	}
	return strings.Join(out, ", ")
}
