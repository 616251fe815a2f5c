package canary

import (
	"maps"
	"math"
	"slices"
	"time"
)

// durations counts times by bucket. Bucket i has the times from bucketGrowth^i to bucketGrowth^(i+1) nanoseconds.
type durations struct {
	count map[int]int
	n     int
}

const bucketGrowth = 1.01

func bucketOf(d time.Duration) int {
	return int(math.Log(float64(max(d, 1))) / math.Log(bucketGrowth))
}

func (d *durations) add(took time.Duration) {
	if d.count == nil {
		d.count = map[int]int{}
	}
	d.count[bucketOf(took)]++
	d.n++
}

// plus returns the sum, which shares nothing with d and o.
func (d durations) plus(o durations) durations {
	sum := durations{count: map[int]int{}, n: d.n + o.n}
	for _, part := range []durations{d, o} {
		for i, n := range part.count {
			sum.count[i] += n
		}
	}
	return sum
}

// quantile returns the shortest time, up to a bucket, within which a share of the attempts ended; 0 without attempts.
func (d durations) quantile(share float64) time.Duration {
	need := int(math.Ceil(share * float64(d.n)))
	for _, i := range slices.Sorted(maps.Keys(d.count)) {
		if need -= d.count[i]; need <= 0 {
			return time.Duration(math.Pow(bucketGrowth, float64(i)))
		}
	}
	return 0
}

// above counts the times in higher buckets than limit's.
func (d durations) above(limit time.Duration) int {
	n, at := 0, bucketOf(limit)
	for i, has := range d.count {
		if i > at {
			n += has
		}
	}
	return n
}
