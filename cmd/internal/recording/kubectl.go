// Package recording reads the flags and arguments that the commands on records share: the record, the window of time, and the profiles.
package recording

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/rs/zerolog"
	ucli "github.com/urfave/cli/v2"

	"gnnsched/internal/each"
	"gnnsched/internal/exit"
	"gnnsched/internal/files"
	"gnnsched/scheduler/eval/contender"
	"gnnsched/scheduler/policy/neural"
	"gnnsched/scheduler/replay"
	"gnnsched/scheduler/server"
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
	if earlier, later, object := observe.Disorder(looks); earlier != "" {
		log.Warn().Str("earlier", earlier).Str("later", later).Str("object", object).
			Msg("the files' times say another order than the times in them; touch -d TIME FILE sets the time of a file")
	}
	out, err := record.Create(dir, record.Options{})
	if err != nil {
		return exit.New(exit.Usage, err, "name another folder with --out")
	}
	w := &spaces{Writer: out, pods: map[string]record.Pod{}, objects: map[objectKey]record.Object{}}
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
	w.notes(log)
	if err := Closed(out, log); err != nil {
		return err
	}
	log.Info().Str("out", dir).Int("looks", len(looks)).Str("from", at(from)).Str("to", at(now)).
		Int("nodes", n.Nodes).Int("pods", n.Pods).Int("waiting", n.Waiting).Int("ended", n.Ended).
		Str("owners", n.Owners).Msg("converted")
	return nil
}

// spaces is a record that keeps the last rows of what is there, which determine the namespaces that pods select, and the pods' owners.
type spaces struct {
	*record.Writer
	pods    map[string]record.Pod // by UID
	objects map[objectKey]record.Object
}

type objectKey struct {
	kind, namespace, name string
	from                  int64
}

// Pod implements observe.Sink.
func (s *spaces) Pod(p record.Pod) {
	s.Writer.Pod(p)
	if s.pods[p.UID] = p; p.Ended != 0 {
		delete(s.pods, p.UID)
	}
}

// Object implements observe.Sink.
func (s *spaces) Object(o record.Object) {
	s.Writer.Object(o)
	s.objects[objectKey{o.Kind, o.Namespace, o.Name, o.From}] = o
}

