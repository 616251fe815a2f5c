package usage

import "math"

// Curve is the use of one dimension over time. The kinds are Constant, Day, Bursts, Walk and *Series.
type Curve interface {
	// at returns the amount. now and age are finite and 0 or more, see Model.At.
	at(seed uint64, now, age float64) float64
	// holds returns the number of seconds for which the amount stays the same; 0 or less if that is not known.
	holds(seed uint64, now, age float64) float64
	// clocked reports whether at depends on nothing but now.
	clocked() bool
	// validate calls bad with each field that is wrong. No amount may be over most.
	validate(most float64, bad func(field, format string, a ...any))
}

// Constant is the same amount at all times.
type Constant float64

func (c Constant) at(uint64, float64, float64) float64 { return float64(c) }

func (c Constant) holds(uint64, float64, float64) float64 { return math.Inf(1) }

func (c Constant) clocked() bool { return true }

// Day goes up and down once a period, as a cosine:
//
//	low + (high - low) · (1 + cos(2π · (now - peak) / period)) / 2
type Day struct {
	Low    float64 `json:"low"`    // an amount
	High   float64 `json:"high"`   // an amount
	Period float64 `json:"period"` // seconds; a day has 86400
	Peak   float64 `json:"peak"`   // when it is highest, in seconds after midnight UTC
}

func (c Day) at(_ uint64, now, _ float64) float64 {
	return c.Low + (c.High-c.Low)*(1+math.Cos(2*math.Pi*(now-c.Peak)/c.Period))/2
}

func (c Day) holds(uint64, float64, float64) float64 {
	if c.Low == c.High {
		return math.Inf(1)
	}
	return 0
}

func (c Day) clocked() bool { return true }

// Bursts is High for Length seconds once in every Every seconds, and Low otherwise. The seed decides when. Two
// dimensions of a pod with equal Every and Length have their bursts together.
type Bursts struct {
	Low    float64 `json:"low"`    // an amount
	High   float64 `json:"high"`   // an amount
	Every  float64 `json:"every"`  // seconds
	Length float64 `json:"length"` // seconds, at most Every
}

func (c Bursts) at(seed uint64, _, age float64) float64 {
	slot := index(age / c.Every)
	begin := uniform(mix(seed, slot)) * (c.Every - c.Length)
	if in := age - float64(slot)*c.Every; in >= begin && in < begin+c.Length {
		return c.High
	}
	return c.Low
}

func (c Bursts) holds(seed uint64, _, age float64) float64 {
	slot := index(age / c.Every)
	begin := uniform(mix(seed, slot)) * (c.Every - c.Length)
	in := age - float64(slot)*c.Every
	switch {
	case in < begin:
		return begin - in - safety
	case in < begin+c.Length:
		return begin + c.Length - in - safety
	}
	return c.Every - in - safety
}

func (c Bursts) clocked() bool { return false }

// Walk is a random walk that is reflected at Low and High. It starts at a random place between them.
type Walk struct {
	Low       float64 `json:"low"`       // an amount
	High      float64 `json:"high"`      // an amount
	Deviation float64 `json:"deviation"` // standard deviation of the change within an hour
	Step      float64 `json:"step"`      // seconds between two changes
}

func (c Walk) at(seed uint64, _, age float64) float64 {
	if c.High <= c.Low {
		return c.Low
	}
	return c.reflected(seed, brownian(seed, index(age/c.Step)))
}

// atFor returns at and holds. last is the stretch of the last call.
func (c Walk) atFor(seed uint64, age float64, last **stretch) (amount, hold float64) {
	if c.High <= c.Low {
		return c.Low, c.holds(seed, 0, age)
	}
	k := index(age / c.Step)
	now := *last
	if now == nil || now.first != k&^(stretchSteps-1) {
		now = now.next(seed, k&^(stretchSteps-1), c)
		*last = now
	}
	return now.amounts[k-now.first], float64(k+1)*c.Step - age - safety // as rest
}

// reflected returns the amount at a position of the Brownian motion.
func (c Walk) reflected(seed uint64, position float64) float64 {
	width := c.High - c.Low
	at := math.Abs(uniform(mix(seed, startOfWalk))*width + c.Deviation*math.Sqrt(c.Step/3600)*position) // reflected at 0
	if at >= 2*width {
		at = math.Mod(at, 2*width)
	}
	return c.Low + min(at, 2*width-at) // and at width
}

