package plan

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"

	"gnnsched/scheduler/memcluster"
	"gnnsched/scheduler/replay"
	"gnnsched/workload/record"
)

// State is a cluster at the end of a replay's window.
type State struct {
	cluster  *memcluster.Placements
	devices  *memcluster.Devices   // nil: not known
	at       int64                 // milliseconds since 1970
	own      map[types.UID]bool    // pods that belong to their node
	stays    map[types.UID]string  // why a pod may not be moved
	spent    map[types.UID]string  // why a pod may not be moved now: its budget allows no disruption
	covers   map[types.UID]*budget // the budgets of evictable pods
	empties  map[types.UID]bool    // pods with emptyDir volumes
	kept     map[string]string     // why a node stays in use that has no pods
	lacks    lacks
	dead     map[string]string     // why a node takes no pods: of its kubelet
	foreign  map[types.UID]foreign // pods that others make anew, or place
	honours  bool                  // a pod's topology spread leaves out nodes with taints
	claiming []string              // pods that stay for their ResourceClaims
	grouped  []string              // pods that stay for their group
	waiting  []*v1.Pod
	notes    []string
}

// At returns the cluster at the end of the source's window. The profile's filters determine where pods fit. ctx ends the plugins. A
// PodDisruptionBudget that cannot be read is left out with a note.
func At(ctx context.Context, s replay.Source, profile config.KubeSchedulerProfile) (*State, error) {
	cluster, notes, err := replay.End(ctx, s, profile)
	if err != nil {
		return nil, err
	}
	st := &State{
		cluster: cluster, devices: s.Devices, at: s.To - 1,
		own: map[types.UID]bool{}, stays: map[types.UID]string{}, spent: map[types.UID]string{}, covers: map[types.UID]*budget{},
		empties: map[types.UID]bool{},
		kept:    map[string]string{}, dead: map[string]string{}, foreign: map[types.UID]foreign{},
		notes: append(append([]string(nil), s.Notes...), notes...),
	}
	budgets := st.budgetsAt(s)
	if len(budgets) == 0 {
		st.notes = append(st.notes, "the record has no PodDisruptionBudget at this time, so none is respected")
	}
	if err := st.keep(s); err != nil {
		return nil, err
	}
	tries := triesAt(s)
	covering := map[types.UID]cover{}
	for i := range s.Pods {
		r := &s.Pods[i]
		if !present(r, &s) {
			continue
		}
		pod := cluster.Running[types.UID(r.UID)]
		st.honours = st.honours || strings.Contains(r.Spread, `"nodeTaintsPolicy":"Honor"`)
		if pod == nil {
			st.waiting = append(st.waiting, replay.Pod(r))
			if holds, _ := listOf(r.Holds); slices.Contains(holds, record.HoldsDevices) {
				st.stays[types.UID(r.UID)] = st.devices.Keeps(types.UID(r.UID))
			}
		} else {
			st.judge(r, tries)
		}
		if c := st.cover(budgets, r, pod); pod != nil && len(c.by) > 0 {
			covering[pod.UID] = c
		}
	}
	st.notes = append(st.notes, named("pods with ResourceClaims stay", st.claiming)...)
	st.notes = append(st.notes, named("pods stay with those of their groups", st.grouped)...)
	st.notes = append(st.notes, st.lacks.notes()...)
	return st, st.limit(covering)
}

// Pods returns the number of pods on nodes that do not belong to their node.
func (s *State) Pods() int { return len(s.cluster.Running) - len(s.own) }

