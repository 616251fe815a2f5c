package canary

import (
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"

	"gnnsched/internal/fatal"
)

// fisher returns the one-sided p-value of Fisher's exact test that the canary fails more often, as a sum of
// hypergeometric probabilities.
func fisher(canary, rest sample) (p float64) {
	choose := func(n, k float64) float64 {
		a, _ := math.Lgamma(n + 1)
		b, _ := math.Lgamma(k + 1)
		c, _ := math.Lgamma(n - k + 1)
		return a - b - c
	}
	hits := canary.hits + rest.hits
	for k := canary.hits; k <= min(hits, canary.n); k++ {
		p += math.Exp(choose(canary.n, k) + choose(rest.n, hits-k) - choose(canary.n+rest.n, hits))
	}
	return p
}

// Without a margin, exceeds is Fisher's exact test.
func TestExceedsIsFisher(t *testing.T) {
	same := func(p float64) float64 { return p }
	for _, c := range []struct{ canary, rest sample }{
		{sample{5, 5}, sample{95, 0}},
		{sample{20, 20}, sample{10, 0}},
		{sample{100, 30}, sample{30, 2}},
		{sample{1000, 300}, sample{60, 6}},
		{sample{19_000, 2_000}, sample{300, 3}},
		{sample{50, 10}, sample{50, 10}},
		{sample{50, 20}, sample{950, 200}},
		{sample{1000, 9}, sample{20_000, 20}},
	} {
		got, want := exceeds(c.canary, c.rest, same), fisher(c.canary, c.rest)
		if math.Abs(math.Log(got/want)) > 0.05 {
			t.Errorf("%v against %v: %g, want %g", c.canary, c.rest, got, want)
		}
	}
}

// A rest that says little tolerates much, and one that says nothing nearly all.
func TestExceedsOfSmallRests(t *testing.T) {
	margin := func(p float64) float64 { return min(p+0.01, 1) }
	for _, c := range []struct {
		canary, rest sample
		want         float64
	}{
		{sample{lonely - 1, lonely - 1}, sample{}, 1},
		{sample{lonely, lonely}, sample{}, math.Pow(presumed+0.01, lonely)},
		{sample{20, 20}, sample{3, 3}, 1},
		{sample{20, 20}, sample{12, 12}, 1},
	} {
		if got := exceeds(c.canary, c.rest, margin); math.Abs(math.Log(got/c.want)) > 1e-6 {
			t.Errorf("%v against %v: %g, want %g", c.canary, c.rest, got, c.want)
		}
	}
	if p := exceeds(sample{20, 20}, sample{2, 0}, margin); rare(p) || p < 1e-3 {
		t.Errorf("two good pods of the rest prove much: %g", p)
	}
	last := 0.0
	for hits := range 13 { // the more of the rest fail, the more is tolerated
		p := exceeds(sample{40, 25}, sample{12, float64(hits)}, margin)
		if p < last {
			t.Errorf("%v of 12 of the rest: %g, and %g with one less", hits, p, last)
		}
		last = p
	}
}

// stream is a random stream of pods. Each pod fails with the probability of its group.
type stream struct {
	of           float64 // share
	owners       int     // of both groups; 0 for 2,000
	canary, rest float64 // probabilities of a failure
	seed         uint64
}

// run lets the stream run until the canary stops, or has so many pods. It returns how many it had then; 0 if it did not
// stop.
func (s stream) run(pods int) (stoppedAt int) {
	random, x := rand.New(rand.NewPCG(s.seed, 1)), comparisonOf(s.of)
	if s.owners == 0 {
		s.owners = 2000
	}
	for n := 0; n < pods; {
		g, p := Rest, s.rest
		owner := random.IntN(s.owners)
		if float64(owner) < s.of*float64(s.owners) {
			g, p = Learned, s.canary
			n++
		}
		r := Bound
		if random.Float64() < p {
			r = NotBound
		}
		if x.settled(g, uint64(owner+1), r) != "" {
			return n
		}
	}
	return 0
}

// shares has one with a rest of a twentieth of the pods.
var shares = []float64{0.05, 0.2, 0.5, 0.7, 0.8, 0.9, 0.95}

// within is how many pods of a canary that is worse than the rest it takes at most to stop it, by the probabilities of a
// failure and the share. docs/how-to/canary.md has it.
var within = []struct {
	canary, rest float64
	pods         [7]int
}{
	{1, 0, [7]int{15, 20, 30, 50, 60, 90, 150}},
	{1, 0.05, [7]int{15, 20, 35, 55, 60, 100, 150}},
	{0.3, 0, [7]int{60, 80, 150, 250, 400, 800, 1600}},
	{0.5, 0.2, [7]int{200, 200, 300, 600, 1000, 1500, 5000}},
	{0.1, 0.01, [7]int{500, 500, 800, 1500, 3000, 5000, 10_000}},
}

func TestBadStreamsStop(t *testing.T) {
	for i, of := range shares {
		for _, c := range within {
			for seed, owners := range []int{2000, 2000, 2000, 200, 200} {
				if at := (stream{of: of, owners: owners, canary: c.canary, rest: c.rest, seed: uint64(seed)}).run(c.pods[i]); at == 0 {
					t.Errorf("share %v, seed %d, failures %v and %v: it is not stopped within %d pods", of, seed, c.canary, c.rest, c.pods[i])
				}
			}
		}
	}
}

// The tables of docs/how-to/canary.md say what TestBadStreamsStop and TestBecomesSlow check.
func TestDocumentedPods(t *testing.T) {
	doc := fatal.Value(os.ReadFile(filepath.Join("..", "..", "..", "docs", "how-to", "canary.md")))(t)
	for i, of := range shares {
		row := fmt.Sprintf("| %v |", of)
		for _, c := range within {
			row += fmt.Sprintf(" %d |", c.pods[i])
		}
		if row += fmt.Sprintf(" %d |\n", slowWithin[i]); !strings.Contains(string(doc), row) {
			t.Errorf("docs/how-to/canary.md lacks %s", row)
		}
	}
}

