package cluster

import (
	"errors"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"
)

// The largest amounts of a pod or a node. A larger number is rejected as a wrong unit.
const (
	MaxMilliCPU = 10_000 * 1000 // 10,000 cores
	MaxMemory   = 16 << 40      // 16 TiB
)

var errNegative = errors.New("is negative")

// ParseCPU parses an amount of CPU in Kubernetes' notation ("100m", "0.1", "1") and returns
// thousandths of a core.
func ParseCPU(s string) (int64, error) {
	q, err := resource.ParseQuantity(s)
	switch {
	case err != nil:
		return 0, fmt.Errorf("%q is not an amount of CPU; write cores (0.5) or thousandths of one (500m)", s)
	case q.Sign() < 0:
		return 0, fmt.Errorf("%q %w", s, errNegative)
	case q.CmpInt64(MaxMilliCPU/1000) > 0:
		return 0, fmt.Errorf("%q is more than %d cores; is an m missing?", s, MaxMilliCPU/1000)
	}
	m := q.MilliValue()
	if resource.NewMilliQuantity(m, resource.DecimalSI).Cmp(q) != 0 {
		return 0, fmt.Errorf("%q is finer than a thousandth of a core", s)
	}
	return m, nil
}

// ParseMemory parses an amount of memory in Kubernetes' notation ("128Mi", "1.5Gi", plain bytes)
// and returns bytes, rounded up.
func ParseMemory(s string) (int64, error) {
	q, err := resource.ParseQuantity(s)
	switch {
	case err != nil:
		return 0, fmt.Errorf("%q is not an amount of memory; write 512Mi, 2Gi or plain bytes", s)
	case strings.HasSuffix(s, "m"):
		return 0, fmt.Errorf("%q is in thousandths of a byte; write M or Mi for megabytes", s)
	case q.Sign() < 0:
		return 0, fmt.Errorf("%q %w", s, errNegative)
	case q.CmpInt64(MaxMemory) > 0:
		return 0, fmt.Errorf("%q is more than 16Ti", s)
	}
	return q.Value(), nil
}

// FormatCPU formats thousandths of a core for ParseCPU: "100m", "2".
func FormatCPU(milli int64) string {
	return resource.NewMilliQuantity(milli, resource.DecimalSI).String()
}

// FormatMemory formats bytes for ParseMemory, without rounding: "64Gi", "1000".
func FormatMemory(bytes int64) string {
	return resource.NewQuantity(bytes, resource.BinarySI).String()
}
