package liverun

import (
	"cmp"
	"slices"
	"sync"
	"time"

	"gnnsched/scheduler/replay"
	"gnnsched/workload/record"
	"gnnsched/workload/record/play"
)

// step is a change of the number of pods at a time.
type step struct {
	at int64
	by int
}

// most returns the highest number that steps lead to. At one time, pods go before others come.
func most(steps []step) (out int) {
	slices.SortFunc(steps, func(a, b step) int { return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(a.by, b.by)) })
	n := 0
	for _, s := range steps {
		n += s.by
		out = max(out, n)
	}
	return out
}

// rows keeps the last state of each pod and node. It implements observe.Sink.
type rows struct {
	mu    sync.Mutex
	pods  map[string]record.Pod
	nodes map[string]record.Node
}

func (r *rows) Pod(p record.Pod) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.pods[p.UID] = p
}

func (r *rows) Node(n record.Node) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if n.To == 0 {
		r.nodes[n.Name] = n
	}
}

func (r *rows) Object(record.Object) {}

// pace translates real times, in milliseconds since 1970, into the record's times.
type pace struct {
	from  int64     // of the record
	start time.Time // the real time that corresponds to it
	speed float64
}

func (p pace) at(real int64) int64 {
	if real == 0 {
		return 0
	}
	return p.from + int64(float64(real-p.start.UnixMilli())*p.speed)
}

// Late is the delay of pods against the record, in seconds of the record.
type Late struct {
	Mean float64 `json:"mean"`
	Most float64 `json:"most"`
}

// course puts the recording of a run into a copy of the source, and returns the pods' delays.
func (r *rows) course(s replay.Source, played play.Replay, p pace) (replay.Source, Late) {
	r.mu.Lock()
	defer r.mu.Unlock()
	first := map[string]record.Pod{} // the first pod of a name: the driver creates preempted ones again
	for _, own := range r.pods {
		if f, seen := first[own.Name]; !seen || cmp.Or(cmp.Compare(own.Arrived, f.Arrived), cmp.Compare(own.UID, f.UID)) < 0 {
			first[own.Name] = own
		}
	}
	s.Pods, s.Nodes, s.Objects, s.Notes = nil, nil, nil, nil
	for _, n := range r.nodes {
		n.From, n.To, n.Gone = s.From, 0, false
		s.Nodes = append(s.Nodes, n)
	}
	for _, own := range r.pods {
		part, ok := played.Parts[own.Name]
		if !ok {
			continue
		}
		row := *part.Row
		row.UID, row.Node, row.End = own.UID, own.Node, own.End
		row.Arrived, row.Bound, row.Ended = p.at(own.Arrived), p.at(own.Bound), p.at(own.Ended)
		if part.Node != "" && !row.Daemon && first[own.Name].UID == own.UID { // it ran at the beginning; a preempted one waits anew
			row.Arrived, row.Bound = part.Row.Arrived, part.Row.Bound
		}
		if row.Ended >= s.To { // the end of the run
			row.Ended, row.End = 0, ""
		}
		s.Pods = append(s.Pods, row)
	}
	slices.SortFunc(s.Nodes, func(a, b record.Node) int { return cmp.Compare(a.Name, b.Name) })
	slices.SortFunc(s.Pods, func(a, b record.Pod) int { return cmp.Or(cmp.Compare(a.Arrived, b.Arrived), cmp.Compare(a.UID, b.UID)) })
	var late Late
	n := 0.0
	for name, own := range first {
		if part, ok := played.Parts[name]; ok && part.Row.Arrived > s.From {
			d := max(float64(p.at(own.Arrived)-part.Row.Arrived)/1000, 0)
			late.Mean, late.Most, n = late.Mean+d, max(late.Most, d), n+1
		}
	}
	late.Mean /= max(n, 1)
	return s, late
}
