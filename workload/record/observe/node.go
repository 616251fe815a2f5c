package observe

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	"gnnsched/internal/cluster"
	"gnnsched/internal/cluster/kube"
	"gnnsched/internal/exit"
	"gnnsched/workload/record"
)

// Node translates a node. The times are left to the caller.
func Node(n *corev1.Node) record.Node {
	amounts := kube.Node(n)
	a := amounts.Allocatable
	return record.Node{
		Name: n.Name, MilliCPU: within(a.MilliCPU, cluster.MaxMilliCPU), Memory: within(a.Memory, cluster.MaxMemory),
		Pods: within(a.Pods, 1<<20), GPU: within(a.GPU, 1<<20), GPUModel: amounts.GPUModel,
		Extended: extended(n.Status.Allocatable), Capacity: quantities(n.Status.Capacity), Labels: record.Column(n.Labels),
		Taints: record.Column(taints(n)), Unschedulable: n.Spec.Unschedulable,
		DoNotDisrupt: record.JSON(doNotDisrupt(n.Annotations, nodeMarks)),
	}
}

// deletionCost returns what a pod's annotation says; 0 if the ReplicaSet controller cannot read it.
func deletionCost(p *corev1.Pod) int32 {
	text := p.Annotations[corev1.PodDeletionCost]
	n, err := strconv.ParseInt(text, 10, 32)
	if err != nil || strconv.FormatInt(n, 10) != text { // as +1 and 01
		return 0
	}
	return int32(n)
}

// taints returns a node's taints in the order of their keys, without the times at which they were added: those change nothing. A node
// whose kubelet is not ready has a taint that says so, as Kubernetes' node controller adds it.
func taints(n *corev1.Node) []corev1.Taint {
	out := slices.Clone(n.Spec.Taints)
	for i := range out {
		out[i].TimeAdded = nil
	}
	for _, c := range n.Status.Conditions {
		key := map[corev1.ConditionStatus]string{corev1.ConditionFalse: automatic[0], corev1.ConditionUnknown: automatic[1]}[c.Status]
		if c.Type == corev1.NodeReady && key != "" && !slices.ContainsFunc(out, func(t corev1.Taint) bool { return t.Key == key }) {
			out = append(out, corev1.Taint{Key: key, Effect: corev1.TaintEffectNoSchedule})
		}
	}
	slices.SortFunc(out, func(a, b corev1.Taint) int {
		return strings.Compare(a.Key+"/"+string(a.Effect), b.Key+"/"+string(b.Effect))
	})
	return out
}

// ordinary are the resources that have columns.
var ordinary = []corev1.ResourceName{
	corev1.ResourceCPU, corev1.ResourceMemory, corev1.ResourcePods, kube.GPUResource, kube.GPUCountResource, kube.GPUMilliResource,
}

// extended returns the amounts that have no column, as JSON.
func extended(l corev1.ResourceList) string {
	out := make(corev1.ResourceList, len(l))
	for name, q := range l {
		if !slices.Contains(ordinary, name) && !q.IsZero() {
			out[name] = q
		}
	}
	return quantities(out)
}

// quantities returns a list of resources as JSON.
func quantities(l corev1.ResourceList) string {
	out := make(map[string]string, len(l))
	for name, q := range l {
		out[string(name)] = q.String()
	}
	return record.Column(out)
}

// Namespace translates a namespace.
func Namespace(n *corev1.Namespace) record.Object {
	return record.Object{Kind: record.KindNamespace, Name: n.Name, Spec: record.Column(n.Labels)}
}

// PriorityClass translates a priority class.
func PriorityClass(c *schedulingv1.PriorityClass) record.Object {
	spec := struct {
		Value            int32                    `json:"value"`
		GlobalDefault    bool                     `json:"globalDefault,omitempty"`
		PreemptionPolicy *corev1.PreemptionPolicy `json:"preemptionPolicy,omitempty"`
	}{c.Value, c.GlobalDefault, c.PreemptionPolicy}
	return record.Object{Kind: record.KindPriorityClass, Name: c.Name, Spec: record.JSON(spec)}
}

