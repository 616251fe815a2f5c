package workload

import (
	"errors"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"
)

// The most that one pod may ask for. Beyond it lies a slip of the unit, not a machine.
const (
	maxMilliCPU = 10_000 * 1000 // 10,000 cores
	maxMemory   = 16 << 40      // 16 TiB
	maxReplicas = 10_000
)

var errNegative = errors.New("is negative")

// parseCPU reads an amount of CPU in Kubernetes' notation ("100m", "0.1", "1") as
// thousandths of a core.
func parseCPU(s string) (int64, error) {
	q, err := resource.ParseQuantity(s)
	switch {
	case err != nil:
		return 0, fmt.Errorf("%q is no amount of CPU; write cores (0.5) or thousandths of one (500m)", s)
	case q.Sign() < 0:
		return 0, fmt.Errorf("%q %w", s, errNegative)
	case q.CmpInt64(maxMilliCPU/1000) > 0:
		return 0, fmt.Errorf("%q is more than %d cores; is an m missing?", s, maxMilliCPU/1000)
	}
	m := q.MilliValue()
	if resource.NewMilliQuantity(m, resource.DecimalSI).Cmp(q) != 0 {
		return 0, fmt.Errorf("%q is finer than a thousandth of a core", s)
	}
	return m, nil
}

// parseMemory reads an amount of memory ("128Mi", "1.5Gi", plain bytes) as bytes, rounded up.
func parseMemory(s string) (int64, error) {
	q, err := resource.ParseQuantity(s)
	switch {
	case err != nil:
		return 0, fmt.Errorf("%q is no amount of memory; write 512Mi, 2Gi or plain bytes", s)
	case strings.HasSuffix(s, "m"):
		return 0, fmt.Errorf("%q is in thousandths of a byte; write M or Mi for megabytes", s)
	case q.Sign() < 0:
		return 0, fmt.Errorf("%q %w", s, errNegative)
	case q.CmpInt64(maxMemory) > 0:
		return 0, fmt.Errorf("%q is more than 16Ti", s)
	}
	return q.Value(), nil
}

func formatCPU(milli int64) string {
	return resource.NewMilliQuantity(milli, resource.DecimalSI).String()
}

func formatMemory(bytes int64) string {
	return resource.NewQuantity(bytes, resource.BinarySI).String()
}
