// Package play makes a workload of the pods of a record: which pods arrive when, their requests, and their lifetimes. Pods of DaemonSets
// and static pods are left out, because they come with their nodes. It also translates the record's nodes, and makes a record's rows from a
// trace and from nodes.
package play

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"gnnsched/internal/cluster"
	"gnnsched/internal/cluster/kube"
	"gnnsched/workload"
	"gnnsched/workload/record"
)

// Load reads the pods of the record in a folder as a trace, and returns notes about the trace's missing parts.
func Load(dir string) (workload.Trace, []string, error) {
	r, err := record.Open(dir)
	if err != nil {
		return nil, nil, err
	}
	pods, err := r.Pods()
	if err != nil {
		return nil, nil, err
	}
	out, lacks, err := arrivals(pods)
	if err != nil {
		return nil, nil, fmt.Errorf("%s: %w", dir, err)
	}
	notes := damage(r)
	if len(lacks) > 0 {
		notes = append(notes, "pods are played without what a trace has no place for: "+describe(lacks))
	}
	return out, notes, nil
}

// arrivals returns the pods of a record as a trace, and for each property that a trace cannot hold its number of pods, by its name. Each
// pod arrives alone, with its requests, limits, node selector, required node affinity, tolerations and GPU models. It runs as long as it
// did; a pod that had not ended stays. A pod that never ran stays as long as it waited.
func arrivals(pods []record.Pod) (workload.Trace, map[string]int, error) {
	var out workload.Trace
	lacks, taken := map[string]int{}, map[string]bool{}
	for i := range pods {
		p := &pods[i]
		if p.Daemon {
			continue
		}
		shape, err := shapeOf(p)
		if err == nil {
			err = shape.Validate()
		}
		if err != nil {
			return nil, nil, fmt.Errorf("pod %s/%s: %w", p.Namespace, p.Name, err)
		}
		shape.NodeAffinity, _ = affinityOf(p)
		name := workload.FreeName(label(p.Name, "pod"), taken)
		taken[name] = true
		out = append(out, workload.Arrival{
			At: float64(p.Arrived) / 1000, Lifetime: lifetime(p), Deployment: workload.Deployment{Name: name, Replicas: 1, Shape: shape},
		})
		count(p, lacks)
	}
	if len(out) == 0 {
		return nil, nil, errors.New("the record has no pods besides those of DaemonSets")
	}
	return out.FromZero(), lacks, nil
}

// shapeOf translates a pod's requests and the nodes where it may run.
func shapeOf(p *record.Pod) (workload.Shape, error) {
	s := workload.Shape{
		Requests: cluster.Resources{MilliCPU: p.MilliCPU, Memory: p.Memory, GPU: p.GPU, GPUMilli: p.GPUMilli, Pods: 1},
		Limits:   cluster.Resources{MilliCPU: limit(p.CPULimit, p.MilliCPU), Memory: limit(p.MemoryLimit, p.Memory)},
	}
	if p.GPU > 0 {
		s.Requests.GPUMilli = 0
	}
	var tolerations []corev1.Toleration
	err := errors.Join(decode("node_selector", p.NodeSelector, &s.NodeSelector), decode("gpu_models", p.GPUModels, &s.GPUModels),
		decode("tolerations", p.Tolerations, &tolerations))
	s.Tolerations = kube.FromTolerations(tolerations)
	return s, err
}

// limit returns a limit that Kubernetes would accept beside the request.
func limit(limit, request int64) int64 {
	if limit < request {
		return 0
	}
	return limit
}

// decode reads a JSON column. Its error names the column.
func decode[T any](column, text string, into *T) error {
	if err := record.ReadColumn(text, into); err != nil {
		return fmt.Errorf("%s: %w", column, err)
	}
	return nil
}

// label returns a name as a DNS label of 50 characters at most; empty if no character can stay.
func label(name, empty string) string {
	name = strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= '0' && r <= '9' || r == '-' {
			return r
		}
		return '-'
	}, strings.ToLower(name))
	return cmp.Or(strings.Trim(name[:min(len(name), 50)], "-"), empty)
}

