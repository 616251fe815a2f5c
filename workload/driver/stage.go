package driver

import (
	"cmp"
	"context"
	"fmt"
	"regexp"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

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
			each(step.Deployment.Name, s.Replay.Parts[step.Deployment.Name])
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
	if name, ok := s.Replay.Hostnames[label]; ok {
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
	for k, v := range s.Replay.Namespaces[name] {
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
