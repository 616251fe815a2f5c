package observe

import (
	"math"
	"strings"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"gnnsched/workload/record"
)

// What owners write counts only as those who honour it read it.
func TestDoNotDisrupt(t *testing.T) {
	for _, c := range []struct{ key, value, want string }{
		{"cluster-autoscaler.kubernetes.io/safe-to-evict", "false", `["cluster-autoscaler.kubernetes.io/safe-to-evict=false"]`},
		{"cluster-autoscaler.kubernetes.io/safe-to-evict", "true", `[]`},
		{"karpenter.sh/do-not-disrupt", "true", `["karpenter.sh/do-not-disrupt=true"]`},
		{"karpenter.sh/do-not-disrupt", "1h30m", `["karpenter.sh/do-not-disrupt=1h30m"]`},
		{"karpenter.sh/do-not-disrupt", "-1h", `[]`},
		{"karpenter.sh/do-not-disrupt", strings.Repeat("1h", 100), `[]`},
		{"karpenter.sh/do-not-disrupt", "yes", `[]`},
		{"descheduler.alpha.kubernetes.io/prefer-no-eviction", "\x1b[2J", `["descheduler.alpha.kubernetes.io/prefer-no-eviction"]`},
		{"descheduler.alpha.kubernetes.io/evict", "true", `[]`},
	} {
		p := podOf("a", 1)
		p.Annotations = map[string]string{c.key: c.value}
		if got := Pod(p).DoNotDisrupt; got != c.want {
			t.Errorf("%s: %s: %s, want %s", c.key, c.value, got, c.want)
		}
	}
	p := podOf("a", 1)
	p.Spec.ActiveDeadlineSeconds = ptr.To[int64](90)
	if got := Pod(p).Deadline; got != 90 {
		t.Errorf("a deadline of %d s, want 90 s", got)
	}
	n := &corev1.Node{}
	n.Annotations = map[string]string{"cluster-autoscaler.kubernetes.io/scale-down-disabled": "true", "karpenter.sh/do-not-evict": "true"}
	if got := Node(n).DoNotDisrupt; got != `["cluster-autoscaler.kubernetes.io/scale-down-disabled=true"]` {
		t.Errorf("a node: %s", got)
	}
}

// A pod's health follows from the conditions, from their times on. If these have no times, it is known from when it was seen.
func TestHealth(t *testing.T) {
	ready := func(p *corev1.Pod, status corev1.ConditionStatus, since int64) *corev1.Pod {
		p = p.DeepCopy()
		c := corev1.PodCondition{Type: corev1.PodReady, Status: status}
		if since > 0 {
			c.LastTransitionTime = at(since)
		}
		p.Status.Phase, p.Status.Conditions = corev1.PodRunning, append(p.Status.Conditions[:1:1], c)
		return p
	}
	f, s, clock := follower(record.State{})
	p := bind(podOf("a", 100), "n1", 103)
	p.Status.Phase = corev1.PodPending
	gone := ready(p, corev1.ConditionTrue, 120)
	gone.DeletionTimestamp, gone.DeletionGracePeriodSeconds = ptr.To(at(230)), ptr.To[int64](30)
	for i, c := range []struct {
		pod   *corev1.Pod
		want  string
		since int64
	}{
		{p, record.Pending, 100 * second},
		{ready(p, corev1.ConditionFalse, 0), record.NotReady, 111 * second},
		{ready(p, corev1.ConditionFalse, 0), record.NotReady, 111 * second},
		{ready(p, corev1.ConditionUnknown, 105), record.NotReady, 105 * second},
		{ready(p, corev1.ConditionTrue, 120), record.Ready, 120 * second},
		{gone, record.Terminating, 200 * second},
		{finish(p, corev1.PodSucceeded, 220), "", 0},
	} {
		*clock = int64(110+i) * second
		f.Pod(c.pod, false)
		if got := s.pods["uid-a"]; got.Health != c.want || got.HealthSince != c.since {
			t.Errorf("%d: %s since %d, want %s since %d", i, got.Health, got.HealthSince, c.want, c.since)
		}
	}
	if row := (&record.Pod{Health: record.Ready, HealthSince: 5}); row.HealthAt(4) != "" || row.HealthAt(5) != record.Ready {
		t.Error("the health of a time before it began")
	}
}

