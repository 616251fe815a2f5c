package openb

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"

	"gnnsched/workload"
)

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
	var once int64
	for _, p := range pods {
		once += p.Requests().TotalGPUMilli()
	}
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
