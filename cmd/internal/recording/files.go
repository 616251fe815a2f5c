package recording

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"gnnsched/internal/exit"
	"gnnsched/workload/record"
	"gnnsched/workload/record/live"
	"gnnsched/workload/record/observe"
)

const (
	kubectl = "kubectl get pods,nodes -A -o json prints such a file"
	logIn   = "kubectl auth can-i list pods -A says whether you may read them; log in, and run kubectl get again"
	broken  = "a file that is cut off, packed or malformed may lack pods; make it anew, or take it out of the folder"
)

// readFiles reads files and the files of folders. It returns an error if none has a node or a pod.
func readFiles(paths []string) (out []observe.File, all sayings, err error) {
	found := false
	for _, path := range paths {
		inside, err := dumped(path)
		if err != nil {
			return nil, all, exit.New(exit.Usage, err, kubectl)
		}
		all.passed = append(all.passed, inside.passed...)
		before := len(out)
		for _, p := range inside.files {
			f, err := readFile(p)
			switch refusal := (observe.Refusal{}); {
			case errors.As(err, &refusal):
				return nil, all, exit.New(exit.Usage, err, logIn)
			case inside.folder && observe.NoObjects(err):
				all.other.Join(p, observe.Few{Objects: 1, First: errors.Unwrap(err).Error()})
				continue
			case inside.folder && err != nil:
				return nil, all, exit.New(exit.Usage, err, broken)
			case err != nil:
				return nil, all, exit.New(exit.Usage, err, kubectl)
			}
			found = found || len(f.Nodes)+len(f.Pods) > 0
			all.doubted.Join(f.Path, f.Doubt())
			all.add(&f)
			out = append(out, f)
		}
		slices.SortStableFunc(out[before:], observe.Older)
	}
	all.date(out)
	if !found {
		return nil, all, exit.New(exit.Usage, fmt.Errorf("%s: no node and no pod%s", strings.Join(paths, ", "), all.instead()), kubectl)
	}
	return out, all, nil
}

// inside lists the files that an argument names.
type inside struct {
	files  []string
	folder bool
	passed []string // skipped files of the folder
}

// endings are the endings of file names that are read in a folder.
var endings = []string{".json", ".jsonl", ".yaml", ".yml"}

// dumped returns the JSON and YAML files in a folder and in those below it, as kubectl cluster-info dump, must-gather and support bundles
// write them. A path of a file names that file only.
func dumped(path string) (out inside, err error) {
	if path == "-" {
		return inside{files: []string{path}}, nil
	}
	if info, err := os.Stat(path); err != nil || !info.IsDir() {
		return inside{files: []string{path}}, err
	}
	out.folder = true
	root := strings.TrimSuffix(path, "/") + "/" // the folder to which a link leads
	read := map[string]bool{}
	err = filepath.WalkDir(root, func(p string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() && strings.HasSuffix(p, "-preferredversion") {
			return fs.SkipDir // Velero has the same objects beside it
		}
		if err != nil || d.IsDir() {
			return err
		}
		file, _ := filepath.EvalSymlinks(p) // for a broken link, isRegular returns the error
		switch {
		case read[file]: // by another name
		case slices.Contains(endings, strings.ToLower(filepath.Ext(p))) && isRegular(p):
			out.files = append(out.files, p)
			read[file] = true
		default:
			out.passed = append(out.passed, p)
		}
		return nil
	})
	if err == nil && len(out.files) == 0 {
		err = fmt.Errorf("%s: the folder has no .json or .yaml file", path)
	}
	return out, err
}

// isRegular reports whether a path leads to a regular file, also by a link. Opening a pipe could wait forever.
func isRegular(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular()
}

func readFile(path string) (observe.File, error) {
	if path == "-" {
		o, err := observe.ReadObjects(os.Stdin, "standard input")
		return observe.File{Objects: o, Path: "standard input", At: time.Now().UnixMilli()}, err
	}
	f, err := os.Open(path)
	if err != nil {
		return observe.File{}, err
	}
	defer f.Close() // it is only read
	info, err := f.Stat()
	if err != nil {
		return observe.File{}, err
	}
	o, err := observe.ReadObjects(f, path)
	return observe.File{Objects: o, Path: path, At: max(info.ModTime().UnixMilli(), 1)}, err
}

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
