package kube

import (
	"testing"

	"pgregory.net/rapid"

	"gnnsched/internal/cluster"
)

func TestDevices(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := cluster.DeviceSet(rapid.Uint64().Draw(t, "devices"))
		if got := Devices(map[string]string{GPUIndexAnnotation: FormatDevices(want)}); got != want {
			t.Fatalf("%q became %b, want %b", FormatDevices(want), got, want)
		}
	})
	if got := FormatDevices(cluster.Device(0) | cluster.Device(7) | cluster.Device(2)); got != "0-2-7" {
		t.Errorf("got %q", got)
	}
	for _, s := range []string{"", "a", "0-", "64", "-1", "0-1-x", "0,1"} {
		if got := Devices(map[string]string{GPUIndexAnnotation: s}); got != 0 {
			t.Errorf("%q became %b", s, got)
		}
	}
}
