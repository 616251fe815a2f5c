package plugin

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"

	"gnnsched/gnn/checkpoint"
	"gnnsched/internal/cluster"
	"gnnsched/internal/fragmentation"
	"gnnsched/scheduler/plugin/dra"
	"gnnsched/workload/trace/openb"
)

// demandTracker determines the typical pods of a profile's workload, which deciders for GPUs need to
// measure fragmentation. It reads them from a file, or begins with those of the network's training and
// counts pods. For heuristics it counts arriving pods, for networks running pods: rare pods that run for long use more GPUs
// than their share of the arrivals. Tolerations come from the pods that arrive, since neither the file nor the training has them. A shape
// without arrivals gets the tolerations of all arrivals.
type demandTracker struct {
	profile string
	view    *dra.View              // of what claims use
	file    []fragmentation.Demand // nil without a file

	begun  bool // whether the running pods are counted
	counts map[shape]*shapePods
	pods   float64                // sum of the counts
	base   []fragmentation.Demand // the file, or the demands when the sum was upTo
	upTo   float64

	withGPU, withoutGPU tolerating             // all that have arrived
	latest              *fragmentation.Typical // of base; nil if it must be made
	made                map[string]float64     // the shares of the tolerations that latest was made with
}

// shapePods counts the pods of a shape.
type shapePods struct {
	fragmentation.Demand
	arrived tolerating // those that have arrived
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
	d := &demandTracker{profile: profile, counts: map[shape]*shapePods{}}
	if podList == "" {
		return d, nil
	}
	pods, err := openb.LoadPods(podList)
	if err != nil {
		return nil, fmt.Errorf("workload: %w", err)
	}
	for _, p := range pods {
		d.file = append(d.file, fragmentation.Demand{Requests: p.Requests(), Models: p.Models, Count: 1})
	}
	d.base = d.file
	return d, nil
}

// familyPods is how many pods the family of a network's training counts for. The profile's own pods
// outweigh it after as many.
const familyPods = 500

// begin counts the typical pods of the family that the network was trained on, unless there is a file.
func (d *demandTracker) begin(family *checkpoint.TypicalPods) {
	if d.file != nil || family == nil {
		return
	}
	for _, p := range family.Pods {
		d.count(cluster.Resources{MilliCPU: p.MilliCPU, GPU: p.GPU, GPUMilli: p.GPUMilli}, p.GPUModels, familyPods*p.Frequency)
	}
}

