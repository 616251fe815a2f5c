//go:build torch

package main

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	ucli "github.com/urfave/cli/v2"

	"gnnsched/cmd/internal/work"
	"gnnsched/internal/exit"
	"gnnsched/internal/seeds"
	"gnnsched/internal/workers"
	"gnnsched/scheduler/learn"
)

// runs are those of --seeds.
type runs struct {
	files runFiles
	here  func(seed uint64, f runFiles) error // trains in this process
	whole func(seed uint64) (wholeRun, error) // describes a run for a worker
}

// of returns the paths of the run of a seed: those of --seeds, with the seed behind the names.
func (f runFiles) of(seed uint64) runFiles {
	behind := fmt.Sprintf("-%d", seed)
	named := func(path, extension string) string { return strings.TrimSuffix(path, extension) + behind + extension }
	out := runFiles{out: named(f.out, filepath.Ext(f.out)), events: f.events + behind}
	if out.state = out.out + ".state"; f.state != f.out+".state" {
		out.state = named(f.state, filepath.Ext(f.state))
	}
	return out
}

// jobRuns returns the runs of a job.
func jobRuns(c *ucli.Context, job learn.Job) runs {
	return runs{
		files: filesOf(c, job.Variant),
		here: func(seed uint64, f runFiles) error {
			j := job
			j.Seed = seed
			return trainJob(c, j, nil, f)
		},
		whole: func(seed uint64) (w wholeRun, err error) {
			j := job
			j.Seed = seed
			w.Config, err = json.Marshal(j)
			for _, path := range filesIn(&j) {
				w.Named = append(w.Named, *path)
			}
			if start := c.String("start"); start != "" {
				w.Inputs = [][2]string{{"--start", start}}
			}
			return w, err
		},
	}
}

// filesIn returns where a job names files. What it shares with its copies is replaced.
func filesIn(j *learn.Job) (out []*string) {
	j.Also = slices.Clone(j.Also)
	out = j.Environment.Files()
	for i := range j.Also {
		out = append(out, j.Also[i].Files()...)
	}
	if j.HeldOut != nil {
		c := *j.HeldOut
		j.HeldOut = &c
		out = append(out, c.Files()...)
	}
	if j.Judge != nil {
		c := *j.Judge
		j.Judge = &c
		out = append(out, c.Files()...)
	}
	for _, policy := range []*string{&j.Residual, &j.Imitation.Teacher} {
		if ext := filepath.Ext(*policy); ext == ".json" || ext == ".safetensors" {
			out = append(out, policy)
		}
	}
	return slices.DeleteFunc(out, func(path *string) bool { return *path == "" })
}

// train trains from every seed of --seeds where --workers says.
func (r runs) train(c *ucli.Context) error {
	all, err := seedsOf(c)
	if err != nil {
		return err
	}
	crew, err := work.Enlist(c, tells(c))
	if err != nil {
		return err
	}
	if crew == nil {
		for _, s := range all {
			if err := r.here(s, r.files.of(s)); err != nil {
				return fmt.Errorf("seed %d: %w", s, err)
			}
		}
		return nil
	}
	defer crew.Close()
	ctx := crew.Until(c.Context)
	units := make([]workers.Unit, len(all))
	for i, s := range all {
		w, err := r.whole(s)
		if err == nil {
			units[i], err = w.unit(ctx, crew.Queue, fmt.Sprintf("the run of seed %d", s))
		}
		if err != nil {
			return exit.New(exit.Usage, err, "")
		}
	}
	return crew.Queue.Run(ctx, units, crew.Waiting, func(i int, x workers.Result) error {
		return accept(c, x.Data, r.files.of(all[i]))
	})
}

// seedsOf returns the seeds of --seeds.
func seedsOf(c *ucli.Context) (out []uint64, err error) {
	for _, other := range []string{"seed", "resume"} {
		if c.IsSet(other) {
			return nil, exit.New(exit.Usage, fmt.Errorf("--seeds and --%s exclude each other", other),
				"leave one out; one seed's run continues with its own --out and --resume")
		}
	}
	text := c.String("seeds")
	for _, word := range strings.FieldsFunc(text, func(r rune) bool { return r == ',' || r == ' ' }) {
		s, err := strconv.ParseUint(word, 10, 64)
		if err == nil {
			err = seeds.CheckTraining(s)
		}
		if err != nil || slices.Contains(out, s) {
			return nil, exit.Usagef("--seeds %q: give different numbers from 1 to 1073741823, such as 1,2,3", text)
		}
		out = append(out, s)
	}
	if len(out) == 0 {
		return nil, exit.Usagef("--seeds is empty: give numbers, such as 1,2,3")
	}
	return out, nil
}
