package openb

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"gnnsched/internal/cluster"
	"gnnsched/internal/each"
	"gnnsched/internal/fatal"
)

// mixed returns pods of every kind, a thousand of each: without GPUs, with a share, with one device and with four.
func mixed() (pods []Pod) {
	for i := range 4000 {
		p := Pod{Name: fmt.Sprint("pod-", i), MilliCPU: 1000, MemoryMiB: 1024}
		switch i % 4 {
		case 1:
			p.GPUs, p.GPUMilli, p.MilliCPU = 1, 460, 6000
		case 2:
			p.GPUs, p.GPUMilli = 1, 1000
		case 3:
			p.GPUs, p.GPUMilli = 4, 1000
		}
		pods = append(pods, p)
	}
	return pods
}

func TestMix(t *testing.T) {
	type counts struct{ cpu, share, one, several, named int }
	for _, x := range []struct {
		mix  mix
		want counts
	}{
		{mix{}, counts{1000, 1000, 1000, 1000, 0}},
		{mix{multiple: 4}, counts{1000, 1000, 1000, 4000, 0}},
		{mix{withoutGPU: 3}, counts{3000, 1000, 1000, 1000, 0}},
		{mix{withoutGPU: 0.5}, counts{500, 1000, 1000, 1000, 0}},
		{mix{sharing: 1}, counts{1000, 3000, 0, 0, 0}},
		{mix{sharing: 0.5}, counts{1000, 2000, 500, 500, 0}},
		{mix{named: 0.4}, counts{1000, 1000, 1000, 1000, 1600}},
		{mix{named: 1}, counts{1000, 1000, 1000, 1000, 2000}}, // only pods with one device or a share
		{mix{named: 0.2, multiple: 2, withoutGPU: 2}, counts{2000, 1000, 1000, 2000, 1200}},
	} {
		pods := fatal.Value(x.mix.Apply(rand.New(rand.NewPCG(1, 2)), mixed()))(t)
		var got counts
		for _, p := range pods {
			switch {
			case p.GPUs == 0:
				got.cpu++
			case p.GPUMilli < cluster.DeviceMilli:
				if got.share++; p.MilliCPU != 6000 {
					t.Fatalf("%+v: a share that no pod of the list requests: %+v", x.mix, p)
				}
			case p.GPUs == 1:
				got.one++
			default:
				got.several++
			}
			if len(p.Models) > 0 {
				got.named++
			}
		}
		near := func(a, b int) bool { return math.Abs(float64(a-b)) < 100 }
		if !near(got.cpu, x.want.cpu) || !near(got.share, x.want.share) || !near(got.one, x.want.one) || !near(got.several, x.want.several) ||
			!near(got.named, x.want.named) {
			t.Errorf("%+v: %+v, want about %+v", x.mix, got, x.want)
		}
	}
}

// The same random numbers give the same list, the given pods do not change, and all pods are valid.
func TestMixIsSeeded(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := mix{
			named: rapid.Float64Range(0, 1).Draw(t, "named"), sharing: rapid.Float64Range(0, 1).Draw(t, "sharing"),
			multiple: rapid.Float64Range(0, 4).Draw(t, "multiple"), withoutGPU: rapid.Float64Range(0, 3).Draw(t, "without"),
		}
		seed, given := rapid.Uint64().Draw(t, "seed"), mixed()[:40]
		before := slices.Clone(given)
		a, err := m.Apply(rand.New(rand.NewPCG(seed, 1)), given)
		b, err2 := m.Apply(rand.New(rand.NewPCG(seed, 1)), given)
		if err != nil || err2 != nil {
			t.Fatal(err, err2)
		}
		if d := cmp.Diff(a, b); d != "" {
			t.Fatal(d)
		}
		if d := cmp.Diff(before, given); d != "" {
			t.Fatal(d)
		}
		for _, p := range a {
			if p.GPUs > 1 && p.GPUMilli != cluster.DeviceMilli || p.GPUs == 0 && (p.GPUMilli != 0 || len(p.Models) > 0) {
				t.Fatalf("%+v", p)
			}
		}
	})
}

func TestMixRefuses(t *testing.T) {
	for _, m := range []mix{{named: 1.1}, {named: -1}, {sharing: math.NaN()}, {multiple: 101}, {withoutGPU: -1}} {
		if _, err := m.Apply(rand.New(rand.NewPCG(1, 2)), mixed()); err == nil {
			t.Errorf("%+v is accepted", m)
		}
	}
	if _, err := (mix{sharing: 0.5}).Apply(rand.New(rand.NewPCG(1, 2)),
		[]Pod{{Name: "a", MilliCPU: 1, GPUs: 1, GPUMilli: 1000}}); !errors.Is(err, errNoShare) {
		t.Errorf("%v", err)
	}
}

