package serve

import (
	"cmp"
	"context"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/kubernetes/pkg/api/pod"
	"k8s.io/kubernetes/pkg/apis/core"
	corev1 "k8s.io/kubernetes/pkg/apis/core/v1"
	"k8s.io/kubernetes/pkg/apis/core/validation"
	kjson "sigs.k8s.io/json"

	"gnnsched/scheduler/advise"
)

// suggest ranks all nodes for the pod in the body.
func (s *Server) suggest(ctx context.Context, body []byte) (any, error) {
	p, err := parsePod(body)
	if err != nil {
		return nil, err
	}
	return s.adviser.Suggest(ctx, p)
}

// parsePod parses a pod, fills in the API server's defaults, and validates it as the API server does. Unknown
// fields are errors. A pod without name or namespace gets one.
func parsePod(body []byte) (*v1.Pod, error) {
	p := &v1.Pod{}
	strict, err := kjson.UnmarshalStrict(body, p)
	if err != nil {
		return nil, bad("the body is not a Pod: %w", err)
	}
	if len(strict) > 0 {
		return nil, bad("the Pod: %w", strict[0])
	}
	if (p.Kind != "" && p.Kind != "Pod") || (p.APIVersion != "" && p.APIVersion != "v1") {
		return nil, bad("the body is a %s of %s, not a Pod of v1", p.Kind, p.APIVersion)
	}
	if p.Spec.NodeName != "" {
		return nil, bad("the pod has a node already: remove spec.nodeName")
	}
	p.Name = cmp.Or(p.Name, "suggestion")
	p.Namespace = cmp.Or(p.Namespace, metav1.NamespaceDefault)
	corev1.SetObjectDefaults_Pod(p)
	internal := &core.Pod{}
	if err := corev1.Convert_v1_Pod_To_core_Pod(p, internal, nil); err != nil {
		return nil, bad("the Pod: %w", err)
	}
	options := pod.GetValidationOptionsFromPodSpecAndMeta(&internal.Spec, nil, &internal.ObjectMeta, nil)
	if faults := validation.ValidatePodCreate(internal, options); len(faults) > 0 {
		return nil, bad("the Pod is not valid: %s", strings.TrimSpace(faults[0].Error()))
	}
	return p, nil
}

// state is the answer about the server and its view of the cluster.
type state struct {
	advise.State
	Uptime float64 `json:"uptimeSeconds"`
}

// state answers with the adviser's state.
func (s *Server) state(ctx context.Context, _ []byte) (any, error) {
	found, err := s.adviser.State(ctx)
	if err != nil {
		return nil, err
	}
	return state{found, time.Since(s.begun).Seconds()}, nil
}
