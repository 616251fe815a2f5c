package report

import (
	"math"
	"strconv"
	"strings"
)

// number formats a value with a number of digits after the point, and commas between thousands.
func number(v float64, digits int) string {
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return "–"
	}
	if math.Abs(v) >= 1e15 {
		return strconv.FormatFloat(v, 'g', 4, 64)
	}
	text := strconv.FormatFloat(math.Abs(v), 'f', min(max(digits, 0), 9), 64)
	whole, rest, _ := strings.Cut(text, ".")
	for i := len(whole) - 3; i > 0; i -= 3 {
		whole = whole[:i] + "," + whole[i:]
	}
	if rest != "" {
		whole += "." + rest
	}
	if v < 0 && strings.Trim(text, "0.") != "" {
		return "−" + whole
	}
	return whole
}

// signed is number with a plus sign where the value is positive.
func signed(v float64, digits int) string {
	text := number(v, digits)
	if v > 0 && strings.Trim(text, "0.,") != "" {
		return "+" + text
	}
	return text
}

// short formats a value of any size with about three digits.
func short(v float64) string {
	switch a := math.Abs(v); {
	case a >= 100 || v == math.Trunc(v) && a < 1e6:
		return number(v, 0)
	case a >= 1:
		return strings.TrimSuffix(strings.TrimRight(number(v, 2), "0"), ".")
	case a >= 0.001:
		return strings.TrimRight(number(v, 4), "0")
	}
	return strconv.FormatFloat(v, 'g', 2, 64)
}

// percent formats a fraction.
func percent(v float64) string { return number(100*v, 0) + " %" }

// ticks returns about n round values that cover the range from low to high.
func ticks(low, high float64, n int) []float64 {
	span := high - low
	if !(span > 0) || math.IsInf(span, 0) {
		return []float64{low}
	}
	step := math.Pow(10, math.Floor(math.Log10(span/float64(n))))
	for _, f := range []float64{1, 2, 5, 10} {
		if span/(step*f) <= float64(n) {
			step *= f
			break
		}
	}
	var out []float64
	for i := math.Ceil(low/step - 1e-9); i*step <= high+1e-9*span && len(out) < 3*n; i++ {
		out = append(out, i*step)
	}
	return out
}
