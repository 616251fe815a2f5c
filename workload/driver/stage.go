package driver

import (
	"cmp"
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/ptr"

	"gnnsched/internal/cluster"
	"gnnsched/internal/cluster/kube"
	"gnnsched/internal/exit"
	"gnnsched/workload"
	"gnnsched/workload/record/play"
)

// stage lists the objects that the pods of a record need on the cluster.
type stage struct {
	Config
	reader  play.Reader       // package play has already noted unreadable parts
	spaces  map[string]string // namespaces of the cluster, by the record's
	classes map[priority]string
	nodes   map[string]string // hostname labels of the cluster's nodes, by name
	left    map[string]bool   // DaemonSet pods whose nodes are not there, by name

	planned  int            // pods to create
	accepted int            // pods that the API server took
	refused  map[string]int // pods that it did not accept, by the reason
	rejected int            // their sum
}

// prepareStage creates the namespaces and priority classes that the pods of the plan need.
func (c *Config) prepareStage(ctx context.Context) (*stage, error) {
	s := &stage{Config: *c, spaces: map[string]string{}, classes: map[priority]string{},
		nodes: map[string]string{}, left: map[string]bool{}, refused: map[string]int{}}
	if err := s.listNodes(ctx); err != nil {
		return nil, err
	}
	if err := s.createSpaces(ctx); err != nil {
		return nil, err
	}
	if err := s.createClasses(ctx); err != nil {
		return nil, err
	}
	s.checkNodes()
	return s, nil
}

// parts calls each with the pods of the plan.
func (s *stage) parts(each func(name string, p play.Part)) {
	for _, step := range s.Plan.Steps {
		if step.Action == workload.Add {
			each(step.Deployment.Name, s.replay.Parts[step.Deployment.Name])
		}
	}
}

func (s *stage) listNodes(ctx context.Context) error {
	err := each(ctx, s.Client.CoreV1().Nodes().List, metav1.ListOptions{}, func(n *corev1.Node) {
		s.nodes[n.Name] = cmp.Or(n.Labels[corev1.LabelHostname], n.Name)
	})
	if err != nil {
		return fmt.Errorf("list the nodes: %w", err)
	}
	return nil
}

// node returns the cluster's name for a node of the record: the same, or the name that kwokcluster up --pools gave its simulation. It is
// empty if the cluster has neither.
func (s *stage) node(name string) string {
	for _, n := range []string{name, play.SimulatedName(name)} {
		if s.nodes[n] != "" {
			return n
		}
	}
	return ""
}

// hostname returns the hostname label of the cluster's node for the one with a hostname label or a name in the record. It is empty if
// the cluster lacks the node.
func (s *stage) hostname(label string) string {
	if name, ok := s.replay.Hostnames[label]; ok {
		return s.nodes[s.node(name)]
	}
	return s.nodes[s.node(label)]
}

// checkNodes warns about pods that cannot be on their recorded nodes.
func (s *stage) checkNodes() {
	moved := 0
	s.parts(func(name string, p play.Part) {
		s.planned++
		switch {
		case p.Node == "" || s.node(p.Node) != "":
		case p.Row.Daemon:
			s.left[name] = true
		default:
			moved++
		}
	})
	if n := len(s.left); n > 0 {
		s.planned -= n
		s.Log.Warn().Int("pods", n).
			Msg("the cluster lacks nodes of the record; their DaemonSet pods are left out. `kwokcluster up --pools RECORD` makes the nodes")
	}
	if moved > 0 {
		s.Log.Warn().Int("pods", moved).Msg("the cluster lacks nodes on which pods ran at the beginning; the scheduler places these pods")
	}
}

// space returns the cluster's namespace for one of the record.
func (s *stage) space(name string) string {
	if to, ok := s.spaces[name]; ok {
		return to
	}
	taken := map[string]bool{}
	for _, t := range s.spaces {
		taken[t] = true
	}
	free := s.Namespace + "-" + name
	if len(free) > 60 { // a number may follow
		free = strings.TrimRight(free[:60], "-")
	}
	s.spaces[name] = workload.FreeName(free, taken)
	return s.spaces[name]
}