// triesLeft returns how many more pods of a Job may be evicted before it fails. Of a Job with limits for each index, all failures count.
func triesLeft(j *batchv1.Job) int32 {
	if m := j.Spec.ManagedBy; m != nil && *m != batchv1.JobControllerName {
		return 0 // nothing is known of other controllers
	}
	limit := ptr.Deref(j.Spec.BackoffLimit, 6)
	if each := j.Spec.BackoffLimitPerIndex; each != nil {
		limit = min(ptr.Deref(j.Spec.BackoffLimit, math.MaxInt32), *each)
	}
	if p := j.Spec.PodFailurePolicy; p != nil {
		for _, r := range p.Rules {
			evicted := slices.ContainsFunc(r.OnPodConditions, func(c batchv1.PodFailurePolicyOnPodConditionsPattern) bool {
				return c.Type == corev1.DisruptionTarget && c.Status != corev1.ConditionFalse
			})
			if x := r.OnExitCodes; x != nil { // of SIGTERM and SIGKILL
				listed := slices.Contains(x.Values, 143) || slices.Contains(x.Values, 137)
				evicted = listed == (x.Operator == batchv1.PodFailurePolicyOnExitCodesOpIn)
			}
			switch {
			case evicted && r.Action == batchv1.PodFailurePolicyActionIgnore && r.OnExitCodes == nil:
				return math.MaxInt32
			case evicted && (r.Action == batchv1.PodFailurePolicyActionFailJob || r.Action == batchv1.PodFailurePolicyActionFailIndex):
				return 0
			}
		}
	}
	return max(limit-j.Status.Failed, 0)
}

// Budget translates a PodDisruptionBudget.
func Budget(b *policyv1.PodDisruptionBudget) record.Object {
	return record.Object{Kind: record.KindBudget, Namespace: b.Namespace, Name: b.Name, Spec: record.JSON(b.Spec), Status: budgetStatus(b)}
}

// maxQuantity is more than a cluster has of anything else than what most names, in cores, bytes or pieces.
const maxQuantity = 1e15

// most are the largest amounts that a record holds.
var most = map[corev1.ResourceName]int64{corev1.ResourceCPU: cluster.MaxMilliCPU / 1000, corev1.ResourceMemory: cluster.MaxMemory}

// maxExponent bounds exponents of amounts: to compare 1e1000000000 with another amount takes minutes.
const maxExponent = 100

// inRange clamps the amounts of a list between 0 and a record's largest amount. It returns an error with the first amount that was outside.
// API servers accept limits such as 1e30 cores. They accept no negative amounts, but a file may have them.
func inRange(field string, l corev1.ResourceList) (first error) {
	for _, name := range slices.Sorted(maps.Keys(l)) {
		q := l[name]
		limit := cmp.Or(most[name], maxQuantity)
		text := ""
		switch {
		case q.AsDec().Scale() < -maxExponent:
			text = fmt.Sprintf("over 1e%d", maxExponent)
			l[name] = *resource.NewQuantity(limit*int64((1+q.Sign())/2), q.Format)
		case q.Sign() < 0:
			l[name] = *resource.NewQuantity(0, q.Format)
		case q.CmpInt64(limit) > 0:
			l[name] = *resource.NewQuantity(limit, q.Format)
		default:
			continue
		}
		if first == nil {
			first = fmt.Errorf("%s.%s is %s, want 0 to %d", field, exit.Clean(string(name), 100),
				exit.Clean(cmp.Or(text, q.String()), 40), limit)
		}
	}
	return first
}

