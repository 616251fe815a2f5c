package recording

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/rs/zerolog"

	"gnnsched/internal/exit"
	"gnnsched/workload/record"
	"gnnsched/workload/record/observe"
	"gnnsched/workload/record/play"
)

// FromKubectl makes a record in the folder dir of files that kubectl printed, and logs what the record lacks. program is the version of
// this program.
func FromKubectl(dir, program string, paths []string, log zerolog.Logger) error {
	files, said, err := readFiles(paths)
	if err != nil {
		return err
	}
	looks, err := observe.Looks(files)
	if err != nil {
		return exit.New(exit.Usage, err, "touch -d TIME FILE sets the time of a file")
	}
	said.log(log)
	warnOfOrder(looks, log)
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
	out.Run(record.Run{ID: "1", Source: "kubectl", From: from, To: now, Missing: said.missing(), Program: program})
	n := f.Counts()
	switch {
	case n.Nodes == 0:
		log.Warn().Msg("no file has a node, so gnnsched plan and compare refuse the record; kubectl get nodes -o json prints them")
	case n.Pods+n.Ended == 0:
		log.Warn().Msg("no file has a pod, so gnnsched plan and compare refuse the record; kubectl get pods -A -o json prints them")
	}
	if note := play.NamespaceNote("the file", w.pods, w.objects); note != "" {
		log.Warn().Msg(note + "; kubectl get namespaces -o json prints them")
	}
	if err := Closed(out, log); err != nil {
		return err
	}
	log.Info().Str("out", dir).Int("looks", len(looks)).Str("from", at(from)).Str("to", at(now)).
		Int("nodes", n.Nodes).Int("pods", n.Pods).Int("waiting", n.Waiting).Int("ended", n.Ended).Msg("converted")
	return nil
}

// spaces is a record that keeps the rows which determine the namespaces that pods select.
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

// warnOfOrder warns if the files' times contradict the times in them.
func warnOfOrder(looks [][]observe.File, log zerolog.Logger) {
	if earlier, later, object := observe.Disorder(looks); earlier != "" {
		log.Warn().Str("earlier", earlier).Str("later", later).Str("object", object).
			Msg("the files' times say another order than the times in them; touch -d TIME FILE sets the time of a file")
	}
}

// warnOf logs the assumptions that a look needed.
func warnOf(look []observe.File, a observe.Assumed, log zerolog.Logger) {
	last := look[len(look)-1].Path
	if a.Pods > 0 {
		log.Warn().Str("file", last).Int("pods", a.Pods).Str("first", a.Pod).
			Msg("this file, and those of its time, list other namespaces; the pods of the others are taken to be there still")
	}
	if a.Lost > 0 {
		log.Warn().Str("file", last).Int("pods", a.Lost).Int("of", a.Of).
			Msg("this file, and those of its time, lack most pods of earlier ones, which are taken to have ended; " +
				"a list of some pods says so wrongly")
	}
	if a.Nowhere > 0 {
		log.Warn().Str("file", last).Int("pods", a.Nowhere).Str("node", a.NodeLess).Msg("pods are on nodes that no file has")
	}
}

// Closed closes a record and logs the rows that it refused.
func Closed(w *record.Writer, log zerolog.Logger) error {
	done, err := w.Close()
	if r := done.Refused; r.Rows > 0 {
		log.Warn().Int64("rows", r.Rows).AnErr("first", r.First).Msg("left out, because no cluster has such objects")
	}
	return err
}

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
