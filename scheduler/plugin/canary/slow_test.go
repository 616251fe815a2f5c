package canary

import (
	"math/rand/v2"
	"testing"
	"time"
)

// The load changes for both groups: nothing is wrong with the canary.
func TestLoadChanges(t *testing.T) {
	for _, of := range shares {
		for seed := range uint64(2) {
			random := rand.New(rand.NewPCG(seed, 2))
			x := comparisonOf(of)
			for i, n := 0, 0; n < 4000; i++ {
				g := Rest
				if random.Float64() < of {
					g = Learned
					n++
				}
				took := time.Duration(random.ExpFloat64() * float64(2*time.Millisecond))
				if n/900%2 == 1 { // a slow time
					took *= 100
				}
				if why := x.attempted(g, 1+random.Uint64N(50), took); why != "" {
					t.Errorf("share %v, seed %d: stopped after %d attempts of the canary: %s", of, seed, n, why)
					break
				}
			}
		}
	}
}

// One attempt in 200 is very slow in both groups, as while a machine is busy. Chance must not take that for a fault of
// the canary.
func TestRarelySlow(t *testing.T) {
	for _, of := range append(shares, 1) {
		for seed := range uint64(2) {
			random := rand.New(rand.NewPCG(seed, 3))
			x := comparisonOf(of)
			for n := 0; n < 5000; {
				g, took := Rest, time.Millisecond
				if random.Float64() < of {
					g = Learned
					n++
				}
				if random.IntN(200) == 0 {
					took = time.Second
				}
				if why := x.attempted(g, 1+random.Uint64N(50), took); why != "" {
					t.Errorf("share %v, seed %d: stopped after %d attempts of the canary: %s", of, seed, n, why)
					break
				}
			}
		}
	}
}

// slowWithin is how many attempts it takes at most to stop a canary of which one in ten became slow, by the share.
// docs/how-to/canary.md has it.
var slowWithin = [7]int{400, 400, 600, 1000, 1500, 3000, 6000}

// A canary that became slow stops, at every share.
func TestBecomesSlow(t *testing.T) {
	const good = 3000
	for i, of := range shares {
		for seed := range uint64(3) {
			random, x, stopped := rand.New(rand.NewPCG(seed, 4)), comparisonOf(of), 0
			n := 0
			for n < good+slowWithin[i] && stopped == 0 {
				g, took := Rest, time.Millisecond
				if random.Float64() < of {
					g = Learned
					n++
					if n > good && random.IntN(10) == 0 {
						took = 2 * DefaultLatency
					}
				}
				if x.attempted(g, 1+random.Uint64N(50), took) != "" {
					stopped = n
				}
			}
			t.Logf("share %v, seed %d: one attempt in ten is slow, and it is stopped after %d", of, seed, stopped-good)
			if stopped <= good {
				t.Errorf("share %v, seed %d: one attempt in ten is slow, and it is not stopped within %d attempts", of, seed, slowWithin[i])
			}
		}
	}
}

// A rest that is often slow, and has few attempts, tolerates a canary that is as slow.
func TestSlowRest(t *testing.T) {
	for _, of := range shares {
		for _, slow := range []float64{0.02, 0.05, 0.2, 0.5} {
			random, x := rand.New(rand.NewPCG(uint64(1000*slow), 6)), comparisonOf(of)
			for n := 0; n < 2000; {
				g, took := Rest, time.Millisecond
				if random.Float64() < of {
					g = Learned
					n++
				}
				if random.Float64() < slow {
					took = time.Duration(random.ExpFloat64() * float64(time.Second))
				}
				if why := x.attempted(g, 1+random.Uint64N(50), took); why != "" {
					t.Errorf("share %v, %v are slow: stopped after %d attempts of the canary: %s", of, slow, n, why)
					break
				}
			}
		}
	}
}

// An owner whose pods take long, as with many affinities, does not stop the canary by itself.
func TestSlowOwner(t *testing.T) {
	for _, bad := range []int{1, 2} {
		random, x, stopped := rand.New(rand.NewPCG(1, 8)), comparisonOf(0.2), false
		for n := 0; n < 3000 && !stopped; {
			g, took, owner := Rest, time.Millisecond, random.IntN(20)
			if random.Float64() < 0.2 {
				g = Learned
				n++
				if owner < bad {
					took = time.Second
				}
			}
			stopped = x.attempted(g, uint64(1+owner), took) != ""
		}
		if stopped != (bad > 1) {
			t.Errorf("%d slow owners: stopped is %v", bad, stopped)
		}
	}
}