// BoundPod bounds a pod's requests and limits to what a record holds. It returns an error with the first amount that was outside.
func BoundPod(p *corev1.Pod) error {
	first := inRange("spec.overhead", p.Spec.Overhead)
	both := func(at string, r corev1.ResourceRequirements) {
		for _, err := range []error{inRange(at+".requests", r.Requests), inRange(at+".limits", r.Limits)} {
			first = cmp.Or(first, err)
		}
	}
	for c := range kube.Containers(p) {
		both("container "+exit.Quote(c.Name)+": resources", c.Resources)
	}
	for _, c := range slices.Concat(p.Status.InitContainerStatuses, p.Status.ContainerStatuses) {
		at := "the status of container " + exit.Quote(c.Name) + ": "
		if c.Resources != nil {
			both(at+"resources", *c.Resources)
		}
		both(at+"allocated", corev1.ResourceRequirements{Requests: c.AllocatedResources})
	}
	for _, r := range []*corev1.ResourceRequirements{p.Spec.Resources, p.Status.Resources} {
		if r != nil {
			both("resources", *r)
		}
	}
	amounts, _ := kube.Pod(p)
	for _, a := range []cluster.Resources{amounts.Requests, amounts.Limits} {
		if first == nil && (a.MilliCPU > cluster.MaxMilliCPU || a.Memory > cluster.MaxMemory) {
			first = fmt.Errorf("its containers have %d milli-cores and %d bytes together, more than a record holds", a.MilliCPU, a.Memory)
		}
	}
	return first
}

// boundNode bounds a node's capacity.
func boundNode(n *corev1.Node) error {
	return cmp.Or(inRange("status.allocatable", n.Status.Allocatable), inRange("status.capacity", n.Status.Capacity))
}

// Pod translates a pod. Times have the API's resolution, a second.
func Pod(p *corev1.Pod) record.Pod {
	amounts, _ := kube.Pod(p) // of a contradictory request for GPUs the part that can be trusted
	r := amounts.Requests
	out := record.Pod{
		UID: string(p.UID), Namespace: p.Namespace, Name: p.Name, Scheduler: record.Word(p.Spec.SchedulerName),
		PriorityClass: p.Spec.PriorityClassName,
		MilliCPU:      within(r.MilliCPU, cluster.MaxMilliCPU), Memory: within(r.Memory, cluster.MaxMemory), GPU: within(r.GPU, 1<<20),
		GPUMilli: within(r.GPUMilli, cluster.DeviceMilli-1),
		CPULimit: within(amounts.Limits.MilliCPU, cluster.MaxMilliCPU), MemoryLimit: within(amounts.Limits.Memory, cluster.MaxMemory),
		GPUModels: record.Column(amounts.GPUModels), Extended: extended(kube.RequestList(p)),
		Labels: record.Column(p.Labels), NodeSelector: record.Column(p.Spec.NodeSelector),
		HostPorts: record.Column(hostPorts(p)), Claims: record.Column(kube.VolumeClaims(p)), Images: record.Column(images(p)),
		Holds:        record.JSON(holds(p)),
		DoNotDisrupt: record.JSON(doNotDisrupt(p.Annotations, podMarks)), Deadline: ptr.Deref(p.Spec.ActiveDeadlineSeconds, 0),
		Group: record.Word(group(p)), DeletionCost: deletionCost(p),
		Spread: record.Column(p.Spec.TopologySpreadConstraints), Tolerations: record.Column(tolerations(p)),
		Arrived: millis(p.CreationTimestamp), Node: p.Spec.NodeName,
	}
	out.UID = cmp.Or(out.UID, p.Namespace+"/"+p.Name) // a hand-written file
	if on, err := kube.Running(p); err == nil {
		out.GPUIndex = kube.FormatDevices(on.Devices)
	}
	out.Priority = ptr.Deref(p.Spec.Priority, 0)
	if p.Spec.PreemptionPolicy != nil {
		out.Preemption = string(*p.Spec.PreemptionPolicy)
	}
	if a := p.Spec.Affinity; a != nil && *a != (corev1.Affinity{}) {
		out.Affinity = record.JSON(withoutDaemonNode(p, a))
	}
	owner(p, &out)
	out.Bound = bound(p)
	out.Health, out.HealthSince = health(p)
	out.Ended, out.End = ended(p)
	return out
}

// gated reports whether the pod waits for the removal of its scheduling gates.
func gated(p *corev1.Pod) bool { return p.Spec.NodeName == "" && len(p.Spec.SchedulingGates) > 0 }

// within bounds an amount. An API server accepts amounts that no machine has.
func within(n, most int64) int64 { return min(max(n, 0), most) }

// millis returns milliseconds since 1970, or 0 for no time.
func millis(t metav1.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return max(t.UnixMilli(), 0)
}