func (c Walk) clocked() bool { return false }

func (c Walk) holds(_ uint64, _, age float64) float64 { return rest(age, c.Step) }

// startOfWalk is the index of the draw of a walk's start, which no step of a walk has.
const startOfWalk = math.MaxUint64

// brownian returns the position of a standard Brownian motion after k steps. It draws the positions at
// powers of two, and from them the position at k by halving, as in Lévy's construction: about 2·log2(k) draws.
func brownian(seed, k uint64) float64 {
	if k == 0 {
		return 0
	}
	from, to := uint64(0), uint64(1)
	low, high := 0.0, normal(mix(seed, 1))
	for k > to {
		step := math.Sqrt(float64(to))
		from, to = to, 2*to
		low, high = high, high+step*normal(mix(seed, to))
	}
	for k != from && k != to {
		half := from + (to-from)/2
		w := middle(low, high, to-from, mix(seed, half))
		if k >= half {
			from, low = half, w
		} else {
			to, high = half, w
		}
	}
	if k == from {
		return low
	}
	return high
}

// middle draws the position in the middle of the given number of steps, between the positions at their ends.
func middle(low, high float64, steps, bits uint64) float64 {
	return (low+high)/2 + math.Sqrt(float64(steps))/2*normal(bits)
}

// Series is a measured series: value i holds from i·Step until (i+1)·Step.
type Series struct {
	Step   float64   `json:"step"`             // seconds
	Scale  float64   `json:"scale"`            // amount of the value 1
	Values []float32 `json:"values"`           // 0 or more; at least one
	Offset float64   `json:"offset,omitempty"` // seconds into the series at which it begins

	Once        bool `json:"once,omitempty"`        // after the end the last value holds; otherwise the series begins again
	Clock       bool `json:"clock,omitempty"`       // follows the clock from midnight UTC; otherwise the pod's age
	RandomStart bool `json:"randomStart,omitempty"` // begins at a place that the seed draws, plus Offset; with Clock on a day that it draws
}

func (c *Series) at(seed uint64, now, age float64) float64 {
	t := age + c.Offset
	if c.Clock {
		t = now + c.Offset
	}
	n := uint64(len(c.Values))
	i := index(t / c.Step)
	if c.RandomStart {
		i += c.start(seed)
	}
	switch {
	case i < n:
	case c.Once:
		i = n - 1
	default:
		i %= n
	}
	return float64(c.Values[i]) * c.Scale
}

// start returns the begin in the series that the seed draws. With Clock it is a number of whole days, if the series has several and a day
// has whole steps, so that the time of day stays.
func (c *Series) start(seed uint64) uint64 {
	n := uint64(len(c.Values))
	if day := day / c.Step; c.Clock && day == math.Floor(day) && uint64(day) <= n {
		return mix(seed, 0) % (n / uint64(day)) * uint64(day)
	}
	return mix(seed, 0) % n
}

// day is the number of seconds in a day.
const day = 86400

func (c *Series) holds(_ uint64, now, age float64) float64 {
	if c.Clock {
		return rest(now+c.Offset, c.Step)
	}
	return rest(age+c.Offset, c.Step)
}

func (c *Series) clocked() bool { return c.Clock && !c.RandomStart }

// safety is the time, in seconds, for which nothing is sure before a change, for the sake of rounding.
const safety = 1e-3

// rest returns the time that certainly stays within its step.
func rest(at, step float64) float64 { return float64(index(at/step)+1)*step - at - safety }

// index returns the whole part of a number of steps, which is not negative.
func index(steps float64) uint64 { return uint64(min(steps, 1<<52)) }

// mix returns 64 bits that look random, of a seed and an index: the finalizer of splitmix64.
func mix(seed, i uint64) uint64 {
	z := seed + (i+1)*0x9e3779b97f4a7c15
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}

// uniform returns a number from 0 to less than 1.
func uniform(bits uint64) float64 { return float64(bits>>11) / (1 << 53) }

// normal returns a number that is nearly normal with mean 0 and variance 1: the sum of four uniform ones.
func normal(bits uint64) float64 {
	sum := bits&0xffff + bits>>16&0xffff + bits>>32&0xffff + bits>>48
	return (float64(sum)/0xffff - 2) * 1.7320508075688772 // √3
}
