package recording

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/rs/zerolog"

	"gnnsched/workload/record/observe"
)

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
	var out []string
	for _, kind := range slices.Sorted(maps.Keys(s.skipped)) {
		out = append(out, fmt.Sprintf("%s: %d", kind, s.skipped[kind]))
	}
	return strings.Join(out, ", ")
}

// missing describes the parts of the cluster that the record lacks.
func (s *sayings) missing() string {
	var out []string
	for _, kind := range slices.Sorted(maps.Keys(s.leftOut)) {
		out = append(out, fmt.Sprintf("%d objects of kind %s that cannot be read", s.leftOut[kind].Objects, kind))
	}
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
