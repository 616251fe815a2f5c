// Package play makes a workload of the pods of a record: which pods arrive when, their requests, and their lifetimes. Pods of DaemonSets
// and static pods are left out, because they come with their nodes. It also translates the record's nodes, and makes a record's rows from a
// trace and from nodes.
package play

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"gnnsched/internal/cluster"
	"gnnsched/internal/cluster/kube"
	"gnnsched/workload"
	"gnnsched/workload/record"
)

// Load reads the pods of the record in a folder as a trace, and returns notes about the trace's missing parts.
func Load(dir string) (workload.Trace, []string, error) {
	r, err := record.Open(dir)
	if err != nil {
		return nil, nil, err
	}
	pods, err := r.Pods()
	if err != nil {
		return nil, nil, err
	}
	out, lacks, err := arrivals(pods)
	if err != nil {
		return nil, nil, fmt.Errorf("%s: %w", dir, err)
	}
	notes := damage(r)
	if len(lacks) > 0 {
		notes = append(notes, "pods are played without what a trace has no place for: "+describe(lacks))
	}
	return out, notes, nil
}

// arrivals returns the pods of a record as a trace, and for each property that a trace cannot hold its number of pods, by its name. Each
// pod arrives alone, with its requests, limits, node selector, tolerations and GPU models, and with node affinity if a node selector can
// express it. It runs as long as it did; a pod that had not ended stays. A pod that never ran stays as long as it waited.
func arrivals(pods []record.Pod) (workload.Trace, map[string]int, error) {
	var out workload.Trace
	lacks, taken := map[string]int{}, map[string]bool{}
	for i := range pods {
		p := &pods[i]
		if p.Daemon {
			continue
		}
		shape, err := shapeOf(p)
		if err == nil {
			err = shape.Validate()
		}
		if err != nil {
			return nil, nil, fmt.Errorf("pod %s/%s: %w", p.Namespace, p.Name, err)
		}
		shape.NodeSelector, _ = withAffinity(shape.NodeSelector, p)
		name := workload.FreeName(label(p.Name, "pod"), taken)
		taken[name] = true
		out = append(out, workload.Arrival{
			At: float64(p.Arrived) / 1000, Lifetime: lifetime(p), Deployment: workload.Deployment{Name: name, Replicas: 1, Shape: shape},
		})
		count(p, lacks)
	}
	if len(out) == 0 {
		return nil, nil, errors.New("the record has no pods besides those of DaemonSets")
	}
	return out.FromZero(), lacks, nil
}

// shapeOf translates a pod's requests and the nodes where it may run.
func shapeOf(p *record.Pod) (workload.Shape, error) {
	s := workload.Shape{
		Requests: cluster.Resources{MilliCPU: p.MilliCPU, Memory: p.Memory, GPU: p.GPU, GPUMilli: p.GPUMilli, Pods: 1},
		Limits:   cluster.Resources{MilliCPU: limit(p.CPULimit, p.MilliCPU), Memory: limit(p.MemoryLimit, p.Memory)},
	}
	if p.GPU > 0 {
		s.Requests.GPUMilli = 0
	}
	var tolerations []corev1.Toleration
	err := errors.Join(decode("node_selector", p.NodeSelector, &s.NodeSelector), decode("gpu_models", p.GPUModels, &s.GPUModels),
		decode("tolerations", p.Tolerations, &tolerations))
	s.Tolerations = kube.FromTolerations(tolerations)
	return s, err
}

// limit returns a limit that Kubernetes would accept beside the request.
func limit(limit, request int64) int64 {
	if limit < request {
		return 0
	}
	return limit
}

// decode reads a JSON column. Its error names the column.
func decode[T any](column, text string, into *T) error {
	if err := record.ReadColumn(text, into); err != nil {
		return fmt.Errorf("%s: %w", column, err)
	}
	return nil
}

// label returns a name as a DNS label of 50 characters at most; empty if no character can stay.
func label(name, empty string) string {
	name = strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= '0' && r <= '9' || r == '-' {
			return r
		}
		return '-'
	}, strings.ToLower(name))
	return cmp.Or(strings.Trim(name[:min(len(name), 50)], "-"), empty)
}

// lifetime returns a pod's run time in seconds, at least a millisecond; +Inf if it still runs.
func lifetime(p *record.Pod) float64 {
	if p.Ended == 0 {
		return math.Inf(1)
	}
	return float64(max(p.Ended-cmp.Or(p.Bound, p.Arrived), 1)) / 1000
}

// count counts the properties of a pod that a trace lacks.
func count(p *record.Pod, lacks map[string]int) {
	var affinity corev1.Affinity
	if decode("affinity", p.Affinity, &affinity) != nil {
		lacks["affinity that cannot be read"]++
	}
	_, whole := withAffinity(record.Labels(p.NodeSelector), p) // shapeOf returns the error of a selector that cannot be read
	for what, has := range map[string]bool{
		"node affinity": affinity.NodeAffinity != nil && !whole, "pod affinity": affinity.PodAffinity != nil,
		"pod anti-affinity": affinity.PodAntiAffinity != nil,
		"topology spread":   p.Spread != "", "host ports": p.HostPorts != "", "volume claims": p.Claims != "",
		"extended resources": p.Extended != "",
		"priority":           p.Priority != 0, "another scheduler": p.Scheduler != "" && p.Scheduler != corev1.DefaultSchedulerName,
	} {
		if has {
			lacks[what]++
		}
	}
}

// withAffinity returns a node selector with a pod's required node affinity, if a node selector can express it: one term that names one
// value for each label. whole tells whether this is all of the pod's node affinity. The selector itself is not changed.
func withAffinity(selector map[string]string, p *record.Pod) (out map[string]string, whole bool) {
	var affinity corev1.Affinity
	if decode("affinity", p.Affinity, &affinity) != nil || affinity.NodeAffinity == nil {
		return selector, true
	}
	required := affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution
	whole = len(affinity.NodeAffinity.PreferredDuringSchedulingIgnoredDuringExecution) == 0
	if required == nil {
		return selector, whole
	}
	if len(required.NodeSelectorTerms) != 1 || len(required.NodeSelectorTerms[0].MatchFields) > 0 ||
		len(required.NodeSelectorTerms[0].MatchExpressions) == 0 {
		return selector, false
	}
	out = maps.Clone(selector)
	if out == nil {
		out = map[string]string{}
	}
	for _, r := range required.NodeSelectorTerms[0].MatchExpressions {
		one := r.Operator == corev1.NodeSelectorOpIn && len(r.Values) == 1 && len(validation.IsQualifiedName(r.Key)) == 0 &&
			len(validation.IsValidLabelValue(r.Values[0])) == 0
		if !one {
			return selector, false
		}
		if value, selected := out[r.Key]; selected && value != r.Values[0] {
			return selector, false
		}
		out[r.Key] = r.Values[0]
	}
	return out, whole
}

// describe describes the trace's missing parts, for people: "pod anti-affinity (12 pods), priority (3 pods)".
func describe(lacks map[string]int) string {
	var out []string
	for what, pods := range lacks {
		out = append(out, fmt.Sprintf("%s (%d pods)", what, pods))
	}
	slices.Sort(out)
	return strings.Join(out, ", ")
}