// lifetime returns a pod's run time in seconds, at least a millisecond; +Inf if it still runs.
func lifetime(p *record.Pod) float64 {
	if p.Ended == 0 {
		return math.Inf(1)
	}
	return float64(max(p.Ended-cmp.Or(p.Bound, p.Arrived), 1)) / 1000
}

// count counts the properties of a pod that a trace lacks.
func count(p *record.Pod, lacks map[string]int) {
	var affinity corev1.Affinity
	if decode("affinity", p.Affinity, &affinity) != nil {
		lacks["affinity that cannot be read"]++
	}
	_, whole := affinityOf(p)
	for what, has := range map[string]bool{
		"node affinity": affinity.NodeAffinity != nil && !whole, "pod affinity": affinity.PodAffinity != nil,
		"pod anti-affinity": affinity.PodAntiAffinity != nil,
		"topology spread":   p.Spread != "", "host ports": p.HostPorts != "", "volume claims": p.Claims != "",
		"extended resources": p.Extended != "",
		"priority":           p.Priority != 0, "another scheduler": p.Scheduler != "" && p.Scheduler != corev1.DefaultSchedulerName,
	} {
		if has {
			lacks[what]++
		}
	}
}

// affinityOf returns a pod's required node affinity, none if it is about fields of nodes or Kubernetes would refuse it. whole tells whether
// this is all of the pod's node affinity.
func affinityOf(p *record.Pod) (terms [][]cluster.Requirement, whole bool) {
	var affinity corev1.Affinity
	if decode("affinity", p.Affinity, &affinity) != nil || affinity.NodeAffinity == nil {
		return nil, true
	}
	required := affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution
	terms = kube.Terms(required)
	played := required == nil || len(terms) > 0
	if workload.ValidateAffinity(terms) != nil {
		terms, played = nil, false
	}
	return terms, played && len(affinity.NodeAffinity.PreferredDuringSchedulingIgnoredDuringExecution) == 0
}

// describe describes the trace's missing parts, for people: "pod anti-affinity (12 pods), priority (3 pods)".
func describe(lacks map[string]int) string {
	var out []string
	for what, pods := range lacks {
		out = append(out, fmt.Sprintf("%s (%d pods)", what, pods))
	}
	slices.Sort(out)
	return strings.Join(out, ", ")
}

// Replay is a record as it can be played on a cluster, with all constraints.
type Replay struct {
	// Trace has each pod by itself, under a name that no other pod has. Its shapes hold amounts and tolerations only.
	// A pod leaves when it really ended.
	Trace workload.Trace
	Parts map[string]Part // by the names in Trace
	// Namespaces are the labels of the record's namespaces that its pods' selectors name. Other labels could make the cluster's software act
	// on the pods, such as one that injects containers.
	Namespaces map[string]map[string]string
	Hostnames  map[string]string // names of the record's nodes by their hostname labels, where these differ
	Notes      []string          // unplayed parts, for people
}

// Part holds a pod's part of the record.
type Part struct {
	Row *record.Pod
	// Node is the pod's node at the record's beginning or, for pods of DaemonSets and static pods, at any time. If it is empty, a scheduler
	// places the pod.
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
	nodes, nodesErr := r.Nodes()
	if err := errors.Join(podsErr, objectsErr, runsErr, nodesErr); err != nil {
		return Replay{}, fmt.Errorf("%s: %w", dir, err)
	}
	out, err := replayOf(pods, nodes, objects, runs)
	if err != nil {
		return Replay{}, fmt.Errorf("%s: %w", dir, err)
	}
	out.Notes = append(damage(r), out.Notes...)
	return out, nil
}

