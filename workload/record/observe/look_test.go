package observe

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"pgregory.net/rapid"

	"gnnsched/internal/fatal"
	"gnnsched/workload/record"
)

// node and pod return objects as JSON.
func nodeJSON(name string) string {
	return fmt.Sprintf(`{"kind":"Node","metadata":{"name":%q}}`, name)
}

func podJSON(name, node string) string {
	space, name, _ := strings.Cut(name, "/")
	return fmt.Sprintf(`{"kind":"Pod","metadata":{"name":%q,"namespace":%q},"spec":{"nodeName":%q}}`, name, space, node)
}

func listOf(all ...string) string { return `{"kind":"List","items":[` + strings.Join(all, ",") + `]}` }

// state returns the objects after looks: nodes, then pods, in order.
func (p *Known) state() string {
	var out []string
	for n := range p.nodes {
		out = append(out, n)
	}
	for k := range p.pods {
		out = append(out, k.namespace+"/"+k.name)
	}
	slices.Sort(out)
	return strings.Join(out, " ")
}

func TestLooks(t *testing.T) {
	nodes := listOf(nodeJSON("n1"), nodeJSON("n2"))
	for what, c := range map[string]struct {
		files   []string // in the order of their times
		looks   int
		want    string
		assumed Assumed // of the last look
	}{
		"a file for each namespace": {[]string{nodes, listOf(podJSON("a/x", "n1")), listOf(podJSON("b/y", "n2"))}, 1, "a/x b/y n1 n2",
			Assumed{}},
		"one namespace again": {[]string{nodes, listOf(podJSON("a/x", "n1"), podJSON("a/z", "n1")),
			listOf(podJSON("b/y", "n2")), listOf(podJSON("a/x", "n1"))}, 2, "a/x b/y n1 n2", Assumed{Pods: 1, Pod: "b/y"}},
		"all namespaces, two times": {[]string{listOf(podJSON("a/x", ""), podJSON("b/y", ""), podJSON("c/z", "")),
			listOf(podJSON("a/x", ""), podJSON("b/y", ""))}, 2, "a/x b/y", Assumed{}},
		"objects of other kinds tell as much": {[]string{listOf(podJSON("a/x", ""), podJSON("b/y", "")),
			listOf(podJSON("a/x", ""), `{"kind":"Service","metadata":{"name":"s","namespace":"c"}}`)}, 2, "a/x", Assumed{}},
		"objects by themselves": {[]string{nodeJSON("n1"), nodeJSON("n2"), podJSON("a/x", "n1"), podJSON("a/y", "n2")}, 1,
			"a/x a/y n1 n2", Assumed{}},
		"an object again": {[]string{nodes, podJSON("a/x", "n1"), podJSON("a/x", "n2")}, 2, "a/x n1 n2", Assumed{}},
		"a node is gone, with its pods": {[]string{nodes, listOf(podJSON("a/x", "n1")), listOf(podJSON("b/y", "n2")), listOf(nodeJSON("n1"))},
			2, "a/x n1", Assumed{Pods: 1, Pod: "a/x"}},
		"a list of some nodes": {[]string{listOf(nodeJSON("n1"), nodeJSON("n2"), podJSON("a/x", "n2")),
			listOf(nodeJSON("n1"), podJSON("a/x", "n2"))}, 2, "a/x n1 n2", Assumed{}},
		"a node that no file has": {[]string{listOf(nodeJSON("n1"), podJSON("a/x", "n9"))}, 1, "a/x n1",
			Assumed{Nowhere: 1, NodeLess: "n9"}},
		"an object that cannot be read": {[]string{listOf(podJSON("a/x", ""), podJSON("a/y", ""), podJSON("a/z", "")),
			listOf(podJSON("a/x", ""), `{"kind":"Pod","apiVersion":"v9","metadata":{"name":"y","namespace":"a"}}`)}, 2, "a/x a/y",
			Assumed{Pods: 1, Pod: "a/y"}},
		"lists in a list": {[]string{listOf(listOf(podJSON("a/x", "")), listOf(podJSON("b/y", ""))), listOf(podJSON("a/x", ""))}, 2,
			"a/x b/y", Assumed{Pods: 1, Pod: "b/y"}},
		"an empty list": {[]string{listOf(podJSON("a/x", "")), `{"kind":"PodList","items":null}`}, 1, "a/x", Assumed{}},
		"lists in one file": {[]string{listOf(podJSON("a/x", "")) + listOf(podJSON("b/y", "")), listOf(podJSON("a/x", ""))}, 2, "a/x b/y",
			Assumed{Pods: 1, Pod: "b/y"}},
	} {
		var files []File
		for i, text := range c.files {
			files = append(files, read(t, text, int64(i+1)))
		}
		looks, err := Looks(files)
		if err != nil || len(looks) != c.looks {
			t.Errorf("%s: %d looks, %v", what, len(looks), err)
		}
		p, assumed := NewKnown(), Assumed{}
		for _, l := range looks {
			assumed = p.Look(l)
		}
		if got := p.state(); got != c.want || assumed != c.assumed {
			t.Errorf("%s: %s, %+v", what, got, assumed)
		}
	}
}

