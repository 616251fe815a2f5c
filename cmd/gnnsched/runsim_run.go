package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/rs/zerolog"
	"k8s.io/utils/clock"

	"gnnsched/cmd/internal/progress"
	"gnnsched/internal/cluster"
	"gnnsched/internal/exit"
	"gnnsched/internal/runfolder"
	"gnnsched/workload/cleanup"
	"gnnsched/workload/driver"
	"gnnsched/workload/trace"
)

// simulation is one call of runsim: it deploys, writes the summary, and cleans up.
type simulation struct {
	approval
	config   driver.Config
	seed     *uint64 // of the plan; nil if no random numbers decide it
	csv      string  // file for the deployed workload; empty for none
	csvNamed bool    // the user named it; otherwise the run can do without
	format   string  // of the summary
	cleanup  bool    // remove everything at the end
	terminal bool    // draw progress in place
	folder   string  // for gnnsched report; empty for none
	manifest runfolder.Manifest
	out, err io.Writer
	log      zerolog.Logger
}

// cleanupPatience limits the removal at the end, which Ctrl-C does not stop.
var cleanupPatience = patience{5 * time.Minute, "the limit of"}

// run applies the plan and writes the CSV and the summary, also if the plan fails halfway. It then
// cleans up if that was asked for.
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
	finish, err := s.leaveFolder(ctx)
	if err != nil {
		if file != nil {
			err = errors.Join(err, file.Close())
		}
		return err
	}
	view := progress.New(s.err, s.terminal, s.log)
	s.config.Progress = func(p driver.Progress) {
		view.Show(p.Done, fmt.Sprint(p.Fill, p.Phase), p.String())
	}
	s.log.Info().Str("run", s.config.RunID).Str("scheduler", s.config.SchedulerName).Str("namespace", s.config.Namespace).
		Int("nodes", s.config.Room.Nodes).Stringer("load", s.config.Room.Load()).Msg("deploying")
	sum, err := driver.Run(ctx, s.config)
	view.Close()
	var printed error
	if len(sum.Fills) > 0 { // before the folder, which may have no room
		printed = driver.Report{Summary: sum, Seed: s.seed, CSV: s.csv}.Write(s.out, s.format)
	}
	err = errors.Join(finish(sum, err), printed)
	if file != nil {
		if cerr := file.Close(); cerr != nil {
			err = errors.Join(err, fmt.Errorf("close the CSV: %w", cerr))
		}
	}
	return errors.Join(err, s.after(ctx, sum))
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

// after removes everything that the run created, or prints how to remove it.
func (s *simulation) after(ctx context.Context, sum driver.Summary) error {
	if !s.cleanup {
		if n := len(sum.Fills); n > 0 && sum.Fills[n-1].Pods > 0 {
			s.log.Info().Msg("the pods of the last fill stay; `cleancluster --run " + sum.RunID + "` removes them")
		}
		return nil
	}
	// Clean up after Ctrl-C too. A second Ctrl-C ends the program.
	view := progress.New(s.err, s.terminal, s.log)
	defer view.Close()
	scope := cleanup.Scope{Run: s.config.RunID, Namespace: s.config.Namespace}
	if s.config.Replay != nil { // it has several namespaces, and priority classes
		scope.Namespace = ""
	}
	_, err := removeAll(context.WithoutCancel(ctx), s.config.Cleaner, scope, cleanupPatience, view)
	return err
}

// soon is the number of seconds up to which a wait counts as none in the waits by class: every pod of a real cluster waits for
// its scheduler a little.
const soon = 1

// leaveFolder makes the folder of --out and films the cluster into it. finish writes how the run ended, adds its
// own errors to the run's, and must be called.
func (s *simulation) leaveFolder(ctx context.Context) (finish func(driver.Summary, error) error, err error) {
	if s.folder == "" {
		return func(_ driver.Summary, err error) error { return err }, nil
	}
	if s.seed != nil {
		s.manifest.Seeds = []uint64{*s.seed}
	}
	s.manifest.Title = "runsim " + s.config.RunID + " with " + s.config.SchedulerName
	w, err := runfolder.Create(s.folder, s.manifest, clock.RealClock{})
	if err != nil {
		return nil, err
	}
	filmed, err := startFilm(context.WithoutCancel(ctx), s.config.Client, w, s.config.RunID, s.config.SchedulerName)
	if err != nil {
		return nil, errors.Join(err, w.Close(err))
	}
	waits := runfolder.Tally{Soon: soon}
	s.config.Waited = func(requests cluster.Resources, wait time.Duration, placed bool) {
		waits.Add(s.config.SchedulerName, requests, runfolder.Round(wait.Seconds()), placed)
	}
	return func(sum driver.Summary, err error) error {
		rows := append(fillRows(sum), waits.Rows(sum.RunID, sum.Scheduler)...)
		filmed.End()
		w.Add(rows...)
		own := w.Close(err)
		if own == nil {
			return err
		}
		return errors.Join(err, own)
	}, nil
}

// verdict returns how many pods got a node. Deployments replace preempted pods, so more pods may get a node than arrived.
func verdict(sum driver.Summary, placed, arrived int) string {
	text := fmt.Sprintf("%s placed %d of %d pods in %s", sum.Scheduler, min(placed, arrived), arrived, sum.Elapsed.Round(time.Second))
	if placed > arrived {
		text += fmt.Sprintf(", and %d that came in the place of preempted or deleted ones", placed-arrived)
	}
	return text
}

// fillRows are the rows of the folder about the fills.
func fillRows(sum driver.Summary) []runfolder.Row {
	fills := runfolder.Table{Scenario: sum.RunID, Title: "Fills", Columns: []string{
		"fill", "pods arrived", "ever placed", "pods at the end", "with a node", "without", "CPU requested", "memory requested", "seconds",
	}}
	reasons := runfolder.Table{Scenario: sum.RunID, Title: "Why pods had no node", Columns: []string{"fill", "pods", "reason"}}
	refused := runfolder.Table{Scenario: sum.RunID, Title: "Pods that the API server refused", Columns: reasons.Columns}
	arrived, placed := 0, 0
	for i, f := range sum.Fills {
		arrived, placed = arrived+f.Arrived, placed+f.Placed
		fills.Rows = append(fills.Rows, []string{
			fmt.Sprint(i + 1), fmt.Sprint(f.Arrived), fmt.Sprint(f.Placed), fmt.Sprint(f.Pods), fmt.Sprint(f.Bound), fmt.Sprint(f.Pods - f.Bound),
			fmt.Sprintf("%.1f %%", 100*f.Load.CPU), fmt.Sprintf("%.1f %%", 100*f.Load.Memory), fmt.Sprintf("%.1f", f.Elapsed.Seconds()),
		})
		for _, r := range f.Reasons {
			reasons.Rows = append(reasons.Rows, []string{fmt.Sprint(i + 1), fmt.Sprint(r.Pods), r.Message})
		}
		for _, r := range f.Refused {
			refused.Rows = append(refused.Rows, []string{fmt.Sprint(i + 1), fmt.Sprint(r.Pods), r.Message})
		}
	}
	rows := []runfolder.Row{
		runfolder.Scenario{Name: sum.RunID, About: "pods that runsim deployed to namespace " + sum.Namespace, TimeUnit: "seconds", Soon: soon},
		runfolder.Verdict{Scenario: sum.RunID, Contender: sum.Scheduler, State: runfolder.Note, Text: verdict(sum, placed, arrived)},
		fills,
	}
	for _, t := range []runfolder.Table{reasons, refused} {
		if len(t.Rows) > 0 {
			rows = append(rows, t)
		}
	}
	return rows
}
