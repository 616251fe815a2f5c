package infer

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// withKernels runs f with the kernels in assembly, if the processor can run them, and in Go.
func withKernels(t *testing.T, f func(t *testing.T)) {
	was := vectorised
	defer func() { vectorised = was }()
	for _, vectorised = range slices.Compact([]bool{was, false}) {
		name := "go"
		if vectorised {
			name = "assembly"
		}
		t.Run(name, f)
	}
}

// Both kernels compute their formulas, for lengths that the assembly takes and lengths that fall back
// to Go, and they write nothing beyond the ends of their vectors.
func TestKernels(t *testing.T) {
	withKernels(t, func(t *testing.T) {
		rapid.Check(t, func(t *rapid.T) {
			r := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 3))
			out := rapid.SampledFrom([]int{4, 8, 9, 16, 24, 31, 32, 40, 64, 72, 128}).Draw(t, "out")
			in := rapid.IntRange(1, len(padded{})+9).Draw(t, "in") // more than padded has room for
			w := uniform(r, in*out)
			x, y := uniform(r, in), uniform(r, out)
			product := make([]float64, out)
			for o := range product {
				for i := range x {
					product[o] += float64(w[o*in+i]) * float64(x[i])
				}
			}
			got := append(slices.Clone(y), 7)
			newDense(w, nil, out, in).addRows(got, x, 1)
			for o, v := range got[:out] {
				if math.Abs(float64(v)-float64(y[o])-product[o]) > 1e-5 {
					t.Fatalf("%d × %d: addRows gives %v at %d, want %v", in, out, v, o, float64(y[o])+product[o])
				}
			}
			base, weight := uniform(r, out), uniform(r, out)
			sum := uniform(r, out)
			s := newScorer(newDense(w, nil, out, in), weight)
			gotSum := append(slices.Clone(sum), 7)
			score, want := s.candidate(y, base, x, gotSum), 0.0
			for o := range y {
				k := max(float64(y[o])+float64(base[o])+product[o], 0)
				want += k * float64(weight[o])
				if math.Abs(float64(gotSum[o])-float64(sum[o])-k) > 1e-5 {
					t.Fatalf("%d × %d: sum grew to %v at %d, want %v", in, out, gotSum[o], o, float64(sum[o])+k)
				}
			}
			if math.Abs(float64(score)-want) > 1e-5*float64(out) {
				t.Fatalf("%d × %d: score %v, want %v", in, out, score, want)
			}
			if got[out] != 7 || gotSum[out] != 7 {
				t.Fatalf("%d × %d: wrote past the end", in, out)
			}
		})
	})
}

// NaN of either sign passes through the ReLU, at any place of the vector.
func TestKernelsKeepNaN(t *testing.T) {
	withKernels(t, func(t *testing.T) {
		for _, out := range []int{8, 9, 40} {
			for at := range out {
				for _, bits := range []uint32{0x7fc00000, 0xffc00000} {
					part, one := make([]float32, out), slices.Repeat([]float32{1}, out)
					part[at] = math.Float32frombits(bits)
					for _, in := range []int{1, len(padded{}) + 1} {
						s, x := newScorer(newDense(slices.Repeat([]float32{1}, in*out), nil, out, in), one), slices.Repeat([]float32{2}, in)
						if v := s.candidate(part, make([]float32, out), x, make([]float32, out)); v == v {
							t.Errorf("%#x at %d of %d, %d features: score %v", bits, at, out, in, v)
						}
					}
				}
			}
		}
	})
}
