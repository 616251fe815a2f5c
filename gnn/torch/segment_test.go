//go:build torch

package torch

import (
	"math"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// The segment log softmax and its gradient equal their definitions, for large scores too. The gradient
// is d/dx_j Σ w_i log p_i = w_j - p_j Σ_segment w.
func TestSegmentLogSoftmax(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		segments := rapid.IntRange(1, 4).Draw(r, "segments")
		var segment []int64
		for g := range segments {
			for range rapid.IntRange(1, 5).Draw(r, "candidates") {
				segment = append(segment, int64(g))
			}
		}
		n := len(segment)
		shift := rapid.SampledFrom([]float64{0, -80, 300}).Draw(r, "shift")
		values, weights := make([]float32, n), make([]float32, n)
		for i := range values {
			values[i] = float32(rapid.Float64Range(-3, 3).Draw(r, "score"))
			weights[i] = float32(rapid.Float64Range(-1, 1).Draw(r, "weight"))
		}
		var p Parameters
		defer p.Drop()
		x := p.constant("x", 0, n, 1)
		moved := make([]float32, n)
		for i, v := range values {
			moved[i] = v + float32(shift)
		}
		if err := p.Import([]Array{{"x", []int{n, 1}, moved}}); err != nil {
			r.Fatal(err)
		}
		var s Scope
		defer s.Drop()
		logs := s.SegmentLogSoftmax(x, segment, segments)
		got := s.Float32s(logs)
		s.Backward(s.Sum(s.Mul(logs, s.Float32(weights, n, 1))))
		gradient := s.Float32s(s.gradient(x))
		if s.Err() != nil {
			r.Fatal(s.Err())
		}
		total, pull := make([]float64, segments), make([]float64, segments)
		for i, g := range segment {
			total[g] += math.Exp(float64(moved[i]) - shift)
			pull[g] += float64(weights[i])
		}
		for i, g := range segment {
			want := float64(moved[i]) - shift - math.Log(total[g])
			if math.Abs(float64(got[i])-want) > 1e-4 {
				r.Fatalf("log p of %d: %v, want %v", i, got[i], want)
			}
			want = float64(weights[i]) - math.Exp(want)*pull[g]
			if math.Abs(float64(gradient[i])-want) > 1e-4 {
				r.Fatalf("gradient of %d: %v, want %v", i, gradient[i], want)
			}
		}
	})
}

func TestSegmentLogSoftmaxWantsAColumn(t *testing.T) {
	before := TensorCount()
	var s Scope
	s.SegmentLogSoftmax(s.zeros(3, 1), []int64{0, 0}, 1)
	if s.Err() == nil || !strings.Contains(s.Err().Error(), "segment log softmax") {
		t.Errorf("error %v", s.Err())
	}
	s.Drop()
	if TensorCount() != before {
		t.Error("tensors are left")
	}
}