func TestVariants(t *testing.T) {
	dir := fatal.OpenB(t)
	podsOf := func(workload string, tainted bool) []Pod {
		t.Helper()
		nodes, pods, _, err := ReadWorkload(dir, workload)
		if got := slices.ContainsFunc(nodes, func(n Node) bool { return len(n.Taints) > 0 }); err != nil || got != tainted {
			t.Fatalf("%s: some nodes are tainted: %v, %v", workload, got, err)
		}
		return pods
	}
	kinds := func(pods []Pod) (named, share, several, without float64) {
		for _, p := range pods {
			switch {
			case p.GPUs == 0:
				without++
			case p.GPUs > 1:
				several++
			case p.GPUMilli < cluster.DeviceMilli:
				share++
			}
			if len(p.Models) > 0 {
				named++
			}
		}
		return named, share, several, without
	}
	_, _, several, without := kinds(podsOf("default", false))
	for _, v := range variants {
		a, b := podsOf("default+"+v.name, v.taints.Pools > 0), podsOf("default+"+v.name, v.taints.Pools > 0)
		if !slices.EqualFunc(a, b, func(x, y Pod) bool {
			return x.Shape().Requests == y.Shape().Requests && slices.Equal(x.Models, y.Models)
		}) {
			t.Errorf("%s is not the same twice", v.name)
		}
		gotNamed, gotShare, gotSeveral, gotWithout := kinds(a)
		if n := gotNamed / float64(len(a)); n < v.mix.named-0.02 || n > v.mix.named+0.02 {
			t.Errorf("%s: %v of the pods name models", v.name, n)
		}
		if v.mix.multiple > 1 && gotSeveral != v.mix.multiple*several || v.mix.withoutGPU > 1 && gotWithout != v.mix.withoutGPU*without {
			t.Errorf("%s: %v pods with several devices, %v without", v.name, gotSeveral, gotWithout)
		}
		if v.mix.sharing == 1 && gotShare != float64(len(a))-gotWithout {
			t.Errorf("%s: %v of %d pods share", v.name, gotShare, len(a))
		}
	}
	if _, _, _, err := ReadWorkload(dir, "default+none"); err == nil || !strings.Contains(err.Error(), "there are models20") {
		t.Error(err)
	}
}

func TestTaints(t *testing.T) {
	nodes := []Node{{Name: "a", GPUs: 2, Model: "T4"}, {Name: "b", GPUs: 2, Model: "T4"}, {Name: "c", GPUs: 4, Model: "G2"}, {Name: "d"}}
	for _, x := range []struct {
		taints                    Taints
		least, most               int // tainted nodes
		tolerating, withoutGPUToo float64
	}{
		{Taints{}, 0, 0, 0, 0},
		{Taints{Pools: 1, Tolerating: 1, CPU: true}, 3, 3, 1, 1},
		{Taints{Pools: 1, Tolerating: 0.5}, 3, 3, 0.5, 0},
		{Taints{Pools: 0.5, Tolerating: 1}, 1, 2, 1, 0}, // one of the two models
	} {
		n, pods, err := x.taints.Apply(rand.New(rand.NewPCG(1, 2)), nodes, mixed())
		fatal.If(t, err)
		tainted := each.Count(n, func(n Node) bool { return len(n.Cluster().Taints) > 0 })
		var with, without float64
		for _, p := range pods {
			pod := cluster.Pod{Requests: p.Requests(), Tolerations: p.Shape().Tolerations}
			if tolerates := (&cluster.Node{Taints: []cluster.Taint{gpuTaint}}).Admits(pod.Tolerations); tolerates && p.GPUs > 0 {
				with++
			} else if tolerates {
				without++
			}
		}
		if tainted < x.least || tainted > x.most || math.Abs(with/3000-x.tolerating) > 0.05 || without/1000 != x.withoutGPUToo {
			t.Errorf("%+v: %d nodes, %v and %v pods", x.taints, tainted, with, without)
		}
	}
	for _, bad := range []Taints{{Pools: 1.1}, {Pools: 1, Tolerating: math.NaN()}} {
		if _, _, err := bad.Apply(rand.New(rand.NewPCG(1, 2)), nodes, nil); err == nil {
			t.Errorf("%+v is accepted", bad)
		}
	}
	if len(nodes[0].Taints) > 0 {
		t.Error("the nodes given have changed")
	}
}

// lived returns a pod with one GPU and the given lifetime in seconds.
func lived(name string, seconds float64) Pod {
	return Pod{Name: name, MilliCPU: 1000, MemoryMiB: 1, GPUs: 1, GPUMilli: 1000, Created: 10, Deleted: 10 + seconds}
}

// Pods arrive at the rate that makes their GPU-seconds the offered load, uniformly from the list. The pods that
// run are drawn by their lifetimes, and have half of it before them on average.
func TestDrawSteadyMeetsItsMeans(t *testing.T) {
	pods := []Pod{lived("short", 100), lived("long", 900)}
	const load, gpus, seconds = 0.8, 10_000, 2000
	s := fatal.Value(DrawSteady(pods, load, gpus*1000, seconds, 7))(t)
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
		s := fatal.Value(DrawSteady(pods, 1.05, 20_000, seconds, seed))(t)
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
