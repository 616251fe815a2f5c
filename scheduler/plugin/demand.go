package plugin

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	fwk "k8s.io/kube-scheduler/framework"

	"gnnsched/scheduler/cluster"
	"gnnsched/scheduler/gpu"
	"gnnsched/workload/openb"
)

// demand is what the workload's pods ask for, which policies for GPUs judge fragmentation by:
// a file says it, or it is what came so far.
type demand struct {
	fixed *gpu.Typical // of the file; nil without

	counts map[string]*gpu.Demand
	pods   float64
	known  *gpu.Typical // of the first `upTo` pods
	upTo   float64
}

// newDemand reads the pod list; an empty path means that what comes is counted.
func newDemand(podList string) (*demand, error) {
	d := &demand{counts: map[string]*gpu.Demand{}}
	if podList == "" {
		return d, nil
	}
	pods, err := openb.LoadPods(podList)
	if err != nil {
		return nil, fmt.Errorf("workload: %w", err)
	}
	var all []gpu.Demand
	for _, p := range pods {
		all = append(all, gpu.Demand{Requests: p.Requests(), Models: p.Models, Count: 1})
	}
	d.fixed = gpu.NewTypical(all)
	return d, nil
}

// begin counts what runs on the nodes, if nothing was counted yet.
func (d *demand) begin(nodes []fwk.NodeInfo) {
	if d == nil || d.fixed != nil || d.pods > 0 {
		return
	}
	for _, n := range nodes {
		for _, p := range n.GetPods() {
			running := convertPod(p.GetPod())
			d.add(running.Requests, running.GPUModels)
		}
	}
}

// come counts a pod that waits. One that is tried again counts again, which few are: those
// that fit nowhere do not get as far as scoring.
func (d *demand) come(pod *cluster.Pod, nodes []fwk.NodeInfo) {
	if d == nil || d.fixed != nil {
		return
	}
	d.begin(nodes)
	d.add(pod.Requests, pod.GPUModels)
}

func (d *demand) add(r cluster.Resources, models []string) {
	key := fmt.Sprint(r.MilliCPU, r.GPU, r.GPUMilli, models)
	x := d.counts[key]
	if x == nil {
		x = &gpu.Demand{Requests: r, Models: models}
		d.counts[key] = x
	}
	x.Count++
	d.pods++
}

// grown is how much more must have come before the typical pods are looked at again: they
// change less and less, and whoever goes by them begins afresh.
const grown = 1.25

// typical are the typical pods, and whether they are others than at the last call.
func (d *demand) typical() (t *gpu.Typical, changed bool) {
	if d == nil {
		return nil, false
	}
	if d.fixed != nil {
		changed, d.known = d.known != d.fixed, d.fixed
		return d.fixed, changed
	}
	if d.pods < grown*d.upTo || d.pods == 0 {
		return d.known, false
	}
	all := make([]gpu.Demand, 0, len(d.counts))
	for _, x := range d.counts {
		all = append(all, *x)
	}
	slices.SortFunc(all, func(a, b gpu.Demand) int { // for the order of a map is chance
		return cmp.Or(cmp.Compare(b.Count, a.Count), cmp.Compare(a.Requests.TotalGPUMilli(), b.Requests.TotalGPUMilli()),
			cmp.Compare(a.Requests.MilliCPU, b.Requests.MilliCPU), cmp.Compare(strings.Join(a.Models, "|"), strings.Join(b.Models, "|")))
	})
	d.known, d.upTo = gpu.NewTypical(all), d.pods
	return d.known, true
}