// keep finds the nodes that stay in use whether they have pods or not.
func (s *State) keep(source replay.Source) error {
	for i := range source.Nodes {
		n := &source.Nodes[i]
		if n.From >= source.To || n.To != 0 && n.To < source.To {
			continue
		}
		if n.Unschedulable { // the taint comes a moment later
			if _, err := s.cluster.Cordon(n.Name, true); err != nil {
				return err
			}
		}
		var taints []v1.Taint
		_ = record.ReadColumn(n.Taints, &taints) // what cannot be read is noted already
		for _, t := range taints {
			if slices.Contains(kubeletGone, t.Key) {
				s.dead[n.Name] = "its kubelet does not answer or is not ready, so pods neither end nor start there: " + t.Key
			}
		}
		marks, known := listOf(n.DoNotDisrupt)
		switch {
		case s.dead[n.Name] != "":
			s.kept[n.Name] = s.dead[n.Name]
		case isControl(n):
			s.kept[n.Name] = "it is a control-plane node"
		case !known:
			s.lacks.nodeMarks++
		case len(marks) > 0:
			s.kept[n.Name] = leave + strings.Join(marks, ", ")
		}
	}
	return nil
}

// kubeletGone are the taints of nodes whose kubelet is gone or not ready.
var kubeletGone = []string{v1.TaintNodeUnreachable, v1.TaintNodeNotReady, v1.TaintNodeOutOfService,
	"node.cloudprovider.kubernetes.io/shutdown"}

// named returns a note that counts and names pods; none for none.
func named(what string, pods []string) []string {
	const most = 5
	n := len(pods)
	if n == 0 {
		return nil
	}
	if n > most {
		pods = append(slices.Clone(pods[:most]), "…")
	}
	return []string{fmt.Sprintf("%d %s: %s", n, what, strings.Join(pods, ", "))}
}

// leave begins the reason of objects that stay because their owner asks for it.
const leave = "its owner asks to leave it: "

// lacks counts missing parts of a record.
type lacks struct {
	holds, marks, health int // pods
	nodeMarks            int // nodes
}

// notes describes the missing parts of a record that would matter.
func (l lacks) notes() (out []string) {
	if l.holds > 0 {
		out = append(out, fmt.Sprintf("the record does not say of %d pods whether they have emptyDir or hostPath volumes or ResourceClaims: "+
			"moves may lose data, and pods with ResourceClaims cannot be judged", l.holds))
	}
	if l.marks+l.nodeMarks > 0 {
		out = append(out, fmt.Sprintf("the record does not say of %d pods and %d nodes whether their owners ask to leave them, "+
			"as with the annotations cluster-autoscaler.kubernetes.io/safe-to-evict and karpenter.sh/do-not-disrupt: moves may disrupt them",
			l.marks, l.nodeMarks))
	}
	if l.health > 0 {
		out = append(out,
			fmt.Sprintf("the record does not say of %d pods with a PodDisruptionBudget whether they are ready at this time; they count as ready",
				l.health))
	}
	return out
}

// budgetsAt returns the budgets at the end of the window. An old record may hold budgets that no API server accepts.
func (s *State) budgetsAt(source replay.Source) (out []*budget) {
	for i := range source.Objects {
		o := &source.Objects[i]
		if o.Kind != record.KindBudget || o.From >= source.To || o.To != 0 && o.To < source.To {
			continue
		}
		b, err := readBudget(o)
		if err != nil {
			s.notes = append(s.notes, fmt.Sprintf("left out, because it cannot be read, so it protects no pod: %v", err))
			continue
		}
		out = append(out, b)
	}
	return out
}

// judge finds out whether a pod can be moved at all.
func (s *State) judge(r *record.Pod, tries map[jobName]int32) {
	uid := types.UID(r.UID)
	marks, known := s.marks(r)
	switch {
	case r.Daemon:
		s.own[uid] = true
	case r.HealthAt(s.at) == record.Terminating:
		s.stays[uid] = "it is being deleted, and is still there"
	case r.OwnerKind == "":
		s.stays[uid] = "it has no controller that would make it anew"
	case r.Claims != "":
		s.stays[uid] = "it has volumes, and the record does not say which nodes can mount them"
	case r.GPUMilli > 0 && r.GPUIndex == "":
		s.stays[uid] = "it has a share of a GPU, and the record does not say of which"
	case len(marks) > 0:
		s.stays[uid] = leave + strings.Join(marks, ", ")
	case r.Deadline > 0 && (s.at-r.Bound)/500 >= r.Deadline:
		s.stays[uid] = "half of its activeDeadlineSeconds has passed, so a new pod could take longer than is left of this one"
	case r.Group != "":
		s.stays[uid] = "it runs together with the other pods of the group " + r.Group
		s.grouped = append(s.grouped, r.Namespace+"/"+r.Name)
	default:
		if !known {
			s.lacks.marks++
		}
		if f, is := foreignTo(r, tries); is {
			s.foreign[uid] = f
		}
		s.judgeHolds(r)
	}
}