// owner sets who the pod belongs to.
func owner(p *corev1.Pod, out *record.Pod) {
	if _, static := p.Annotations[corev1.MirrorPodAnnotationKey]; static {
		out.Daemon = true
	}
	if kind, name, ok := strings.Cut(kube.Workload(p), "/"); ok {
		out.Workload = record.Word(kind) + "/" + record.Word(name)
	}
	if o := metav1.GetControllerOfNoCopy(p); o != nil {
		out.OwnerKind, out.OwnerName = record.Word(o.Kind), record.Word(o.Name)
		if g := (typed{Version: o.APIVersion}).group(); slices.Contains(ownKinds, o.Kind) && !slices.Contains(ownGroups, g) {
			out.OwnerKind = record.Word(o.Kind + "." + g) // such as Volcano's Job
		}
		out.Daemon = out.Daemon || o.Kind == "DaemonSet"
	}
}

// ownKinds are kinds of Kubernetes' own controllers, of the groups ownGroups.
var (
	ownKinds  = []string{"ReplicaSet", "StatefulSet", "DaemonSet", "Job", "ReplicationController"}
	ownGroups = []string{"", "apps", "batch", "extensions"}
)

// groupKeys are labels and annotations that name the group of pods with which schedulers and controllers start a pod or make it anew.
var groupKeys = []string{
	"scheduling.x-k8s.io/pod-group", "pod-group.scheduling.sigs.k8s.io", "pod-group.scheduling.sigs.k8s.io/name", "pod-group-name",
	"scheduling.k8s.io/group-name", "kueue.x-k8s.io/pod-group-name", "leaderworkerset.sigs.k8s.io/group-key",
	"gang.scheduling.koordinator.sh/name", "yunikorn.apache.org/task-group-name",
}

// group returns the name of the pod's group; "" without one.
func group(p *corev1.Pod) string {
	if g := p.Spec.SchedulingGroup; g != nil && g.PodGroupName != nil {
		return *g.PodGroupName
	}
	for _, key := range groupKeys {
		if name := cmp.Or(p.Labels[key], p.Annotations[key]); name != "" {
			return name
		}
	}
	return ""
}

// automatic are the tolerations that the API server and the DaemonSet controller add to pods.
var automatic = []string{corev1.TaintNodeNotReady, corev1.TaintNodeUnreachable}

// tolerations returns the explicit tolerations, without the default ones that every pod has.
func tolerations(p *corev1.Pod) (out []corev1.Toleration) {
	for _, t := range p.Spec.Tolerations {
		if slices.Contains(automatic, t.Key) && t.Effect == corev1.TaintEffectNoExecute && t.TolerationSeconds != nil {
			continue
		}
		out = append(out, t)
	}
	return out
}

// withoutDaemonNode returns the affinity without the node's name that the DaemonSet controller writes into it: Node has it, and it would
// make every pod's text another one.
func withoutDaemonNode(p *corev1.Pod, a *corev1.Affinity) *corev1.Affinity {
	o := metav1.GetControllerOfNoCopy(p)
	if o == nil || o.Kind != "DaemonSet" || p.Spec.NodeName == "" || a.NodeAffinity == nil ||
		a.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution == nil {
		return a
	}
	a = a.DeepCopy()
	terms := a.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms
	for i := range terms {
		terms[i].MatchFields = nil
	}
	return a
}

// hostPorts lists the ports of the node that the pod takes, as protocol/address/port.
func hostPorts(p *corev1.Pod) (out []string) {
	for _, port := range kube.HostPorts(p) {
		protocol, address := cmp.Or(port.Protocol, corev1.ProtocolTCP), cmp.Or(port.HostIP, "0.0.0.0")
		out = append(out, fmt.Sprintf("%s/%s/%d", protocol, address, port.HostPort))
	}
	return out
}

