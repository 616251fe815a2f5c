package traffic

import (
	"math"
	"math/bits"
)

// unit is the least rate between two pods that counts, in bytes a second.
const unit = 1.0 / (1 << 20)

// units returns a rate of at most 1e13 bytes a second as a number of units: whole bytes, or, below one byte, at least one unit.
func units(rate float64) uint64 {
	switch {
	case rate >= 1:
		return uint64(math.Round(rate)) << 20
	case rate > 0:
		return max(uint64(math.Round(rate/unit)), 1)
	}
	return 0
}

// amount is a number of units of 128 bits. Sums of it are exact in any order, and so is taking away what was added. The
// largest, of maxPairs pairs of workloads with maxRate each, has less than 80 bits.
type amount struct{ high, low uint64 }

// product returns a number of units for each of n.
func product(each uint64, n int32) amount {
	high, low := bits.Mul64(each, uint64(n))
	return amount{high, low}
}

func (a amount) times(n int32) amount {
	p := product(a.low, n)
	p.high += a.high * uint64(n)
	return p
}

func (a amount) plus(b amount) amount {
	low, carry := bits.Add64(a.low, b.low, 0)
	high, _ := bits.Add64(a.high, b.high, carry)
	return amount{high, low}
}

func (a amount) minus(b amount) amount {
	low, borrow := bits.Sub64(a.low, b.low, 0)
	high, _ := bits.Sub64(a.high, b.high, borrow)
	return amount{high, low}
}

// rate returns bytes a second.
func (a amount) rate() float64 { return (float64(a.high)*(1<<64) + float64(a.low)) * unit }
