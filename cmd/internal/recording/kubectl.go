package recording

import (
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