// replayOf plays the record from its beginning on. The first pod comes at once.
func replayOf(pods []record.Pod, nodes []record.Node, objects []record.Object, runs []record.Run) (Replay, error) {
	out, err := playFrom(begin(pods, runs), pods, nodes, objects)
	if err != nil {
		return out, err
	}
	out.Trace = out.Trace.FromZero()
	if note := NamespaceNote("the record", pods, objects); note != "" {
		out.Notes = append(out.Notes, note)
	}
	for _, r := range runs {
		note := "not recorded, and so not played: " + r.Missing
		if r.Missing != "" && !slices.Contains(out.Notes, note) { // runs of one source mostly lack the same
			out.Notes = append(out.Notes, note)
		}
	}
	return out, nil
}

// playFrom returns the trace from a time on, in milliseconds since 1970. It begins at 0, with the pods that run at start.
func playFrom(start int64, pods []record.Pod, nodes []record.Node, objects []record.Object) (Replay, error) {
	out := Replay{Parts: map[string]Part{}, Namespaces: map[string]map[string]string{}, Hostnames: hostnames(nodes)}
	lacks, taken := map[string]int{}, map[string]bool{}
	var reader Reader
	selected := map[string]bool{}
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
		restored := reader.Pod(p)
		shape, why := amountsOf(p)
		if why != "" {
			lacks[why]++
			continue
		}
		selectedKeys(restored.Spec.Affinity, selected)
		name := workload.FreeName(label(p.Name, "pod"), taken)
		taken[name] = true
		out.Parts[name] = part
		at := max(p.Arrived, start)
		a := workload.Arrival{
			At: float64(at-start) / 1000, Lifetime: math.Inf(1), Deployment: workload.Deployment{Name: name, Replicas: 1, Shape: shape},
		}
		if p.Ended != 0 {
			a.Lifetime = float64(max(p.Ended-at, 1)) / 1000
		}
		out.Trace = append(out.Trace, a)
		countUnplayed(p, lacks)
	}
	if len(out.Trace) == 0 {
		return out, errors.New("the record has no pods that can be played")
	}
	slices.SortStableFunc(out.Trace, func(a, b workload.Arrival) int { return cmp.Compare(a.At, b.At) })
	out.addObjects(objects, selected, lacks)
	out.Notes = reader.Notes()
	if len(lacks) > 0 {
		out.Notes = append(out.Notes, "not played: "+describe(lacks))
	}
	return out, nil
}

