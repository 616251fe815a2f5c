package usage

import (
	"errors"
	"fmt"
	"math"

	"gnnsched/internal/exit"
)

// Demand is the demand of one pod on a node.
type Demand struct {
	Want    Amounts
	Request float64 // cores that the pod requests; its weight when CPU is short
	Limit   float64 // cores that the pod may use at most; 0: no limit
}

// minWeight is the weight of a pod that requests no CPU, in cores: the least of cgroup's CPU shares, 2 of 1024 a core.
const minWeight = 2.0 / 1024

// Share sets got[i] to the part of a node's capacity that demands[i] gets; got has the same length. A capacity of 0 means that the
// dimension is not limited.
//
// CPU is divided by weighted max-min fairness: a pod gets its demand, or at least its weight's part of the others' remainder. Weights are
// the requests, as with cgroup's CPU shares, so a pod gets its request before any pod gets more. A pod never gets more than its limit.
// Network and disk are divided likewise with equal weights. Memory is not shared: each pod gets its demand.
//
// Unlike in a kubelet's cgroups, pods without requests do not have one small weight together but one each. Share does not allocate.
func Share(capacity Amounts, demands []Demand, got []Amounts) {
	for d := range Dimension(Dimensions) {
		share(d, capacity[d], demands, got)
	}
}

// share is Share in one dimension.
func share(d Dimension, capacity float64, demands []Demand, got []Amounts) {
	total := 0.0
	for i := range demands {
		w := demands[i].wants(d)
		got[i][d] = w
		total += w
	}
	if !shared(d) || capacity <= 0 || total <= capacity {
		return
	}
	var memory [3][64]float64 // on the stack; enough for most nodes
	wants, weights, parts := memory[0][:0], memory[1][:0], memory[2][:0]
	for i := range demands {
		wants, weights, parts = append(wants, demands[i].wants(d)), append(weights, demands[i].weight(d)), append(parts, 0)
	}
	Divide(capacity, wants, weights, parts)
	for i, x := range parts {
		got[i][d] = x
	}
}

// wants returns the pod's demand in a dimension, within its limit.
func (p *Demand) wants(d Dimension) float64 {
	if d == CPU && p.Limit > 0 {
		return min(p.Want[CPU], p.Limit)
	}
	return p.Want[d]
}

func (p *Demand) weight(d Dimension) float64 {
	if d == CPU {
		return Weight(p.Request)
	}
	return 1
}

// Weight returns the weight of a pod with the given CPU request in cores, when CPU is short.
func Weight(request float64) float64 { return max(request, minWeight) }

// Divide sets got to the parts of a capacity that is less than the sum of wants. Round by round, pods whose demand is at most their
// weight's part of the remainder get their demand; the others then get their parts. The slices have the same length.
func Divide(capacity float64, wants, weights, got []float64) {
	const open = -1
	weights, got = weights[:len(wants)], got[:len(wants)]
	for i := range got {
		got[i] = open
	}
	for {
		sum, settled := 0.0, false
		for i, x := range got {
			if x == open {
				sum += weights[i]
			}
		}
		level := capacity / sum
		for i, want := range wants {
			if got[i] == open && want <= level*weights[i] {
				got[i], settled = want, true
				capacity = max(capacity-want, 0)
			}
		}
		if settled {
			continue
		}
		for i, x := range got {
			if x == open {
				got[i] = level * weights[i]
			}
		}
		return
	}
}

// LimitsAnnotation is the annotation of a node with its Limits as JSON, such as {"network": "1250M", "disk": 500000000}.
const LimitsAnnotation = "gnnsched.io/usage-limits"

// maxLimits bounds the annotation of a node, in bytes.
const maxLimits = 1 << 10

// Limits are a node's rates in each direction, in bytes per second; 0: not limited. Share and Divide give each pod its part,
// in the simulator as on the simulated cluster.
type Limits struct {
	Network float64 `json:"network"`
	Disk    float64 `json:"disk"`
}

// Amounts returns the limits by dimension. CPU and memory are 0.
func (l Limits) Amounts() Amounts {
	return Amounts{NetworkIn: l.Network, NetworkOut: l.Network, DiskRead: l.Disk, DiskWrite: l.Disk}
}

// ParseLimits reads a node's annotation. Errors are short and free of control characters.
func ParseLimits(value string) (out Limits, err error) {
	if len(value) > maxLimits {
		return out, fmt.Errorf("annotation %s has %d bytes, more than %d", LimitsAnnotation, len(value), maxLimits)
	}
	var e struct {
		Network amount `json:"network"`
		Disk    amount `json:"disk"`
	}
	f := &fields{at: "limits"}
	if err := unmarshalStrict([]byte(value), &e); err != nil {
		f.errs = append(f.errs, err)
	}
	for _, x := range []struct {
		field string
		from  amount
		to    *float64
	}{{"network", e.Network, &out.Network}, {"disk", e.Disk, &out.Disk}} {
		*x.to = f.number(x.field, x.from)
		between(*x.to, 0, maxRate, x.field, func(field, format string, a ...any) {
			f.errs = append(f.errs, fmt.Errorf("%s.%s: %s", f.at, field, fmt.Sprintf(format, a...)))
		})
	}
	if err := errors.Join(f.errs...); err != nil {
		return Limits{}, errors.New("annotation " + LimitsAnnotation + ": " + exit.Clean(err.Error(), maxMessage))
	}
	return out, nil
}

// Recall keeps what AtFor computed for one pod, so that it computes less the next time. It changes no result. The zero Recall
// is empty, and a copy is independent.
type Recall struct {
	walks [Dimensions]*stretch
}

// stretchSteps is the number of steps of a stretch, a power of two.
const stretchSteps = 16

// stretch holds the amounts of a walk from the step first on, a multiple of stretchSteps. It does not change, so copies of a
// Recall share it.
type stretch struct {
	first   uint64
	amounts [stretchSteps]float64
	end     float64 // position of the Brownian motion after the last step
}

// next returns the stretch of a walk that begins with a step. It draws the positions as brownian does, each once. at is the previous
// stretch, any other, or nil.
func (at *stretch) next(seed, first uint64, c Walk) *stretch {
	var p [stretchSteps + 1]float64
	halve := func(from, to uint64) {
		for size := to - from; size > 1; size /= 2 {
			for at := from; at < to; at += size {
				p[at+size/2] = middle(p[at], p[at+size], size, mix(seed, first+at+size/2))
			}
		}
	}
	if first == 0 {
		p[1] = normal(mix(seed, 1))
		for to := uint64(1); to < stretchSteps; to *= 2 {
			p[2*to] = p[to] + math.Sqrt(float64(to))*normal(mix(seed, 2*to))
			halve(to, 2*to)
		}
	} else {
		if at != nil && at.first+stretchSteps == first {
			p[0] = at.end
		} else {
			p[0] = brownian(seed, first)
		}
		p[stretchSteps] = brownian(seed, first+stretchSteps)
		halve(0, stretchSteps)
	}
	out := &stretch{first: first, end: p[stretchSteps]}
	for k := range out.amounts {
		out.amounts[k] = c.reflected(seed, p[k])
	}
	return out
}