// holds lists the pod's resources on its node that another node lacks; the list is never nil.
func holds(p *corev1.Pod) []string {
	out := map[string]bool{}
	for _, v := range p.Spec.Volumes {
		switch {
		case v.EmptyDir != nil:
			out[record.HoldsEmptyDir] = true
		case v.HostPath != nil:
			out[record.HoldsHostPath] = true
		}
	}
	if len(p.Spec.ResourceClaims) > 0 {
		out[record.HoldsDevices] = true
	}
	return slices.AppendSeq([]string{}, slices.Values(slices.Sorted(maps.Keys(out))))
}

// images lists each image once.
func images(p *corev1.Pod) (out []string) {
	for _, image := range kube.Images(p) {
		if !slices.Contains(out, image) {
			out = append(out, image)
		}
	}
	return out
}

// bound returns when the pod got its node.
func bound(p *corev1.Pod) int64 {
	if p.Spec.NodeName == "" {
		return 0
	}
	for _, c := range p.Status.Conditions {
		if c.Type == corev1.PodScheduled && c.Status == corev1.ConditionTrue && !c.LastTransitionTime.IsZero() {
			return max(millis(c.LastTransitionTime), millis(p.CreationTimestamp))
		}
	}
	if p.Status.StartTime != nil {
		return max(millis(*p.Status.StartTime), millis(p.CreationTimestamp))
	}
	return millis(p.CreationTimestamp) // the creator chose the node
}

// ended returns when a pod finished that is still there, and how; 0 if it has not.
func ended(p *corev1.Pod) (at int64, how string) {
	if !kube.Finished(p) {
		return 0, ""
	}
	told := len(p.Status.ContainerStatuses) > 0
	for _, c := range slices.Concat(p.Status.ContainerStatuses, p.Status.InitContainerStatuses) {
		if t := c.State.Terminated; t != nil {
			at = max(at, millis(t.FinishedAt))
		}
	}
	for _, c := range p.Status.ContainerStatuses {
		told = told && c.State.Terminated != nil
	}
	if told {
		return max(at, bound(p), millis(p.CreationTimestamp)), why(p)
	}
	for _, c := range p.Status.Conditions { // the last one is the end, as where the node is gone or the kubelet evicts
		at = max(at, millis(c.LastTransitionTime))
	}
	return max(at, bound(p), millis(p.CreationTimestamp)), why(p)
}

// why returns how a pod ended that finished or is deleted.
func why(p *corev1.Pod) string {
	for _, c := range p.Status.Conditions {
		if c.Type == corev1.DisruptionTarget && c.Status == corev1.ConditionTrue {
			if c.Reason == corev1.PodReasonPreemptionByScheduler {
				return record.Preempted
			}
			return record.Evicted
		}
	}
	switch {
	case p.Status.Reason == "Evicted":
		return record.Evicted
	case p.Status.Reason == "Preempting":
		return record.Preempted
	case p.Status.Phase == corev1.PodSucceeded:
		return record.Succeeded
	case p.Status.Phase == corev1.PodFailed:
		return record.Failed
	}
	return record.Deleted
}

// owned returns the row of an owner of pods.
func owned(kind string, x metav1.Object, s record.Scale) record.Object {
	if o := metav1.GetControllerOfNoCopy(x); o != nil {
		s.Owner = record.Word(o.Kind) + "/" + record.Word(o.Name)
	}
	return record.Object{Kind: kind, Namespace: x.GetNamespace(), Name: x.GetName(), Scale: record.JSON(s)}
}

// asked returns the replicas of a spec; without them, API servers take one.
func asked(replicas *int32) *int32 { return new(ptr.Deref(replicas, 1)) }

// written returns a number or a percentage as text; empty for none.
func written(x *intstr.IntOrString) string {
	if x == nil {
		return ""
	}
	return record.Word(x.String())
}

// Deployment translates a Deployment.
func Deployment(d *appsv1.Deployment) record.Object {
	s := record.Scale{Replicas: asked(d.Spec.Replicas), Strategy: record.Word(string(d.Spec.Strategy.Type))}
	if r := d.Spec.Strategy.RollingUpdate; r != nil {
		s.MaxSurge, s.MaxUnavailable = written(r.MaxSurge), written(r.MaxUnavailable)
	}
	return owned(record.KindDeployment, d, s)
}

