package remote

import (
	"bytes"
	"encoding/gob"
	"encoding/json"
	"fmt"
	"math"
	"slices"

	"gnnsched/internal/cluster"
	"gnnsched/scheduler/eval"
	"gnnsched/scheduler/sim"
)

// episode is the task of a unit: an episode of a contender.
type episode struct {
	World      string // blob: world
	Pods       string // blob: arrivals of a program's world; empty for others
	Name       string // of the contender
	Origin     eval.Origin
	Weights    *File // of Origin.File; nil if there is none
	RandomTies bool
	Seed       uint64
	Watch      *eval.Watch `json:",omitempty"` // nil: nobody watches
}

// result is the answer of a unit.
type result struct {
	Outcome sim.Outcome
	Seen    eval.Seen
}

// arrivals are sim.Arrivals, whose pods are shared.
type arrivals struct {
	Pods     []cluster.Pod
	Of       []int32 // by arrival: the pod
	At       []float64
	Lifetime []uint64 // bits of floating-point numbers: some are infinite
}

// encodeArrivals returns a program's pods as data.
func encodeArrivals(all []sim.Arrival) ([]byte, error) {
	var out arrivals
	number := map[*cluster.Pod]int32{}
	for _, x := range all {
		n, seen := number[x.Pod]
		if !seen {
			n = int32(len(out.Pods))
			number[x.Pod] = n
			out.Pods = append(out.Pods, *x.Pod)
		}
		if x.Usage != nil {
			return nil, fmt.Errorf("pod %s of a program has usage, which cannot be sent", x.Pod.Name)
		}
		out.Of, out.At, out.Lifetime = append(out.Of, n), append(out.At, x.At), append(out.Lifetime, math.Float64bits(x.Lifetime))
	}
	return json.Marshal(out)
}

func decodeArrivals(data []byte) (out []sim.Arrival, err error) {
	var a arrivals
	if err := json.Unmarshal(data, &a); err != nil {
		return nil, err
	}
	if len(a.At) != len(a.Of) || len(a.Lifetime) != len(a.Of) {
		return nil, fmt.Errorf("%d pods with %d times and %d lifetimes", len(a.Of), len(a.At), len(a.Lifetime))
	}
	if !slices.IsSorted(a.At) {
		return nil, fmt.Errorf("pods out of order")
	}
	for i, n := range a.Of {
		if n < 0 || int(n) >= len(a.Pods) {
			return nil, fmt.Errorf("pod %d of %d", n, len(a.Pods))
		}
		out = append(out, sim.Arrival{Pod: &a.Pods[n], At: a.At[i], Lifetime: math.Float64frombits(a.Lifetime[i])})
	}
	return out, nil
}

// Encode returns a result as data.
func Encode(v any) ([]byte, error) {
	var b bytes.Buffer
	err := gob.NewEncoder(&b).Encode(v)
	return b.Bytes(), err
}

// Decode reads what Encode returned.
func Decode(data []byte, v any) error {
	return gob.NewDecoder(bytes.NewReader(data)).Decode(v)
}
