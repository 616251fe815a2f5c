package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/rs/zerolog"

	"gnnsched/internal/cli"
	"gnnsched/internal/exit"
	"gnnsched/workload/driver"
	"gnnsched/workload/trace"
)

// simulation is one call of runsim: it deploys and writes the summary.
type simulation struct {
	approval
	config   driver.Config
	seed     *uint64 // of the plan; nil if no random numbers decide it
	ends     []string
	csv      string // file for the deployed workload; empty for none
	csvNamed bool   // the user named it; otherwise the run can do without
	format   string // of the summary
	terminal bool   // draw progress in place
	out, err io.Writer
	log      zerolog.Logger
}

// run applies the plan and writes the CSV and the summary, also if the plan fails halfway.
func (s *simulation) run(ctx context.Context) (err error) {
	if err := s.config.Validate(); err != nil {
		return err
	}
	if err := s.checkNodes(ctx); err != nil {
		return err
	}
	file, err := s.openCSV()
	if err != nil && s.csvNamed {
		return err
	}
	if err != nil {
		s.log.Warn().Err(err).Msg("what is deployed is not recorded; choose a file with --csv")
		s.csv = ""
	}
	view := cli.NewBar(s.err, s.terminal, s.log)
	s.config.Progress = func(p driver.Progress) {
		view.Show(p.Done, fmt.Sprint(p.Fill, p.Phase), p.String())
	}
	s.log.Info().Str("run", s.config.RunID).Str("scheduler", s.config.SchedulerName).Str("namespace", s.config.Namespace).
		Int("nodes", s.config.Room.Nodes).Stringer("load", s.config.Room.Load()).Msg("deploying")
	sum, err := driver.Run(ctx, s.config)
	view.Close()
	if len(sum.Fills) > 0 {
		err = errors.Join(err, driver.Report{Summary: sum, Seed: s.seed, CSV: s.csv, Ends: s.ends}.Write(s.out, s.format))
	}
	if file != nil {
		if cerr := file.Close(); cerr != nil {
			err = errors.Join(err, fmt.Errorf("close the CSV: %w", cerr))
		}
	}
	if n := len(sum.Fills); n > 0 && sum.Fills[n-1].Pods > 0 {
		s.log.Info().Msg("the pods of the last fill stay; `cleancluster --run " + sum.RunID + "` removes them")
	}
	return err
}

// openCSV creates the CSV and has the driver record every step in it.
func (s *simulation) openCSV() (*os.File, error) {
	path := s.csv
	if path == "" {
		return nil, nil
	}
	hint := "choose a file that you can write to with --csv, or --csv='' for none"
	if !s.csvNamed { // create the default log directory; the directory of --csv must exist
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return nil, exit.New(exit.Usage, fmt.Errorf("make the directory of the CSV: %w", err), hint)
		}
	}
	f, err := os.Create(path)
	if err != nil {
		return nil, exit.New(exit.Usage, fmt.Errorf("write the CSV: %w", err), hint)
	}
	w, err := trace.NewPlanWriter(f)
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	s.config.Record = w.WriteStep
	return f, nil
}
