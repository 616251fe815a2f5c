package plan

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"

	"gnnsched/scheduler/memcluster"
	"gnnsched/scheduler/replay"
	"gnnsched/workload/record"
)

// MisfitError names pods that fit no type.
type MisfitError struct {
	Profile string
	Pods    []Unplaced // one of each kind
	Count   int        // of all such pods
}

// maxMisfits is the number of pods that the error names.
const maxMisfits = 5

// Error implements error.
func (e *MisfitError) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%d pods fit no type under %s", e.Count, e.Profile)
	for _, p := range e.Pods[:min(len(e.Pods), maxMisfits)] {
		fmt.Fprintf(&b, "\n  %s: %s", plain(p.Pod), plain(p.Why))
	}
	if more := len(e.Pods) - maxMisfits; more > 0 {
		fmt.Fprintf(&b, "\n  and %d more that differ from them", more)
	}
	return b.String()
}

// class are pods that fit the same types.
type class struct {
	on      []bool // by type: whether its empty node takes such a pod
	control bool   // whether a control-plane node does
	pods    int
}

// fitting are the classes of the work under one profile.
type fitting struct {
	classes []class
	of      map[shape]int // the class of each shape
	misfits []Unplaced    // an example of each shape that fits nowhere
	lost    int           // pods of these shapes
}

// shape has what decides whether an empty node takes a pod.
type shape struct {
	record.Pod
}

// shapeOf leaves out what does not matter on an empty node. Affinity to other pods and what spreads with them are as without other pods.
func shapeOf(p *record.Pod) shape {
	s := record.Pod{
		MilliCPU: p.MilliCPU, Memory: p.Memory, GPU: p.GPU, GPUMilli: p.GPUMilli, GPUModels: p.GPUModels, Extended: p.Extended,
		NodeSelector: p.NodeSelector, Affinity: p.Affinity, Spread: p.Spread, Tolerations: p.Tolerations, HostPorts: p.HostPorts,
		Namespace: "gnnsched-plan", // in which no DaemonSet is
	}
	var a v1.Affinity
	if p.Affinity != "" && record.ReadColumn(p.Affinity, &a) == nil {
		s.Affinity = record.JSON(v1.Affinity{NodeAffinity: a.NodeAffinity})
	}
	return shape{s}
}

// settleAgents finds out which DaemonSets run on which nodes of the types: those whose pods an empty node takes.
func (f *fleet) settleAgents(ctx context.Context, p Profile) error {
	clear(f.agents)
	cluster, err := f.empty(ctx, p)
	if err != nil {
		return err
	}
	for i := range f.sets {
		refused, err := f.refused(ctx, cluster, replay.Pod(&f.sets[i]))
		if err != nil {
			return err
		}
		for k, why := range refused[:len(f.agents)] {
			if why == "" {
				f.agents[k] = append(f.agents[k], f.sets[i])
			}
		}
	}
	return nil
}

// empty returns a cluster with one node of each type in each of its zones, the control-plane nodes, and the pods of DaemonSets that no
// work preempts.
func (f *fleet) empty(ctx context.Context, p Profile) (*memcluster.Placements, error) {
	counts := make([]int, len(f.types))
	for k := range f.types {
		counts[k] = len(f.types[k].Nodes)
	}
	s := f.with(counts)
	s.Pods = slices.DeleteFunc(slices.Clone(s.Pods), func(r record.Pod) bool { return !r.Daemon || r.Priority < f.top })
	cluster, _, err := replay.End(ctx, s, p.KubeSchedulerProfile)
	return cluster, err
}

// refused returns why each node of empty refuses a pod, "" if it does not: first the nodes of the types, then one text for the
// control-plane nodes together.
func (f *fleet) refused(ctx context.Context, cluster *memcluster.Placements, pod *v1.Pod) ([]string, error) {
	choice, err := cluster.Choose(ctx, pod)
	if err != nil {
		return nil, err
	}
	var out []string
	for k := range f.types {
		t := &f.types[k]
		for i := range t.Nodes {
			out = append(out, choice.Refused[fmt.Sprintf("%s-%d", t.Name, i)])
		}
	}
	control := "there is none"
	for i := range f.control {
		if why, is := choice.Refused[f.control[i].Name]; !is {
			return append(out, ""), nil
		} else {
			control = why
		}
	}
	return append(out, control), nil
}

