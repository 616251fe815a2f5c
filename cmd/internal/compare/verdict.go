package compare

import (
	"fmt"
	"math"
	"slices"

	"gnnsched/cmd/internal/report"
	"gnnsched/scheduler/eval"
)

// verdict judges a profile against the present one.
type verdict struct {
	Profile string       `json:"profile"`
	State   report.State `json:"state"`
	Text    string       `json:"text"` // a sentence without a full stop
}

// rule explains how differences are marked. Its arguments are the words for a mark and for an unclear one, and the name of the present
// profile.
const rule = "%s a difference whose 95 %% interval lies beyond the distance of the simulated %s from what really happened; " +
	"%s one whose interval excludes only 0."

// distance returns the difference of a figure between the simulated present profile and the real placements; 0 if it is not known.
func (r result) distance(f figure) float64 {
	return math.Abs(r.Rows[r.baseline()].Differences[f.name].Mean)
}

// mark returns the mark of a difference from the present profile, which must exceed the replay's distance from reality. An unknown distance
// counts as infinite. The mark is Unmarked if there is no interval or no pod came.
func (r result) mark(d difference, f figure) eval.Mark {
	if d.Low == nil || r.nothingCame() {
		return eval.Unmarked
	}
	far := r.distance(f)
	if r.Unrecorded != "" {
		far = math.Inf(1)
	}
	return d.interval().Beyond(far)
}

// verdict judges a profile by its cost, and by the pods that wait.
func (r result) verdict(x row) verdict {
	cost, waiting := figureOf("cost"), figureOf("waiting_pods")
	present, d := r.Rows[r.baseline()].Name, x.Differences[cost.name]
	amount := "cost " + d.text(cost)
	off := fmt.Sprintf("the replay is off by %.*f", cost.digits, r.distance(cost))
	direction := "less"
	if d.Mean > 0 {
		direction = "more"
	}
	out := verdict{Profile: x.Name}
	if r.nothingCame() {
		out.State, out.Text = report.Note, x.Name+": no pod came within this time, so nothing can be compared"
		return out
	}
	switch r.mark(d, cost) {
	case eval.Unmarked:
		out.State, out.Text = report.Note, fmt.Sprintf("%s was compared with %s over too little time to tell: %s", x.Name, present, amount)
	case eval.None:
		out.State, out.Text = report.Level, fmt.Sprintf("%s costs as much as %s: %s", x.Name, present, amount)
	case eval.Unclear:
		if r.Unrecorded != "" {
			off = "how far the replay is from what really happened is not known"
		}
		out.State, out.Text = report.Unclear,
			fmt.Sprintf("%s costs %s than %s in the replay only: %s, and %s", x.Name, direction, present, amount, off)
	case eval.Higher:
		out.State, out.Text = report.Worse, fmt.Sprintf("%s costs more than %s: %s, and %s", x.Name, present, amount, off)
	case eval.Lower:
		out.State, out.Text = report.Better, fmt.Sprintf("%s costs less than %s: %s, and %s", x.Name, present, amount, off)
		if w := x.Differences[waiting.name]; r.mark(w, waiting) == eval.Higher {
			out.State, out.Text = report.Note, fmt.Sprintf("%s, but more pods wait: %s", out.Text, w.text(waiting))
		}
	}
	return out
}

// nothingCame tells whether no row has a pod that waited for a node: all profiles then leave the cluster as it was.
func (r result) nothingCame() bool {
	return !slices.ContainsFunc(r.Rows, func(x row) bool { return x.Pods > 0 })
}

// figureOf returns the figure with a name that is written in this package.
func figureOf(name string) figure {
	for _, f := range figures {
		if f.name == name {
			return f
		}
	}
	panic("compare: no figure " + name)
}
