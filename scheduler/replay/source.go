package replay

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/kubernetes/pkg/apis/scheduling"
	"k8s.io/kubernetes/pkg/scheduler/framework"

	"gnnsched/scheduler/memcluster"
	"gnnsched/workload/record"
	rows "gnnsched/workload/record/play"
)

// Source holds the parts of a record that a replay needs. Callers that ask "what if" may change pods and nodes before the replay.
type Source struct {
	Pods    []record.Pod // by arrival
	Nodes   []record.Node
	Objects []record.Object
	// From and To are the window, in milliseconds since 1970.
	From, To int64
	// Notes describe faults of the record and omissions of the figures.
	Notes []string
	// Devices are those at To; nil if they are not known.
	Devices *memcluster.Devices

	gaps []span // times within the window without recording
}

// Window is the time of a record that is replayed. Zero times are the record's own beginning and end.
type Window struct {
	From, To time.Time
	// State asks for the cluster at To only. From does not count, and a record of one instant has all that is needed.
	State bool
	// Instant makes the window of a record of one instant a millisecond long. Without it, such a record is an error.
	Instant bool
	// Nodeless allows a record without nodes, because an autoscaler starts them.
	Nodeless bool
}

// span is a time in milliseconds.
type span struct{ from, to int64 }

// Read reads a record and corrects impossible data, such as pods that end before they begin. It returns an error if the record cannot be
// replayed.
func Read(r *record.Record, w Window) (Source, error) {
	var s Source
	var errs [4]error
	var runs []record.Run
	s.Pods, errs[0] = r.Pods()
	s.Nodes, errs[1] = r.Nodes()
	s.Objects, errs[2] = r.Objects()
	runs, errs[3] = r.Runs()
	if err := errors.Join(errs[:]...); err != nil {
		return s, err
	}
	for _, d := range r.Damaged() {
		s.Notes = append(s.Notes, "left out, because it cannot be read: "+d)
	}
	if len(s.Nodes) == 0 && !w.Nodeless {
		return s, errors.New("the record has no nodes")
	}
	if len(s.Pods) == 0 {
		return s, errors.New("the record has no pods")
	}
	s.correct()
	s.LeaveUnoffered()
	if err := s.limit(runs, w); err != nil {
		return s, err
	}
	there := slices.DeleteFunc(slices.Clone(s.Pods), func(p record.Pod) bool { return p.Arrived >= s.To || p.Ended != 0 && p.Ended <= s.From })
	if note := rows.NamespaceNote("the record", there, s.Objects); note != "" {
		s.Notes = append(s.Notes, note)
	}
	return s, nil
}

// correct puts times into a possible order, and notes the number of corrected rows.
func (s *Source) correct() {
	var pods, nodes, nowhere, timeless int
	for i := range s.Pods {
		p := &s.Pods[i]
		old := *p
		if p.Bound != 0 {
			p.Arrived = min(p.Arrived, p.Bound)
		}
		if p.Ended != 0 && p.Ended < max(p.Bound, p.Arrived) {
			p.Ended = max(p.Bound, p.Arrived)
		}
		if *p != old {
			pods++
		}
		switch {
		case p.Bound != 0 && p.Node == "":
			p.Bound = 0
			nowhere++
		case p.Bound == 0 && p.Node != "":
			timeless++
		}
	}
	slices.SortStableFunc(s.Pods, func(a, b record.Pod) int {
		return cmp.Or(cmp.Compare(a.Arrived, b.Arrived), cmp.Compare(a.UID, b.UID))
	})
	for i := range s.Nodes {
		n := &s.Nodes[i]
		if n.To != 0 && n.To < n.From {
			n.To = n.From
			nodes++
		}
	}
	s.note(pods,
		"pods were bound before they arrived or ended before they began, as after a clock was set back; the earlier time counts as the later one")
	s.note(nowhere, "pods were bound to a node without a name; they count as waiting")
	s.note(timeless, "pods have a node, but not the time at which they got it; they count as waiting")
	s.note(nodes, "states of nodes ended before they began, as after a clock was set back; they count for no time")
}

func (s *Source) note(n int, what string) {
	if n > 0 {
		s.Notes = append(s.Notes, fmt.Sprintf("%d %s", n, what))
	}
}

