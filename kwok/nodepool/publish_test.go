package nodepool

import (
	"context"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/fake"
	"pgregory.net/rapid"
)

func devicePools() *rapid.Generator[[]Pool] {
	return rapid.Custom(func(t *rapid.T) []Pool {
		p := Pool{Name: "p", Count: rapid.IntRange(0, 3).Draw(t, "nodes"), Capacity: corev1.ResourceList{
			corev1.ResourceCPU: resource.MustParse("1"), corev1.ResourceMemory: resource.MustParse("1Gi"),
		}}
		for range rapid.IntRange(0, 3).Draw(t, "kinds") {
			d := Devices{
				Driver: rapid.SampledFrom([]string{"", "gpu.example.com"}).Draw(t, "driver"), Count: rapid.IntRange(1, 10).Draw(t, "devices"),
			}
			switch rapid.IntRange(0, 2).Draw(t, "how") {
			case 1:
				d.Shares = 1000
			case 2:
				d.Memory, d.MIG = resource.MustParse("80Gi"), []string{"1g.10gb", "1g.20gb", "3g.40gb"}
			}
			p.Devices = append(p.Devices, d)
		}
		if err := Validate([]Pool{p}); err != nil {
			t.Fatal(err)
		}
		return []Pool{p}
	})
}

// TestPublishReachesThePools makes random changes of the pools. After each, every pool of devices is
// complete, in one generation that never falls, and a second Publish writes nothing.
func TestPublishReachesThePools(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		ctx, cs := context.Background(), fake.NewClientset(&resourceapi.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Name: "theirs"}})
		latest := map[string]int64{}
		for range rapid.IntRange(1, 3).Draw(t, "steps") {
			pools := devicePools().Draw(t, "pools")
			if _, err := Reconcile(ctx, cs, pools); err != nil {
				t.Fatal(err)
			}
			if _, err := Publish(ctx, cs, pools); err != nil {
				t.Fatal(err)
			}
			again, err := Publish(ctx, cs, pools)
			if err != nil || again.Created+again.Updated+again.Deleted != 0 {
				t.Fatalf("again: %+v, %v", again, err)
			}
			want := 1 // theirs
			for i := range pools {
				for n := range pools[i].Count {
					want += len(pools[i].resourceSlices(pools[i].NodeName(n)))
				}
			}
			checkPools(t, cs, want, latest)
		}
	})
}

// checkPools checks that all pools are complete and their generations no older than the latest seen.
func checkPools(t *rapid.T, cs kubernetes.Interface, want int, latest map[string]int64) {
	list, err := cs.ResourceV1().ResourceSlices().List(context.Background(), metav1.ListOptions{})
	if err != nil || len(list.Items) != want {
		t.Fatalf("%d slices, want %d: %v", len(list.Items), want, err)
	}
	slices, devices := map[string]int64{}, map[string]bool{}
	for _, s := range list.Items {
		if s.Name == "theirs" {
			continue
		}
		key := s.Spec.Driver + "/" + s.Spec.Pool.Name
		slices[key]++
		if slices[key] > 1 && s.Spec.Pool.Generation != latest[key] || s.Spec.Pool.Generation < latest[key] {
			t.Fatalf("%s has generation %d after %d", s.Name, s.Spec.Pool.Generation, latest[key])
		}
		latest[key] = s.Spec.Pool.Generation
		for _, d := range s.Spec.Devices {
			if devices[key+d.Name] {
				t.Fatalf("device %s is twice in %s", d.Name, key)
			}
			devices[key+d.Name] = true
		}
	}
	for _, s := range list.Items {
		if key := s.Spec.Driver + "/" + s.Spec.Pool.Name; s.Name != "theirs" && slices[key] != s.Spec.Pool.ResourceSliceCount {
			t.Fatalf("pool %s says %d slices and has %d", key, s.Spec.Pool.ResourceSliceCount, slices[key])
		}
	}
}

// A foreign class is left alone, and the error names it.
func TestPublishLeavesForeignClasses(t *testing.T) {
	theirs := &resourceapi.DeviceClass{ObjectMeta: metav1.ObjectMeta{Name: DefaultDriver}}
	cs := fake.NewClientset(theirs)
	_, err := Publish(context.Background(), cs, []Pool{{Name: "p", Devices: []Devices{{Count: 1}}}})
	if err == nil || !strings.HasPrefix(err.Error(), "device class gpu.nvidia.com already exists without the label") {
		t.Error(err)
	}
	have, err := cs.ResourceV1().DeviceClasses().Get(context.Background(), DefaultDriver, metav1.GetOptions{})
	if err != nil || len(have.Spec.Selectors) > 0 {
		t.Errorf("%v, %v", have, err)
	}
}

// Two partitions of a device that upstream could allocate together never take more than the device has, and partitions that NVIDIA allows
// together fit.
func TestPartitionsShareCounters(t *testing.T) {
	d := Devices{Count: 1, Memory: resource.MustParse("40Gi"), MIG: []string{"1g.5gb", "2g.10gb", "3g.20gb", "4g.20gb", "7g.40gb"}}
	fits := func(names ...string) bool {
		left := allCounters()
		specs := d.publish(nil, 0)
		for _, name := range names {
			found := false
			for _, device := range specs[1].Devices {
				if device.Name != name {
					continue
				}
				found = true
				for key, c := range device.ConsumesCounters[0].Counters {
					l := left[key]
					l.Value.Sub(c.Value)
					if left[key] = l; l.Value.Sign() < 0 {
						return false
					}
				}
			}
			if !found {
				t.Fatalf("no device %s", name)
			}
		}
		return true
	}
	for _, c := range []struct {
		names string
		want  bool
	}{
		{"gpu-0", true},
		{"gpu-0 gpu-0-mig-1g5gb-6", false},
		{"gpu-0-mig-3g20gb-0 gpu-0-mig-3g20gb-4", true},
		{"gpu-0-mig-4g20gb-0 gpu-0-mig-3g20gb-4", true},
		{"gpu-0-mig-4g20gb-0 gpu-0-mig-3g20gb-0", false},
		{"gpu-0-mig-2g10gb-0 gpu-0-mig-2g10gb-2 gpu-0-mig-2g10gb-4 gpu-0-mig-1g5gb-6", true},
		{"gpu-0-mig-2g10gb-0 gpu-0-mig-1g5gb-1", false},
		{"gpu-0-mig-7g40gb-0 gpu-0-mig-1g5gb-0", false},
	} {
		if got := fits(strings.Fields(c.names)...); got != c.want {
			t.Errorf("%s: %v", c.names, got)
		}
	}
}

// A node of 20 devices with partitions needs several slices of counters, none over the API's limits.
func TestSlicesKeepLimits(t *testing.T) {
	p := Pool{Devices: []Devices{
		{Count: 20, Memory: resource.MustParse("80Gi"), MIG: []string{"1g.10gb", "1g.20gb", "2g.20gb", "3g.40gb", "4g.40gb", "7g.80gb"}},
		{Count: 44},
	}}
	counters := 0
	for _, s := range p.resourceSlices("n") {
		counters += len(s.Spec.SharedCounters)
		if len(s.Spec.SharedCounters) > resourceapi.ResourceSliceMaxCounterSets || len(s.Spec.Devices) > 64 ||
			(len(s.Spec.Devices) > 0) == (len(s.Spec.SharedCounters) > 0) {
			t.Errorf("%s has %d sets of counters and %d devices", s.Name, len(s.Spec.SharedCounters), len(s.Spec.Devices))
		}
	}
	if counters != 20 {
		t.Errorf("%d sets of counters", counters)
	}
}
