package openb

import (
	"errors"
	"math"
	"reflect"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"gnnsched/internal/fatal"
)

// lived returns a pod with one GPU and the given lifetime in seconds.
func lived(name string, seconds float64) Pod {
	return Pod{Name: name, MilliCPU: 1000, MemoryMiB: 1, GPUs: 1, GPUMilli: 1000, Created: 10, Deleted: 10 + seconds}
}

// Pods arrive at the rate that makes their GPU-seconds the offered load, uniformly from the list. The pods that
// run are drawn by their lifetimes, and have half of it before them on average.
func TestDrawSteadyMeetsItsMeans(t *testing.T) {
	pods := []Pod{lived("short", 100), lived("long", 900)}
	const load, gpus, seconds = 0.8, 10_000, 2000
	s, err := DrawSteady(pods, load, gpus*1000, seconds, 7)
	fatal.If(t, err)
	near := func(what string, got, want, tolerance float64) {
		t.Helper()
		if math.Abs(got-want) > tolerance {
			t.Errorf("%s is %v, want %v", what, got, want)
		}
	}
	near("GPUs running", float64(len(s.Running)), load*gpus, 1)
	long, left := 0.0, 0.0
	for _, r := range s.Running {
		if r.Pod == 1 {
			long++
			left += r.Lifetime
			near("the lifetime", r.Lifetime-r.At, 900, 1e-9)
		}
	}
	near("the share of long pods among those that run", long/float64(len(s.Running)), 0.9, 0.02)
	near("their remaining lifetime", left/long, 450, 15)
	near("arrivals", float64(len(s.Arriving)), load*gpus*seconds/500, 700) // five standard deviations
	long = 0
	for _, a := range s.Arriving {
		long += float64(a.Pod)
	}
	near("the share of long pods among those that arrive", long/float64(len(s.Arriving)), 0.5, 0.02)
}

// The running pods are in the order of their arrival, arrivals ascend, and equal seeds give equal workloads.
func TestDrawSteady(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var pods []Pod
		for range rapid.IntRange(1, 6).Draw(t, "pods") {
			pods = append(pods, lived("p", float64(rapid.IntRange(0, 500).Draw(t, "seconds"))))
		}
		seed, seconds := rapid.Uint64().Draw(t, "seed"), float64(rapid.IntRange(1, 300).Draw(t, "for"))
		s, err := DrawSteady(pods, 1.05, 20_000, seconds, seed)
		fatal.If(t, err)
		if again, _ := DrawSteady(pods, 1.05, 20_000, seconds, seed); !reflect.DeepEqual(s, again) {
			t.Fatal("the same seed gave another workload")
		}
		if len(s.Running) != 21 {
			t.Fatalf("%d GPUs are requested at the start, want 105 %% of 20", len(s.Running))
		}
		last := math.Inf(-1)
		for _, p := range append(s.Running, s.Arriving...) {
			if p.At < last || p.At >= seconds || !(p.Lifetime >= 0) {
				t.Fatalf("%+v after %v", p, last)
			}
			last = p.At
		}
	})
}

func TestDrawSteadyRefuses(t *testing.T) {
	one := []Pod{lived("a", 60)}
	for _, c := range []struct {
		pods          []Pod
		load, seconds float64
		capacity      int64
		want          string
	}{
		{one, 0, 60, 1000, "load 0"}, {one, math.NaN(), 60, 1000, "load NaN"}, {one, 1, 0, 1000, "0 seconds"},
		{one, 1, math.Inf(1), 1000, "+Inf seconds"},
		{one, 1, 60, 0, "no GPUs"}, {one, 1, 1e12, 1000, "shorter time"},
		{[]Pod{{Name: "a", GPUs: 1, GPUMilli: 1000, Created: 1, Deleted: NoTime}}, 1, 60, 1000, "lifetimes are not known"},
	} {
		if _, err := DrawSteady(c.pods, c.load, c.capacity, c.seconds, 1); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: %v", c, err)
		}
	}
	if _, err := DrawSteady([]Pod{{Name: "a", Created: 0, Deleted: 60}}, 1, 1000, 60, 1); !errors.Is(err, ErrNoGPU) {
		t.Errorf("got %v", err)
	}
}
