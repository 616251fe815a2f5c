package sim

import (
	"fmt"
	"math/rand/v2"
	"os"

	"gnnsched/workload"
	"gnnsched/workload/trace"
)

// Trace reads from a file which pods arrive when and how long they run.
type Trace struct {
	File string `json:"file"` // a CSV in any format of package trace
	// Pods is the least number of pods in an episode. An episode is a part of the trace that
	// begins where the seed decides. 0 means the whole trace.
	Pods int `json:"pods,omitempty"`
}

func (c Config) validateTrace(bad func(string, ...any)) {
	if c.Trace.File == "" {
		bad("trace.file: is missing")
	}
	if c.Trace.Pods < 0 {
		bad("trace.pods: %d must be 0 or more", c.Trace.Pods)
	}
	c.noWorkload("trace", bad)
}

// noWorkload refuses the fields about pods, because the named source decides on the pods.
func (c Config) noWorkload(source string, bad func(string, ...any)) {
	for _, x := range []struct {
		field string
		given bool
	}{
		{"shapes", len(c.Shapes) > 0}, {"shapeKinds", c.ShapeKinds != IntRange{}}, {"requests", c.Requests != nil},
		{"replicas", c.Replicas != IntRange{}}, {"load", c.Load != FloatRange{}}, {"initial", c.Initial != 0},
		{"turnover", c.Turnover != 0}, {"arrivals", c.Arrivals != Arrivals{}}, {"lifetimes", c.Lifetimes != Lifetimes{}},
	} {
		if x.given {
			bad("%s: the %s decides on the pods; leave this out", x.field, source)
		}
	}
}

func (t Trace) read() (workload.Trace, error) {
	f, err := os.Open(t.File)
	if err != nil {
		return nil, fmt.Errorf("trace: %w", err)
	}
	defer f.Close() // the file is only read
	read, err := trace.Auto.Read(f, t.File)
	if err != nil {
		return nil, fmt.Errorf("trace: %w", err)
	}
	out := read.Arrivals
	if pods := out.Pods(); pods < t.Pods {
		return nil, fmt.Errorf("trace: %s has only %d pods, but an episode is to have %d; lower trace.pods", t.File, pods, t.Pods)
	}
	return out, nil
}

// window draws a part of t with at least the given number of pods; 0 means all of t.
func window(rng *rand.Rand, t workload.Trace, pods int) workload.Trace {
	if pods == 0 {
		return t
	}
	starts := len(t) // the last arrival with enough pods from it on
	for left := 0; left < pods; {
		starts--
		left += t[starts].Deployment.Replicas
	}
	from := rng.IntN(starts + 1)
	to := from
	for n := 0; n < pods; to++ {
		n += t[to].Deployment.Replicas
	}
	return t[from:to]
}