// The status of a budget is recorded if the disruption controller has seen its present form.
func TestBudgetStatus(t *testing.T) {
	b := &policyv1.PodDisruptionBudget{}
	b.Generation, b.Status = 2, policyv1.PodDisruptionBudgetStatus{
		DisruptionsAllowed: 1, CurrentHealthy: 3, ObservedGeneration: 2, DisruptedPods: nil,
	}
	want := `{"disruptionsAllowed":1,"currentHealthy":3,"desiredHealthy":0,"expectedPods":0}`
	if got := Budget(b).Status; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	b.Status.ObservedGeneration = 0 // left out of a file
	if got := Budget(b).Status; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	b.Status.ObservedGeneration = 1
	if got := Budget(b).Status; got != "" {
		t.Errorf("of an earlier generation: %s", got)
	}
	b.Status = policyv1.PodDisruptionBudgetStatus{}
	if got := Budget(b).Status; got != "" {
		t.Errorf("of nobody: %s", got)
	}
}

// How many more pods of a Job may be evicted before it fails.
func TestTriesLeft(t *testing.T) {
	rules := func(all ...batchv1.PodFailurePolicyRule) func(*batchv1.Job) {
		return func(j *batchv1.Job) { j.Spec.PodFailurePolicy = &batchv1.PodFailurePolicy{Rules: all} }
	}
	disrupted := []batchv1.PodFailurePolicyOnPodConditionsPattern{{Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue}}
	code := func(codes ...int32) batchv1.PodFailurePolicyRule {
		return batchv1.PodFailurePolicyRule{Action: batchv1.PodFailurePolicyActionFailJob, OnExitCodes: &batchv1.PodFailurePolicyOnExitCodesRequirement{
			Operator: batchv1.PodFailurePolicyOnExitCodesOpIn, Values: codes,
		}}
	}
	ignore := batchv1.PodFailurePolicyRule{Action: batchv1.PodFailurePolicyActionIgnore, OnPodConditions: disrupted}
	for name, c := range map[string]struct {
		change func(*batchv1.Job)
		want   int32
	}{
		"by default":               {func(*batchv1.Job) {}, 6},
		"none":                     {func(j *batchv1.Job) { j.Spec.BackoffLimit = new(int32(0)) }, 0},
		"spent":                    {func(j *batchv1.Job) { j.Spec.BackoffLimit, j.Status.Failed = new(int32(2)), 3 }, 0},
		"for each index":           {func(j *batchv1.Job) { j.Spec.BackoffLimitPerIndex, j.Status.Failed = new(int32(2)), 1 }, 1},
		"another controller":       {func(j *batchv1.Job) { j.Spec.ManagedBy = new("kueue.x-k8s.io/multikueue") }, 0},
		"evictions do not count":   {rules(code(42), ignore), math.MaxInt32},
		"SIGTERM's code ends it":   {rules(code(143), ignore), 0},
		"an eviction ends it":      {rules(batchv1.PodFailurePolicyRule{Action: batchv1.PodFailurePolicyActionFailJob, OnPodConditions: disrupted}), 0},
		"an eviction counts as is": {rules(batchv1.PodFailurePolicyRule{Action: batchv1.PodFailurePolicyActionCount, OnPodConditions: disrupted}), 6},
	} {
		j := &batchv1.Job{}
		c.change(j)
		if got := triesLeft(j); got != c.want {
			t.Errorf("%s: %d, want %d", name, got, c.want)
		}
	}
}

// A pod names its group, an owner outside Kubernetes its API group, and a node's taints that its kubelet is gone.
func TestWhoMakesPodsAnew(t *testing.T) {
	group := "tr"
	p := &corev1.Pod{Spec: corev1.PodSpec{SchedulingGroup: &corev1.PodSchedulingGroup{PodGroupName: &group}}}
	p.OwnerReferences = []metav1.OwnerReference{{APIVersion: "batch.volcano.sh/v1alpha1", Kind: "Job", Name: "x", Controller: new(true)}}
	if r := Pod(p); r.Group != "tr" || r.OwnerKind != "Job.batch.volcano.sh" {
		t.Errorf("%+v", r)
	}
	p = &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{"scheduling.k8s.io/group-name": "v"}}}
	if r := Pod(p); r.Group != "v" {
		t.Errorf("%+v", r)
	}
	n := &corev1.Node{Status: corev1.NodeStatus{Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionUnknown}}}}
	if r := Node(n); !strings.Contains(r.Taints, corev1.TaintNodeUnreachable) {
		t.Errorf("%+v", r)
	}
}