// notes logs what the pods need and the files lack, and how the owners of pods contradict them.
func (s *spaces) notes(log zerolog.Logger) {
	pods := slices.SortedFunc(maps.Values(s.pods), func(a, b record.Pod) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
	objects := slices.Collect(maps.Values(s.objects))
	if note := play.NamespaceNote("the file", pods, objects); note != "" {
		log.Warn().Msg(note + "; kubectl get namespaces -o json prints them")
	}
	_, notes := record.Owners(pods, objects)
	for _, note := range notes {
		log.Warn().Msg(note)
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

// CheckpointFlag returns the flag --checkpoint that Profiles reads.
func CheckpointFlag() ucli.Flag {
	return &ucli.StringSliceFlag{Name: "checkpoint", Usage: "use a network from a `FILE`, linear weights from a .json file, " +
		"or a KubeSchedulerConfiguration from a .yaml file; NAME=FILE sets its name; repeatable"}
}

// patience is the deadline of networks: a replay does not depend on how fast this machine is.
const patience = time.Hour

// Profiles returns the profiles of --present (first, if the command has this flag), of --profile, and of the files of --checkpoint. Files
// replace the default of --profile.
func Profiles(c *ucli.Context) ([]server.Profile, error) {
	var out []server.Profile
	if present := c.String("present"); present != "" {
		p, err := presentOf(present)
		if err != nil {
			return nil, err
		}
		out = append(out, p)
	}
	files := c.StringSlice("checkpoint")
	if len(files) == 0 || c.IsSet("profile") {
		for _, name := range c.StringSlice("profile") {
			p, err := named("profile", name)
			if err != nil {
				return nil, err
			}
			if !has(out, p.SchedulerName) {
				out = append(out, p)
			} else if isFile(c.String("present")) && out[0].SchedulerName == p.SchedulerName {
				return nil, exit.Usagef("--profile %s: the file of --present has that name; name it with NAME=FILE", name)
			}
		}
	}
	for _, f := range files {
		p, err := fromFile(f)
		if err != nil {
			return nil, err
		}
		if has(out, p.SchedulerName) {
			return nil, exit.Usagef("--checkpoint %s: there is a profile %s already; name the file with NAME=FILE", f, p.SchedulerName)
		}
		out = append(out, p)
	}
	return out, nil
}

// Profile returns the profile of a file of --checkpoint, or the one that --profile names if file is empty.
func Profile(name, file string) (server.Profile, error) {
	if file != "" {
		return fromFile(file)
	}
	return named("profile", name)
}

func has(list []server.Profile, name string) bool {
	return slices.ContainsFunc(list, func(p server.Profile) bool { return p.SchedulerName == name })
}

// presentOf returns the cluster's present profile: a built-in one, or the one in a file.
func presentOf(name string) (server.Profile, error) {
	if !isFile(name) {
		return named("present", name)
	}
	p, err := fromFile(name)
	if err != nil {
		return p, fmt.Errorf("--present: %w", err)
	}
	return p, nil
}

// isFile reports whether an argument is [NAME=]FILE. Names of profiles have neither = nor a point.
func isFile(argument string) bool { return strings.ContainsAny(argument, "=.") }

// named returns the profile that a flag names; "default" is upstream's.
func named(flag, name string) (server.Profile, error) {
	if name == "default" {
		name = server.DefaultProfile
	}
	p, err := server.ProfileNamed(name)
	if err != nil {
		return p, exit.New(exit.Usage, fmt.Errorf("--%s: %w", flag, err), "")
	}
	return patient(p), nil
}

func fromFile(name string) (server.Profile, error) {
	p, err := contender.FileProfile(name)
	if err != nil {
		return p, err
	}
	if p.Checkpoint != "" {
		if _, err := neural.Load(p.Checkpoint); err != nil {
			return p, err
		}
	}
	return patient(p), nil
}

// patient gives a network its deadline.
func patient(p server.Profile) server.Profile {
	if p.Variant != "" && p.Variant != server.DefaultProfile {
		p.Deadline.Duration = patience
	}
	return p
}

// PricesFlag returns the flag --prices that Prices reads.
func PricesFlag() ucli.Flag {
	return &ucli.StringFlag{Name: "prices", Usage: "YAML `FILE` with what nodes cost an hour"}
}

// Prices reads the file of --prices; nil without it.
func Prices(c *ucli.Context) (*replay.Prices, error) {
	path := c.String("prices")
	if path == "" {
		return nil, nil
	}
	text, err := files.Read(path, files.Text)
	if err != nil {
		return nil, exit.New(exit.Usage, fmt.Errorf("--prices: %w", err), "docs/how-to/compare.md shows such a file")
	}
	p, err := replay.ParsePrices(text)
	if err != nil {
		return nil, exit.New(exit.Usage, fmt.Errorf("--prices %s: %w", path, err), "docs/how-to/compare.md shows such a file")
	}
	return p, nil
}

// WindowFlags returns the flags that Window reads.
func WindowFlags() []ucli.Flag {
	return []ucli.Flag{
		&ucli.TimestampFlag{Name: "from", Layout: time.RFC3339,
			Usage: "replay from this `TIME` on, such as 2026-06-01T00:00:00Z; by default from the beginning"},
		&ucli.TimestampFlag{Name: "to", Layout: time.RFC3339, Usage: "replay until this `TIME`; by default to the end"},
	}
}

// Window returns the window of --from and --to.
func Window(c *ucli.Context) (w replay.Window) {
	if t := c.Timestamp("from"); t != nil {
		w.From = *t
	}
	if t := c.Timestamp("to"); t != nil {
		w.To = *t
	}
	return w
}

// Source reads a window of the record that the only argument names. Its errors have exit code exit.Usage.
func Source(c *ucli.Context, w replay.Window) (replay.Source, error) {
	if c.NArg() != 1 {
		return replay.Source{}, exit.New(exit.Usage, fmt.Errorf("there are %d arguments, want the folder of a record", c.NArg()),
			"gnnsched record --out prod.record writes one; kubectl get pods,nodes -A -o json prints a file that is read too, - from stdin")
	}
	return Open(c.Args().First(), w, c.App.ErrWriter)
}

// Open reads a window of the record in a folder, or of a file that kubectl printed (- is standard input) as a record of that moment. What
// such a file lacks is written to notes. Its errors are usage errors.
func Open(path string, w replay.Window, notes io.Writer) (s replay.Source, err error) {
	dir := path
	if info, err := os.Stat(path); path == "-" || err == nil && !info.IsDir() {
		temporary, err := os.MkdirTemp("", "gnnsched-")
		if err != nil {
			return s, err
		}
		defer os.RemoveAll(temporary)
		dir = filepath.Join(temporary, "now.record")
		log := zerolog.New(zerolog.ConsoleWriter{Out: notes, NoColor: true, PartsExclude: []string{zerolog.TimestampFieldName}})
		if err := FromKubectl(dir, "", []string{path}, log.Level(zerolog.WarnLevel)); err != nil {
			return s, err
		}
	}
	r, err := record.Open(dir)
	if err != nil {
		hint := "" // record.Open says which files the folder lacks
		if errors.Is(err, os.ErrNotExist) {
			hint = "gnnsched record --out prod.record writes a record"
		}
		return s, exit.New(exit.Usage, fmt.Errorf("read the record: %w", err), hint)
	}
	if s, err = replay.Read(r, w); err != nil {
		hint := "choose another time within the record, or a record of a longer time"
		if dir != path {
			hint = "what kubectl printed is one moment; gnnsched convert --out x.record 1.json 2.json makes a record of several, " +
				"and gnnsched record follows a cluster"
		}
		return s, exit.New(exit.Usage, fmt.Errorf("%s: %w", path, err), hint)
	}
	return s, nil
}

// sayings collects the differences between files and the record made of them.
type sayings struct {
	skipped map[string]int         // objects that a record has no place for, by kind
	leftOut map[string]observe.Few // objects that cannot be read, by kind
	bounded observe.Few
	undated observe.Few
	unsized observe.Few
	doubted observe.Few // objects with times long after their files
	older   observe.Few // files that are older than something in them
	other   observe.Few // files of a folder without objects
	passed  []string    // skipped files of a folder
}

// add collects the differences of one file.
func (s *sayings) add(f *observe.File) {
	if s.skipped == nil {
		s.skipped, s.leftOut = map[string]int{}, map[string]observe.Few{}
	}
	for kind, n := range f.Skipped {
		s.skipped[kind] += n
	}
	for kind, few := range f.LeftOut {
		all := s.leftOut[kind]
		all.Join(f.Path, few)
		s.leftOut[kind] = all
	}
	s.bounded.Join(f.Path, f.Bounded)
	s.undated.Join(f.Path, f.Undated)
	s.unsized.Join(f.Path, f.Unsized)
}

// day is the largest expected error of clocks and time zones.
const day = int64(24 * time.Hour / time.Millisecond)

// date corrects the times of files that are older than something in them, because a machine's clock or time zone was wrong: each is at
// least as new as the newest time in it. All files move with the latest of them, so that their distances stay.
func (s *sayings) date(files []observe.File) {
	late := int64(0)
	for _, f := range files {
		if by := f.Newest.At - f.At; by > 0 {
			why := fmt.Sprintf("it is of %s, and %s has a time of %s", at(f.At), f.Newest.Of, at(f.Newest.At))
			s.older.Join(f.Path, observe.Few{Objects: 1, First: why})
			if by <= day {
				late = max(late, by)
			}
		}
	}
	for i := range files {
		files[i].At = max(files[i].At+late, files[i].Newest.At)
	}
}

func at(ms int64) string { return time.UnixMilli(ms).UTC().Format(time.RFC3339) }

// log logs all differences, each once.
func (s *sayings) log(log zerolog.Logger) {
	warn := func(few observe.Few, what, message string) {
		if few.Objects > 0 {
			log.Warn().Int(what, few.Objects).Str("first", few.First).Msg(message)
		}
	}
	warn(s.other, "files", "files of the folder hold no objects of Kubernetes, and are left out")
	if len(s.passed) > 0 {
		log.Warn().Int("files", len(s.passed)).Strs("first", s.passed[:min(3, len(s.passed))]).
			Msg("files of the folder are not read: they have other names than " + strings.Join(endings, ", ") + ", or are no files")
	}
	if kinds := s.kinds(); kinds != "" {
		log.Warn().Str("objects", kinds).Msg("a record has no place for these objects")
	}
	for _, kind := range slices.Sorted(maps.Keys(s.leftOut)) {
		few := s.leftOut[kind]
		log.Warn().Str("kind", kind).Int("objects", few.Objects).Str("first", few.First).Msg("objects that cannot be read are left out")
	}
	warn(s.bounded, "objects", "objects have amounts that no cluster has; the record bounds them")
	warn(s.undated, "pods", "pods do not say since when they are on their nodes; the time of the file counts")
	warn(s.unsized, "nodes", "the capacity of these nodes is unknown, so no pod fits there")
	warn(s.doubted, "objects", "objects have times more than a day after their file's, which are ignored")
	warn(s.older, "files", "files are older than something in them; the newest time in a file counts")
}

// kinds lists the kinds that a record cannot hold, such as "Service: 3, ConfigMap: 2".
func (s *sayings) kinds() string {
	kinds := slices.Sorted(maps.Keys(s.skipped))
	return strings.Join(each.Map(kinds, func(kind string) string { return fmt.Sprintf("%s: %d", kind, s.skipped[kind]) }), ", ")
}

// missing describes the parts of the cluster that the record lacks.
func (s *sayings) missing() string {
	out := each.Map(slices.Sorted(maps.Keys(s.leftOut)), func(kind string) string {
		return fmt.Sprintf("%d objects of kind %s that cannot be read", s.leftOut[kind].Objects, kind)
	})
	if s.unsized.Objects > 0 {
		out = append(out, fmt.Sprintf("the capacity of %d nodes", s.unsized.Objects))
	}
	return strings.Join(out, ", ")
}

// instead describes the content of files without nodes and pods; empty if they have no content.
func (s *sayings) instead() string {
	for _, kind := range slices.Sorted(maps.Keys(s.leftOut)) {
		return fmt.Sprintf("; left out, because it cannot be read: %s", s.leftOut[kind].First)
	}
	if kinds := s.kinds(); kinds != "" {
		return "; there are other objects: " + kinds
	}
	return ""
}
