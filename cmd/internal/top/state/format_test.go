package state

import (
	"math"
	"slices"
	"testing"
	"time"
)

func TestFormats(t *testing.T) {
	for _, c := range []struct{ got, want string }{
		{Cores(0), "0"}, {Cores(1), "0"}, {Cores(5), "0.01"}, {Cores(250), "0.25"}, {Cores(1000), "1"}, {Cores(9990), "9.99"},
		{Cores(9999), "10"}, {Cores(12_840), "12.8"}, {Cores(99_940), "99.9"}, {Cores(99_960), "100"}, {Cores(640_000), "640"},
		{Cores(1_234_567), "1235"},
		{Cores(-250), "-0.25"},
		{Bytes(0), "0"}, {Bytes(1023), "1023"}, {Bytes(1024), "1Ki"}, {Bytes(512 << 20), "512Mi"}, {Bytes(256 << 30), "256Gi"},
		{Bytes(5 << 39), "2.5Ti"},
		{Bytes(math.MaxInt64), "8Ei"},
		{Percent(0), "0%"}, {Percent(0.204), "20%"}, {Percent(1.125), "113%"},
		{Rate(0), "0.0"}, {Rate(12.34), "12.3"}, {Rate(1234.5), "1234"},
		{Age(noon, noon.Add(-90*time.Second)), "90s"}, {Age(noon, noon.Add(-26*time.Hour)), "26h"}, {Age(noon, time.Time{}), "<unknown>"},
		{Age(noon, noon.Add(time.Hour)), "0s"},
	} {
		if c.got != c.want {
			t.Errorf("got %q, want %q", c.got, c.want)
		}
	}
}

func TestNaturalOrder(t *testing.T) {
	want := []string{
		"", "0", "00", "1", "2", "10", "a", "node-1", "node-01", "node-2", "node-2a", "node-10", "node-10-1", "node-10-2",
		"node-99999999999999999999", "node-a", "zone",
	}
	got := slices.Clone(want)
	slices.Reverse(got)
	slices.SortFunc(got, CompareNatural)
	// Names with the same numbers are in byte order: node-01 before node-1.
	i := slices.Index(want, "node-1")
	want[i], want[i+1] = want[i+1], want[i]
	if !slices.Equal(got, want) {
		t.Errorf("got %q\nwant %q", got, want)
	}
}

func TestDeviceTexts(t *testing.T) {
	for milli, want := range map[int64][2]string{
		0: {"0", "0"}, 1: {"0", "1"}, 9: {"0.01", "1"}, 190: {"0.19", "19"}, 999: {"1", "99"}, 1000: {"1", "100"},
		6500: {"6.5", "650"}, 145_550: {"145.55", "14555"}, 100_000: {"100", "10000"},
	} {
		if got := [2]string{Devices(milli), DevicePercent(milli)}; got != want {
			t.Errorf("%d: %q, want %q", milli, got, want)
		}
	}
}
