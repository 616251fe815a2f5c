package history

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/common/model"

	"gnnsched/internal/cluster"
	"gnnsched/workload/record"
)

// The series of amounts.
const (
	requests       = "kube_pod_container_resource_requests"
	initial        = "kube_pod_init_container_resource_requests"
	limits         = "kube_pod_container_resource_limits"
	initialLimits  = "kube_pod_init_container_resource_limits"
	initInfo       = "kube_pod_init_container_info"
	cpuOverhead    = "kube_pod_overhead_cpu_cores"
	memoryOverhead = "kube_pod_overhead_memory_bytes"
)

// container names a container of a pod.
type container struct {
	of   *pod
	name string
}

// need is the amount of a resource that the containers of a pod request.
type need struct{ together, initial, overhead float64 }

// total returns the pod's request: containers and sidecars run together, after each init container has run alone.
func (n *need) total() float64 { return max(n.together, n.initial) + n.overhead }

// needs holds the needs of pods, by the resource.
type needs map[*pod]map[string]*need

func (all needs) of(p *pod, resource string) *need {
	if all[p] == nil {
		all[p] = map[string]*need{}
	}
	if all[p][resource] == nil {
		all[p][resource] = &need{}
	}
	return all[p][resource]
}

// amounts reads the requests and limits of pods. Requests that ended are dropped.
func (r *reader) amounts(ctx context.Context, at time.Time) error {
	query := fmt.Sprintf(`group by (%s) (last_over_time(%s{restart_policy="Always"}[%s]))`, widened(podKey+",container"), initInfo, r.window)
	always, err := r.query(ctx, initInfo, query, at)
	if err != nil {
		return err
	}
	sidecars := map[container]bool{}
	r.apply(initInfo, always, func(p *pod, s *model.Sample) { sidecars[container{p, string(s.Metric["container"])}] = true })
	requested, err := r.needs(ctx, requests, initial, sidecars, at)
	if err != nil {
		return err
	}
	limited, err := r.needs(ctx, limits, initialLimits, sidecars, at)
	if err != nil {
		return err
	}
	for _, x := range []struct{ series, resource string }{{cpuOverhead, "cpu"}, {memoryOverhead, "memory"}} {
		err := r.each(ctx, x.series, podKey, at, func(p *pod, s *model.Sample) {
			requested.of(p, x.resource).overhead = float64(s.Value)
			if limited[p][x.resource] != nil { // a pod without a limit gets none
				limited[p][x.resource].overhead = float64(s.Value)
			}
		})
		if err != nil {
			return err
		}
	}
	for p, all := range requested {
		p.row.MilliCPU, p.row.Memory, p.row.GPU, p.row.Extended = 0, 0, 0, ""
		for _, resource := range slices.Sorted(maps.Keys(all)) {
			request(&p.row, resource, all[resource].total())
		}
	}
	for p, all := range limited {
		p.row.CPULimit, p.row.MemoryLimit = 0, 0
		for resource, n := range all {
			limit(&p.row, resource, n.total())
		}
	}
	return nil
}

// needs adds up what containers and init containers ask for.
func (r *reader) needs(ctx context.Context, main, initial string, sidecars map[container]bool, at time.Time) (needs, error) {
	all := needs{}
	if err := r.demands(ctx, main, at, func(d demand, v float64) { all.of(d.of, d.resource).together += v }); err != nil {
		return nil, err
	}
	err := r.demands(ctx, initial, at, func(d demand, v float64) {
		n := all.of(d.of, d.resource)
		if sidecars[d.container] {
			n.together += v
		} else {
			n.initial = max(n.initial, v)
		}
	})
	return all, err
}

// demand is a container's request for a resource.
type demand struct {
	container
	resource string
}

// demands calls f once with each container's request, even if series with and without a UID hold it. Pods without a node get the series'
// node.
func (r *reader) demands(ctx context.Context, series string, at time.Time, f func(demand, float64)) error {
	all := map[demand]float64{}
	vector, err := r.last(ctx, series, podKey+",container,resource,node", at)
	vector = slices.DeleteFunc(vector, func(s *model.Sample) bool {
		if s.Metric["resource"] == "" {
			r.gaps.stray(series, nameOf(s.Metric)+" without the label resource")
		}
		return s.Metric["resource"] == ""
	})
	r.apply(series, vector, func(p *pod, s *model.Sample) {
		d := demand{container{p, string(s.Metric["container"])}, string(s.Metric["resource"])}
		all[d] = max(all[d], float64(s.Value))
		p.row.Node = cmp.Or(p.row.Node, string(s.Metric["node"]))
	})
	for d, v := range all {
		f(d, v)
	}
	return err
}

// amount returns a number as a whole one from 0 to most.
func amount(v float64, most int64) int64 {
	if !(v > 0) {
		return 0
	}
	return int64(math.Round(min(v, float64(most))))
}

// request sets the amount that a pod requests.
func request(p *record.Pod, resource string, v float64) {
	switch resource {
	case "cpu":
		p.MilliCPU = amount(v*1000, cluster.MaxMilliCPU)
	case "memory":
		p.Memory = amount(v, cluster.MaxMemory)
	case "nvidia_com_gpu":
		p.GPU = amount(v, cluster.MaxDevices)
	default:
		p.Extended = withAmount(p.Extended, resource, v)
	}
}

func limit(p *record.Pod, resource string, v float64) {
	switch resource {
	case "cpu":
		p.CPULimit = amount(v*1000, cluster.MaxMilliCPU)
	case "memory":
		p.MemoryLimit = amount(v, cluster.MaxMemory)
	}
}

// withAmount adds an amount to a JSON column of amounts by resource, or raises it.
func withAmount(column, resource string, v float64) string {
	all := map[string]string{}
	if record.ReadColumn(column, &all) != nil {
		return column
	}
	all[resourceName(resource)] = fmt.Sprint(amount(v, math.MaxInt64/2))
	return record.Column(all)
}

// resourceName guesses the name of a resource in which kube-state-metrics has replaced all punctuation.
func resourceName(s string) string {
	for _, domain := range []string{"com", "io", "ai", "org", "net"} {
		if before, after, ok := strings.Cut(s, "_"+domain+"_"); ok {
			return strings.ReplaceAll(before, "_", ".") + "." + domain + "/" + after
		}
	}
	return strings.ReplaceAll(s, "_", "-")
}
