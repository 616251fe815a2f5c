package usage

import (
	"errors"
	"fmt"
	"hash/fnv"
	"math"
	"slices"

	"gnnsched/internal/cluster"
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
	return amount, c.holds(seed, now, age)
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
