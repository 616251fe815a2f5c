package convert

import (
	"context"
	"fmt"
	"io/fs"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"gnnsched/internal/exit"
	"gnnsched/workload/record"
	"gnnsched/workload/record/live"
	"gnnsched/workload/record/observe"
)

// record follows the cluster until the context ends, the time is over or the cluster refuses.
func (s *recordRun) record(ctx context.Context, cfg live.Config) error {
	for _, d := range s.damaged {
		s.log.Warn().Msg("a part of the record is damaged and is left as it is: " + d)
	}
	cfg.Follower = observe.NewFollower(observe.Config{Out: s.out, Now: s.now, Open: s.open, Anonymise: s.names})
	s.open = record.State{} // the follower has it
	cfg.Sample = func(m record.Sample) {
		record.Anonymise(s.names, &m)
		s.out.Sample(m)
	}
	begin := s.now()
	s.run = record.Run{ID: strconv.FormatInt(begin, 36), Source: "live", From: begin, Anonymised: s.names != nil, Program: s.program}
	work, stop := context.WithCancel(ctx)
	defer stop()
	if s.length > 0 {
		work, stop = context.WithTimeout(work, s.length)
		defer stop()
	}
	r := live.New(cfg)
	ended := make(chan error, 1)
	go func() { ended <- r.Run(work) }()
	s.log.Info().Str("out", s.dir).Msg("recording; Ctrl-C ends it and keeps the record")
	err := s.wait(r, cfg.Follower, ended)
	s.save(r, cfg.Follower, false)
	if s.failing {
		return exit.New(exit.Internal, fmt.Errorf("%s: the last rows could not be written", s.dir),
			"make room on the disk; what was written before can be read")
	}
	return err
}

// wait saves what happened now and then, until the recorder has ended.
func (s *recordRun) wait(r *live.Recorder, f *observe.Follower, ended chan error) error {
	first := time.NewTimer(min(s.flush, 10*time.Second)) // so that a short look at the cluster shows something
	defer first.Stop()
	tick := time.NewTicker(s.flush)
	defer tick.Stop()
	for {
		select {
		case err := <-ended:
			return err
		case <-first.C:
		case <-tick.C:
		}
		s.save(r, f, true)
	}
}

// save flushes the rows and reports the progress of the recording.
func (s *recordRun) save(r *live.Recorder, f *observe.Follower, merge bool) {
	s.run.To, s.run.Missing = s.now(), strings.Join(r.Lacks(), "; ")
	s.out.Run(s.run)
	done, err := s.out.Flush()
	switch {
	case err != nil && !s.failing:
		s.log.Error().Err(err).Int("rows", done.Pending).Msg("the disk does not take the record; recording goes on in memory")
	case err == nil && s.failing:
		s.log.Info().Msg("the disk takes the record again")
	}
	s.failing = err != nil
	if done.Lost > s.lost {
		s.log.Error().Int64("rows", done.Lost).Msg("the memory for the record is full; the oldest rows were dropped")
		s.lost = done.Lost
	}
	if r := done.Refused; r.Rows > s.refused {
		s.log.Warn().Int64("rows", r.Rows).AnErr("first", r.First).Msg("left out, because no cluster has such objects")
		s.refused = r.Rows
	}
	if merge && err == nil {
		cutoff := int64(0)
		if s.keep > 0 {
			cutoff = s.now() - s.keep.Milliseconds()
		}
		if err := s.out.Merge(cutoff); err != nil {
			s.log.Warn().Err(err).Msg("parts of the record stay as they are, because they cannot be merged")
		}
	}
	if t := r.Trouble(); t != s.trouble {
		s.log.Info().Int("failed", t.Failed).Int("invalid", t.Invalid).Int("unknown", t.Unknown).
			Int("noPods", t.NoPods).Int("noNodes", t.NoNodes).Msg("usage that Prometheus did not give, since the beginning")
		s.trouble = t
	}
	c := f.Counts()
	s.log.Info().Int("nodes", c.Nodes).Int("pods", c.Pods).Int("waiting", c.Waiting).Int("arrived", c.Arrived).Int("bound", c.Bound).
		Int("ended", c.Ended).
		Str("size", recordSize(s.dir)).Msg("recorded")
}

// recordSize returns the size of the files in a folder, for people.
func recordSize(dir string) string {
	total := int64(0)
	_ = filepath.WalkDir(dir, func(_ string, d fs.DirEntry, err error) error { // a file may go while we look
		if err != nil || !d.Type().IsRegular() {
			return nil //nolint:nilerr // see above
		}
		if info, err := d.Info(); err == nil {
			total += info.Size()
		}
		return nil
	})
	if total < 1<<20 {
		return fmt.Sprintf("%d kB", (total+1023)/1024)
	}
	return fmt.Sprintf("%.1f MB", float64(total)/(1<<20))
}