// Lists of one folder and of about one time that have nothing in common are one look, as of the pods of a node or with a label each. Of
// two looks with equal times, the one with the newer objects is the later one.
func TestPartsOfAList(t *testing.T) {
	at := func(name, created string) string {
		return strings.Replace(podJSON(name, ""), `"namespace"`, `"creationTimestamp":"2026-01-02T`+created+`Z","namespace"`, 1)
	}
	const minute = 60_000
	early, late := listOf(at("a/x", "10:00:00")), listOf(at("a/x", "11:00:00"), at("b/y", "10:00:00"))
	for what, c := range map[string]struct {
		texts    []string
		paths    []string
		times    []int64
		looks    int
		want     string
		lost     int
		disorder bool
	}{
		"a file for each node": {[]string{listOf(podJSON("a/x", "n1"), podJSON("b/z", "n1")), listOf(podJSON("a/y", "n2")),
			nodeJSON("n1") + nodeJSON("n2")}, []string{"f/1", "f/2", "f/3"}, []int64{minute, 2 * minute, 2 * minute}, 1, "a/x a/y b/z n1 n2", 0,
			false},
		"in another order": {[]string{listOf(podJSON("a/x", "")), listOf(podJSON("a/y", ""))}, []string{"f/1", "f/2"},
			[]int64{2 * minute, minute}, 1, "a/x a/y", 0, false},
		"an hour later": {[]string{listOf(podJSON("a/x", "")), listOf(podJSON("a/y", ""))}, []string{"f/1", "f/2"},
			[]int64{minute, 61 * minute}, 2, "a/y", 1, false},
		"the same time in them": {[]string{listOf(at("a/x", "10:00:00")), listOf(at("a/y", "10:01:00"))}, []string{"f/1", "f/2"},
			[]int64{minute, 61 * minute}, 1, "a/x a/y", 0, false},
		"another folder": {[]string{listOf(podJSON("a/x", "")), listOf(podJSON("a/y", ""))}, []string{"f/1", "g/2"},
			[]int64{minute, minute}, 2, "a/y", 1, false},
		"a pod in common": {[]string{listOf(podJSON("a/x", ""), podJSON("a/z", "")), listOf(podJSON("a/y", ""), podJSON("a/x", ""))},
			[]string{"f/1", "f/2"}, []int64{minute, minute}, 2, "a/x a/y", 0, false},
		"equal times":             {[]string{late, early}, []string{"f/1", "f/2"}, []int64{minute, minute}, 2, "a/x b/y", 0, false},
		"times against the lists": {[]string{late, early}, []string{"f/1", "f/2"}, []int64{minute, 2 * minute}, 2, "a/x b/y", 0, true},
	} {
		var files []File
		for i, text := range c.texts {
			f := read(t, text, c.times[i])
			f.Path = c.paths[i]
			files = append(files, f)
		}
		looks, err := Looks(files)
		if err != nil || len(looks) != c.looks {
			t.Errorf("%s: %d looks, %v", what, len(looks), err)
		}
		p, lost := NewKnown(), 0
		for _, l := range looks {
			lost += p.Look(l).Lost
		}
		if got := p.state(); got != c.want || lost != c.lost {
			t.Errorf("%s: %s, %d lost", what, got, lost)
		}
		if earlier, _, _ := Disorder(looks); (earlier != "") != c.disorder {
			t.Errorf("%s: disorder of %q", what, earlier)
		}
	}
}

// Files may be named in any order, unless one lists an object of an earlier-named newer file again.
func TestOrderOfFiles(t *testing.T) {
	a, b, again := read(t, listOf(podJSON("a/x", "")), 3), read(t, listOf(podJSON("b/x", "")), 2), read(t, listOf(podJSON("a/x", "")), 1)
	if looks, err := Looks([]File{a, b}); err != nil || len(looks) != 1 || looks[0][1].At != 3 {
		t.Errorf("%+v, %v", looks, err)
	}
	if _, err := Looks([]File{a, b, again}); err == nil || !strings.Contains(err.Error(), "is older than") {
		t.Error(err)
	}
}

// A look that is cut into files of namespaces and of nodes, written in any order, equals the look in one file.
func TestCutting(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var nodes, all []string
		spaces := map[string][]string{}
		for i := range rapid.IntRange(1, 4).Draw(t, "nodes") {
			nodes = append(nodes, nodeJSON(fmt.Sprint("n", i)))
		}
		for i := range rapid.IntRange(1, 8).Draw(t, "pods") {
			space := rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "namespace")
			pod := podJSON(fmt.Sprintf("%s/p%d", space, i), fmt.Sprint("n", rapid.IntRange(0, len(nodes)-1).Draw(t, "node")))
			spaces[space] = append(spaces[space], pod)
			all = append(all, pod)
		}
		files := []string{listOf(nodes...)}
		for _, s := range []string{"a", "b", "c"} {
			if spaces[s] != nil {
				files = append(files, listOf(spaces[s]...))
			}
		}
		tell := func(files []File) string {
			looks, err := Looks(files)
			if err != nil || len(looks) != 1 {
				t.Fatalf("%d looks, %v", len(looks), err)
			}
			f, s, clock := follower(record.State{})
			*clock = 100
			p := NewKnown()
			p.Look(looks[0])
			p.Tell(f)
			out, _ := json.Marshal([]any{s.pods, s.nodes})
			return string(out)
		}
		file := func(text string, at int) File {
			o := fatal.Value(ReadObjects(strings.NewReader(text), "f"))(t)
			return File{Objects: o, At: int64(at)}
		}
		var cut []File
		for i, text := range rapid.Permutation(files).Draw(t, "order") {
			cut = append(cut, file(text, i))
		}
		if got, want := tell(cut), tell([]File{file(listOf(slices.Concat(nodes, all)...), 1)}); got != want {
			t.Errorf("%s\nwant %s", got, want)
		}
	})
}

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
	for text, want := range map[string]int32{"": 0, "-7": -7, "2147483647": math.MaxInt32, "2147483648": 0, "+1": 0, "01": 0, "much": 0} {
		p := podOf("a", 1)
		p.Annotations = map[string]string{corev1.PodDeletionCost: text}
		if got := Pod(p).DeletionCost; got != want {
			t.Errorf("a deletion cost of %q: %d, want %d", text, got, want)
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
