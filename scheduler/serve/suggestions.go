package serve

import (
	"context"
	"fmt"
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

// suggestions is the answer to a pod.
type suggestions struct {
	Policy      string      `json:"policy,omitempty"`
	Fingerprint string      `json:"fingerprint,omitempty"`
	Seconds     float64     `json:"decisionSeconds"`
	Nodes       []suggested `json:"nodes"`
	Refusals    []refusal   `json:"refusals"`
}

type suggested struct {
	Node      string   `json:"node"`
	Score     int8     `json:"score"`
	Raw       float32  `json:"rawScore"`
	Preferred bool     `json:"preferred"`
	Reasons   []string `json:"reasons"`
	CPU       share    `json:"cpu"`
	Memory    share    `json:"memory"`
}

type share struct {
	Now     float64 `json:"requested"`
	WithPod float64 `json:"requestedWithPod"`
}

type refusal struct {
	Reason string   `json:"reason"`
	Count  int      `json:"nodes"`
	Nodes  []string `json:"examples"`
}

// suggest ranks all nodes for the pod in the body.
func (s *Server) suggest(ctx context.Context, body []byte) (any, error) {
	p, err := parsePod(body)
	if err != nil {
		return nil, err
	}
	found, err := s.adviser.Suggest(ctx, p)
	if err != nil {
		return nil, err
	}
	out := suggestions{
		Policy: found.Policy, Fingerprint: fingerprint(found.Fingerprint), Seconds: found.Took.Seconds(),
		Nodes: make([]suggested, len(found.Nodes)), Refusals: make([]refusal, len(found.Refusals)),
	}
	for i, n := range found.Nodes {
		out.Nodes[i] = suggested{n.Node, n.Score, n.Raw, n.Preferred, n.Reasons, share(n.CPU), share(n.Memory)}
	}
	for i, r := range found.Refusals {
		out.Refusals[i] = refusal(r)
	}
	return out, nil
}

// fingerprint writes a checkpoint's fingerprint as the log does; "" for none.
func fingerprint(f uint64) string {
	if f == 0 {
		return ""
	}
	return fmt.Sprintf("%016x", f)
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
	if p.Name == "" {
		p.Name = "suggestion"
	}
	if p.Namespace == "" {
		p.Namespace = metav1.NamespaceDefault
	}
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
	Ready       bool    `json:"ready"`
	Policy      string  `json:"policy,omitempty"`
	Fingerprint string  `json:"fingerprint,omitempty"`
	Nodes       int     `json:"nodes"`
	Pods        int     `json:"pods"`
	Promised    int     `json:"promisedPods"`
	Uptime      float64 `json:"uptimeSeconds"`
}

// state answers with the adviser's state.
func (s *Server) state(ctx context.Context, _ []byte) (any, error) {
	found, err := s.adviser.State(ctx)
	if err != nil {
		return nil, err
	}
	return stateOf(found, time.Since(s.begun)), nil
}

func stateOf(found advise.State, uptime time.Duration) state {
	return state{found.Synced, found.Policy, fingerprint(found.Fingerprint), found.Nodes, found.Pods, found.Promised, uptime.Seconds()}
}
