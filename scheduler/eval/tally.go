package eval

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"

	"gnnsched/internal/cluster"
)

// mostClasses is the number of classes up to which each has a row of its own.
const mostClasses = 12

// Waits sums up the waiting times of a class of pods, in the unit of time of the frames.
type Waits struct {
	Contender string    `json:"contender"`
	Class     string    `json:"class"`
	Pods      int       `json:"pods"`                // all pods of the class
	Waited    int       `json:"waited"`              // pods that did not get a node at once, or within Tally.Soon
	Never     int       `json:"never"`               // of these, those without a node at the end; not in Quantiles
	Mean      float64   `json:"mean"`                // of the pods with a node
	Quantiles []float64 `json:"quantiles,omitempty"` // of the pods with a node, as Quantiles lists them
}

// Quantiles are the quantiles that Waits holds.
var Quantiles = []float64{0.5, 0.9, 0.95, 0.99, 1}

// Summarise sets the counts and quantiles of a class from the number of pods that got a node at once, the waiting times of pods that got
// one later, and the number of pods without one. It sorts the times.
func (w *Waits) Summarise(atOnce int, times []float64, never int) {
	slices.Sort(times)
	placed := atOnce + len(times)
	w.Pods, w.Waited, w.Never, w.Mean, w.Quantiles = placed+never, len(times)+never, never, 0, nil
	if placed == 0 {
		return
	}
	for _, t := range times {
		w.Mean += t / float64(placed)
	}
	for _, q := range Quantiles {
		v := 0.0
		if i := int(math.Ceil(q*float64(placed))) - 1 - atOnce; i >= 0 {
			v = times[i]
		}
		w.Quantiles = append(w.Quantiles, v)
	}
}

// Tally collects the waiting times of a scenario's pods, for rows of Waits by class. It is not safe for concurrent use.
type Tally struct {
	Soon float64 // a pod that got its node within this time has not waited
	of   map[string]map[Class]*waiting
}

// Class is the pods that request the same and may run on the same nodes.
type Class struct {
	Requests cluster.Resources
	Where    string // cluster.Pod.Where
}

// ClassOf returns the class of a pod.
func ClassOf(p *cluster.Pod) Class { return Class{p.Requests, p.Where()} }

// String names the class, as "500m CPU, 1 GiB, disk=ssd".
func (c Class) String() string { return cluster.KindText(c.Requests, c.Where) }

// compare orders classes, small ones first.
func (c Class) compare(d Class) int {
	a, b := c.Requests, d.Requests
	return cmp.Or(cmp.Compare(a.TotalGPUMilli(), b.TotalGPUMilli()), cmp.Compare(a.MilliCPU, b.MilliCPU), cmp.Compare(a.Memory, b.Memory),
		cmp.Compare(a.GPU, b.GPU), cmp.Compare(c.Where, d.Where))
}

// waiting holds the waits of the pods of a class.
type waiting struct {
	atOnce, never int
	times         []float64
}

// Add counts a contender's pod with its waiting time, and whether it got a node in the end.
func (t *Tally) Add(contender string, pods Class, wait float64, placed bool) {
	if t.of == nil {
		t.of = map[string]map[Class]*waiting{}
	}
	of := t.of[contender]
	if of == nil {
		of = map[Class]*waiting{}
		t.of[contender] = of
	}
	w := of[pods]
	if w == nil {
		w = &waiting{}
		of[pods] = w
	}
	switch {
	case !placed:
		w.never++
	case wait > 0:
		w.times = append(w.times, wait)
	default:
		w.atOnce++
	}
}

// Rows returns the waits of contenders by class. If there are too many, pods are classed by their GPUs, or without any by their CPUs.
func (t *Tally) Rows(contenders ...string) (rows []Waits) {
	all := map[Class]bool{}
	for _, of := range t.of {
		for c := range of {
			all[c] = true
		}
	}
	name := Class.String
	if len(all) > mostClasses {
		name = coarse
	}
	for _, c := range contenders {
		for _, x := range classes(t.of[c], name) {
			w := Waits{Contender: c, Class: x.name}
			w.Summarise(x.atOnce, x.times, x.never)
			for _, wait := range x.times {
				if wait <= t.Soon {
					w.Waited--
				}
			}
			rows = append(rows, w)
		}
	}
	return rows
}

// class is the waits of a class of pods.
type class struct {
	name string
	waiting
}

// classes returns the classes of pods by name, small ones first.
func classes(all map[Class]*waiting, name func(Class) string) (out []class) {
	at := map[string]int{}
	for _, r := range slices.SortedFunc(maps.Keys(all), Class.compare) {
		i, known := at[name(r)]
		if !known {
			i = len(out)
			at[name(r)] = i
			out = append(out, class{name: name(r)})
		}
		out[i].atOnce += all[r].atOnce
		out[i].never += all[r].never
		out[i].times = append(out[i].times, all[r].times...)
	}
	return out
}

// coarse names a range of requests.
func coarse(c Class) string {
	r := c.Requests
	switch gpu := r.TotalGPUMilli(); {
	case gpu >= 2000:
		return "several GPUs"
	case gpu >= 1000:
		return "one GPU"
	case gpu > 0:
		return "a share of a GPU"
	}
	for _, limit := range []int64{1, 4, 16, 64} {
		if r.MilliCPU < 1000*limit {
			return fmt.Sprintf("under %d CPU", limit)
		}
	}
	return "64 CPU or more"
}
