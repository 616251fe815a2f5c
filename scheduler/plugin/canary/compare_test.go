package canary

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
)

// With few pods in the rest, a broken canary stops nearly as soon as with many. The wanted numbers come from the exact
// binomial sum, computed apart from this code.
func TestFewInTheRest(t *testing.T) {
	for _, c := range []struct {
		rest, failed int // of the rest, before the canary's first
		good, stopAt int // of the canary: placed before the first failure, and the failure that stops it; 0 for never
	}{
		{0, 0, 0, 5},
		{1, 0, 0, 5},
		{5, 0, 0, 5},
		{10, 0, 0, 5},
		{100, 0, 0, 5},
		{1, 1, 0, 8},
		{2, 2, 0, 10},
		{10, 1, 0, 8},
		{100, 1, 0, 5},
		{100, 10, 0, 7},
		{0, 0, 10, 9},
		{5, 0, 10, 9},
		{100, 0, 10, 6},
		{100, 0, 100, 12},
		{10, 10, 0, 0},
		{5, 4, 0, 16},
	} {
		x, at := comparisonOf(0.5), 0
		for i := range c.rest {
			r := Bound
			if i < c.failed {
				r = NotBound
			}
			x.settled(Rest, r)
		}
		for range c.good {
			x.settled(Learned, Bound)
		}
		for i := 1; i <= 100 && at == 0; i++ {
			if x.settled(Learned, Fallback) != "" {
				at = i
			}
		}
		if at != c.stopAt {
			t.Errorf("%d of %d pods of the rest failed, %d of the canary were good: failure %d stops it, want %d", c.failed, c.rest, c.good, at, c.stopAt)
		}
	}
}

// A rest without pods keeps its earlier rate, scaled to half a window, and forgets it once it has pods again.
func TestRestIsCarriedOver(t *testing.T) {
	x := comparisonOf(0.5)
	for i := range 4 * halfWindow { // one in five of either fails
		r := Bound
		if i%5 == 0 {
			r = NotBound
		}
		x.settled(Rest, r)
		if why := x.settled(Learned, r); why != "" {
			t.Fatal(why)
		}
	}
	for i := range 5 * halfWindow { // the rest has no pods any more
		r := Bound
		if i%5 == 0 {
			r = NotBound
		}
		if why := x.settled(Learned, r); why != "" {
			t.Fatalf("it stops after %d pods without a rest: %s", i, why)
		}
	}
	for range 4 * halfWindow { // the rest has pods again, and none fails
		x.settled(Rest, Bound)
		x.settled(Learned, Bound)
	}
	for i := 1; ; i++ {
		if x.settled(Learned, NotBound) == "" {
			continue
		}
		if i > 40 {
			t.Errorf("it stops after %d failures, which the rest's old ones excuse", i)
		}
		return
	}
}

// stream is a random stream of pods of 2,000 owners, each in a namespace of its own. Each pod fails with the probability
// of its group.
type stream struct {
	args         Args
	canary, rest float64 // probabilities of a failure
	seed         uint64
}

// run lets the stream run until the canary stops, or has so many pods. It returns how many it had then; 0 if it did not
// stop.
func (s stream) run(t *testing.T, pods int) (stoppedAt int) {
	t.Helper()
	if err := s.args.Default(); err != nil {
		t.Fatal(err)
	}
	random := rand.New(rand.NewPCG(s.seed, 1))
	groups := make([]Group, 0, 2000) // of owners, of which each has pods again and again
	for i := range cap(groups) {
		g, p := Rest, pod(fmt.Sprintf("team-%d-%d", s.seed, i), "StatefulSet", fmt.Sprint("set-", i), "")
		if s.args.place(p) < s.args.Of {
			g = Learned
		}
		groups = append(groups, g)
	}
	x := &comparison{args: s.args}
	for n := 0; n < pods; {
		g := groups[random.IntN(len(groups))]
		p := s.rest
		if g == Learned {
			p = s.canary
			n++
		}
		r := Bound
		if random.Float64() < p {
			r = NotBound
		}
		if x.settled(g, r) != "" {
			return n
		}
	}
	return 0
}