// createSpaces creates a namespace for each namespace of the record with pods. None may exist already: its pods would take part in the
// affinity and spreading of the record's.
func (s *stage) createSpaces(ctx context.Context) error {
	created := map[string]bool{}
	var names []string
	s.parts(func(_ string, p play.Part) {
		if !created[p.Row.Namespace] {
			created[p.Row.Namespace] = true
			names = append(names, p.Row.Namespace)
		}
	})
	for _, name := range names {
		n := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: s.space(name), Labels: s.spaceLabels(name)}}
		err := create(ctx, s.Client.CoreV1().Namespaces(), n)
		if apierrors.IsAlreadyExists(err) {
			return exit.New(exit.Usage, fmt.Errorf("namespace %s exists already, and a replay needs new ones", n.Name),
				"remove earlier runs with `cleancluster`, or choose another prefix with --namespace")
		}
		if err != nil {
			return fmt.Errorf("create namespace %s: %w", n.Name, err)
		}
	}
	return nil
}

// spaceLabels returns the labels of a namespace of the record plus the labels for cleancluster.
func (s *stage) spaceLabels(name string) map[string]string {
	out := s.labels()
	for k, v := range s.replay.Namespaces[name] {
		if _, own := out[k]; !own && k != corev1.LabelMetadataName {
			out[k] = v
		}
	}
	return out
}

// create creates a pod of the record. here is false if the pod is left out, or if the API server does not accept it.
func (s *stage) create(ctx context.Context, d workload.Deployment) (here bool, err error) {
	if s.left[d.Name] {
		return false, nil
	}
	return s.submit(ctx, s.pod(d.Name))
}

// firstRefusals is the number of pods that the API server must refuse, without accepting any, for a replay to end.
const firstRefusals = 20

// submit creates a pod. A pod that the API server does not accept is counted.
func (s *stage) submit(ctx context.Context, p *corev1.Pod) (here bool, err error) {
	err = create(ctx, s.Client.CoreV1().Pods(p.Namespace), p)
	switch {
	case err == nil:
		s.accepted++
		return true, nil
	case !refusal(err):
		return false, fmt.Errorf("create pod %s: %w", p.Name, err)
	}
	s.refused[refusalReason(err, p.Name)]++
	s.rejected++
	if s.rejected == 1 {
		s.Log.Warn().Err(err).Str("pod", p.Name).Msg("the API server refuses a pod of the record; it is left out, as are others that it refuses")
	}
	if n := s.rejected; s.accepted == 0 && n >= min(firstRefusals, s.planned) {
		return false, fmt.Errorf("the API server refused each of the first %d pods of the record, the last one with: %w", n, err)
	}
	return false, nil
}

// refusal reports whether an error is about the pod, so that others may be accepted.
func refusal(err error) bool {
	if apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause) { // the run is being removed
		return false
	}
	// these choose their own status
	webhook := strings.Contains(err.Error(), "denied the request") || strings.Contains(err.Error(), "failed calling webhook")
	return webhook || apierrors.IsForbidden(err) || apierrors.IsInvalid(err) || apierrors.IsBadRequest(err) ||
		apierrors.IsRequestEntityTooLargeError(err)
}

// refusalReason returns the API server's reason for refusing a pod, without the parts that differ between pods refused for the same reason.
func refusalReason(err error, pod string) string {
	text := err.Error()
	for _, before := range []string{fmt.Sprintf("pods %q is forbidden: ", pod), fmt.Sprintf("Pod %q is invalid: ", pod)} {
		text = strings.TrimPrefix(text, before)
	}
	if i := strings.Index(text, ", requested: "); i >= 0 && strings.Contains(text, "exceeded quota") {
		text = text[:i] // the amount in use changes with each pod
	}
	text = regexp.MustCompile(`(^|[^a-z0-9.-])`+regexp.QuoteMeta(pod)+`($|[^a-z0-9.-])`).ReplaceAllString(text, "${1}POD${2}")
	text = strings.Join(strings.Fields(text), " ")
	if r := []rune(text); len(r) > 300 {
		text = string(r[:300]) + "…"
	}
	return text
}

