package kube

import (
	"math/bits"
	"strconv"
	"strings"

	"gnnsched/internal/cluster"
)

// maxIndexLength is a bound on the length of GPUIndexAnnotation; all devices need less.
const maxIndexLength = 3 * cluster.MaxDevices

// Devices returns the devices that a pod's GPUIndexAnnotation names. It is empty if the annotation
// is missing or malformed.
func Devices(annotations map[string]string) (on cluster.DeviceSet) {
	s := annotations[GPUIndexAnnotation]
	if s == "" || len(s) > maxIndexLength {
		return 0
	}
	for part := range strings.SplitSeq(s, "-") {
		i, err := strconv.ParseUint(part, 10, 8)
		if err != nil || i >= cluster.MaxDevices {
			return 0
		}
		on |= cluster.Device(int(i))
	}
	return on
}

// FormatDevices writes devices for GPUIndexAnnotation, in ascending order: 0-1-7.
func FormatDevices(on cluster.DeviceSet) string {
	var parts []string
	for rest := on; rest != 0; rest &= rest - 1 {
		parts = append(parts, strconv.Itoa(bits.TrailingZeros64(uint64(rest))))
	}
	return strings.Join(parts, "-")
}