// A canary that is worse stops soon, and one that is not never does, whatever its share and what is drawn.
func TestStreams(t *testing.T) {
	for _, of := range []float64{0.05, 0.2, 0.5} {
		for _, by := range []string{ByOwner, ByNamespace} {
			for _, c := range []struct {
				canary, rest float64
				within       int // pods of the canary; 0: it must not stop
			}{
				{1, 0, 5}, {1, 0.05, 10}, {0.3, 0, 100}, {0.3, 0.05, 150}, {0.1, 0, 300}, {0.1, 0.01, 400},
				{0, 0, 0}, {0.001, 0.001, 0}, {0.01, 0.01, 0}, {0.05, 0.05, 0}, {0.01, 0, 0}, {0, 0.2, 0},
			} {
				for seed := range uint64(5) {
					pods := 20_000
					if c.within > 0 {
						pods = c.within
					}
					at := stream{args: Args{Of: of, By: by}, canary: c.canary, rest: c.rest, seed: seed}.run(t, pods)
					if (at > 0) != (c.within > 0) {
						t.Errorf("share %v by %s, seed %d, failures %v and %v: stopped after %d of %d pods", of, by, seed, c.canary, c.rest, at, pods)
					}
				}
			}
		}
	}
}

// A healthy canary runs on: none of ten streams of 100,000 of its pods stops it at any share, though one in a hundred fails.
func TestFalseStops(t *testing.T) {
	for _, of := range []float64{0.05, 0.2, 0.5} {
		for seed := range uint64(10) {
			if at := (stream{args: Args{Of: of}, canary: 0.01, rest: 0.01, seed: 100 + seed}).run(t, 100_000); at > 0 {
				t.Errorf("share %v, seed %d: a healthy canary is stopped after %d pods", of, seed, at)
			}
		}
	}
}

// The load changes for both groups: nothing is wrong with the canary.
func TestLoadChanges(t *testing.T) {
	for _, of := range []float64{0.05, 0.2, 0.5} {
		for seed := range uint64(5) {
			random := rand.New(rand.NewPCG(seed, 2))
			x := comparisonOf(of)
			for i, n := 0, 0; n < 10_000; i++ {
				g := Rest
				if random.Float64() < of {
					g = Learned
					n++
				}
				took := time.Duration(random.ExpFloat64() * float64(2*time.Millisecond))
				if n/900%2 == 1 { // a slow time
					took *= 100
				}
				if why := x.attempted(g, took); why != "" {
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
	for _, of := range []float64{0.05, 0.2, 0.5, 1} {
		for seed := range uint64(10) {
			random := rand.New(rand.NewPCG(seed, 3))
			x := comparisonOf(of)
			for n := 0; n < 20_000; {
				g, took := Rest, time.Millisecond
				if random.Float64() < of {
					g = Learned
					n++
				}
				if random.IntN(200) == 0 {
					took = time.Second
				}
				if why := x.attempted(g, took); why != "" {
					t.Errorf("share %v, seed %d: stopped after %d attempts of the canary: %s", of, seed, n, why)
					break
				}
			}
		}
	}
}

// A canary that became slow stops within a window, at every share.
func TestBecomesSlow(t *testing.T) {
	for _, of := range []float64{0.05, 0.2, 0.5} {
		random, x, stopped := rand.New(rand.NewPCG(1, 4)), comparisonOf(of), false
		for n := 0; n < 4000 && !stopped; {
			g, took := Rest, time.Millisecond
			if random.Float64() < of {
				g = Learned
				n++
				if n > 3000 && random.IntN(10) == 0 {
					took = 2 * DefaultLatency
				}
			}
			stopped = x.attempted(g, took) != ""
			if stopped && n <= 3000 {
				t.Errorf("share %v: stopped after %d attempts", of, n)
			}
		}
		if !stopped {
			t.Errorf("share %v: one attempt in ten is slow, and it is not stopped", of)
		}
	}
}

// Jobs of a CronJob are one owner, as everywhere in this program.
func TestOwnerIsTheWorkload(t *testing.T) {
	for _, c := range []struct {
		pod  *v1.Pod
		want string
	}{
		{pod("a", "Job", "report-29012345", "1"), "CronJob/report"},
		{pod("a", "Job", "train", "1"), "Job/train"},
		{pod("a", "", "", "1"), "1"},
	} {
		if got := owner(c.pod); got != c.want {
			t.Errorf("owner %q, want %q", got, c.want)
		}
	}
}
