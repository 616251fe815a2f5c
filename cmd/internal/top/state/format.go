package state

import (
	"cmp"
	"math"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/duration"

	"gnnsched/internal/cluster"
)

// Cores writes millicores as cores: "0.25", "12.8", "640".
func Cores(milli int64) string { return short(float64(milli) / 1000) }

// Devices writes thousandths of GPUs as devices, to a hundredth: "0.19", "6.5", "96".
func Devices(milli int64) string {
	s := strconv.FormatFloat(float64(milli)/cluster.DeviceMilli, 'f', 2, 64)
	return strings.TrimSuffix(strings.TrimRight(s, "0"), ".")
}

// DevicePercent writes thousandths of one device as a percentage without its sign. Only an idle device
// has 0, and only a full one 100.
func DevicePercent(milli int64) string {
	percent := milli / (cluster.DeviceMilli / 100)
	if milli > 0 {
		percent = max(percent, 1)
	}
	return strconv.FormatInt(percent, 10)
}

// Bytes writes bytes with a binary unit: "512Mi", "51.2Gi".
func Bytes(b int64) string {
	v, units := float64(b), []string{"", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"}
	for len(units) > 1 && math.Abs(v) >= 1024 {
		v, units = v/1024, units[1:]
	}
	return short(v) + units[0]
}

// Percent writes a fraction as whole percent: "20%".
func Percent(f float64) string { return strconv.FormatFloat(math.Round(f*100), 'f', 0, 64) + "%" }

// Rate writes events per second: "12.3".
func Rate(perSecond float64) string {
	if perSecond >= 100 {
		return strconv.FormatFloat(perSecond, 'f', 0, 64)
	}
	return strconv.FormatFloat(perSecond, 'f', 1, 64)
}

// Age writes the time from t to now in kubectl's format; "<unknown>" for the zero time.
func Age(now, t time.Time) string {
	if t.IsZero() {
		return "<unknown>"
	}
	return duration.HumanDuration(max(now.Sub(t), 0))
}

// short writes v with three significant digits, or more if the integer part has more, and drops
// trailing zeros after the point.
func short(v float64) string {
	prec := 2
	switch a := math.Abs(v); {
	case a >= 99.95:
		prec = 0
	case a >= 9.995:
		prec = 1
	}
	s := strconv.FormatFloat(v, 'f', prec, 64)
	if prec > 0 {
		s = strings.TrimRight(strings.TrimRight(s, "0"), ".")
	}
	if s == "-0" || s == "" {
		return "0"
	}
	return s
}

// CompareNatural compares texts, and numbers in them by value, so that node-2 comes before
// node-10. It compares texts that differ only in leading zeros byte by byte, so that only equal
// texts give 0.
func CompareNatural(a, b string) int {
	x, y := a, b
	for x != "" && y != "" {
		nx, ny := digits(x), digits(y)
		if nx > 0 && ny > 0 {
			if c := compareNumbers(x[:nx], y[:ny]); c != 0 {
				return c
			}
			x, y = x[nx:], y[ny:]
			continue
		}
		if x[0] != y[0] {
			return cmp.Compare(x[0], y[0])
		}
		x, y = x[1:], y[1:]
	}
	if c := cmp.Compare(len(x), len(y)); c != 0 {
		return c
	}
	return cmp.Compare(a, b)
}

func digits(s string) int {
	n := 0
	for n < len(s) && s[n] >= '0' && s[n] <= '9' {
		n++
	}
	return n
}

func compareNumbers(a, b string) int {
	a, b = strings.TrimLeft(a, "0"), strings.TrimLeft(b, "0")
	if c := cmp.Compare(len(a), len(b)); c != 0 {
		return c
	}
	return cmp.Compare(a, b)
}
