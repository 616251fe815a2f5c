package workload

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"

	"gnnsched/internal/cluster"
	"gnnsched/workload/usage"
)

// Bounds that catch mistyped numbers.
const (
	MaxReplicas = 10_000 // pods of one Deployment
	MaxGPUs     = 64     // devices of one pod
)

// Shape describes the pods of a Deployment: their requests and where they may run.
type Shape struct {
	Name   string  // a label value; empty for shapes that are read from a plan
	Weight float64 // relative probability of being drawn, 0 or more

	Requests cluster.Resources // of one pod; Pods is 1
	Limits   cluster.Resources // of one pod; only CPU and memory; 0 means no limit

	Labels       map[string]string // of the pods, besides the labels that runsim sets
	NodeSelector map[string]string
	Tolerations  []cluster.Toleration
	GPUModels    []string // GPU models that the pods accept; empty means any

	Usage *usage.Model // what one pod uses over time; nil: not known
}

// Validate returns every value that Kubernetes or the generator would refuse. Each error
// begins with the field's name in a shapes file.
func (s Shape) Validate() error {
	var errs []error
	add := func(field, format string, a ...any) {
		errs = append(errs, fmt.Errorf("%s: %s", field, fmt.Sprintf(format, a...)))
	}
	if p := validation.IsValidLabelValue(s.Name); len(p) > 0 {
		add("name", "%q: %s", s.Name, p[0])
	}
	if s.Weight < 0 || math.IsNaN(s.Weight) || math.IsInf(s.Weight, 0) {
		add("weight", "%v must be 0 or more", s.Weight)
	}
	r, l := s.Requests, s.Limits
	if r.MilliCPU < 0 || r.MilliCPU > cluster.MaxMilliCPU {
		add("requests.cpu", "%s is out of range", cluster.FormatCPU(r.MilliCPU))
	}
	if r.Memory < 0 || r.Memory > cluster.MaxMemory {
		add("requests.memory", "%s is out of range", cluster.FormatMemory(r.Memory))
	}
	if r.GPU < 0 || r.GPU > MaxGPUs {
		add("requests.gpu", "%d is not 0 to %d", r.GPU, MaxGPUs)
	}
	if r.GPUMilli < 0 || r.GPUMilli >= cluster.DeviceMilli {
		add("requests.gpuMilli", "%d is not 1 to %d thousandths of one device", r.GPUMilli, cluster.DeviceMilli-1)
	}
	if r.GPUMilli > 0 && r.GPU > 0 {
		add("requests.gpuMilli", "a pod can request whole GPUs or a share of one, not both")
	}
	if slices.Contains(s.GPUModels, "") {
		add("gpuModels", "a model's name is empty")
	}
	if r.Pods != 1 {
		add("requests.pods", "%d must be 1: a shape is one pod", r.Pods)
	}
	if l.Pods != 0 || l.GPU != 0 || l.GPUMilli != 0 {
		add("limits", "only CPU and memory can have limits")
	}
	if l.MilliCPU != 0 && l.MilliCPU < r.MilliCPU {
		add("limits.cpu", "%s is less than the request of %s", cluster.FormatCPU(l.MilliCPU), cluster.FormatCPU(r.MilliCPU))
	}
	if l.Memory != 0 && l.Memory < r.Memory {
		add("limits.memory", "%s is less than the request of %s", cluster.FormatMemory(l.Memory), cluster.FormatMemory(r.Memory))
	}
	validateLabels("labels", s.Labels, true, add)
	validateLabels("nodeSelector", s.NodeSelector, false, add)
	for i, t := range s.Tolerations {
		validateToleration(fmt.Sprintf("tolerations[%d]", i), t, add)
	}
	if s.Usage != nil {
		for _, err := range flatten(s.Usage.Validate()) {
			errs = append(errs, fmt.Errorf("usage.%w", err))
		}
	}
	return errors.Join(errs...)
}

// validateLabels checks keys and values. With own, keys that runsim sets are refused.
func validateLabels(field string, labels map[string]string, own bool, add func(field, format string, a ...any)) {
	for _, k := range slices.Sorted(maps.Keys(labels)) {
		at := field + "." + k
		if p := validation.IsQualifiedName(k); len(p) > 0 {
			add(at, "%s", p[0])
		}
		if p := validation.IsValidLabelValue(labels[k]); len(p) > 0 {
			add(at, "%q: %s", labels[k], p[0])
		}
		if own && (k == LabelManagedBy || k == LabelName || strings.HasPrefix(k, "gnnsched.io/")) {
			add(at, "is set by runsim")
		}
	}
}

func validateToleration(at string, t cluster.Toleration, add func(field, format string, a ...any)) {
	if t.Key == "" && !t.Exists {
		add(at+".key", "is required with the operator Equal")
	}
	if t.Key != "" {
		if p := validation.IsQualifiedName(t.Key); len(p) > 0 {
			add(at+".key", "%q: %s", t.Key, p[0])
		}
	}
	if t.Exists && t.Value != "" {
		add(at+".value", "must be empty with the operator Exists")
	}
	if p := validation.IsValidLabelValue(t.Value); len(p) > 0 {
		add(at+".value", "%q: %s", t.Value, p[0])
	}
	switch t.Effect {
	case "", cluster.NoSchedule, cluster.PreferNoSchedule, cluster.NoExecute:
	default:
		add(at+".effect", "%q is not NoSchedule, PreferNoSchedule or NoExecute", t.Effect)
	}
}
