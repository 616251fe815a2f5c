package rollouts

import (
	"math"
	"math/rand/v2"
	"testing"
)

func TestMemoryForgetsTheOldest(t *testing.T) {
	m := memory{limit: 3}
	for i := range 5 {
		m.add(sample{Tried: []int32{int32(i)}})
	}
	seen := map[int32]bool{}
	for _, s := range m.draw(rand.New(rand.NewPCG(1, 1)), 200) {
		seen[s.Tried[0]] = true
	}
	if len(seen) != 3 || !seen[2] || !seen[3] || !seen[4] {
		t.Errorf("a memory of three draws %v after five samples", seen)
	}
}

// After imitation, the network's scores are in the teacher's unit. The scale brings worths into it, so that
// rollouts that agree with the scores leave them as they are, whatever noise there is.
func TestScaleIsTheSlopeOnTheScores(t *testing.T) {
	const unit = 0.02 // worth of a score of 1
	rng := rand.New(rand.NewPCG(1, 2))
	var known, unknown scale
	for !known.known() {
		scores, worths := make([]float64, 8), make([]float64, 8)
		for i := range scores {
			scores[i] = rng.NormFloat64()
			worths[i] = unit*scores[i] + unit*rng.NormFloat64()
		}
		known.observe(worths, scores)
		unknown.observe(worths, nil)
	}
	if got := known.size(); math.Abs(got/unit-1) > 0.1 {
		t.Errorf("the scale is %v, want about %v", got, unit)
	}
	if got, want := unknown.size(), unit*math.Sqrt2; math.Abs(got/want-1) > 0.1 {
		t.Errorf("without scores the scale is %v, want about %v", got, want)
	}
	before := known.size()
	known.observe([]float64{1e6}, []float64{1})
	if known.size() != before {
		t.Error("the scale moves after it is known")
	}
}

func TestScaleOfScoresThatTellNothing(t *testing.T) {
	var s scale
	for !s.known() {
		s.observe([]float64{1, -1}, []float64{-1, 1}) // they even mislead
	}
	if s.size() != 1 {
		t.Errorf("the scale is %v", s.size())
	}
}

// A decision that overloads a link is worth a hundred times what others are. Divided by the run's spread, the others are next to
// nothing in a mean square; divided by their own, all count alike, and the order within each stays.
func TestEvenDecisionsCountAlike(t *testing.T) {
	decisions := []sample{
		{Worth: []float64{0.01, 0, -0.01}, Taught: []float64{5, 7}},
		{Worth: []float64{1, 0, -1}, Taught: []float64{-0.5, -0.7}},
		{Worth: []float64{3, 3, 3 + 1e-12}},
	}
	share := func(d []sample) float64 { // of the first decision in the squares of both
		var squares [2]float64
		for i := range squares {
			for _, w := range centred(d[i].Worth) {
				squares[i] += w * w
			}
		}
		return squares[0] / (squares[0] + squares[1])
	}
	if got := share(decisions); got > 0.001 {
		t.Errorf("the small decision has %v of the loss before, want next to nothing", got)
	}
	for i := range decisions {
		decisions[i].even()
	}
	if got := share(decisions); math.Abs(got-0.5) > 1e-9 {
		t.Errorf("the small decision has %v of the loss, want half", got)
	}
	for i, d := range decisions[:2] {
		if !(d.Worth[0] > d.Worth[1] && d.Worth[1] > d.Worth[2]) {
			t.Errorf("decision %d is in another order: %v", i, d.Worth)
		}
		if got := math.Abs(d.Taught[0] - d.Taught[1]); math.Abs(got-2) > 1e-9 {
			t.Errorf("decision %d: the teacher's scores are %v apart, want twice their spread of 1", i, got)
		}
	}
	if w := decisions[2].Worth; math.Abs(w[2]-w[0]) > 1e-9 {
		t.Errorf("rounding errors became %v", w)
	}
}
