package plugin

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	fwk "k8s.io/kube-scheduler/framework"

	"gnnsched/gnn/checkpoint"
	"gnnsched/internal/cluster"
	"gnnsched/internal/fragmentation"
	"gnnsched/workload/trace/openb"
)

// demandTracker determines the typical pods of a profile's workload, which deciders for GPUs need to
// measure fragmentation. It reads them from a file, or begins with those of the network's training and
// counts the pods that arrive.
type demandTracker struct {
	profile string
	fixed   *fragmentation.Typical // of the file; nil without a file

	begun  bool // whether the running pods are counted
	counts map[shape]*fragmentation.Demand
	pods   float64                // sum of the counts
	latest *fragmentation.Typical // of when the sum was upTo
	upTo   float64
}

// shape holds the requests that all pods of one entry in counts share.
type shape struct {
	cpu, gpu, milli int64
	models          string
}

// maxShapes is the largest number of shapes that are counted.
const maxShapes = 4096

// newDemandTracker reads the pod list. If the path is empty, it counts pods instead.
func newDemandTracker(profile, podList string) (*demandTracker, error) {
	d := &demandTracker{profile: profile, counts: map[shape]*fragmentation.Demand{}}
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

// familyPods is how many pods the family of a network's training counts for. The profile's own pods
// outweigh it after as many.
const familyPods = 500

// begin counts the typical pods of the family that the network was trained on, unless there is a file.
func (d *demandTracker) begin(family *checkpoint.TypicalPods) {
	if d.fixed != nil || family == nil {
		return
	}
	for _, p := range family.Pods {
		d.count(cluster.Resources{MilliCPU: p.MilliCPU, GPU: p.GPU, GPUMilli: p.GPUMilli}, p.GPUModels, familyPods*p.Frequency)
	}
}

// familyOf returns the typical pods beside the checkpoint that args name; nil if there are none.
func familyOf(args Args) (*checkpoint.TypicalPods, error) {
	if args.Checkpoint != "" {
		return checkpoint.LoadTypical(args.Checkpoint)
	}
	return checkpoint.ShippedTypical(args.Variant)
}

// countRunning counts the profile's pods that run on the nodes; further calls do nothing. Pods of
// other schedulers do not count: most belong to DaemonSets or to the cluster itself.
func (d *demandTracker) countRunning(nodes []fwk.NodeInfo) {
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
	if d.pods > remembered/2 { // all running pods count alike
		d.scale(remembered / 2 / d.pods)
	}
}

// remembered is the sum at which all counts are halved. Thus a pod counts half as much after half as
// many more, and a change of the workload shows after thousands of pods, however many came before it.
const remembered = 4000

// scale multiplies all counts by a factor. The typical pods stay the same.
func (d *demandTracker) scale(by float64) {
	for _, x := range d.counts {
		x.Count *= by
	}
	d.pods *= by
	d.upTo *= by
}

// countPending counts a pod that is scored. A pod counts again at each attempt, but few have more than
// one, because a pod that fits nowhere is not scored.
func (d *demandTracker) countPending(pod *cluster.Pod) {
	if d.fixed == nil {
		d.add(pod.Requests, pod.GPUModels)
		if d.pods >= remembered {
			d.scale(0.5)
		}
	}
}

// add counts a pod with these requests.
func (d *demandTracker) add(r cluster.Resources, models []string) { d.count(r, models, 1) }

// count counts a number of pods with these requests.
func (d *demandTracker) count(r cluster.Resources, models []string, pods float64) {
	key := shape{r.MilliCPU, r.GPU, r.GPUMilli, strings.Join(models, "|")}
	x := d.counts[key]
	if x == nil {
		if len(d.counts) >= maxShapes {
			d.drop()
		}
		x = &fragmentation.Demand{Requests: r, Models: models}
		d.counts[key] = x
	}
	x.Count += pods
	d.pods += pods
}

// drop removes the rarest quarter of the shapes. Removing many at once makes it rare.
func (d *demandTracker) drop() {
	for _, key := range d.shapes()[maxShapes/4*3:] {
		delete(d.counts, key)
	}
}

// shapes returns the counted shapes, the most common first, and of equally common ones those with
// GPUs first.
func (d *demandTracker) shapes() []shape {
	return slices.SortedFunc(maps.Keys(d.counts), func(a, b shape) int { // a map has no order of its own
		return cmp.Or(cmp.Compare(d.counts[b].Count, d.counts[a].Count), cmp.Compare(min(b.gpu+b.milli, 1), min(a.gpu+a.milli, 1)),
			cmp.Compare(a.gpu, b.gpu), cmp.Compare(a.milli, b.milli), cmp.Compare(a.cpu, b.cpu), cmp.Compare(a.models, b.models))
	})
}

// grown is the factor by which the count must grow before the typical pods are determined again.
// Each change empties the deciders' caches.
const grown = 1.25

// typical returns the workload's typical pods; nil before the first pod, if there is no family. As long as they have not
// changed, it returns the same pointer.
func (d *demandTracker) typical() *fragmentation.Typical {
	if d.fixed != nil {
		return d.fixed
	}
	if d.pods > 0 && d.pods >= grown*d.upTo {
		d.latest, d.upTo = fragmentation.NewTypical(d.demands()), d.pods
	}
	return d.latest
}

// demands returns the counted demands with their weights. All pods without GPU together weigh at most
// as much as all pods with GPUs; otherwise rare GPU pods would drop out of the typical set, and every
// node would look equally good.
func (d *demandTracker) demands() []fragmentation.Demand {
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
