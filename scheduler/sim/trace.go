package sim

import (
	"fmt"
	"math/rand/v2"
	"os"

	"gnnsched/workload"
	"gnnsched/workload/trace"
)

// Trace says which pods arrive when, and for how long they run, by a file.
type Trace struct {
	File string `json:"file"` // a CSV in any format of package tracefile
	// Pods is how many of them an episode has at least, from a place that the seed decides
	// on; 0 stands for all.
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

// noWorkload refuses the fields about pods where something else decides on them.
func (c Config) noWorkload(by string, bad func(string, ...any)) {
	for _, x := range []struct {
		field string
		given bool
	}{
		{"shapes", len(c.Shapes) > 0}, {"shapeKinds", c.ShapeKinds != IntRange{}}, {"requests", c.Requests != nil},
		{"replicas", c.Replicas != IntRange{}}, {"load", c.Load != FloatRange{}}, {"initial", c.Initial != 0},
		{"turnover", c.Turnover != 0}, {"arrivals", c.Arrivals != Arrivals{}}, {"lifetimes", c.Lifetimes != Lifetimes{}},
	} {
		if x.given {
			bad("%s: the %s decides on the pods; leave this out", x.field, by)
		}
	}
}

func (t Trace) read() (workload.Trace, error) {
	f, err := os.Open(t.File)
	if err != nil {
		return nil, fmt.Errorf("trace: %w", err)
	}
	defer f.Close() // it is only read
	read, err := trace.Auto.Read(f, t.File)
	if err != nil {
		return nil, fmt.Errorf("trace: %w", err)
	}
	out := read.Arrivals
	if pods := out.Pods(); pods < t.Pods {
		return nil, fmt.Errorf("trace: %s has %d pods, of which an episode cannot have %d", t.File, pods, t.Pods)
	}
	return out, nil
}

// window draws consecutive arrivals with at least so many pods, or all for 0.
func window(rng *rand.Rand, t workload.Trace, pods int) workload.Trace {
	if pods == 0 {
		return t
	}
	starts := len(t) // that leave enough pods after them
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
