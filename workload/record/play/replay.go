package play

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"

	corev1 "k8s.io/api/core/v1"

	"gnnsched/workload"
	"gnnsched/workload/record"
	"gnnsched/workload/record/restore"
)

// Replay is a record as it can be played on a cluster, with all constraints.
type Replay struct {
	// Trace has each pod by itself, under a name that no other pod has. Its shapes hold amounts and tolerations only.
	// A pod leaves when it really ended.
	Trace      workload.Trace
	Parts      map[string]Part              // by the names in Trace
	Namespaces map[string]map[string]string // the labels of the record's namespaces
	Notes      []string                     // what is not played, for people
}

// Part is what the record holds of a pod.
type Part struct {
	Row *record.Pod
	// Node is where the pod ran at the record's beginning or, as a DaemonSet's or static pod, at all. If it is empty, a
	// scheduler places the pod.
	Node string
}

// LoadReplay reads the pods of the record in a folder.
func LoadReplay(dir string) (Replay, error) {
	r, err := record.Open(dir)
	if err != nil {
		return Replay{}, err
	}
	pods, podsErr := r.Pods()
	objects, objectsErr := r.Objects()
	runs, runsErr := r.Runs()
	if err := errors.Join(podsErr, objectsErr, runsErr); err != nil {
		return Replay{}, fmt.Errorf("%s: %w", dir, err)
	}
	out, err := replayOf(pods, objects, runs)
	if err != nil {
		return Replay{}, fmt.Errorf("%s: %w", dir, err)
	}
	out.Notes = append(damage(r), out.Notes...)
	return out, nil
}

func replayOf(pods []record.Pod, objects []record.Object, runs []record.Run) (Replay, error) {
	out := Replay{Parts: map[string]Part{}, Namespaces: map[string]map[string]string{}}
	lacks, taken := map[string]int{}, map[string]bool{}
	start := begin(pods, runs)
	for i := range pods {
		p := &pods[i]
		if p.Ended != 0 && p.Ended <= start {
			continue
		}
		part := Part{Row: p}
		switch {
		case p.Daemon && p.Node == "":
			lacks["DaemonSet pods without a node"]++
			continue
		case p.Daemon, p.Bound != 0 && p.Bound <= start:
			part.Node = p.Node
		}
		shape, err := amountsOf(p)
		if err != nil { // anybody may create a pod that asks for more than there can be
			lacks["pods with requests that are out of range"]++
			continue
		}
		name := workload.FreeName(label(p.Name, "pod"), taken)
		taken[name] = true
		out.Parts[name] = part
		at := max(p.Arrived, start)
		a := workload.Arrival{At: float64(at-start) / 1000, Lifetime: math.Inf(1), Deployment: workload.Deployment{Name: name, Replicas: 1, Shape: shape}}
		if p.Ended != 0 {
			a.Lifetime = float64(max(p.Ended-at, 1)) / 1000
		}
		out.Trace = append(out.Trace, a)
		countUnplayed(p, lacks)
	}
	if len(out.Trace) == 0 {
		return out, errors.New("the record has no pods that can be played")
	}
	out.Trace = out.Trace.FromZero()
	out.addObjects(objects, lacks)
	if len(lacks) > 0 {
		out.Notes = append(out.Notes, "not played: "+describe(lacks))
	}
	for _, r := range runs {
		if r.Missing != "" {
			out.Notes = append(out.Notes, "not recorded, and so not played: "+r.Missing)
		}
	}
	return out, nil
}

// begin returns when the record begins.
func begin(pods []record.Pod, runs []record.Run) int64 {
	if len(runs) > 0 {
		return runs[0].From
	}
	first := int64(math.MaxInt64)
	for i := range pods {
		first = min(first, pods[i].Arrived)
	}
	return first
}

// amountsOf returns the amounts and tolerations of a pod, by which a cluster's room is measured.
func amountsOf(p *record.Pod) (workload.Shape, error) {
	s, err := shapeOf(p)
	s.NodeSelector = nil
	if err == nil {
		err = s.Validate()
	}
	return s, err
}

// addObjects adds the last labels of the namespaces, and counts budgets.
func (r *Replay) addObjects(objects []record.Object, lacks map[string]int) {
	var reader restore.Reader
	budgets := map[string]bool{}
	for i := range objects {
		switch o := &objects[i]; o.Kind {
		case record.KindNamespace:
			r.Namespaces[o.Name] = reader.Labels(o)
		case record.KindBudget:
			if !o.Gone {
				budgets[o.Namespace] = true
			}
		}
	}
	for _, part := range r.Parts {
		if budgets[part.Row.Namespace] {
			lacks["disruption budgets"]++
		}
	}
}

// countUnplayed counts what a replay leaves aside of a pod.
func countUnplayed(p *record.Pod, lacks map[string]int) {
	var labels map[string]string
	if p.Labels != "" && json.Unmarshal([]byte(p.Labels), &labels) != nil {
		lacks["labels that cannot be read"]++
	}
	other := labels[workload.LabelManagedBy]
	for what, has := range map[string]bool{
		"volume claims": p.Claims != "", "image pulls": p.Images != "", "owners, and so the default spreading": p.OwnerKind != "" && !p.Daemon,
		"their own schedulers":                 p.Scheduler != "" && p.Scheduler != corev1.DefaultSchedulerName,
		"the label " + workload.LabelManagedBy: other != "" && other != workload.ManagedBy,
	} {
		if has {
			lacks[what]++
		}
	}
}