// beginWith is begin with the typical pods beside the checkpoint that args name.
func (d *demandTracker) beginWith(ctx context.Context, args Args) {
	family, err := familyOf(args)
	if err != nil { // the network decides without
		logger(ctx).Error(err, "The typical pods of the network's training cannot be used", "profile", d.profile)
	}
	d.begin(family)
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
	if d.begun {
		return
	}
	d.begun = true
	for _, n := range nodes {
		for _, p := range n.GetPods() {
			if p.GetPod().Spec.SchedulerName == d.profile {
				running := d.convert(p.GetPod())
				d.add(&running)
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
	d.add(pod)
	if d.pods >= remembered {
		d.scale(0.5)
	}
}

// add counts a pod that has arrived.
func (d *demandTracker) add(pod *cluster.Pod) {
	all := &d.withoutGPU
	if pod.Requests.TotalGPUMilli() > 0 {
		all = &d.withGPU
	}
	all.add(pod.Tolerations)
	if d.file == nil {
		d.count(pod.Requests, pod.GPUModels, 1).arrived.add(pod.Tolerations)
	}
}

func shapeOf(r cluster.Resources, models []string) shape {
	return shape{r.MilliCPU, r.GPU, r.GPUMilli, strings.Join(models, "|")}
}

// count counts a number of pods with these requests.
func (d *demandTracker) count(r cluster.Resources, models []string, pods float64) *shapePods {
	key := shapeOf(r, models)
	x := d.counts[key]
	if x == nil {
		if len(d.counts) >= maxShapes {
			d.drop()
		}
		x = &shapePods{Demand: fragmentation.Demand{Requests: r, Models: models}}
		d.counts[key] = x
	}
	x.Count += pods
	d.pods += pods
	return x
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

// typical returns the workload's typical pods; nil before the first pod, if there is no family. nodes are those
// whose pods are counted besides the arrivals; none for a decider that goes by the arrivals alone. As long as the
// typical pods have not changed, it returns the same pointer.
func (d *demandTracker) typical(nodes []fwk.NodeInfo) *fragmentation.Typical {
	if d.pods > 0 && d.pods >= grown*d.upTo {
		d.base, d.upTo = d.demands(d.running(nodes)), d.pods
		d.latest = nil
	}
	arrived := d.arrived()
	if d.latest == nil || arrived.shifted(d.made) {
		d.latest, d.made = fragmentation.NewTypical(d.tolerate(d.base)), arrived.shares()
	}
	return d.latest
}

// typicalFor returns the typical pods that a decider goes by. nodes are those of the snapshot.
func (d *demandTracker) typicalFor(by decider, nodes []fwk.NodeInfo) *fragmentation.Typical {
	if by.typicalPods() == arrivingPods {
		nodes = nil
	}
	return d.typical(nodes)
}

// arrived returns the tolerations of the pods that have arrived, with GPUs if there are any.
func (d *demandTracker) arrived() *tolerating {
	if d.withGPU.pods > 0 {
		return &d.withGPU
	}
	return &d.withoutGPU
}

// tolerate returns the demands with tolerations.
func (d *demandTracker) tolerate(base []fragmentation.Demand) (out []fragmentation.Demand) {
	for _, x := range base {
		kinds := d.arrived()
		if s := d.counts[shapeOf(x.Requests, x.Models)]; s != nil && s.arrived.pods > 0 {
			kinds = &s.arrived
		}
		if kinds.pods == 0 || x.Requests.TotalGPUMilli() == 0 { // taints matter for pods with GPUs only
			out = append(out, x)
			continue
		}
		for _, key := range slices.Sorted(maps.Keys(kinds.kinds)) {
			k := kinds.kinds[key]
			part := x
			part.Tolerations, part.Count = k.tolerations, x.Count*(k.pods/kinds.pods)
			out = append(out, part)
		}
	}
	return out
}

// running counts the profile's pods on the nodes, by shape.
func (d *demandTracker) running(nodes []fwk.NodeInfo) map[shape]float64 {
	pods := map[shape]float64{}
	for _, n := range nodes {
		for _, p := range n.GetPods() {
			if p.GetPod().Spec.SchedulerName == d.profile {
				r := d.convert(p.GetPod())
				d.count(r.Requests, r.GPUModels, 0) // a shape that arrived so long ago that it was dropped
				pods[shapeOf(r.Requests, r.GPUModels)]++
			}
		}
	}
	return pods
}

// convert converts a running pod. What it has by claims counts as its GPUs.
func (d *demandTracker) convert(p *v1.Pod) cluster.Pod {
	out := convertPod(p)
	out.Requests = d.view.Requests(p, out.Requests)
	return out
}

// demands returns the counted demands with their weights. The arrivals fill up the running pods to familyPods pods. They
// always weigh a hundredth of the running ones, so that a shape without running pods is not forgotten. All pods without GPU together weigh
// at most as much as all pods with GPUs; otherwise rare GPU pods would drop out of the typical set, and every node would look equally good.
func (d *demandTracker) demands(running map[shape]float64) []fragmentation.Demand {
	var run, with, without float64
	for _, pods := range running {
		run += pods
	}
	arrival := 1.
	if run > 0 {
		arrival = max(familyPods-run, run/100) / d.pods
	}
	all := make([]fragmentation.Demand, 0, len(d.counts))
	for _, key := range d.shapes() {
		x := d.counts[key].Demand
		x.Count = x.Count*arrival + running[key]
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

// tolerating counts pods by their tolerations.
type tolerating struct {
	kinds map[string]*tolerants
	pods  float64 // of all kinds
}

type tolerants struct {
	tolerations []cluster.Toleration
	pods        float64
}

// maxTolerations is the largest number of kinds of tolerations that are counted. Pods with more kinds count as
// pods without tolerations.
const maxTolerations = 32

// add counts a pod.
func (t *tolerating) add(tolerations []cluster.Toleration) {
	if t.kinds == nil {
		t.kinds = map[string]*tolerants{}
	}
	key := cluster.TolerationsKey(tolerations)
	if t.kinds[key] == nil {
		if len(t.kinds) >= maxTolerations {
			key, tolerations = "", nil
		}
		if t.kinds[key] == nil {
			t.kinds[key] = &tolerants{tolerations: tolerations}
		}
	}
	t.kinds[key].pods++
	if t.pods++; t.pods >= remembered {
		for key, k := range t.kinds {
			if k.pods /= 2; k.pods < 0.5 {
				delete(t.kinds, key)
			}
		}
		t.pods = 0
		for _, k := range t.kinds {
			t.pods += k.pods
		}
	}
}

// shares returns the share of the pods that each kind has.
func (t *tolerating) shares() map[string]float64 {
	out := make(map[string]float64, len(t.kinds))
	for key, k := range t.kinds {
		out[key] = k.pods / t.pods
	}
	return out
}

// shift is the change of a kind's share after which the typical pods are made again.
const shift = 0.1

// shifted reports whether the shares are others than those made with: a new kind has come, or a share has
// changed by more than shift.
func (t *tolerating) shifted(made map[string]float64) bool {
	for key, k := range t.kinds {
		if share, known := made[key]; !known || math.Abs(k.pods/t.pods-share) > shift {
			return true
		}
	}
	return false
}
