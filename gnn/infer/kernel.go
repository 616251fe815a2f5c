package infer

import (
	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/blas32"
)

// vectorised tells whether the processor can run the kernels in assembly. They take vectors whose
// length is a multiple of eight. Other lengths, and other processors, run the same loops in Go.
var vectorised = hasKernels()

// dense is the map y = W x + b. W is stored transposed (in × out), so that W x is a sum of its rows.
type dense struct {
	in, out int
	wT      []float32
	b       []float32 // nil for none
}

// newDense returns the map for w (out × in) and b (out, or nil).
func newDense(w, b []float32, out, in int) dense {
	d := dense{in: in, out: out, wT: make([]float32, in*out), b: b}
	for o := range out {
		for i := range in {
			d.wT[i*out+o] = w[o*in+i]
		}
	}
	return d
}

// addRows adds W x + b to each of the rows of y (rows × out) for x (rows × in).
func (d dense) addRows(y, x []float32, rows int) {
	if rows == 0 {
		return
	}
	y, x = y[:rows*d.out], x[:rows*d.in]
	if d.b != nil {
		for r := range rows {
			yr := y[r*d.out : (r+1)*d.out]
			for j, v := range d.b {
				yr[j] += v
			}
		}
	}
	d.addProduct(y, x, rows)
}

// affine sets y to W x + b.
func (d dense) affine(y, x []float32) {
	clear(y[copy(y, d.b):])
	d.addProduct(y, x, 1)
}

// addProduct adds W x to each of the rows of y (rows × out, at least one) for x (rows × in).
func (d dense) addProduct(y, x []float32, rows int) {
	if vectorised && d.out%8 == 0 {
		for r := range rows {
			addRow(&y[r*d.out], &x[r*d.in], &d.wT[0], d.in, d.out)
		}
		return
	}
	blas32.Gemm(blas.NoTrans, blas.NoTrans, 1,
		blas32.General{Rows: rows, Cols: d.in, Stride: d.in, Data: x},
		blas32.General{Rows: d.in, Cols: d.out, Stride: d.out, Data: d.wT},
		1, blas32.General{Rows: rows, Cols: d.out, Stride: d.out, Data: y})
}

// relu sets x to max(x, 0).
func relu(x []float32) {
	for i, v := range x {
		x[i] = max(v, 0)
	}
}
