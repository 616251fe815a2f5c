package compare

import (
	"fmt"
	"hash/crc32"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"gnnsched/internal/fatal"
	"gnnsched/scheduler/objective"
	"gnnsched/scheduler/replay"
	"gnnsched/scheduler/server"
	"gnnsched/workload/record"
)

const machinesOf8 = `
- {name: m8, resources: {cpu: 8, memory: 32Gi}, offerings: [{zone: a, price: 0.48}, {zone: b, price: 0.48}]}
- {name: c8, resources: {cpu: 8, memory: 16Gi}, offerings: [{zone: a, price: 0.4}, {zone: b, price: 0.4}]}
- {name: m4, resources: {cpu: 4, memory: 16Gi}, offerings: [{zone: a, price: 0.24}, {zone: b, price: 0.24}]}
`

// busy returns hours of a cluster with about so many machines of 8 cores: half of it services, the other half jobs of two hours, with the
// day's rhythm.
func busy(machines int, hours float64) replay.Source {
	draw := rand.New(rand.NewPCG(1, 1))
	from, end := int64(1_767_225_600_000), int64(hours*3.6e6)
	s := replay.Source{From: from, To: from + end}
	sizes := []int64{250, 500, 1000, 2000, 4000} // the mean is 1,550
	add := func(kind, owner string, at, to int64) {
		milli := sizes[crc32.ChecksumIEEE([]byte(owner))%5]
		p := record.Pod{UID: fmt.Sprint("u", len(s.Pods)), Namespace: "n", Name: fmt.Sprint("p", len(s.Pods)), OwnerKind: kind, OwnerName: owner,
			MilliCPU: milli, Memory: milli * 3 << 20, Arrived: from + at}
		if to < end {
			p.Ended, p.End = from+to, record.Succeeded
		}
		s.Pods = append(s.Pods, p)
	}
	for cores, i := 4*float64(machines)*0.75, 0; cores > 0; i++ {
		for range 2 + draw.IntN(20) {
			add("ReplicaSet", fmt.Sprint("s", i), int64(draw.IntN(600_000)), end)
			cores -= float64(s.Pods[len(s.Pods)-1].MilliCPU) / 1000
		}
	}
	for at, i := 0.0, 0; at < float64(end); i++ {
		rhythm := 1 + 0.6*math.Sin(2*math.Pi*(at/8.64e7-0.3))
		at += draw.ExpFloat64() * 7.2e6 * 1.55 * 3 / (4 * float64(machines) * 0.75 * rhythm)
		for range 1 + draw.IntN(5) {
			add("Job", fmt.Sprintf("j%d", i), int64(at), int64(at+draw.ExpFloat64()*7.2e6+1000))
		}
	}
	slices.SortStableFunc(s.Pods, func(a, b record.Pod) int { return int(a.Arrived - b.Arrived) })
	return s
}

// BenchmarkAutoscalers reports how many hours of a cluster are played in a second, with each autoscaler.
func BenchmarkAutoscalers(b *testing.B) {
	profile, err := server.ProfileNamed("most-allocated")
	fatal.If(b, err)
	decoded, err := server.Config{Profiles: []server.Profile{profile}, QPS: 1}.Decode()
	fatal.If(b, err)
	for _, machines := range []int{100, 300} {
		for _, name := range []string{"cluster-autoscaler", "karpenter:60s"} {
			if short, _, _ := strings.Cut(name, ":"); autoscalers[short] == nil {
				continue // Karpenter is not in every build
			}
			b.Run(fmt.Sprintf("%s of %d", name, machines), func(b *testing.B) {
				hours := map[int]float64{100: 4, 300: 1}[machines]
				s := busy(machines, hours)
				scaling, err := setting{Scaler: name, Types: []byte(machinesOf8)}.scaling()
				fatal.If(b, err)
				var c replay.Course
				began := time.Now()
				for b.Loop() {
					if c, err = replay.Run(b.Context(), s, replay.Config{Profile: decoded.Profiles[0], Objective: objective.Balance{}, Blocks: 8, Seed: 1,
						Scaling: scaling}); err != nil {
						b.Fatal(err)
					}
				}
				whole := c.Whole()
				b.ReportMetric(hours*float64(b.N)/time.Since(began).Seconds(), "hours/s")
				b.ReportMetric(whole.Mean(replay.Machines), "machines")
				b.ReportMetric(24*whole.Mean(replay.Bill), "dollars/day")
				b.ReportMetric(float64(c.Evicted), "evicted")
				b.ReportMetric(float64(c.Pods), "pods")
				b.ReportMetric(whole.Mean(replay.Waiting), "waiting")
			})
		}
	}
}
