package openb

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"sort"
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