// limit finds the window and the gaps in it.
func (s *Source) limit(runs []record.Run, w Window) error {
	backwards := 0
	var watched []span
	for _, r := range runs {
		if r.To < r.From {
			backwards++
			continue
		}
		watched = append(watched, span{r.From, r.To})
		if r.Lost > 0 {
			s.Notes = append(s.Notes, fmt.Sprintf("%d rows were lost while it was recorded", r.Lost))
		}
		if r.Missing != "" {
			s.Notes = append(s.Notes, "not recorded: "+r.Missing)
		}
	}
	s.note(backwards, "times of watching end before they begin, as after a clock was set back; they are left out")
	if len(watched) == 0 {
		watched = []span{s.extent()}
	}
	watched = union(watched)
	s.From, s.To = watched[0].from, watched[len(watched)-1].to
	if w.State {
		return s.stateAt(w.To)
	}
	if s.To == s.From && w.Instant {
		s.To++
	}
	if !w.From.IsZero() {
		s.From = max(s.From, w.From.UnixMilli())
	}
	if !w.To.IsZero() {
		s.To = min(s.To, w.To.UnixMilli())
	}
	if s.To <= s.From {
		return fmt.Errorf("no time is left to replay: the record is of %s to %s", at(watched[0].from), at(watched[len(watched)-1].to))
	}
	var missing int64
	for i := 1; i < len(watched); i++ {
		if g := (span{max(watched[i-1].to, s.From), min(watched[i].from, s.To)}); g.to > g.from {
			s.gaps = append(s.gaps, g)
			missing += g.to - g.from
		}
	}
	if missing > 0 {
		s.Notes = append(s.Notes,
			fmt.Sprintf("nobody watched for %v (gaps: %d); figures and waits leave this time out, and waits also the pods that arrived in it",
				time.Duration(missing)*time.Millisecond, len(s.gaps)))
	}
	return nil
}

// stateAt makes the millisecond from t on the window; that from the end on for no time.
func (s *Source) stateAt(t time.Time) error {
	ms := s.To
	if !t.IsZero() {
		ms = t.UnixMilli()
	}
	if ms < s.From || ms > s.To {
		return fmt.Errorf("%s is not in the record, which is of %s to %s", at(ms), at(s.From), at(s.To))
	}
	s.From, s.To = ms, ms+1
	return nil
}

func at(ms int64) string { return time.UnixMilli(ms).UTC().Format(time.RFC3339) }

// extent returns the time that pods and nodes name, for a record without recording times.
func (s *Source) extent() span {
	first := s.Pods[0].Arrived
	if len(s.Nodes) > 0 {
		first = s.Nodes[0].From
	}
	out := span{first, first}
	for _, n := range s.Nodes {
		out.from, out.to = min(out.from, n.From), max(out.to, n.From, n.To)
	}
	for _, p := range s.Pods {
		out.to = max(out.to, p.Arrived, p.Bound, p.Ended)
	}
	return out
}

// union joins spans that touch, and returns them in order.
func union(list []span) []span {
	slices.SortFunc(list, func(a, b span) int { return cmp.Or(cmp.Compare(a.from, b.from), cmp.Compare(a.to, b.to)) })
	out := list[:1]
	for _, x := range list[1:] {
		if last := &out[len(out)-1]; x.from <= last.to {
			last.to = max(last.to, x.to)
		} else {
			out = append(out, x)
		}
	}
	return out
}

// Bound reports whether the source knows of any pod of the window that it got a node, and when. Records of traces do not.
func (s *Source) Bound() bool {
	return slices.ContainsFunc(s.Pods, func(p record.Pod) bool {
		return !p.Daemon && p.Bound != 0 && p.Arrived < s.To && (p.Ended == 0 || p.Ended > s.From)
	})
}

// Watched returns how many milliseconds between two times were recorded. Both are milliseconds since 1970.
func (s *Source) Watched(from, to int64) int64 {
	out := to - from
	for _, g := range s.gaps {
		out -= max(min(to, g.to)-max(from, g.from), 0)
	}
	return out
}

// objects turns rows of a record into objects of Kubernetes' API. Pods that are equal in all that matters share
// their containers and the rest of their specs.
type objects struct {
	rows.Reader
	templates map[record.Pod]*v1.Pod
	// disruption gives pods the annotations and volumes by which autoscalers leave their nodes alone.
	disruption bool
}

func newObjects() *objects { return &objects{templates: map[record.Pod]*v1.Pod{}} }

