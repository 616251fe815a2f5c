package openb

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"

	"gnnsched/workload"
)

// Trace is the pods at the times at which they were created, for as long as they lived. The
// trace counts whole seconds, so a pod that was gone in the second of its creation lived for
// one. A pod without a creation time comes a second after the one before it, and one without a
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
			out[i].Lifetime = max(p.Deleted-at, 1)
		}
	}
	return out.FromZero()
}

// InOrder is the pods one after another, a unit of time apart, and they stay.
func InOrder(pods []Pod) workload.Trace {
	out := make(workload.Trace, len(pods))
	for i, p := range pods {
		out[i] = p.arrival(float64(i))
	}
	return out
}

func (p Pod) arrival(at float64) workload.Arrival {
	return workload.Arrival{At: at, Lifetime: math.Inf(1), Deployment: workload.Deployment{Name: p.Name, Replicas: 1, Shape: p.Shape()}}
}

// ErrNoGPU is returned where no pod asks for a GPU, so that no load of GPUs can be reached.
var ErrNoGPU = errors.New("no pod of the trace asks for a GPU")

// Inflate is the arrivals of the published protocol: the pods shuffled, then pods drawn from
// them uniformly with replacement, until what is asked for reaches factor times the capacity
// (thousandths of a GPU; GPUMilli of the nodes). On a cluster that less than the trace fills,
// the shuffled pods end there. A pod that is there again has a number behind its name, from 2.
// Equal arguments give equal arrivals.
func Inflate(pods []Pod, factor float64, capacity int64, seed uint64) ([]Pod, error) {
	if !(factor > 0 && factor <= 100) {
		return nil, fmt.Errorf("inflation %v is not over 0 and at most 100; 1.3 asks for 130%% of the cluster's GPUs", factor)
	}
	if capacity <= 0 {
		return nil, errors.New("the cluster has no GPUs, which the inflation is relative to")
	}
	var ask int64
	for _, p := range pods {
		ask += p.Requests().TotalGPUMilli()
	}
	if ask == 0 {
		return nil, ErrNoGPU
	}
	rng := rand.New(rand.NewPCG(seed, 0))
	order := rng.Perm(len(pods))
	target := int64(math.Ceil(factor * float64(capacity)))
	var out []Pod
	taken := make(map[string]bool, len(pods))
	for asked := int64(0); asked < target; {
		i := rng.IntN(len(pods))
		if len(out) < len(order) {
			i = order[len(out)]
		}
		p := pods[i]
		p.Name = workload.FreeName(p.Name, taken)
		taken[p.Name] = true
		asked += p.Requests().TotalGPUMilli()
		out = append(out, p)
	}
	return out, nil
}
