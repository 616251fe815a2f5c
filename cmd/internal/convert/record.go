package convert

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/rs/zerolog"
	ucli "github.com/urfave/cli/v2"

	"gnnsched/internal/exit"
	"gnnsched/workload/record"
	"gnnsched/workload/record/observe"
	"gnnsched/workload/record/restore"
)

// measuredFlags are the flags that have no effect on a record.
var measuredFlags = []string{"format", "part", "step", "days", "limit", "request-percentile", "no-requests"}

// toRecord makes a record of Prometheus' history, or a new one of kubectl's output or of a trace.
func toRecord(c *ucli.Context, log zerolog.Logger) error {
	for _, f := range measuredFlags {
		if c.IsSet(f) {
			return exit.Usagef("--%s has no effect on a record; leave it out", f)
		}
	}
	dir := c.String("out")
	if c.IsSet("prometheus") {
		return historyToRecord(c, log)
	}
	if record.Is(dir) {
		return exit.New(exit.Usage, fmt.Errorf("%s is a record already", dir), "name another folder with --out")
	}
	if isTraces(c.Args().Slice()) {
		return traceToRecord(c, log)
	}
	files, said, err := readFiles(c.Args().Slice())
	if err != nil {
		return err
	}
	looks, err := observe.Looks(files)
	if err != nil {
		return exit.New(exit.Usage, err, "touch -d TIME FILE sets the time of a file")
	}
	said.log(log)
	out, err := record.Create(dir, record.Options{})
	if err != nil {
		return exit.New(exit.Usage, err, "name another folder with --out")
	}
	w := &spaces{Writer: out}
	var now int64
	f := observe.NewFollower(observe.Config{Out: w, Now: func() int64 { return now }})
	known := observe.NewKnown()
	for _, look := range looks {
		now = look[len(look)-1].At
		warnOf(look, known.Look(look), log)
		known.Tell(f)
	}
	from := looks[0][len(looks[0])-1].At
	out.Run(record.Run{ID: "1", Source: "kubectl", From: from, To: now, Missing: said.missing(), Program: c.App.Version})
	n := f.Counts()
	switch {
	case n.Nodes == 0:
		log.Warn().Msg("no file has a node, so gnnsched plan and compare refuse the record; kubectl get nodes -o json prints them")
	case n.Pods+n.Ended == 0:
		log.Warn().Msg("no file has a pod, so gnnsched plan and compare refuse the record; kubectl get pods -A -o json prints them")
	}
	if note := restore.NamespaceNote("the file", w.pods, w.objects); note != "" {
		log.Warn().Msg(note + "; kubectl get namespaces -o json prints them")
	}
	log.Info().Str("out", dir).Int("looks", len(looks)).Str("from", at(from)).Str("to", at(now)).
		Int("nodes", n.Nodes).Int("pods", n.Pods).Int("waiting", n.Waiting).Int("ended", n.Ended).Msg("converted")
	return closed(out, log)
}

// spaces is a record that keeps the rows that say which namespaces pods select.
type spaces struct {
	*record.Writer
	pods    []record.Pod
	objects []record.Object
}

// Pod implements observe.Sink.
func (s *spaces) Pod(p record.Pod) {
	s.Writer.Pod(p)
	if p.Ended == 0 {
		s.pods = append(s.pods, p)
	}
}

// Object implements observe.Sink.
func (s *spaces) Object(o record.Object) {
	s.Writer.Object(o)
	s.objects = append(s.objects, o)
}

// warnOf says what a look leaves open.
func warnOf(look []observe.File, a observe.Assumed, log zerolog.Logger) {
	last := look[len(look)-1].Path
	if a.Pods > 0 {
		log.Warn().Str("file", last).Int("pods", a.Pods).Str("first", a.Pod).
			Msg("this file, and those of its time, list other namespaces; the pods of the others are taken to be there still")
	}
	if a.Nowhere > 0 {
		log.Warn().Str("file", last).Int("pods", a.Nowhere).Str("node", a.NodeLess).Msg("pods are on nodes that no file has")
	}
}

const (
	kubectl = "kubectl get pods,nodes -A -o json prints such a file"
	logIn   = "kubectl auth can-i list pods -A says whether you may read them; log in, and run kubectl get again"
)

// readFiles reads files, and the files of folders. They have a node or a pod at least.
func readFiles(paths []string) (out []observe.File, all sayings, err error) {
	found := false
	for _, path := range paths {
		inside, folder, err := dumped(path)
		if err != nil {
			return nil, all, exit.New(exit.Usage, err, kubectl)
		}
		before := len(out)
		for _, p := range inside {
			f, err := readFile(p)
			if refusal := (observe.Refusal{}); errors.As(err, &refusal) {
				return nil, all, exit.New(exit.Usage, err, logIn)
			}
			if folder && observe.NoObjects(err) {
				all.other.Join(p, observe.Few{Objects: 1, First: errors.Unwrap(err).Error()})
				continue
			}
			if err != nil {
				return nil, all, exit.New(exit.Usage, err, kubectl)
			}
			found = found || len(f.Nodes)+len(f.Pods) > 0
			all.add(&f)
			out = append(out, f)
		}
		slices.SortStableFunc(out[before:], func(a, b observe.File) int { return cmp.Compare(a.At, b.At) })
	}
	all.date(out)
	if !found {
		return nil, all, exit.New(exit.Usage, fmt.Errorf("%s: no node and no pod%s", strings.Join(paths, ", "), all.instead()), kubectl)
	}
	return out, all, nil
}

// dumped returns the JSON and YAML files in a folder and in those below it, as kubectl cluster-info dump, must-gather and support bundles
// write them. A file stands for itself.
func dumped(path string) (files []string, folder bool, err error) {
	if path == "-" {
		return []string{path}, false, nil
	}
	if info, err := os.Stat(path); err != nil || !info.IsDir() {
		return []string{path}, false, err
	}
	err = filepath.WalkDir(path, func(p string, d fs.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() && slices.Contains([]string{".json", ".yaml", ".yml"}, filepath.Ext(p)) {
			files = append(files, p)
		}
		return err
	})
	if err == nil && len(files) == 0 {
		err = fmt.Errorf("%s: the folder has no .json or .yaml file", path)
	}
	return files, true, err
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