// ReplicaSet translates a ReplicaSet.
func ReplicaSet(r *appsv1.ReplicaSet) record.Object {
	return owned(record.KindReplicaSet, r, record.Scale{Replicas: asked(r.Spec.Replicas)})
}

// StatefulSet translates a StatefulSet.
func StatefulSet(t *appsv1.StatefulSet) record.Object {
	s := record.Scale{Replicas: asked(t.Spec.Replicas), Strategy: record.Word(string(t.Spec.UpdateStrategy.Type))}
	if r := t.Spec.UpdateStrategy.RollingUpdate; r != nil {
		s.MaxUnavailable = written(r.MaxUnavailable)
	}
	return owned(record.KindStatefulSet, t, s)
}

// DaemonSet translates a DaemonSet. How many pods it has follows from the nodes.
func DaemonSet(d *appsv1.DaemonSet) record.Object {
	s := record.Scale{Strategy: record.Word(string(d.Spec.UpdateStrategy.Type))}
	if r := d.Spec.UpdateStrategy.RollingUpdate; r != nil {
		s.MaxSurge, s.MaxUnavailable = written(r.MaxSurge), written(r.MaxUnavailable)
	}
	return owned(record.KindDaemonSet, d, s)
}

// Job translates a Job.
func Job(j *batchv1.Job) record.Object {
	out := owned(record.KindJob, j, jobScale(&j.Spec))
	out.Spec = record.JSON(triesLeft(j))
	return out
}

func jobScale(j *batchv1.JobSpec) record.Scale {
	return record.Scale{
		Parallelism: j.Parallelism, Completions: j.Completions, BackoffLimit: j.BackoffLimit, Suspend: ptr.Deref(j.Suspend, false),
	}
}

// CronJob translates a CronJob. The numbers are those of its Jobs.
func CronJob(c *batchv1.CronJob) record.Object {
	s := jobScale(&c.Spec.JobTemplate.Spec)
	s.Suspend = ptr.Deref(c.Spec.Suspend, false)
	s.Schedule, s.TimeZone = record.Word(c.Spec.Schedule), record.Word(ptr.Deref(c.Spec.TimeZone, ""))
	return owned(record.KindCronJob, c, s)
}

// Autoscaler translates a HorizontalPodAutoscaler. The replicas are those that it sets now; what it measures is left out, because it always
// changes.
func Autoscaler(h *autoscalingv2.HorizontalPodAutoscaler) record.Object {
	t := h.Spec.ScaleTargetRef
	s := record.Scale{
		Target: record.Word(t.Kind) + "/" + record.Word(t.Name), Min: asked(h.Spec.MinReplicas), Max: new(h.Spec.MaxReplicas),
		Replicas: new(h.Status.DesiredReplicas),
	}
	for _, m := range h.Spec.Metrics {
		if text := metric(m); text != "" && len(s.Metrics) < maxMetrics {
			s.Metrics = append(s.Metrics, text)
		}
	}
	slices.Sort(s.Metrics)
	return owned(record.KindAutoscaler, h, s)
}

// maxMetrics bounds the metrics of an autoscaler in a record. API servers set no limit.
const maxMetrics = 20

// metric describes a metric and its goal, such as "cpu 80%" or "requests 100".
func metric(m autoscalingv2.MetricSpec) string {
	name, goal := "", autoscalingv2.MetricTarget{}
	switch {
	case m.Resource != nil:
		name, goal = string(m.Resource.Name), m.Resource.Target
	case m.ContainerResource != nil:
		name, goal = string(m.ContainerResource.Name), m.ContainerResource.Target
	case m.Pods != nil:
		name, goal = m.Pods.Metric.Name, m.Pods.Target
	case m.Object != nil:
		name, goal = m.Object.Metric.Name, m.Object.Target
	case m.External != nil:
		name, goal = m.External.Metric.Name, m.External.Target
	}
	if name == "" {
		return ""
	}
	if goal.AverageUtilization != nil {
		return fmt.Sprintf("%s %d%%", record.Word(name), *goal.AverageUtilization)
	}
	if q := cmp.Or(goal.AverageValue, goal.Value); q != nil {
		return record.Word(name) + " " + record.Word(q.String())
	}
	return record.Word(name)
}
