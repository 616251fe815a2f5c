package usage

import (
	"errors"
	"fmt"
	"hash/fnv"
	"math"
	"slices"

	"gnnsched/internal/cluster"
	"gnnsched/internal/exit"
)

// Model is a pod's demand over time: its use if it got everything it wants.
type Model struct {
	Curves [Dimensions]Curve // by Dimension; nil: nothing

	// Work makes the pod a batch job: it ends when it has used this many core-seconds of CPU, so it takes longer where it gets less. 0: the
	// pod is a service.
	Work float64
}

// At returns a pod's usage. now is the time in seconds since a midnight UTC, such as the Unix time; age is the number of seconds since the
// pod started. Values below 0 count as 0. Equal arguments give equal amounts. At does not allocate.
func (m *Model) At(seed uint64, now, age float64) Amounts {
	now, age = sane(now), sane(age)
	var out Amounts
	for d, c := range m.Curves {
		if c != nil {
			out[d] = c.at(seed, now, age)
		}
	}
	return out
}

// AtFor returns At's value of one dimension, and for how many seconds of now and age it holds: 0 or less if it changes all the time. recall
// belongs to the same pod; it may be nil if the model is Clocked.
func (m *Model) AtFor(d Dimension, seed uint64, now, age float64, recall *Recall) (amount, hold float64) {
	switch c := m.Curves[d].(type) {
	case nil:
		return 0, math.Inf(1)
	case Constant:
		return float64(c), math.Inf(1)
	case Walk:
		if age >= 0 {
			return c.atFor(seed, sane(age), &recall.walks[d])
		}
	}
	c, before := m.Curves[d], age
	now, age = sane(now), sane(age)
	if amount = c.at(seed, now, age); before < 0 { // age stands still at 0 until the pod starts
		return amount, 0
	}
	return amount, c.lasts(seed, now, age)
}

// Clocked reports whether a pod's usage depends on the time only, so that all pods with the model always use the same.
func (m *Model) Clocked() bool {
	return !slices.ContainsFunc(m.Curves[:], func(c Curve) bool { return c != nil && !c.clocked() })
}

// sane returns a time that curves can work with.
func sane(seconds float64) float64 {
	if !(seconds > 0) {
		return 0
	}
	return min(seconds, 1<<52)
}

// Seed returns the seed of a pod, from its namespace and name.
func Seed(namespace, name string) uint64 {
	h := fnv.New64a()
	h.Write([]byte(namespace)) // never fails
	h.Write([]byte{0})
	h.Write([]byte(name))
	return h.Sum64()
}

// The bounds of the numbers in a model that are no amounts.
const (
	maxSeconds = 1e9 // of a period, a step, or an offset: 31 years
	maxWork    = 1e12
	maxValues  = 20_000 // of a series
)

// Validate returns every fault. Each error begins with the field's name in JSON.
func (m *Model) Validate() error {
	var errs []error
	used := false
	for i, c := range m.Curves {
		if c == nil {
			continue
		}
		used = true
		d := Dimension(i)
		c.validate(most(d), func(field, format string, a ...any) {
			errs = append(errs, fmt.Errorf("%s%s: %s", names[d], field, fmt.Sprintf(format, a...)))
		})
	}
	switch {
	case !used:
		errs = append(errs, errors.New("no dimension is set; use cpu, memory, networkIn, networkOut, diskRead or diskWrite"))
	case !(m.Work >= 0 && m.Work <= maxWork):
		errs = append(errs, fmt.Errorf("work: %v is not 0 to %g core-seconds", m.Work, float64(maxWork)))
	case m.Work > 0 && m.Curves[CPU] == nil:
		errs = append(errs, errors.New("work: the pod uses no CPU, so its work would never end; set cpu"))
	}
	return errors.Join(errs...)
}

// between checks a number that must be from low to high, both included.
func between(x, low, high float64, field string, bad func(field, format string, a ...any)) {
	if !(x >= low && x <= high) { // also refuses NaN
		bad(field, "%v is not %g to %g", x, low, high)
	}
}

// bounds checks a low and a high amount.
func bounds(low, high, most float64, kind string, bad func(field, format string, a ...any)) {
	between(low, 0, most, kind+".low", bad)
	between(high, 0, most, kind+".high", bad)
	if low > high {
		bad(kind+".low", "%v is more than high, %v", low, high)
	}
}

func (c Constant) validate(most float64, bad func(field, format string, a ...any)) {
	between(float64(c), 0, most, "", bad)
}

func (c Day) validate(most float64, bad func(field, format string, a ...any)) {
	bounds(c.Low, c.High, most, ".day", bad)
	between(c.Period, 1, maxSeconds, ".day.period", bad)
	between(c.Peak, 0, maxSeconds, ".day.peak", bad)
}

func (c Bursts) validate(most float64, bad func(field, format string, a ...any)) {
	bounds(c.Low, c.High, most, ".bursts", bad)
	between(c.Every, 1, maxSeconds, ".bursts.every", bad)
	between(c.Length, 0, maxSeconds, ".bursts.length", bad)
	if c.Length > c.Every {
		bad(".bursts.length", "%v seconds are more than every, %v", c.Length, c.Every)
	}
}

func (c Walk) validate(most float64, bad func(field, format string, a ...any)) {
	bounds(c.Low, c.High, most, ".walk", bad)
	between(c.Deviation, 0, most, ".walk.deviation", bad)
	between(c.Step, 1, maxSeconds, ".walk.step", bad)
}

func (c *Series) validate(most float64, bad func(field, format string, a ...any)) {
	between(c.Step, 1, maxSeconds, ".series.step", bad)
	between(c.Offset, 0, maxSeconds, ".series.offset", bad)
	between(c.Scale, 0, most, ".series.scale", bad)
	if n := len(c.Values); n == 0 || n > maxValues {
		bad(".series.values", "there are %d; a series has 1 to %d", n, maxValues)
		return
	}
	for i, v := range c.Values {
		if x := float64(v) * c.Scale; !(v >= 0 && x <= most) || math.IsInf(float64(v), 0) {
			bad(fmt.Sprintf(".series.values[%d]", i), "%v times the scale %v is not 0 to %g", v, c.Scale, most)
			return
		}
	}
}

// Dimension is one kind of usage of a pod.
type Dimension = cluster.Dimension

// The dimensions.
const (
	CPU        = cluster.UsedCPU    // cores, where package cluster counts thousandths
	Memory     = cluster.UsedMemory // bytes
	NetworkIn  = cluster.NetworkIn  // bytes per second
	NetworkOut = cluster.NetworkOut // bytes per second
	DiskRead   = cluster.DiskRead   // bytes per second
	DiskWrite  = cluster.DiskWrite  // bytes per second

	Dimensions = cluster.Dimensions // number of dimensions
)

// names are the dimensions' names in JSON and YAML.
var names = [Dimensions]string{"cpu", "memory", "networkIn", "networkOut", "diskRead", "diskWrite"}

// shared reports whether pods share a dimension when they want more of it than their node has. Memory is
// not shared.
func shared(d Dimension) bool { return d != Memory }

// maxRate is the largest rate of network and disk, in bytes per second.
const maxRate = 1e12

// most is the largest amount of a dimension in a model or a node. A larger one is rejected as a wrong unit.
func most(d Dimension) float64 {
	switch d {
	case CPU:
		return cluster.MaxMilliCPU / 1000
	case Memory:
		return cluster.MaxMemory
	}
	return maxRate
}

// Amounts holds an amount of each dimension, by Dimension: cores, bytes, and bytes per second.
type Amounts [Dimensions]float64

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
