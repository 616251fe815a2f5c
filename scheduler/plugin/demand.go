package plugin

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	fwk "k8s.io/kube-scheduler/framework"

	"gnnsched/internal/cluster"
	"gnnsched/internal/fragmentation"
	"gnnsched/workload/trace/openb"
)

// demand is what the profile's pods ask for, which policies for GPUs judge fragmentation by: a file
// says it, or it is what came so far.
type demand struct {
	profile string
	fixed   *fragmentation.Typical // of the file; nil without

	begun  bool
	counts map[shape]*fragmentation.Demand
	pods   float64
	known  *fragmentation.Typical // of the first `upTo` pods
	upTo   float64
}

// shape is what makes pods ask for the same.
type shape struct {
	cpu, gpu, milli int64
	models          string
}

// maxShapes bounds what is counted.
const maxShapes = 4096

// newDemand reads the pod list; an empty path means that what comes is counted.
func newDemand(profile, podList string) (*demand, error) {
	d := &demand{profile: profile, counts: map[shape]*fragmentation.Demand{}}
	if podList == "" {
		return d, nil
	}
	pods, err := openb.LoadPods(podList)
	if err != nil {
		return nil, fmt.Errorf("workload: %w", err)
	}
	var all []fragmentation.Demand
	for _, p := range pods {
		all = append(all, fragmentation.Demand{Requests: p.Requests(), Models: p.Models, Count: 1})
	}
	d.fixed = fragmentation.NewTypical(all)
	return d, nil
}

// begin counts the profile's pods that run on the nodes, once. Those of other schedulers, which on
// most clusters are mostly DaemonSets and the cluster's own, say nothing on what is to come.
func (d *demand) begin(nodes []fwk.NodeInfo) {
	if d.fixed != nil || d.begun {
		return
	}
	d.begun = true
	for _, n := range nodes {
		for _, p := range n.GetPods() {
			if p.GetPod().Spec.SchedulerName == d.profile {
				running := convertPod(p.GetPod())
				d.add(running.Requests, running.GPUModels)
			}
		}
	}
}

// come counts a pod that waits. One that is tried again counts again, which few are: those
// that fit nowhere do not get as far as scoring.
func (d *demand) come(pod *cluster.Pod) {
	if d.fixed == nil {
		d.add(pod.Requests, pod.GPUModels)
	}
}

func (d *demand) add(r cluster.Resources, models []string) {
	key := shape{r.MilliCPU, r.GPU, r.GPUMilli, strings.Join(models, "|")}
	x := d.counts[key]
	if x == nil {
		if len(d.counts) >= maxShapes {
			d.drop()
		}
		x = &fragmentation.Demand{Requests: r, Models: models}
		d.counts[key] = x
	}
	x.Count++
	d.pods++
}

// drop forgets the rarest shapes, a quarter of all, so that it is seldom called.
func (d *demand) drop() {
	for _, key := range d.shapes()[maxShapes/4*3:] {
		delete(d.counts, key)
	}
}

// shapes are those that are counted, the commonest first; of equals those that ask for GPUs.
func (d *demand) shapes() []shape {
	return slices.SortedFunc(maps.Keys(d.counts), func(a, b shape) int { // for the order of a map is chance
		return cmp.Or(cmp.Compare(d.counts[b].Count, d.counts[a].Count), cmp.Compare(min(b.gpu+b.milli, 1), min(a.gpu+a.milli, 1)),
			cmp.Compare(a.gpu, b.gpu), cmp.Compare(a.milli, b.milli), cmp.Compare(a.cpu, b.cpu), cmp.Compare(a.models, b.models))
	})
}

// grown is how much more must have come before the typical pods are looked at again: they
// change less and less, and whoever goes by them begins afresh.
const grown = 1.25

// typical returns the workload's typical pods; nil before the first pod. As long as they have not
// changed, it returns the same pointer.
func (d *demand) typical() *fragmentation.Typical {
	if d.fixed != nil {
		return d.fixed
	}
	if d.pods > 0 && d.pods >= grown*d.upTo {
		d.known, d.upTo = fragmentation.NewTypical(d.workload()), d.pods
	}
	return d.known
}

// workload is what was counted. Pods that ask for no GPU fit on no device, whichever: all that they
// change is how much the others weigh. So they weigh no more than all others together, lest GPU
// pods that are few be no part of what is typical, and every node as good as any.
func (d *demand) workload() []fragmentation.Demand {
	var with, without float64
	all := make([]fragmentation.Demand, 0, len(d.counts))
	for _, key := range d.shapes() {
		x := *d.counts[key]
		all = append(all, x)
		if x.Requests.TotalGPUMilli() > 0 {
			with += x.Count
		} else {
			without += x.Count
		}
	}
	if with == 0 || without <= with {
		return all
	}
	for i := range all {
		if all[i].Requests.TotalGPUMilli() == 0 {
			all[i].Count *= with / without
		}
	}
	return all
}