// pod returns a pod that waits.
func (o *objects) pod(r *record.Pod) *v1.Pod {
	key := *r
	key.UID, key.Name, key.GPUIndex, key.Images, key.Claims, key.Workload = "", "", "", "", "", ""
	key.Deadline, key.Group, key.Health, key.HealthSince = 0, "", "", 0
	if !o.disruption {
		key.DoNotDisrupt, key.Holds, key.DeletionCost = "", "", 0
	}
	key.Arrived, key.Bound, key.Ended, key.End, key.Node = 0, 0, 0, "", ""
	t := o.templates[key]
	if t == nil {
		t = o.Pod(&key)
		if r.Daemon && r.OwnerKind != "DaemonSet" { // a static pod; its owner is the node
			metav1.SetMetaDataAnnotation(&t.ObjectMeta, v1.MirrorPodAnnotationKey, "")
			t.Spec.Priority = new(max(r.Priority, staticPriority))
		}
		if _, err := framework.NewPodInfo(t); err != nil { // an affinity that no API server accepts
			o.Unreadable("affinity")
			t.Spec.Affinity = nil
		}
		o.disrupt(&key, t)
		o.templates[key] = t
	}
	p := *t
	p.UID, p.Name, p.CreationTimestamp = types.UID(r.UID), r.Name, metav1.NewTime(time.UnixMilli(r.Arrived))
	return &p
}

// disrupt gives a pod the annotations of its owner and volumes that are lost with it.
func (o *objects) disrupt(r *record.Pod, p *v1.Pod) {
	var wishes, holds []string
	if record.ReadColumn(r.DoNotDisrupt, &wishes) != nil {
		o.Unreadable("do_not_disrupt")
	}
	if record.ReadColumn(r.Holds, &holds) != nil {
		o.Unreadable("holds")
	}
	for _, w := range wishes {
		key, value, _ := strings.Cut(w, "=")
		metav1.SetMetaDataAnnotation(&p.ObjectMeta, key, value)
	}
	if r.DeletionCost != 0 {
		metav1.SetMetaDataAnnotation(&p.ObjectMeta, v1.PodDeletionCost, strconv.Itoa(int(r.DeletionCost)))
	}
	for _, h := range holds {
		switch h {
		case record.HoldsEmptyDir:
			p.Spec.Volumes = append(p.Spec.Volumes, v1.Volume{Name: h, VolumeSource: v1.VolumeSource{EmptyDir: &v1.EmptyDirVolumeSource{}}})
		case record.HoldsHostPath:
			p.Spec.Volumes = append(p.Spec.Volumes, v1.Volume{Name: h, VolumeSource: v1.VolumeSource{HostPath: &v1.HostPathVolumeSource{}}})
		}
	}
}

// staticPriority is the least priority of a static pod, even if its record has a lower one: system-node-critical, so that only system pods
// preempt it.
const staticPriority = scheduling.SystemCriticalPriority + 1000

// owner names a controller of pods.
type owner struct{ kind, namespace, name string }

// selectors returns for each ReplicaSet and StatefulSet the labels that all its pods share. Upstream's default spreading uses the owner's
// selector, which a record does not have. Removed owners are included.
func selectors(pods []record.Pod) map[owner]map[string]string {
	out := map[owner]map[string]string{}
	for i := range pods {
		p := &pods[i]
		if p.OwnerKind != "ReplicaSet" && p.OwnerKind != "StatefulSet" {
			continue
		}
		var labels map[string]string
		if record.ReadColumn(p.Labels, &labels) != nil {
			continue
		}
		k := owner{p.OwnerKind, p.Namespace, p.OwnerName}
		if common, known := out[k]; known {
			maps.DeleteFunc(common, func(name, value string) bool { return labels[name] != value })
			continue
		}
		delete(labels, appsv1.StatefulSetPodNameLabel)
		delete(labels, appsv1.PodIndexLabel)
		out[k] = labels
	}
	return out
}

