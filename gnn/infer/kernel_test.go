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

// The kernel computes its formula, for lengths that the assembly takes and lengths that fall back
// to Go, and it writes nothing beyond the end of its vector.
func TestKernels(t *testing.T) {
	withKernels(t, func(t *testing.T) {
		rapid.Check(t, func(t *rapid.T) {
			r := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 3))
			out := rapid.SampledFrom([]int{4, 8, 9, 16, 24, 31, 32, 40, 64, 72, 128}).Draw(t, "out")
			in := rapid.IntRange(1, 24).Draw(t, "in")
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
			if got[out] != 7 {
				t.Fatalf("%d × %d: wrote past the end", in, out)
			}
		})
	})
}
