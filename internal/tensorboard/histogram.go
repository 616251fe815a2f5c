package tensorboard

import "math"

// bins is how many equally wide buckets a histogram has; TensorBoard draws as many.
const bins = 30

// histogram is the content of a HistogramProto: bucket i counts the values over limits[i-1]
// up to limits[i].
type histogram struct {
	min, max, num, sum, squares float64
	limits, counts              []float64
}

// newHistogram counts the finite ones among values; it has no buckets where there is none.
func newHistogram(values []float64) histogram {
	h := histogram{min: math.Inf(1), max: math.Inf(-1)}
	finite := make([]float64, 0, len(values))
	for _, v := range values {
		if math.IsNaN(v) || math.IsInf(v, 0) {
			continue
		}
		finite = append(finite, v)
		h.min, h.max = min(h.min, v), max(h.max, v)
		h.num, h.sum, h.squares = h.num+1, h.sum+v, h.squares+v*v
	}
	if len(finite) == 0 {
		return histogram{}
	}
	width := h.max/bins - h.min/bins // divided first: the range itself may overflow
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

// bin is the first bucket whose limit v does not pass; division alone may be off by rounding.
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
