package tensorboard

import "math"

// bins is the number of equally wide buckets of a histogram, as TensorBoard draws them.
const bins = 30

// histogram is the content of a HistogramProto.
type histogram struct {
	min, max float64
	num      float64   // number of values
	sum      float64   // of the values
	squares  float64   // sum of their squares
	limits   []float64 // upper limits of the buckets, ascending
	counts   []float64 // counts[i] is the number of values above limits[i-1] and up to limits[i]
}

// newHistogram returns the histogram of the finite values. It is empty if there are none.
func newHistogram(values []float64) histogram {
	h := histogram{min: math.Inf(1), max: math.Inf(-1)}
	finite := make([]float64, 0, len(values))
	for _, v := range values {
		if math.IsNaN(v) || math.IsInf(v, 0) {
			continue
		}
		finite = append(finite, v)
		h.min, h.max = min(h.min, v), max(h.max, v)
		h.num++
		h.sum += v
		h.squares += v * v
	}
	if len(finite) == 0 {
		return histogram{}
	}
	width := h.max/bins - h.min/bins // divided first, because max - min may overflow
	if width == 0 {
		h.limits, h.counts = []float64{h.max}, []float64{h.num}
		return h
	}
	h.limits, h.counts = make([]float64, bins), make([]float64, bins)
	for i := range bins - 1 {
		h.limits[i] = min(h.min+width*float64(i+1), h.max)
	}
	h.limits[bins-1] = h.max
	for _, v := range finite {
		h.counts[h.bin(v, width)]++
	}
	return h
}

// bin returns the index of the first bucket whose limit is at least v. It corrects the rounding error of
// the division.
func (h *histogram) bin(v, width float64) int {
	i := min(max(int(v/width-h.min/width), 0), bins-1)
	for i > 0 && v <= h.limits[i-1] {
		i--
	}
	for v > h.limits[i] {
		i++
	}
	return i
}
