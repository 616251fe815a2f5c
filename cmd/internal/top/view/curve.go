package view

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// short writes a duration in seconds without its zeros at the end: 10m instead of 10m0s, 1h instead of 1h0m0s.
func short(d time.Duration) string {
	text := d.Round(time.Second).String()
	if strings.HasSuffix(text, "m0s") {
		text = strings.TrimSuffix(text, "0s")
	}
	if strings.HasSuffix(text, "h0m") {
		text = strings.TrimSuffix(text, "0m")
	}
	return text
}

// number writes a figure in few characters.
func number(v float64, known bool) string {
	switch a := math.Abs(v); {
	case !known:
		return "-"
	case a >= 1e6 || a > 0 && a < 1e-3:
		return strconv.FormatFloat(v, 'e', 1, 64)
	case a >= 100 || v == math.Trunc(v):
		return strconv.FormatFloat(v, 'f', 0, 64)
	}
	return fmt.Sprintf("%.3g", v)
}

// binned puts the values into at most n cells, each with the mean of its values or NaN if none is known, and returns the
// range of these means.
func binned(values []float64, n int) (cells []float64, low, high float64) {
	per := max((len(values)+n-1)/n, 1)
	low, high = math.Inf(1), math.Inf(-1)
	first := len(values) % per // the oldest cell may have fewer, so that the others keep their values when one is added
	for at := first - per; at < len(values); at += per {
		sum, count := 0.0, 0
		for _, v := range values[max(at, 0):max(at+per, 0)] {
			if !math.IsNaN(v) {
				sum, count = sum+v, count+1
			}
		}
		if at < 0 && first == 0 {
			continue
		}
		mean := math.NaN()
		if count > 0 {
			mean = sum / float64(count)
			low, high = min(low, mean), max(high, mean)
		}
		cells = append(cells, mean)
	}
	return cells, low, high
}

// curve draws values from low to high as columns of signs. A value that is not known is a space; low is the lowest sign.
func curve(values []float64, low, high float64) string {
	var line strings.Builder
	for _, v := range values {
		switch {
		case math.IsNaN(v):
			line.WriteByte(' ')
		case high > low:
			line.WriteString(heatSigns[int((v-low)/(high-low)*float64(len(heatSigns)-1)+0.5)])
		default:
			line.WriteString(heatSigns[0])
		}
	}
	return line.String()
}