// Capacity is the capacity of a cluster for a workload.
type Capacity struct {
	Nodes       int               // schedulable nodes
	Excluded    int               // nodes that are cordoned or have a taint that no shape tolerates
	Allocatable cluster.Resources // of the schedulable nodes
	Used        cluster.Resources // requested by the pods that are bound to them
}

// Load returns the load of the present pods.
func (r Capacity) Load() workload.Load { return workload.LoadOf(r.Used, r.Allocatable) }

// Measure returns the capacity of the nodes that accept pods with the tolerations, and its used part. GPUs come from the nodes' capacity or
// their ResourceSlices.
func Measure(ctx context.Context, client kubernetes.Interface, tolerations []cluster.Toleration) (Capacity, error) {
	var r Capacity
	inSlices, err := gpusInSlices(ctx, client)
	if err != nil {
		return r, err
	}
	counted := map[string]bool{}
	err = each(ctx, client.CoreV1().Nodes().List, metav1.ListOptions{}, func(o *corev1.Node) {
		n := kube.Node(o)
		if !n.Admits(tolerations) {
			r.Excluded++
			return
		}
		counted[n.Name] = true
		r.Nodes++
		if n.Allocatable.TotalGPUMilli() == 0 { // else they are the same GPUs
			n.Allocatable.GPU = inSlices[n.Name]
		}
		r.Allocatable = r.Allocatable.Plus(n.Allocatable)
	})
	if err != nil {
		return Capacity{}, fmt.Errorf("list the nodes: %w", err)
	}
	running := metav1.ListOptions{FieldSelector: "spec.nodeName!=,status.phase!=Succeeded,status.phase!=Failed"}
	err = each(ctx, client.CoreV1().Pods(metav1.NamespaceAll).List, running, func(p *corev1.Pod) {
		if counted[p.Spec.NodeName] && !kube.Finished(p) {
			running, _ := kube.Running(p) // if annotations contradict the resources, the resources count
			r.Used = r.Used.Plus(running.Requests)
		}
	})
	if err != nil {
		return Capacity{}, fmt.Errorf("list the pods: %w", err)
	}
	return r, nil
}

// gpusInSlices returns the number of GPUs in the ResourceSlices of each node. Clusters before Kubernetes 1.34 have none, and a user who may
// not read them does not need them.
func gpusInSlices(ctx context.Context, client kubernetes.Interface) (map[string]int64, error) {
	var all []resourceapi.ResourceSlice
	err := each(ctx, client.ResourceV1().ResourceSlices().List, metav1.ListOptions{}, func(s *resourceapi.ResourceSlice) {
		all = append(all, *s)
	})
	if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsForbidden(err) {
		return nil, fmt.Errorf("list the resource slices: %w", err)
	}
	return kube.GPUsInSlices(all), nil
}

// pod returns a pod of the record as this run creates it.
func (s *stage) pod(name string) *corev1.Pod {
	part := s.replay.Parts[name]
	p := s.reader.Pod(part.Row)
	meta := metav1.ObjectMeta{
		Name: name, Namespace: s.space(part.Row.Namespace), Labels: s.podLabels(p.Labels), Annotations: map[string]string{},
	}
	for k, v := range p.Annotations {
		if k != corev1.MirrorPodAnnotationKey {
			meta.Annotations[k] = v
		}
	}
	if part.Row.Workload != "" {
		meta.Annotations[kube.WorkloadAnnotation] = part.Row.Workload
	}
	spec := p.Spec
	spec.SchedulerName = s.SchedulerName
	spec.Priority, spec.PreemptionPolicy, spec.PriorityClassName = nil, nil, s.classes[s.priorityOf(part.Row)]
	spec.AutomountServiceAccountToken, spec.EnableServiceLinks = ptr.To(false), ptr.To(false) // the pods never call the API server
	if host := s.hostname(spec.NodeSelector[corev1.LabelHostname]); host != "" {
		spec.NodeSelector[corev1.LabelHostname] = host
	}
	for _, t := range kube.Tolerations(workload.Tolerations(nil)) {
		if !slices.Contains(spec.Tolerations, t) {
			spec.Tolerations = append(spec.Tolerations, t)
		}
	}
	for i := range spec.TopologySpreadConstraints {
		c := &spec.TopologySpreadConstraints[i]
		unmerge(c.LabelSelector, c.MatchLabelKeys, nil, p.Labels)
	}
	s.affinity(spec.Affinity, p.Labels)
	app := &spec.Containers[0]
	app.Name, app.Image, app.Ports = "app", s.Image, hostPorts(app.Ports)
	if part.Node != "" {
		spec.NodeName = s.node(part.Node)
	}
	return &corev1.Pod{ObjectMeta: meta, Spec: spec}
}

