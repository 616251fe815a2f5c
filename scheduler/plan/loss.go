package plan

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"

	"gnnsched/internal/each"
	"gnnsched/scheduler/memcluster"
	"gnnsched/scheduler/replay"
	"gnnsched/workload/record"
)

// Loss lists the pods without a node before and after a cluster loses nodes.
type Loss struct {
	Profile string     `json:"profile"`
	Before  []Unplaced `json:"before"`
	After   []Unplaced `json:"after"`
}

// Unplaced is a pod that gets no node.
type Unplaced struct {
	Pod      string `json:"pod"`
	Workload string `json:"workload,omitempty"`
	Why      string `json:"why"` // upstream's reasons, each with its number of nodes
}

// Lost describes what goes with nodes, for any profile.
type Lost struct {
	Nodes     int      `json:"nodes"` // of the cluster before
	Lost      []string `json:"lost"`
	Displaced int      `json:"displaced"`  // pods that their controllers replace
	Bare      []string `json:"bare"`       // pods without a controller, which are not replaced
	EmptyDirs int      `json:"empty_dirs"` // displaced pods that lose the data of their emptyDir volumes
	// Unjudged are displaced pods with claims of volumes, hostPath volumes, ResourceClaims or shares of a GPU. They are placed as if they
	// had none.
	Unjudged int `json:"unjudged"`
	// Unknown counts displaced pods for which the record does not tell any of these except claims of volumes.
	Unknown int `json:"unknown"`
}

// Lose returns the source without the nodes that gone selects at the end of its window. The pods on them wait there, except pods that are
// not replaced.
func Lose(s replay.Source, gone func(*record.Node) bool) (replay.Source, Lost) {
	out := Lost{Lost: []string{}, Bare: []string{}}
	lost := map[string]bool{}
	for i := range s.Nodes {
		n := &s.Nodes[i]
		if n.From >= s.To || n.To != 0 && n.To < s.To {
			continue
		}
		out.Nodes++
		if gone(n) {
			lost[n.Name] = true
			out.Lost = append(out.Lost, n.Name)
		}
	}
	slices.Sort(out.Lost)
	s.Nodes = slices.DeleteFunc(slices.Clone(s.Nodes), func(n record.Node) bool { return lost[n.Name] })
	pods := make([]record.Pod, 0, len(s.Pods))
	for _, p := range s.Pods {
		if !present(&p, &s) || !lost[p.Node] {
			pods = append(pods, p)
			continue
		}
		switch {
		case p.Daemon, p.HealthAt(s.To-1) == record.Terminating: // its controller has made another one
		case p.OwnerKind == "":
			out.Bare = append(out.Bare, p.Namespace+"/"+p.Name)
		default:
			out.Displaced++
			out.count(&p)
			p.Bound, p.Node = 0, ""
			pods = append(pods, p)
		}
	}
	s.Pods = pods
	return s, out
}

// count counts the resources that a displaced pod held.
func (l *Lost) count(p *record.Pod) {
	holds, known := listOf(p.Holds)
	switch {
	case p.Claims != "" || p.GPUMilli > 0 || slices.Contains(holds, record.HoldsDevices) || slices.Contains(holds, record.HoldsHostPath):
		l.Unjudged++
	case !known:
		l.Unknown++
	}
	if slices.Contains(holds, record.HoldsEmptyDir) {
		l.EmptyDirs++
	}
}

// present reports whether a pod is there at the end of the window.
func present(p *record.Pod, s *replay.Source) bool {
	return p.Arrived < s.To && (p.Ended == 0 || p.Ended >= s.To)
}

// unplaceable lets the profile place the pods that wait at the end of the window, higher priorities first and with preemption. It returns
// the pods without a node, by name.
func unplaceable(ctx context.Context, s replay.Source, profile config.KubeSchedulerProfile) ([]Unplaced, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel() // ends the plugins
	cluster, _, err := replay.End(ctx, s, profile)
	if err != nil {
		return nil, err
	}
	rows := map[types.UID]*record.Pod{}
	var queue []*v1.Pod
	for i := range s.Pods {
		r := &s.Pods[i]
		rows[types.UID(r.UID)] = r
		if !r.Daemon && present(r, &s) && cluster.Running[types.UID(r.UID)] == nil {
			queue = append(queue, replay.Pod(r))
		}
	}
	out := []Unplaced{}
	cluster.Follow = refusing{cluster.Follow, func(p *v1.Pod, why error) {
		out = append(out, Unplaced{nameOf(p), rows[p.UID].Workload, "the scheduler's plugins cannot read it: " + why.Error()})
	}}
	for _, p := range queue {
		cluster.Wait(p)
	}
	if err := cluster.Settle(ctx); err != nil {
		return nil, err
	}
	for _, p := range cluster.Waiting {
		why, err := refusals(ctx, cluster, p)
		if err != nil {
			return nil, err
		}
		out = append(out, Unplaced{nameOf(p), rows[p.UID].Workload, why})
	}
	slices.SortFunc(out, func(a, b Unplaced) int { return cmp.Compare(a.Pod, b.Pod) })
	return out, nil
}