// hostnames returns the names of nodes by their hostname labels, where these differ. Labels that cannot be read are none.
func hostnames(nodes []record.Node) map[string]string {
	out := map[string]string{}
	for i := range nodes {
		if host := record.Labels(nodes[i].Labels)[corev1.LabelHostname]; host != "" && host != nodes[i].Name {
			out[host] = nodes[i].Name
		}
	}
	return out
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

// amountsOf returns the amounts and tolerations of a pod, for measuring a cluster's room. why is the reason why the pod cannot be played;
// it is empty if it can. Any user may create a pod with impossible requests.
func amountsOf(p *record.Pod) (s workload.Shape, why string) {
	s, _ = shapeOf(p) // what cannot be read counts as empty, and Reader notes it
	s.NodeSelector = nil
	amounts := s
	amounts.Tolerations, amounts.GPUModels = nil, nil
	tolerant := s
	tolerant.GPUModels = nil
	switch {
	case amounts.Validate() != nil:
		return s, "pods with requests that are out of range"
	case tolerant.Validate() != nil:
		return s, "pods with tolerations that Kubernetes refuses"
	case s.Validate() != nil:
		return s, "pods with a GPU model that has no name"
	}
	return s, ""
}

// selectedKeys adds the keys of namespaces' labels that the terms of an affinity name.
func selectedKeys(a *corev1.Affinity, to map[string]bool) {
	for _, t := range kube.PodTerms(a) {
		if t.NamespaceSelector == nil {
			continue
		}
		for key := range t.NamespaceSelector.MatchLabels {
			to[key] = true
		}
		for _, r := range t.NamespaceSelector.MatchExpressions {
			to[r.Key] = true
		}
	}
}

// addObjects adds the last labels of the namespaces whose keys are selected, and counts budgets.
func (r *Replay) addObjects(objects []record.Object, selected map[string]bool, lacks map[string]int) {
	var reader Reader
	budgets := map[string]bool{}
	for i := range objects {
		switch o := &objects[i]; o.Kind {
		case record.KindNamespace:
			labels := reader.Labels(o)
			maps.DeleteFunc(labels, func(key, _ string) bool { return !selected[key] })
			r.Namespaces[o.Name] = labels
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

// countUnplayed counts the properties of a pod that a replay leaves out.
func countUnplayed(p *record.Pod, lacks map[string]int) {
	other := record.Labels(p.Labels)[workload.LabelManagedBy] // Reader notes what cannot be read
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

// Namespaces returns the labels of the namespaces of some pods and among some objects, by their names. A namespace that is not among the
// objects has only the label with its name, which every API server sets.
func Namespaces(pods []record.Pod, objects []record.Object) map[string]map[string]string {
	out := map[string]map[string]string{}
	for i := range pods {
		if name := pods[i].Namespace; name != "" && out[name] == nil {
			out[name] = map[string]string{corev1.LabelMetadataName: name}
		}
	}
	var reader Reader
	for i := range objects {
		if o := &objects[i]; o.Kind == record.KindNamespace {
			out[o.Name] = reader.Labels(o)
		}
	}
	return out
}

// NamespaceNote returns how many of the pods select namespaces by unknown labels, because the objects lack such a namespace; empty if there
// are none. holder names the source of the pods and objects, such as "the record".
func NamespaceNote(holder string, pods []record.Pod, objects []record.Object) string {
	known := map[string]bool{}
	for i := range objects {
		if o := &objects[i]; o.Kind == record.KindNamespace {
			known[o.Name] = true
		}
	}
	var unknown []labels.Set
	for name, set := range Namespaces(pods, nil) {
		if !known[name] {
			unknown = append(unknown, set)
		}
	}
	var reader Reader
	open, n := map[string]bool{}, 0 // open has the affinities that were looked at
	for i := range pods {
		text := pods[i].Affinity
		if text == "" || len(unknown) == 0 {
			continue
		}
		depends, seen := open[text]
		if !seen {
			var a corev1.Affinity
			depends = read(&reader, "affinity", text, &a) && dependsOn(&a, unknown)
			open[text] = depends
		}
		if depends {
			n++
		}
	}
	if n == 0 {
		return ""
	}
	return fmt.Sprintf("%d pods select namespaces by labels, which %s lacks of %d namespaces", n, holder, len(unknown))
}

// dependsOn reports whether the match of a namespaceSelector with some namespaces depends on labels other than the name.
func dependsOn(a *corev1.Affinity, unknown []labels.Set) bool {
	for _, t := range kube.PodTerms(a) {
		selector, err := metav1.LabelSelectorAsSelector(t.NamespaceSelector)
		if t.NamespaceSelector == nil || err != nil {
			continue
		}
		all, _ := selector.Requirements() // a selector that selects nothing has no requirements
		for _, set := range unknown {
			excluded, other := false, false
			for _, r := range all {
				byName := r.Key() == corev1.LabelMetadataName
				excluded, other = excluded || byName && !r.Matches(set), other || !byName
			}
			if other && !excluded {
				return true
			}
		}
	}
	return false
}

// Midnight is the beginning of the records of traces, which have no dates: 1 January 2000 in UTC, in milliseconds since
// 1970.
const Midnight = 946_684_800_000

// PodRows returns the pods of a trace as rows of a record that begins at Midnight. Their nodes and bindings are not
// known. Pods with replicas have the Deployment's name and a number. A single pod with the label app is one of a ReplicaSet of that name,
// which takes it away at the end of its lifetime; without the label, a pod with a lifetime is of a Job, which has done its work then.
func PodRows(t workload.Trace) []record.Pod {
	out := make([]record.Pod, 0, t.Pods())
	for i, a := range t {
		s := a.Deployment.Shape
		row := record.Pod{
			Namespace: "default", MilliCPU: s.Requests.MilliCPU, Memory: s.Requests.Memory, GPU: s.Requests.GPU, GPUMilli: s.Requests.GPUMilli,
			CPULimit: s.Limits.MilliCPU, MemoryLimit: s.Limits.Memory, GPUModels: record.Column(s.GPUModels), Labels: record.Column(s.Labels),
			NodeSelector: record.Column(s.NodeSelector), Tolerations: record.Column(kube.Tolerations(s.Tolerations)), Arrived: millis(a.At),
		}
		if affinity := kube.Affinity(s.NodeAffinity); affinity != nil {
			row.Affinity = record.JSON(affinity)
		}
		if !math.IsInf(a.Lifetime, 1) {
			row.Ended, row.End = max(millis(a.At+a.Lifetime), row.Arrived+1), record.Deleted
		}
		switch app := strings.ReplaceAll(strings.ToLower(s.Labels["app"]), "_", "-"); {
		case a.Deployment.Replicas > 1:
		case app != "":
			row.OwnerKind, row.OwnerName, row.Workload = record.KindReplicaSet, app, "ReplicaSet/"+app
		case row.Ended != 0:
			row.End, row.OwnerKind, row.OwnerName = record.Succeeded, "Job", a.Deployment.Name
		}
		for n := range a.Deployment.Replicas {
			row.Name = a.Deployment.Name
			if a.Deployment.Replicas > 1 {
				row.Name = fmt.Sprintf("%s-%d", row.Name, n)
				row.OwnerKind, row.OwnerName, row.Workload = "Deployment", a.Deployment.Name, "Deployment/"+a.Deployment.Name
			}
			row.UID = fmt.Sprintf("%d-%d", i+1, n)
			out = append(out, row)
		}
	}
	return out
}

// Owned returns the ReplicaSets of pods, each with as many replicas at a time as it has pods.
func Owned(pods []record.Pod) (out []record.Object) {
	type change struct {
		at int64
		by int32
	}
	all := map[string][]change{}
	for i := range pods {
		p := &pods[i]
		if p.OwnerKind != record.KindReplicaSet {
			continue
		}
		all[p.OwnerName] = append(all[p.OwnerName], change{p.Arrived, 1})
		if p.Ended != 0 {
			all[p.OwnerName] = append(all[p.OwnerName], change{p.Ended, -1})
		}
	}
	for _, name := range slices.Sorted(maps.Keys(all)) {
		changes, n := all[name], int32(0)
		slices.SortFunc(changes, func(a, b change) int { return cmp.Compare(a.at, b.at) })
		for i, c := range changes {
			if n += c.by; i+1 < len(changes) && changes[i+1].at == c.at {
				continue
			}
			o := record.Object{Kind: record.KindReplicaSet, Namespace: "default", Name: name, From: c.at,
				Scale: record.JSON(record.Scale{Replicas: new(n)})}
			if i+1 < len(changes) {
				o.To = changes[i+1].at
			}
			out = append(out, o)
		}
	}
	return out
}

// millis returns the time of a record for seconds of a trace.
func millis(seconds float64) int64 { return Midnight + int64(math.Round(seconds*1000)) }

// NodeRows returns nodes as rows of a record that begins at Midnight.
func NodeRows(nodes []*cluster.Node) []record.Node {
	out := make([]record.Node, len(nodes))
	for i, n := range nodes {
		a := n.Allocatable
		out[i] = record.Node{
			Name: n.Name, From: Midnight, MilliCPU: a.MilliCPU, Memory: a.Memory, Pods: a.Pods, GPU: a.GPU, GPUModel: n.GPUModel,
			Labels: record.Column(n.Labels), Taints: record.Column(kube.Taints(n.Taints)),
		}
	}
	return out
}
