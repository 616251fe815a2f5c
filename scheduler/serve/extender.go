package serve

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"io"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	extenderv1 "k8s.io/kube-scheduler/extender/v1"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/api/pod"
	"k8s.io/kubernetes/pkg/apis/core"
	corev1 "k8s.io/kubernetes/pkg/apis/core/v1"
	"k8s.io/kubernetes/pkg/apis/core/validation"
	kjson "sigs.k8s.io/json"

	"gnnsched/scheduler/advise"
)

// The verbs of an extender and their paths.
const (
	prefix         = "/extender/v1"
	filterVerb     = "filter"
	prioritizeVerb = "prioritize"
	filterPath     = prefix + "/" + filterVerb
	prioritizePath = prefix + "/" + prioritizeVerb
)

// question is the body of kube-scheduler's request to an extender.
type question struct {
	pod   *v1.Pod
	names []string
	nodes *v1.NodeList // nil if the extender is configured as nodeCacheCapable
}

// parseQuestion parses the body of a request to an extender. It takes the nodes by name, or as whole objects, of which only the names
// count: the state of the nodes comes from the cluster.
func parseQuestion(body []byte) (question, error) {
	var args extenderv1.ExtenderArgs
	d := json.NewDecoder(bytes.NewReader(body))
	if err := d.Decode(&args); err != nil {
		return question{}, bad("the body is not an ExtenderArgs: %w", err)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return question{}, bad("something follows the ExtenderArgs in the body")
	}
	q := question{pod: args.Pod, nodes: args.Nodes}
	switch {
	case args.Pod == nil:
		return question{}, bad("the ExtenderArgs has no Pod")
	case args.NodeNames != nil:
		q.names, q.nodes = *args.NodeNames, nil
	case args.Nodes != nil:
		for i := range args.Nodes.Items {
			q.names = append(q.names, args.Nodes.Items[i].Name)
		}
	default:
		return question{}, bad("the ExtenderArgs has neither NodeNames nor Nodes")
	}
	return q, nil
}

// filter passes all nodes except those where no scheduler would assign the pod's GPU devices.
func (s *Server) filter(ctx context.Context, body []byte) (any, error) {
	q, err := parseQuestion(body)
	if err != nil {
		return nil, err
	}
	refused, err := s.adviser.Admit(ctx, q.pod, q.names)
	if err != nil {
		return nil, err
	}
	if len(refused) > 0 && len(refused) == len(q.names) {
		refusedPods.Inc()
	}
	return q.without(refused), nil
}

// without returns the answer to a filter request: the nodes that are not refused.
func (q question) without(refused map[string]string) *extenderv1.ExtenderFilterResult {
	out := &extenderv1.ExtenderFilterResult{FailedAndUnresolvableNodes: refused}
	if q.nodes != nil {
		out.Nodes = &v1.NodeList{}
		for i := range q.nodes.Items {
			if _, no := refused[q.nodes.Items[i].Name]; !no {
				out.Nodes.Items = append(out.Nodes.Items, q.nodes.Items[i])
			}
		}
		return out
	}
	names := make([]string, 0, len(q.names))
	for _, name := range q.names {
		if _, no := refused[name]; !no {
			names = append(names, name)
		}
	}
	out.NodeNames = &names
	return out
}

// prioritize scores the nodes. An error lets kube-scheduler decide by its own scores.
func (s *Server) prioritize(ctx context.Context, body []byte) (any, error) {
	q, err := parseQuestion(body)
	if err != nil {
		return nil, err
	}
	ranked, err := s.adviser.Rank(ctx, q.pod, q.names)
	if err != nil {
		return nil, err
	}
	out := make(extenderv1.HostPriorityList, len(ranked))
	for i, r := range ranked {
		out[i] = extenderv1.HostPriority{Host: r.Node, Score: priority(r.Score)}
	}
	return out, nil
}

// priority turns a node score, 0 to 100, into an extender's, 0 to 10. The order stays, and only the best node has 10.
func priority(score int8) int64 {
	if int64(score) >= fwk.MaxNodeScore {
		return extenderv1.MaxExtenderPriority
	}
	return min(int64(score)*extenderv1.MaxExtenderPriority/fwk.MaxNodeScore, extenderv1.MaxExtenderPriority-1)
}

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