// classify finds out which types each pod fits.
func (f *fleet) classify(ctx context.Context, p Profile) (*fitting, error) {
	cluster, err := f.empty(ctx, p)
	if err != nil {
		return nil, err
	}
	out, known := &fitting{of: map[shape]int{}}, map[string]int{}
	for i := range f.source.Pods {
		r := &f.source.Pods[i]
		if r.Daemon || r.Arrived >= f.source.To || r.Ended != 0 && r.Ended <= f.source.From {
			continue
		}
		sh := shapeOf(r)
		at, is := out.of[sh]
		if !is {
			pod := sh.Pod
			pod.UID, pod.Name = r.UID, r.Name
			refused, err := f.refused(ctx, cluster, replay.Pod(&pod))
			if ctx.Err() != nil {
				return nil, context.Cause(ctx)
			}
			at = -1 // a plugin fails on it: a replay leaves it out
			if err == nil {
				c := f.classOf(refused)
				key := fmt.Sprint(c)
				if at, is = known[key]; !is {
					at = len(out.classes)
					known[key], out.classes = at, append(out.classes, c)
				}
				if c.nowhere() {
					out.misfits = append(out.misfits, Unplaced{r.Namespace + "/" + r.Name, r.Workload, f.why(refused)})
				}
			}
			out.of[sh] = at
		}
		if at >= 0 {
			out.classes[at].pods++
			if out.classes[at].nowhere() {
				out.lost++
			}
		}
	}
	slices.SortFunc(out.misfits, func(a, b Unplaced) int { return cmp.Compare(a.Pod, b.Pod) })
	return out, nil
}

func (f *fleet) classOf(refused []string) class {
	c := class{on: make([]bool, len(f.types)), control: refused[len(refused)-1] == ""}
	for k := range f.types {
		for i := range f.types[k].Nodes {
			c.on[k] = c.on[k] || refused[f.first[k]+i] == ""
		}
	}
	return c
}

func (c class) nowhere() bool { return !c.control && !slices.Contains(c.on, true) }

// within reports whether the pods of c fit only nodes on which pods of o fit.
func (c class) within(o class) bool {
	for k, on := range c.on {
		if on && !o.on[k] {
			return false
		}
	}
	return !c.control || o.control
}

// why lists each type's reason for refusing a pod.
func (f *fleet) why(refused []string) string {
	var out []string
	for k := range f.types {
		out = append(out, f.types[k].Name+": "+refused[f.first[k]])
	}
	return strings.Join(out, "; ")
}

// sets returns the classes whose needs are bounded, those with most pods first: each with all pods that fit nowhere else, and all pods
// together.
func (x *fitting) sets(types int) []class {
	all := class{on: make([]bool, types), control: slices.ContainsFunc(x.classes, func(c class) bool { return c.control })}
	for k := range all.on {
		all.on[k] = true
	}
	sorted := slices.SortedStableFunc(slices.Values(x.classes), func(a, b class) int { return cmp.Compare(b.pods, a.pods) })
	sorted = slices.DeleteFunc(sorted, func(c class) bool { return c.nowhere() || c.within(all) && all.within(c) })
	return append([]class{all}, sorted[:min(len(sorted), maxSets)]...)
}

// maxSets is the number of classes that are bounded besides all pods together.
const maxSets = 8

// counts returns a function that reports whether a pod fits only nodes of a set.
func (x *fitting) counts(set class) func(*record.Pod) bool {
	return func(p *record.Pod) bool {
		at := x.of[shapeOf(p)]
		return at >= 0 && !x.classes[at].nowhere() && x.classes[at].within(set)
	}
}
