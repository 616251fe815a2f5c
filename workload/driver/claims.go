package driver

import (
	"context"
	"fmt"
	"hash/fnv"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"gnnsched/internal/cluster/kube"
	"gnnsched/internal/exit"
	"gnnsched/workload"
)

// GPURequests is a way in which pods request GPUs.
type GPURequests string

const (
	// Annotated pods have resources and annotations.
	Annotated GPURequests = ""
	// Claimed pods have a ResourceClaim each, with the pod's name.
	Claimed GPURequests = "claims"
	// Extended pods request whole GPUs as kube.GPUResource, which a DeviceClass serves, and shares by claims.
	Extended GPURequests = "extended"
	// Mixed pods request GPUs in one of the other ways each, by their names. Only whole GPUs are extended resources.
	Mixed GPURequests = "mixed"
)

// GPURequestsOf returns the way that a command's flags choose. on reports whether a flag is set. Two ways are a usage error.
func GPURequestsOf(on func(flag string) bool) (chosen GPURequests, err error) {
	first := ""
	for _, x := range []struct {
		flag string
		way  GPURequests
	}{{"claims", Claimed}, {"extended-resources", Extended}, {"mixed", Mixed}} {
		switch {
		case !on(x.flag):
		case first != "":
			return "", exit.Usagef("--%s and --%s are two ways of requesting GPUs: leave one of them out", first, x.flag)
		default:
			first, chosen = x.flag, x.way
		}
	}
	return chosen, nil
}

// Of returns the form of the requests for GPUs by the pods of a Deployment: g, or one of the others if g is Mixed.
func (g GPURequests) Of(d workload.Deployment) GPURequests {
	if g != Mixed {
		return g
	}
	ways := []GPURequests{Claimed, Annotated, Extended}
	if d.Shape.Requests.GPU == 0 {
		ways = ways[:2]
	}
	h := fnv.New32a()
	_, _ = h.Write([]byte(d.Name)) // never fails
	return ways[h.Sum32()%uint32(len(ways))]
}

// Count returns the number of claims of a plan's pods.
func (g GPURequests) Count(p workload.Plan) (n int) {
	for _, s := range p.Steps {
		if s.Action == workload.Add && g.Of(s.Deployment).claims(s.Deployment.Shape) {
			n += s.Deployment.Replicas
		}
	}
	return n
}

// claims reports whether the pods of a shape get claims.
func (g GPURequests) claims(s workload.Shape) bool {
	switch g {
	case Claimed:
		return s.Requests.GPU > 0 || s.Requests.GPUMilli > 0
	case Extended:
		return s.Requests.GPUMilli > 0
	}
	return false
}

// claimRef is the name of a pod's claim inside the pod.
const claimRef = "gpu"

// request replaces the annotated request of a template's pods for GPUs, if they request any otherwise.
func (g GPURequests) request(t *corev1.PodTemplateSpec, s workload.Shape) {
	app := &t.Spec.Containers[0]
	switch {
	case g == Annotated:
		return
	case g.claims(s):
		for name := range kube.GPUResourceList(s.Requests) {
			delete(app.Resources.Requests, name)
			delete(app.Resources.Limits, name)
		}
		app.Resources.Claims = []corev1.ResourceClaim{{Name: claimRef}}
	default:
		t.Spec.Affinity = kube.ModelAffinity(s.GPUModels)
	}
	for name := range kube.GPUAnnotations(s.Requests, s.GPUModels) {
		delete(t.Annotations, name)
	}
}

// checkClass returns an error if claims find no DeviceClass.
func (c *Config) checkClass(ctx context.Context) error {
	if c.GPUs == Annotated {
		return nil
	}
	_, err := c.Client.ResourceV1().DeviceClasses().Get(ctx, kube.GPUDriver, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return exit.New(exit.Usage, fmt.Errorf("the cluster has no DeviceClass %s, so that no claim can be served", kube.GPUDriver),
			"`kwokcluster up --nodes-file FILE --gpus slices` makes a simulated cluster that has it")
	}
	if err != nil {
		return fmt.Errorf("look for DeviceClass %s: %w", kube.GPUDriver, err)
	}
	return nil
}

// createClaims creates the claims that createPods' pods use, if they use any. They must exist before a scheduler sees the pods.
func (c *Config) createClaims(ctx context.Context, d workload.Deployment, fill int) error {
	if !c.GPUs.Of(d).claims(d.Shape) {
		return nil
	}
	for i := range d.Replicas {
		claim := &resourceapi.ResourceClaim{
			ObjectMeta: metav1.ObjectMeta{Name: podName(d, i), Namespace: c.Namespace, Labels: c.deployment(d, fill).Labels},
			Spec:       kube.Claim(d.Shape.Requests, d.Shape.GPUModels),
		}
		if err := create(ctx, c.Client.ResourceV1().ResourceClaims(c.Namespace), claim); err != nil {
			return fmt.Errorf("create resource claim %s: %w", claim.Name, err)
		}
	}
	return nil
}

// createAllClaims creates the claims of the whole plan. Without times, pods follow each other so closely that a scheduler
// could see a pod before its claim, and would take a later pod first.
func (r *runner) createAllClaims(ctx context.Context) error {
	for _, s := range r.Plan.Steps {
		if err := ctx.Err(); err != nil {
			return err
		}
		if s.Action != workload.Add {
			continue
		}
		if err := r.createClaims(ctx, s.Deployment, len(r.sum.Fills)+1); err != nil {
			return err
		}
		r.report(Deploying, 0, false)
	}
	return nil
}

// removeClaims deletes the claims of a Deployment's pods. Those in use go after their pods.
func (c *Config) removeClaims(ctx context.Context, d workload.Deployment) error {
	if !c.GPUs.Of(d).claims(d.Shape) {
		return nil
	}
	for i := range d.Replicas {
		err := c.Client.ResourceV1().ResourceClaims(c.Namespace).Delete(ctx, podName(d, i), metav1.DeleteOptions{})
		if err != nil && !apierrors.IsNotFound(err) {
			return fmt.Errorf("delete resource claim %s: %w", podName(d, i), err)
		}
	}
	return nil
}

// refer lets a pod use its claim.
func (g GPURequests) refer(p *corev1.Pod, s workload.Shape) {
	if g.claims(s) {
		p.Spec.ResourceClaims = []corev1.PodResourceClaim{{Name: claimRef, ResourceClaimName: ptr.To(p.Name)}}
	}
}
