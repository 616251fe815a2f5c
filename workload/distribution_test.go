package workload

import (
	"encoding/json"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"gnnsched/internal/fatal"
)

// Random requests stay in their range, have the distribution's quantiles and are rounded.
func TestRequestsDraw(t *testing.T) {
	r := Requests{
		CPU:    Distribution{Kind: LogUniform, Min: 100, Max: 6400},
		Memory: Distribution{Kind: LogNormal, Min: 64 << 20, Max: 64 << 30, Median: 2 << 30, Sigma: 1},
	}
	fatal.If(t, r.Validate())
	rng := rand.New(rand.NewPCG(1, 1))
	var cpu, mem []float64
	for range 20_000 {
		s := r.Draw(rng)
		fatal.If(t, s.Validate())
		q := s.Requests
		if q.MilliCPU < 100 || q.MilliCPU > 6400 || q.Memory < 64<<20 || q.Memory > 64<<30 || q.MilliCPU > 1000 && q.MilliCPU%100 != 0 {
			t.Fatalf("%+v", q)
		}
		cpu, mem = append(cpu, float64(q.MilliCPU)), append(mem, math.Log(float64(q.Memory)/(2<<30)))
	}
	slices.Sort(cpu)
	slices.Sort(mem)
	// The median of a loguniform amount is the geometric mean of its ends. 0.8413 of the values of
	// a standard normal distribution are at most 1.
	if m := cpu[10_000]; m < 760 || m > 840 {
		t.Errorf("median of %v thousandths", m)
	}
	if m, up := mem[10_000], mem[16_826]; math.Abs(m) > 0.04 || math.Abs(up-1) > 0.05 {
		t.Errorf("median %v, 84th percentile %v", m, up)
	}
	b, err := json.Marshal(r)
	fatal.If(t, err)
	var again Requests
	if err := json.Unmarshal(b, &again); err != nil || again != r {
		t.Errorf("%s became %+v: %v", b, again, err)
	}
}
