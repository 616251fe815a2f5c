package replay

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"time"

	"gnnsched/scheduler/memcluster"
	"gnnsched/workload/record"
	rows "gnnsched/workload/record/play"
)

// Source holds the parts of a record that a replay needs. Callers that ask "what if" may change pods and nodes before the replay.
type Source struct {
	Pods    []record.Pod // by arrival
	Nodes   []record.Node
	Objects []record.Object
	// From and To are the window, in milliseconds since 1970.
	From, To int64
	// Notes describe faults of the record and omissions of the figures.
	Notes []string
	// Devices are those at To; nil if they are not known.
	Devices *memcluster.Devices

	gaps []span // times within the window without recording
}

// Window is the time of a record that is replayed. Zero times are the record's own beginning and end.
type Window struct {
	From, To time.Time
	// State asks for the cluster at To only. From does not count, and a record of one instant has all that is needed.
	State bool
	// Instant makes the window of a record of one instant a millisecond long. Without it, such a record is an error.
	Instant bool
}

// span is a time in milliseconds.
type span struct{ from, to int64 }

// Read reads a record and corrects impossible data, such as pods that end before they begin. It returns an error if the record cannot be
// replayed.
func Read(r *record.Record, w Window) (Source, error) {
	var s Source
	var errs [4]error
	var runs []record.Run
	s.Pods, errs[0] = r.Pods()
	s.Nodes, errs[1] = r.Nodes()
	s.Objects, errs[2] = r.Objects()
	runs, errs[3] = r.Runs()
	if err := errors.Join(errs[:]...); err != nil {
		return s, err
	}
	for _, d := range r.Damaged() {
		s.Notes = append(s.Notes, "left out, because it cannot be read: "+d)
	}
	if len(s.Nodes) == 0 {
		return s, errors.New("the record has no nodes")
	}
	if len(s.Pods) == 0 {
		return s, errors.New("the record has no pods")
	}
	s.correct()
	s.LeaveUnoffered()
	if err := s.limit(runs, w); err != nil {
		return s, err
	}
	there := slices.DeleteFunc(slices.Clone(s.Pods), func(p record.Pod) bool { return p.Arrived >= s.To || p.Ended != 0 && p.Ended <= s.From })
	if note := rows.NamespaceNote("the record", there, s.Objects); note != "" {
		s.Notes = append(s.Notes, note)
	}
	return s, nil
}

// correct puts times into a possible order, and notes the number of corrected rows.
func (s *Source) correct() {
	var pods, nodes, nowhere, timeless int
	for i := range s.Pods {
		p := &s.Pods[i]
		old := *p
		if p.Bound != 0 {
			p.Arrived = min(p.Arrived, p.Bound)
		}
		if p.Ended != 0 && p.Ended < max(p.Bound, p.Arrived) {
			p.Ended = max(p.Bound, p.Arrived)
		}
		if *p != old {
			pods++
		}
		switch {
		case p.Bound != 0 && p.Node == "":
			p.Bound = 0
			nowhere++
		case p.Bound == 0 && p.Node != "":
			timeless++
		}
	}
	slices.SortStableFunc(s.Pods, func(a, b record.Pod) int {
		return cmp.Or(cmp.Compare(a.Arrived, b.Arrived), cmp.Compare(a.UID, b.UID))
	})
	for i := range s.Nodes {
		n := &s.Nodes[i]
		if n.To != 0 && n.To < n.From {
			n.To = n.From
			nodes++
		}
	}
	s.note(pods,
		"pods were bound before they arrived or ended before they began, as after a clock was set back; the earlier time counts as the later one")
	s.note(nowhere, "pods were bound to a node without a name; they count as waiting")
	s.note(timeless, "pods have a node, but not the time at which they got it; they count as waiting")
	s.note(nodes, "states of nodes ended before they began, as after a clock was set back; they count for no time")
}

func (s *Source) note(n int, what string) {
	if n > 0 {
		s.Notes = append(s.Notes, fmt.Sprintf("%d %s", n, what))
	}
}

