package meter

import (
	"math"

	"gnnsched/internal/cluster"
	"gnnsched/workload/usage"
)

// The samples of Earlier: so many pods at so many times of a day.
const (
	earlierPods  = 16
	earlierTimes = 64
	day          = 86400 // seconds
)

// jobAge is the age, in seconds, up to which Earlier samples batch jobs.
const jobAge = 3600

// Earlier returns what other pods with a model used that had all they wanted: mean, deviation and maximum over pods and
// a day. limit is that of CPU in thousandths of a core; 0: no limit.
func Earlier(m *usage.Model, limit int64) *cluster.PodUsage {
	var sums [usage.Dimensions]cluster.Sums
	var most usage.Amounts
	for p := range uint64(earlierPods) {
		for i := range earlierTimes {
			now := day * (float64(i) + float64(p)/earlierPods) / earlierTimes // each pod at other times
			age := now
			if m.Work > 0 {
				age = math.Mod(now, jobAge)
			}
			for d, x := range m.At(p, now, age) {
				if usage.Dimension(d) == usage.CPU {
					if x *= 1000; limit > 0 {
						x = min(x, float64(limit))
					}
				}
				sums[d].Add(x)
				most[d] = max(most[d], x)
			}
		}
	}
	out := &cluster.PodUsage{}
	for d, s := range sums {
		out.Known[d] = true
		out.Measured[d] = cluster.Statistics{Mean: s.Mean(), Deviation: s.Std(), HourMax: most[d], DayMax: most[d]}
	}
	return out
}
