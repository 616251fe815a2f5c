package openb

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"sort"

	"gnnsched/internal/each"
	"gnnsched/workload"
)

// Steady is a workload in which pods come and go: initial pods that run at time 0, and later arrivals. Pods are drawn from a pod list, each
// with its lifetime in the trace.
type Steady struct {
	Running  []SteadyPod // in the order in which they arrived; their lifetimes count from time 0
	Arriving []SteadyPod // in the order of their arrival
}

// SteadyPod is a pod of a Steady workload.
type SteadyPod struct {
	Pod      int     // index in the pod list
	At       float64 // seconds at which it arrives; negative if it runs at time 0
	Lifetime float64 // seconds
}

// errNoLifetime is DrawSteady's error for a list without times.
var errNoLifetime = errors.New("the pods have no creation_time and deletion_time, so their lifetimes are not known")

// CheckLifetimes returns errNoLifetime if a pod has no times.
func CheckLifetimes(pods []Pod) error {
	for _, p := range pods {
		if p.Created == NoTime || p.Deleted == NoTime {
			return errNoLifetime
		}
	}
	return nil
}

// DrawSteady draws a workload in which the pods request load times the capacity on average: for the given seconds pods arrive as a Poisson
// process at the rate of
//
//	load · capacity / mean GPU-seconds of a pod
//
// and each is drawn uniformly from the list. The capacity is in thousandths of a GPU, see [GPUMilli].
//
// The running pods are drawn from the stationary state of a cluster with room for all pods. In it the probability of a pod is proportional
// to its lifetime, at an age that is uniform over it (Cox 1962, Renewal Theory, §5.3). Pods are drawn until they request load times the
// capacity, so every seed starts at the same load. Equal arguments give equal workloads.
func DrawSteady(pods []Pod, load float64, capacity int64, seconds float64, seed uint64) (Steady, error) {
	if !(load > 0 && load <= 10) || !(seconds > 0) || math.IsInf(seconds, 0) {
		return Steady{}, fmt.Errorf("load %v must be over 0 and at most 10, and the %v seconds a finite number over 0", load, seconds)
	}
	if capacity <= 0 {
		return Steady{}, errors.New("the cluster has no GPUs")
	}
	lifetimes, gpuSeconds := make([]float64, len(pods)), 0.0
	ends := make([]float64, len(pods)) // cumulative lifetimes
	sum := 0.0
	if err := CheckLifetimes(pods); err != nil {
		return Steady{}, err
	}
	for i, p := range pods {
		lifetimes[i] = p.Lifetime()
		gpuSeconds += lifetimes[i] * float64(p.Requests().TotalGPUMilli())
		sum += lifetimes[i]
		ends[i] = sum
	}
	if gpuSeconds == 0 {
		return Steady{}, ErrNoGPU
	}
	rng := rand.New(rand.NewPCG(seed, 0x737465616479))
	var out Steady
	for requested := 0.0; requested < load*float64(capacity); {
		x := rng.Float64() * sum
		i := sort.Search(len(ends)-1, func(i int) bool { return ends[i] > x })
		age := rng.Float64() * lifetimes[i]
		out.Running = append(out.Running, SteadyPod{Pod: i, At: -age, Lifetime: lifetimes[i] - age})
		requested += float64(pods[i].Requests().TotalGPUMilli())
	}
	slices.SortStableFunc(out.Running, func(a, b SteadyPod) int { return cmp.Compare(a.At, b.At) })
	gap := gpuSeconds / float64(len(pods)) / (load * float64(capacity))
	if seconds/gap > mostArrivals {
		return Steady{}, fmt.Errorf("some %.0f pods would arrive in %v seconds; choose a shorter time", seconds/gap, seconds)
	}
	for at := gap * rng.ExpFloat64(); at < seconds; at += gap * rng.ExpFloat64() {
		i := rng.IntN(len(pods))
		out.Arriving = append(out.Arriving, SteadyPod{Pod: i, At: at, Lifetime: lifetimes[i]})
	}
	return out, nil
}

// mostArrivals bounds the memory that a workload takes.
const mostArrivals = 20_000_000

// Trace returns the pods at their creation times with their recorded lifetimes. The recording
// has whole seconds, so a pod that was created and deleted in the same second lives for one. A
// pod without a creation time arrives one second after the pod before it. A pod without a
// deletion time stays.
func Trace(pods []Pod) workload.Trace {
	out := make(workload.Trace, len(pods))
	at := -1.0
	for i, p := range pods {
		at++
		if p.Created != NoTime {
			at = p.Created
		}
		out[i] = p.arrival(at)
		if p.Deleted != NoTime {
			p.Created = at
			out[i].Lifetime = p.Lifetime()
		}
	}
	return out.FromZero()
}

// InOrder returns the pods in their order, one unit of time apart. They stay.
func InOrder(pods []Pod) workload.Trace {
	out := make(workload.Trace, len(pods))
	for i, p := range pods {
		out[i] = p.arrival(float64(i))
	}
	return out
}

// Lifetime returns the time between the pod's creation and its deletion in seconds, at least one.
func (p Pod) Lifetime() float64 { return max(p.Deleted-p.Created, 1) }

func (p Pod) arrival(at float64) workload.Arrival {
	return workload.Arrival{At: at, Lifetime: math.Inf(1), Deployment: workload.Deployment{Name: p.Name, Replicas: 1, Shape: p.Shape()}}
}

// ErrNoGPU is Inflate's error if no pod requests a GPU.
var ErrNoGPU = errors.New("no pod of the trace requests a GPU")

// Inflate returns the arrivals of the published experiments: the pods in random order, followed
// by pods that are drawn from them uniformly with replacement. The list ends once factor times
// the capacity is requested; a small cluster may need only some of the shuffled pods. A pod
// that is repeated gets a number from 2 behind its name.
//
// The capacity is in thousandths of a GPU, see [GPUMilli]. factor is over 0 and at most 100;
// the published one is 1.3. Equal arguments give equal arrivals.
func Inflate(pods []Pod, factor float64, capacity int64, seed uint64) ([]Pod, error) {
	if !(factor > 0 && factor <= 100) {
		return nil, fmt.Errorf("inflation factor %v must be over 0 and at most 100; 1.3 requests 130%% of the cluster's GPUs", factor)
	}
	if capacity <= 0 {
		return nil, errors.New("the cluster has no GPUs, so its GPU requests cannot be inflated")
	}
	once := each.Sum(pods, func(p Pod) int64 { return p.Requests().TotalGPUMilli() })
	if once == 0 {
		return nil, ErrNoGPU
	}
	rng := rand.New(rand.NewPCG(seed, 0))
	order := rng.Perm(len(pods))
	target := int64(math.Ceil(factor * float64(capacity)))
	var out []Pod
	taken := make(map[string]bool, len(pods))
	for requested := int64(0); requested < target; {
		i := rng.IntN(len(pods))
		if len(out) < len(order) {
			i = order[len(out)]
		}
		p := pods[i]
		p.Name = workload.FreeName(p.Name, taken)
		taken[p.Name] = true
		requested += p.Requests().TotalGPUMilli()
		out = append(out, p)
	}
	return out, nil
}