// refusing is a follower that reports the pods that the plugins cannot handle.
type refusing struct {
	memcluster.Follower
	each func(pod *v1.Pod, why error)
}

// Refused implements memcluster.Follower.
func (r refusing) Refused(pod *v1.Pod, why error) { r.each(pod, why) }

// refusals counts why the nodes refuse a pod.
func refusals(ctx context.Context, cluster *memcluster.Placements, p *v1.Pod) (string, error) {
	choice, err := cluster.Choose(ctx, p)
	if err != nil {
		return "", err
	}
	reasons := map[string]int{}
	for _, r := range choice.Refused {
		reasons[r]++
	}
	return fmt.Sprintf("0 of %d nodes take it%s", len(choice.Refused), list(reasons)), nil
}

// busiest returns the time in the window, in milliseconds since 1970, at which the present pods, running or waiting, request the largest
// share of the nodes' CPU or memory: the last millisecond before that changes. Pods that belong to their node do not count. It is the end
// of the window unless another time is busier.
func busiest(s replay.Source) int64 {
	type change struct {
		at          int64
		cpu, memory int64 // that pods request
		cores, room int64 // that nodes offer
	}
	var all []change
	add := func(from, to int64, c change) {
		if from >= s.To || to != 0 && to <= s.From {
			return
		}
		c.at = max(from, s.From)
		all = append(all, c)
		if to != 0 && to < s.To {
			all = append(all, change{to, -c.cpu, -c.memory, -c.cores, -c.room})
		}
	}
	for _, n := range s.Nodes {
		add(n.From, n.To, change{cores: n.MilliCPU, room: n.Memory})
	}
	for _, p := range s.Pods {
		if !p.Daemon {
			add(p.Arrived, p.Ended, change{cpu: p.MilliCPU, memory: p.Memory})
		}
	}
	slices.SortStableFunc(all, func(a, b change) int { return cmp.Compare(a.at, b.at) })
	var now change
	best, most, share := s.To-1, 0.0, 0.0
	for i, c := range all {
		now = change{c.at, now.cpu + c.cpu, now.memory + c.memory, now.cores + c.cores, now.room + c.room}
		until := s.To
		if i+1 < len(all) {
			until = all[i+1].at
		}
		if until == c.at || now.cores <= 0 || now.room <= 0 {
			continue
		}
		if share = max(float64(now.cpu)/float64(now.cores), float64(now.memory)/float64(now.room)); share > most {
			best, most = until-1, share
		}
	}
	if share >= most {
		return s.To - 1
	}
	return best
}

// Profile is a profile of kube-scheduler with the name that results have.
type Profile struct {
	Name string
	config.KubeSchedulerProfile
}

// Losses are the effects on a cluster that loses nodes: at the end of the record, and at its busiest time if that is another one.
type Losses struct {
	Times []LossAt `json:"times"`
	Notes []string `json:"notes,omitempty"`
}

// LossAt is the effect of a loss at a time.
type LossAt struct {
	At       time.Time `json:"at"`
	What     string    `json:"what"` // which time this is
	Lost     `json:"cluster"`
	Profiles []Loss `json:"profiles"`
}

// Without removes the nodes that gone selects, at the end of the source's window and at its busiest time. Each profile places the waiting
// pods and the pods that were on these nodes. All others stay where they are. progress gets the fraction of the work that is done.
func Without(
	ctx context.Context, s replay.Source, gone func(*record.Node) bool, profiles []Profile, progress func(done float64),
) (Losses, error) {
	out := Losses{Notes: s.Notes}
	times, names := []int64{s.To - 1}, []string{"the time of the plan"}
	if busy := busiest(s); busy != s.To-1 {
		times, names = append(times, busy), append(names, "the busiest time")
	}
	for i, t := range times {
		then := s
		then.To = t + 1
		at := LossAt{At: time.UnixMilli(t).UTC(), What: names[i]}
		var less replay.Source
		less, at.Lost = Lose(then, gone)
		for k, p := range profiles {
			share := float64(i*len(profiles)+k) / float64(len(times)*len(profiles))
			progress(share)
			l := Loss{Profile: p.Name}
			var err error
			if l.Before, err = unplaceable(ctx, then, p.KubeSchedulerProfile); err != nil {
				return out, fmt.Errorf("%s: %w", p.Name, err)
			}
			if l.After, err = unplaceable(ctx, less, p.KubeSchedulerProfile); err != nil {
				return out, fmt.Errorf("%s: %w", p.Name, err)
			}
			at.Profiles = append(at.Profiles, l)
		}
		out.Times = append(out.Times, at)
	}
	return out, nil
}

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
		s.judgeLosses(r)
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

// judgeLosses sets what the pod would lose.
func (s *State) judgeLosses(r *record.Pod) {
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
			names := each.Map(c.by, func(b *budget) string { return b.name })
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