// podLabels returns the labels of a pod of the record plus the labels for cleancluster.
func (s *stage) podLabels(own map[string]string) map[string]string {
	out := s.labels()
	out[workload.LabelFill] = "1"
	for k, v := range own {
		if _, set := out[k]; !set {
			out[k] = v
		}
	}
	return out
}

// hostPorts returns ports without repetitions, which Kubernetes refuses, and without the address that stands for all.
func hostPorts(all []corev1.ContainerPort) (out []corev1.ContainerPort) {
	for _, p := range all {
		if p.HostIP == "0.0.0.0" {
			p.HostIP = ""
		}
		if !slices.Contains(out, p) {
			out = append(out, p)
		}
	}
	return out
}

// affinity puts the cluster's names of nodes and namespaces into an affinity of the record.
func (s *stage) affinity(a *corev1.Affinity, labels map[string]string) {
	for _, t := range kube.NodeTerms(a) {
		for _, r := range t.MatchExpressions {
			if r.Key == corev1.LabelHostname {
				replace(r.Values, s.hostname)
			}
		}
		for _, r := range t.MatchFields {
			if r.Key == metav1.ObjectNameField {
				replace(r.Values, s.node)
			}
		}
	}
	for _, t := range kube.PodTerms(a) {
		s.podTerm(t, labels)
	}
}

// replace replaces each value that has a replacement.
func replace(values []string, by func(string) string) {
	for i, v := range values {
		if other := by(v); other != "" {
			values[i] = other
		}
	}
}

func (s *stage) podTerm(t *corev1.PodAffinityTerm, labels map[string]string) {
	unmerge(t.LabelSelector, t.MatchLabelKeys, t.MismatchLabelKeys, labels)
	for i, n := range t.Namespaces {
		t.Namespaces[i] = s.space(n)
	}
	if t.NamespaceSelector == nil {
		return
	}
	if n, ok := t.NamespaceSelector.MatchLabels[corev1.LabelMetadataName]; ok {
		t.NamespaceSelector.MatchLabels[corev1.LabelMetadataName] = s.space(n)
	}
	for _, r := range t.NamespaceSelector.MatchExpressions {
		for i, n := range r.Values {
			if r.Key == corev1.LabelMetadataName {
				r.Values[i] = s.space(n)
			}
		}
	}
}

// unmerge removes from a selector the terms that the API server has merged into it from the keys. The API server merges again when the pod
// is created, and refuses a selector that already has them.
func unmerge(selector *metav1.LabelSelector, match, mismatch []string, labels map[string]string) {
	if selector == nil {
		return
	}
	merged := func(r metav1.LabelSelectorRequirement, keys []string, operator metav1.LabelSelectorOperator) bool {
		return r.Operator == operator && slices.Contains(keys, r.Key) && slices.Equal(r.Values, []string{labels[r.Key]})
	}
	selector.MatchExpressions = slices.DeleteFunc(selector.MatchExpressions, func(r metav1.LabelSelectorRequirement) bool {
		return merged(r, match, metav1.LabelSelectorOpIn) || merged(r, mismatch, metav1.LabelSelectorOpNotIn)
	})
}
