package infer

import (
	"math"

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

// scorer is the last layer, k = ReLU(part + base + E e) and the score s·k. A decision spends most of
// its time here.
type scorer struct {
	e     dense
	rows  []padded // E again, for the loop in Go; nil if padded is too short
	score []float32
}

// padded is one row of E, or the features of one candidate, followed by zeros. The fixed length spares
// the loop its bounds checks. It has room for the features of feature.Base; candidateWide takes more.
type padded [15]float32

// newScorer returns the layer for E and score.
func newScorer(e dense, score []float32) scorer {
	s := scorer{e: e, score: score}
	if e.in <= len(padded{}) {
		s.rows = make([]padded, e.out)
	}
	for o := range s.rows {
		for i := range e.in {
			s.rows[o][i] = e.wT[i*e.out+o]
		}
	}
	return s
}

// candidate returns s·k and adds k to sum. All vectors but features have length H.
func (s *scorer) candidate(part, base, features, sum []float32) float32 {
	h := len(s.score)
	part, base = part[:h], base[:h]
	sum, features = sum[:h], features[:s.e.in]
	if vectorised && h%8 == 0 {
		return candidate(&part[0], &base[0], &features[0], &s.e.wT[0], &s.score[0], &sum[0], s.e.in, h)
	}
	if s.rows == nil {
		return s.candidateWide(part, base, features, sum)
	}
	return s.candidateGo(part, base, features, sum)
}

// candidateGo is candidate in Go. ReLU(a) is computed as (a + |a|) / 2: a branch could be mispredicted,
// and clearing negative values by their sign bit would lose NaN. There are three partial sums because
// the latency of one long chain of additions would bound the loop.
func (s *scorer) candidateGo(part, base, features, sum []float32) float32 {
	var e padded
	copy(e[:], features)
	rows, weight := s.rows[:len(part)], s.score[:len(part)]
	base, sum = base[:len(part)], sum[:len(part)]
	var score float32
	for j := range part {
		w := &rows[j]
		a := part[j] + e[0]*w[0] + e[3]*w[3] + e[6]*w[6] + e[9]*w[9] + e[12]*w[12]
		b := base[j] + e[1]*w[1] + e[4]*w[4] + e[7]*w[7] + e[10]*w[10] + e[13]*w[13]
		c := e[2]*w[2] + e[5]*w[5] + e[8]*w[8] + e[11]*w[11] + e[14]*w[14]
		a += b + c
		a = (a + math.Float32frombits(math.Float32bits(a)&^(1<<31))) / 2
		sum[j] += a
		score += a * weight[j]
	}
	return score
}

// candidateWide is candidateGo for any number of features.
func (s *scorer) candidateWide(part, base, features, sum []float32) float32 {
	h := len(s.score)
	var score float32
	for j := range h {
		a := part[j] + base[j]
		for i, e := range features {
			a += e * s.e.wT[i*h+j]
		}
		a = max(a, 0)
		sum[j] += a
		score += a * s.score[j]
	}
	return score
}

// relu sets x to max(x, 0).
func relu(x []float32) {
	for i, v := range x {
		x[i] = max(v, 0)
	}
}
