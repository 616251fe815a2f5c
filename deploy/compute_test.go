package deploy

import (
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	podsecurity "k8s.io/pod-security-admission/api"
	"k8s.io/pod-security-admission/policy"

	"gnnsched/internal/fatal"
	"gnnsched/internal/golden"
)

// The processes of compute.yaml are a Job and Deployments that restricted pod security admits, and no label of theirs is one of the
// scheduler's selector.
func TestCompute(t *testing.T) {
	plain, err := Render(with())
	fatal.If(t, err)
	o := with()
	o.ValueFiles = []string{"compute.yaml"}
	text, err := Render(o)
	fatal.If(t, err)
	golden.Check(t, "compute.txt", changed(plain, text))
	evaluator, err := policy.NewEvaluator(policy.DefaultChecks(), nil)
	fatal.If(t, err)
	taken := labels.SelectorFromSet(find[*appsv1.Deployment](t, plain).Spec.Selector.MatchLabels)
	pods := map[string]corev1.PodTemplateSpec{"evaluation": find[*batchv1.Job](t, text).Spec.Template}
	for _, o := range objects(t, text) {
		if d, is := o.(*appsv1.Deployment); is && d.Name != "gnnsched" {
			pods[d.Name] = d.Spec.Template
		}
	}
	for name, pod := range pods {
		for _, r := range evaluator.EvaluatePod(podsecurity.LevelVersion{Level: podsecurity.LevelRestricted,
			Version: podsecurity.LatestVersion()}, &pod.ObjectMeta, &pod.Spec) {
			if !r.Allowed {
				t.Errorf("%s: restricted pod security forbids it: %s (%s)", name, r.ForbiddenReason, r.ForbiddenDetail)
			}
		}
		if taken.Matches(labels.Set(pod.Labels)) {
			t.Errorf("the scheduler's selector takes %v", pod.Labels)
		}
	}
	if len(pods) != 2 {
		t.Errorf("%d kinds of pods", len(pods))
	}
	none, err := Render(with("compute[0].name=a", "compute[0].kind=Job", "compute[0].args={work}", "compute[0].replicas=0"))
	fatal.If(t, err)
	if n := find[*batchv1.Job](t, none).Spec.Parallelism; *n != 0 {
		t.Errorf("%d pods instead of none", *n)
	}
}