// fill gives the plugins the objects that they ask informers for: the owners, and the namespaces with their last labels.
func fill(shared informers.SharedInformerFactory, s *Source) error {
	sets, stateful := shared.Apps().V1().ReplicaSets().Informer().GetIndexer(), shared.Apps().V1().StatefulSets().Informer().GetIndexer()
	for k, labels := range selectors(s.Pods) {
		if len(labels) == 0 {
			continue // such a selector would select every pod
		}
		meta, selector := metav1.ObjectMeta{Namespace: k.namespace, Name: k.name}, &metav1.LabelSelector{MatchLabels: labels}
		var err error
		if k.kind == "ReplicaSet" {
			err = sets.Add(&appsv1.ReplicaSet{ObjectMeta: meta, Spec: appsv1.ReplicaSetSpec{Selector: selector}})
		} else {
			err = stateful.Add(&appsv1.StatefulSet{ObjectMeta: meta, Spec: appsv1.StatefulSetSpec{Selector: selector}})
		}
		if err != nil {
			return fmt.Errorf("add %s %s: %w", k.kind, k.name, err)
		}
	}
	spaces := shared.Core().V1().Namespaces().Informer().GetIndexer()
	began := slices.DeleteFunc(slices.Clone(s.Objects), func(o record.Object) bool { return o.From > s.To })
	for name, labels := range rows.Namespaces(s.Pods, began) {
		if err := spaces.Add(&v1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels}}); err != nil {
			return fmt.Errorf("add namespace %s: %w", name, err)
		}
	}
	return nil
}

// Lack is a part of the record that a replay leaves out.
type Lack struct {
	What string `json:"what"`
	Pods int    `json:"pods"` // that have it
}

// Lacks returns the parts of the source that a replay leaves out, each with its number of pods. Pods of DaemonSets and pods outside the
// window do not count.
func (s *Source) Lacks() (out []Lack) {
	budgets, schedulers := 0, map[string]int{}
	for i := range s.Objects {
		if s.Objects[i].Kind == record.KindBudget && !s.Objects[i].Gone {
			budgets++
		}
	}
	var claims, devices, shares, images, pods int
	for i := range s.Pods {
		p := &s.Pods[i]
		if p.Daemon || p.Arrived > s.To || p.Ended != 0 && p.Ended <= s.From {
			continue
		}
		pods++
		schedulers[p.Scheduler]++
		claims += count(p.Claims != "")
		devices += count(strings.Contains(p.Holds, strconv.Quote(record.HoldsDevices)))
		shares += count(p.GPUMilli > 0)
		images += count(p.Images != "")
	}
	add := func(n int, what string) {
		if n > 0 {
			out = append(out, Lack{what, n})
		}
	}
	add(claims, "volume claims: their pods are placed as if they had none")
	add(devices, "resource claims: their pods are placed as if they had none, on nodes without the devices too")
	add(shares, "devices of GPU shares: a node's shares are one amount")
	if budgets > 0 {
		add(pods, "disruption budgets: preemption does not spare their pods")
	}
	if len(schedulers) > 1 {
		add(pods, fmt.Sprintf("several schedulers (%q): the profile places the pods of all", slices.Sorted(maps.Keys(schedulers))))
	}
	add(images, "images that nodes have: they do not count in scores")
	add(pods, "services: default spreading goes by the pods' owners only")
	return out
}

// LeaveUnoffered leaves out the resources that no node has but pods that ran request, because the scheduler does not filter by them: an
// extender manages them, as HAMi's nvidia.com/gpumem. A note names them.
func (s *Source) LeaveUnoffered() {
	offered, ran := map[string]bool{}, map[string]bool{}
	for i := range s.Nodes {
		for _, column := range []string{s.Nodes[i].Extended, s.Nodes[i].Capacity} {
			for name := range record.Labels(column) {
				offered[name] = true
			}
		}
	}
	for i := range s.Pods {
		if s.Pods[i].Node == "" || s.Pods[i].Extended == "" {
			continue
		}
		for name := range record.Labels(s.Pods[i].Extended) {
			ran[name] = ran[name] || !offered[name]
		}
	}
	maps.DeleteFunc(ran, func(_ string, out bool) bool { return !out })
	if len(ran) == 0 {
		return
	}
	s.Pods = slices.Clone(s.Pods)
	pods := 0
	for i := range s.Pods {
		all := record.Labels(s.Pods[i].Extended)
		before := len(all)
		if maps.DeleteFunc(all, func(name, _ string) bool { return ran[name] }); len(all) < before {
			s.Pods[i].Extended = record.Column(all)
			pods++
		}
	}
	s.Notes = append(s.Notes, fmt.Sprintf("no node offers %s, which %d pods request and some have got; nodes are not filtered by it",
		strings.Join(slices.Sorted(maps.Keys(ran)), ", "), pods))
}
