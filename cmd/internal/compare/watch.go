package compare

import (
	"gnnsched/internal/cluster"
	"gnnsched/scheduler/eval"
	"gnnsched/scheduler/replay"
	"gnnsched/workload/record"
)

// soon is the number of seconds up to which a wait counts as none in the counts by class: real schedulers take some time for
// every pod, and a record may have whole seconds only.
const soon = 1

// journal keeps what is seen of the courses: the cluster over time, a sample of the placements, and the waits by class.
// A nil one keeps nothing.
type journal struct {
	seen       eval.Observed
	waits      eval.Tally
	contenders []string
}

// follow makes the journal the watcher of a contender's course on a source. courses is the number of all courses.
func (j *journal) follow(c *replay.Config, contender string, s *replay.Source, courses int) {
	if j == nil {
		return
	}
	j.contenders = append(j.contenders, contender)
	names := map[string]bool{}
	for i := range s.Nodes {
		names[s.Nodes[i].Name] = true
	}
	arrivals := 0
	for i := range s.Pods {
		if p := &s.Pods[i]; !p.Daemon && p.Arrived < s.To && (p.Bound == 0 || p.Bound > s.From) && (p.Ended == 0 || p.Ended > s.From) {
			arrivals++
		}
	}
	sample := eval.Decisions(courses)
	c.Watch, c.Frames = &watch{journal: j, contender: contender, every: max((arrivals+sample-1)/sample, 1)},
		eval.Frames(len(names), courses)
}

// observed returns what was seen.
func (j *journal) observed() *eval.Observed {
	if j == nil {
		return nil
	}
	j.seen.Unit, j.seen.Soon, j.seen.Waits = "seconds", soon, j.waits.Rows(j.contenders...)
	return &j.seen
}

// watch keeps one course.
type watch struct {
	*journal
	contender string
	every     int // every how many placements one is kept
	placed    int
}

// Frame implements replay.Watcher.
func (w *watch) Frame(at float64, nodes []*cluster.Node, waiting int) {
	w.seen.Frames = append(w.seen.Frames, eval.Frame{
		Contender: w.contender, At: eval.Round(at), Waiting: waiting, Nodes: eval.Workers(nodes),
	})
}

// Placed implements replay.Watcher. Real placements have no scores.
func (w *watch) Placed(p replay.Placement) {
	if w.placed++; (w.placed-1)%w.every != 0 {
		return
	}
	d := eval.Decision{
		Contender: w.contender, At: eval.Round(p.At), Pod: p.Pod.Namespace + "/" + p.Pod.Name,
		Class: eval.ClassOf(requests(p.Pod)), Waited: eval.Round(p.Waited), Node: p.Node,
	}
	if c := p.By; c != nil {
		d.Feasible, d.Score, d.RunnerUp, d.RunnerUpScore = c.Feasible, float64(c.Score), c.RunnerUp, float64(c.RunnerUpScore)
		switch {
		case c.Feasible == 0:
			d.Note = "others were preempted"
		case c.Fallback:
			d.Note = "upstream's scores decided"
		}
	}
	w.seen.Decisions = append(w.seen.Decisions, d)
}

// Waited implements replay.Watcher.
func (w *watch) Waited(pod *record.Pod, seconds float64, placed bool) {
	w.waits.Add(w.contender, requests(pod), seconds, placed)
}

func requests(p *record.Pod) cluster.Resources {
	return cluster.Resources{MilliCPU: p.MilliCPU, Memory: p.Memory, GPU: p.GPU, GPUMilli: p.GPUMilli, Pods: 1}
}