// marks returns the annotations with which the pod's owner now asks to leave it. Karpenter's may name a time after the start.
func (s *State) marks(r *record.Pod) (out []string, known bool) {
	all, known := listOf(r.DoNotDisrupt)
	for _, m := range all {
		_, value, _ := strings.Cut(m, "=")
		if d, err := time.ParseDuration(value); err == nil && s.at >= r.Bound+d.Milliseconds() {
			continue
		}
		out = append(out, m)
	}
	return out, known
}

// judgeHolds sets what the pod would lose.
func (s *State) judgeHolds(r *record.Pod) {
	uid := types.UID(r.UID)
	holds, known := listOf(r.Holds)
	keeps := ""
	if slices.Contains(holds, record.HoldsDevices) {
		keeps = s.devices.Keeps(uid)
	}
	switch {
	case !known:
		s.lacks.holds++
	case keeps != "":
		s.stays[uid] = keeps
		s.claiming = append(s.claiming, r.Namespace+"/"+r.Name)
	case slices.Contains(holds, record.HoldsHostPath):
		s.stays[uid] = "it has hostPath volumes, whose files are on its node"
	case slices.Contains(holds, record.HoldsEmptyDir):
		s.empties[uid] = true
	}
}

// listOf reads a column that has a list; known is false if the record does not have it.
func listOf(column string) (list []string, known bool) {
	err := record.ReadColumn(column, &list)
	return list, column != "" && err == nil
}

// cover are the budgets of a pod, and the pod's health; "" if it is not known.
type cover struct {
	by     []*budget
	health string
}

// cover counts a pod in the budgets that cover it. pod is nil if it waits.
func (s *State) cover(budgets []*budget, r *record.Pod, pod *v1.Pod) (out cover) {
	if len(budgets) == 0 {
		return out
	}
	placed := pod != nil
	if !placed {
		pod = replay.Pod(r)
	}
	out.health = r.HealthAt(s.at)
	reckoned := false
	for _, b := range budgets {
		if b.selects(pod) {
			b.count(r, out.health, placed)
			out.by, reckoned = append(out.by, b), reckoned || b.status == nil
		}
	}
	if placed && reckoned && out.health == "" {
		s.lacks.health++
	}
	return out
}

// limit makes the pods stay that their budgets keep. The API server looks at no budget of a pod whose containers have not all started.
func (s *State) limit(covering map[types.UID]cover) error {
	for uid, c := range covering {
		if _, known := s.stays[uid]; known || s.own[uid] || c.health == record.Pending {
			continue
		}
		if len(c.by) > 1 {
			var names []string
			for _, b := range c.by {
				names = append(names, b.name)
			}
			s.stays[uid] = "several PodDisruptionBudgets cover it, which the API server refuses to evict: " + strings.Join(names, ", ")
			continue
		}
		b := c.by[0]
		spared, err := b.spares(c.health)
		n, err2 := b.allowed()
		if err := errors.Join(err, err2); err != nil {
			return fmt.Errorf("%v: %w", b, err)
		}
		switch {
		case spared:
		case n == 0:
			s.spent[uid] = b.String() + " allows no disruption"
		default:
			s.covers[uid] = b
		}
	}
	return nil
}