// limit finds the window and the gaps in it.
func (s *Source) limit(runs []record.Run, w Window) error {
	backwards := 0
	var watched []span
	for _, r := range runs {
		if r.To < r.From {
			backwards++
			continue
		}
		watched = append(watched, span{r.From, r.To})
		if r.Lost > 0 {
			s.Notes = append(s.Notes, fmt.Sprintf("%d rows were lost while it was recorded", r.Lost))
		}
		if r.Missing != "" {
			s.Notes = append(s.Notes, "not recorded: "+r.Missing)
		}
	}
	s.note(backwards, "times of watching end before they begin, as after a clock was set back; they are left out")
	if len(watched) == 0 {
		watched = []span{s.extent()}
	}
	watched = union(watched)
	s.From, s.To = watched[0].from, watched[len(watched)-1].to
	if w.State {
		return s.stateAt(w.To)
	}
	if s.To == s.From && w.Instant {
		s.To++
	}
	if !w.From.IsZero() {
		s.From = max(s.From, w.From.UnixMilli())
	}
	if !w.To.IsZero() {
		s.To = min(s.To, w.To.UnixMilli())
	}
	if s.To <= s.From {
		return fmt.Errorf("no time is left to replay: the record is of %s to %s", at(watched[0].from), at(watched[len(watched)-1].to))
	}
	var missing int64
	for i := 1; i < len(watched); i++ {
		if g := (span{max(watched[i-1].to, s.From), min(watched[i].from, s.To)}); g.to > g.from {
			s.gaps = append(s.gaps, g)
			missing += g.to - g.from
		}
	}
	if missing > 0 {
		s.Notes = append(s.Notes,
			fmt.Sprintf("nobody watched for %v (gaps: %d); figures and waits leave this time out, and waits also the pods that arrived in it",
				time.Duration(missing)*time.Millisecond, len(s.gaps)))
	}
	return nil
}

// stateAt makes the millisecond from t on the window; that from the end on for no time.
func (s *Source) stateAt(t time.Time) error {
	ms := s.To
	if !t.IsZero() {
		ms = t.UnixMilli()
	}
	if ms < s.From || ms > s.To {
		return fmt.Errorf("%s is not in the record, which is of %s to %s", at(ms), at(s.From), at(s.To))
	}
	s.From, s.To = ms, ms+1
	return nil
}

func at(ms int64) string { return time.UnixMilli(ms).UTC().Format(time.RFC3339) }

// extent returns the time that pods and nodes name, for a record without recording times.
func (s *Source) extent() span {
	out := span{s.Nodes[0].From, s.Nodes[0].From}
	for _, n := range s.Nodes {
		out.from, out.to = min(out.from, n.From), max(out.to, n.From, n.To)
	}
	for _, p := range s.Pods {
		out.to = max(out.to, p.Arrived, p.Bound, p.Ended)
	}
	return out
}

// union joins spans that touch, and returns them in order.
func union(list []span) []span {
	slices.SortFunc(list, func(a, b span) int { return cmp.Or(cmp.Compare(a.from, b.from), cmp.Compare(a.to, b.to)) })
	out := list[:1]
	for _, x := range list[1:] {
		if last := &out[len(out)-1]; x.from <= last.to {
			last.to = max(last.to, x.to)
		} else {
			out = append(out, x)
		}
	}
	return out
}

// Bound reports whether the source knows of any pod of the window that it got a node, and when. Records of traces do not.
func (s *Source) Bound() bool {
	return slices.ContainsFunc(s.Pods, func(p record.Pod) bool {
		return !p.Daemon && p.Bound != 0 && p.Arrived < s.To && (p.Ended == 0 || p.Ended > s.From)
	})
}

// Watched returns how many milliseconds between two times were recorded. Both are milliseconds since 1970.
func (s *Source) Watched(from, to int64) int64 {
	out := to - from
	for _, g := range s.gaps {
		out -= max(min(to, g.to)-max(from, g.from), 0)
	}
	return out
}
