package plan

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"

	"gnnsched/scheduler/memcluster"
	"gnnsched/scheduler/replay"
	"gnnsched/workload/record"
)

// State is a cluster at the end of a replay's window.
type State struct {
	cluster *memcluster.Placements
	daemons map[types.UID]bool    // pods that belong to their node
	stays   map[types.UID]string  // why a pod may not be moved
	covers  map[types.UID]*budget // of the pods that one budget covers
	empties map[types.UID]bool    // pods with emptyDir volumes
	unknown int                   // pods of which the record does not say what they hold
	waiting int
	notes   []string
}

// At returns the cluster at the end of the source's window. The profile's filters say where pods fit. ctx ends the plugins. A
// PodDisruptionBudget that cannot be read is an error.
func At(ctx context.Context, s replay.Source, profile config.KubeSchedulerProfile) (*State, error) {
	cluster, notes, err := replay.End(ctx, s, profile)
	if err != nil {
		return nil, err
	}
	st := &State{
		cluster: cluster, daemons: map[types.UID]bool{}, stays: map[types.UID]string{}, covers: map[types.UID]*budget{}, empties: map[types.UID]bool{},
		notes: append(append([]string(nil), s.Notes...), notes...),
	}
	budgets, err := budgetsAt(s)
	if err != nil {
		return nil, err
	}
	if len(budgets) == 0 {
		st.notes = append(st.notes, "the record has no PodDisruptionBudget at this time, so none is respected")
	}
	for i := range s.Pods {
		r := &s.Pods[i]
		if !present(r, &s) {
			continue
		}
		pod := cluster.Running[types.UID(r.UID)]
		if pod == nil {
			st.waiting++
		} else {
			st.judge(r)
		}
		st.cover(budgets, r, pod)
	}
	if st.unknown > 0 {
		st.notes = append(st.notes, fmt.Sprintf("the record does not say of %d pods whether they have emptyDir or hostPath volumes or ResourceClaims: "+
			"moves may lose data, and pods with ResourceClaims cannot be judged", st.unknown))
	}
	return st, st.limit()
}

// budgetsAt returns the budgets at the end of the window.
func budgetsAt(s replay.Source) (out []*budget, err error) {
	for i := range s.Objects {
		o := &s.Objects[i]
		if o.Kind != record.KindBudget || o.From >= s.To || o.To != 0 && o.To < s.To {
			continue
		}
		b, err := readBudget(o)
		if err != nil {
			return nil, err
		}
		out = append(out, b)
	}
	return out, nil
}

// judge finds out whether a pod can be moved at all.
func (s *State) judge(r *record.Pod) {
	uid := types.UID(r.UID)
	switch {
	case r.Daemon:
		s.daemons[uid] = true
	case r.OwnerKind == "":
		s.stays[uid] = "it has no controller that would make it anew"
	case r.Claims != "":
		s.stays[uid] = "it has volumes, and the record does not say which nodes can mount them"
	case r.GPUMilli > 0:
		s.stays[uid] = "it has a share of a GPU, and the record does not say which devices have room"
	default:
		s.judgeHolds(r)
	}
}

// judgeHolds finds out what the pod would lose.
func (s *State) judgeHolds(r *record.Pod) {
	uid := types.UID(r.UID)
	holds, known := holdsOf(r)
	switch {
	case !known:
		s.unknown++
	case slices.Contains(holds, record.HoldsDevices):
		s.stays[uid] = "it has ResourceClaims, and the record does not say which devices they need"
	case slices.Contains(holds, record.HoldsHostPath):
		s.stays[uid] = "it has hostPath volumes, whose files are on its node"
	case slices.Contains(holds, record.HoldsEmptyDir):
		s.empties[uid] = true
	}
}

// holdsOf reads the column holds; known is false if the record does not have it.
func holdsOf(r *record.Pod) (holds []string, known bool) {
	err := json.Unmarshal([]byte(r.Holds), &holds)
	return holds, err == nil
}

// cover counts a pod in the budgets that cover it. pod is nil if it waits.
func (s *State) cover(budgets []*budget, r *record.Pod, pod *v1.Pod) {
	if r.Daemon || pod == nil && len(budgets) == 0 {
		return
	}
	if pod == nil {
		pod = replay.Pod(r)
	}
	var of []*budget
	for _, b := range budgets {
		if b.selects(pod) {
			b.expected++
			if pod.Spec.NodeName != "" {
				b.running++
			}
			of = append(of, b)
		}
	}
	switch {
	case len(of) == 1:
		s.covers[pod.UID] = of[0]
	case len(of) > 1:
		var names []string
		for _, b := range of {
			names = append(names, b.name)
		}
		s.stays[pod.UID] = "several PodDisruptionBudgets cover it, which the API server refuses to evict: " + strings.Join(names, ", ")
	}
}

// limit makes the pods stay whose budget allows nothing.
func (s *State) limit() error {
	for uid, b := range s.covers {
		n, err := b.allowed()
		if err != nil {
			return fmt.Errorf("%v: %w", b, err)
		}
		if _, known := s.stays[uid]; n == 0 && !known {
			s.stays[uid] = b.String() + " allows no disruption"
		}
	}
	return nil
}