// Chance stops no healthy canary, at any share, however often the rest fails, and though each group has few owners.
func TestGoodStreamsRunOn(t *testing.T) {
	for _, of := range shares {
		for _, c := range []struct{ canary, rest float64 }{
			{0, 0}, {0.01, 0}, {0.01, 0.01}, {0.05, 0.05}, {0.2, 0.2}, {0.21, 0.2}, {0.5, 0.5}, {0, 0.2},
		} {
			for seed, owners := range []int{2000, 40} {
				if at := (stream{of: of, owners: owners, canary: c.canary, rest: c.rest, seed: 100 + uint64(seed)}).run(3000); at > 0 {
					t.Errorf("share %v, %d owners, failures %v and %v: stopped after %d pods", of, owners, c.canary, c.rest, at)
				}
			}
		}
	}
}

// At the start of a canary nearly nothing is known of a small rest. Many short streams look at just that time.
func TestStartsRunOn(t *testing.T) {
	for _, of := range []float64{0.5, 0.8, 0.95} {
		for _, p := range []float64{0.1, 0.3, 0.5, 0.8, 1} {
			for seed := range uint64(100) {
				if at := (stream{of: of, canary: p, rest: p, seed: 1000 + seed}).run(60); at > 0 {
					t.Errorf("share %v, seed %d: both fail in %v of the pods, and it is stopped after %d", of, seed, p, at)
				}
			}
		}
	}
}

// For a while all pods of both groups fail, as when the API server is away. That is no fault of the canary.
func TestOutage(t *testing.T) {
	for _, of := range shares {
		for seed := range uint64(5) {
			random, x := rand.New(rand.NewPCG(seed, 5)), comparisonOf(of)
			for n := 0; n < 1500; {
				g, r := Rest, Bound
				if random.Float64() < of {
					g = Learned
					n++
				}
				if n%500 > 400 {
					r = NotBound
				}
				if why := x.settled(g, 1+random.Uint64N(100), r); why != "" {
					t.Errorf("share %v, seed %d: stopped after %d pods: %s", of, seed, n, why)
					break
				}
			}
		}
	}
}

// An owner whose pods always fail stops nothing by itself, though it has many of the canary's pods. The same failures of
// two owners stop it. An owner of the rest excuses nothing by itself.
func TestBadOwner(t *testing.T) {
	for _, c := range []struct {
		name         string
		bad, badRest int // owners with failures, of 20 in each group
		others       float64
		stops        bool
	}{
		{"one owner", 1, 0, 0, false},
		{"two owners", 2, 0, 0, true},
		{"one owner of each", 1, 1, 0, false},
		{"the canary, and an owner of the rest", 0, 1, 0.3, true},
	} {
		for _, of := range []float64{0.05, 0.5, 0.8} {
			random, x, stopped := rand.New(rand.NewPCG(7, 7)), comparisonOf(of), false
			for n := 0; n < 2000 && !stopped; {
				g, bad, fails := Rest, c.badRest, 0.0
				if random.Float64() < of {
					g, bad, fails = Learned, c.bad, c.others
					n++
				}
				owner := random.IntN(30) // the first owner has a third of the pods
				r := Bound
				if owner = max(owner-10, 0); owner < bad || random.Float64() < fails {
					r = NotBound
				}
				stopped = x.settled(g, uint64(1+owner), r) != ""
			}
			if stopped != c.stops {
				t.Errorf("%s, share %v: stopped is %v", c.name, of, stopped)
			}
		}
	}
}

// Without a pod of the rest, a canary that always fails stops after lonely pods, and not before.
func TestNoRest(t *testing.T) {
	x := comparisonOf(0.9)
	for i := 1; ; i++ {
		if why := x.next(Learned, NotBound); why == "" && i < 2*lonely {
			continue
		}
		if i < lonely || i > lonely+blockPods {
			t.Errorf("it is stopped after %d pods", i)
		}
		return
	}
}

// The only owner of a canary is the canary, once it has some pods.
func TestOnlyOwner(t *testing.T) {
	x := comparisonOf(1)
	for i := 1; ; i++ {
		if x.settled(Learned, 1, Fallback) == "" {
			continue
		}
		if i != alone {
			t.Errorf("it is stopped after %d pods", i)
		}
		return
	}
}

// The history is bounded, keeps what the comparison needs, and loses no pod while it keeps a block.
func TestHistory(t *testing.T) {
	for _, rest := range []int{0, 1, 30} { // pods for each of the canary
		h := history{}
		for i := range 3 * farBack / (1 + rest) {
			h.pod(0, uint64(i)|1)
			for k := range rest {
				h.pod(1, uint64(i*rest+k)|1)
				if k == 0 {
					h.newest()[1].mark(mark{owner: uint64(i) | 1}, 1)
				}
			}
			if n := len(h.blocks); n > mostSpans {
				t.Fatalf("%d blocks", n)
			}
		}
		canary, of := h.pods(0), h.pods(1)
		if canary < enoughCanary || canary > 2*farBack || of < canary*rest || of > canary*rest+rest {
			// A block ends with its last pod of the canary, and those of the rest that follow that are in the next block.
			t.Errorf("%d pods of the canary and %d of the rest are remembered, %d for each", canary, of, rest)
		}
		for _, b := range h.blocks {
			for _, g := range b.groups {
				if len(g.of) > mostOwners+1 || len(g.marks) > mostOwners+1 {
					t.Fatalf("%d owners, %d marks", len(g.of), len(g.marks))
				}
			}
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
