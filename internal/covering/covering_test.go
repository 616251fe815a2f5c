package covering

import (
	"math"
	"math/rand/v2"
	"testing"
)

// Problems whose cheapest solution is found by trying all.
func TestAgainstAll(t *testing.T) {
	solved, impossible := 0, 0
	for seed := range uint64(400) {
		r := rand.New(rand.NewPCG(seed, 3))
		n, m := 1+r.IntN(4), 1+r.IntN(5)
		p := Problem{}
		for range n {
			p.Prices, p.Limits = append(p.Prices, float64(r.IntN(5))*(0.1+r.Float64())), append(p.Limits, r.IntN(7))
		}
		for range m {
			row := Row{Needs: float64(r.IntN(40) - 5)}
			for range n {
				row.Offers = append(row.Offers, float64(r.IntN(4))*(1+r.Float64()))
			}
			p.Rows = append(p.Rows, row)
		}
		least := cheapest(&p)
		got, ok := p.Solve()
		if ok != !math.IsInf(least, 1) {
			t.Fatalf("seed %d: solved is %v, the cheapest costs %v", seed, ok, least)
		}
		if !ok {
			impossible++
			continue
		}
		solved++
		if math.Abs(got.Price-least) > 1e-6 || got.Bound > least+1e-6 || got.Bound < least-1e-6 ||
			math.Abs(p.price(got.Counts)-got.Price) > 1e-9 {
			t.Errorf("seed %d: %+v, the cheapest costs %v", seed, got, least)
		}
		for i, row := range p.Rows {
			if !row.Met(got.Counts) {
				t.Errorf("seed %d: row %d is not met by %v", seed, i, got.Counts)
			}
		}
	}
	if solved < 100 || impossible < 50 {
		t.Errorf("%d problems were solved, %d are impossible", solved, impossible)
	}
}

// cheapest tries all counts.
func cheapest(p *Problem) float64 {
	best, counts := math.Inf(1), make([]int, len(p.Prices))
	for {
		if p.short(counts) < 0 {
			best = min(best, p.price(counts))
		}
		j := 0
		for ; j < len(counts) && counts[j] == p.Limits[j]; j++ {
			counts[j] = 0
		}
		if j == len(counts) {
			return best
		}
		counts[j]++
	}
}

// Solve names the row that makes the solution dear, and an unmet row.
func TestRow(t *testing.T) {
	p := Problem{
		Prices: []float64{1, 3}, Limits: []int{100, 100}, Rows: []Row{{[]float64{5, 5}, -1}, {[]float64{1, 4}, 8}, {[]float64{1, 2}, 100}},
	}
	if s, ok := p.Solve(); !ok || s.Row != 2 || s.Price != 100 || s.Bound != 100 {
		t.Errorf("%+v", s)
	}
	p.Limits = []int{0, 3}
	if s, ok := p.Solve(); ok || s.Row != 2 {
		t.Errorf("%+v", s)
	}
	if s, ok := (Problem{Prices: []float64{1}, Limits: []int{5}}).Solve(); !ok || s.Price != 0 || s.Row != -1 {
		t.Errorf("%+v", s)
	}
}

// Many kinds and large numbers are cut in time, with a bound that is close.
func TestLarge(t *testing.T) {
	for _, kinds := range []int{40, 400} {
		r := rand.New(rand.NewPCG(1, 2))
		p := Problem{}
		for range kinds {
			p.Prices, p.Limits = append(p.Prices, 0.1+r.Float64()), append(p.Limits, 100_000)
		}
		for i := range 36 {
			row := Row{Needs: 1e5 * float64(i+1)}
			for range kinds {
				row.Offers = append(row.Offers, float64(r.IntN(64)))
			}
			p.Rows = append(p.Rows, row)
		}
		s, ok := p.Solve()
		if !ok || s.Bound > s.Price || s.Bound < 0.999*s.Price {
			t.Errorf("%d kinds: %+v", kinds, s)
		}
	}
}
