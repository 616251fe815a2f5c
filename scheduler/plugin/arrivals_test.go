package plugin

import (
	"fmt"
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"
	st "k8s.io/kubernetes/pkg/scheduler/testing"
)

// A pod counts once from its creation on, and waits until it has a node or is gone. Pods of other schedulers do not count.
func TestArrivals(t *testing.T) {
	a := &arrivals{profile: "mine", waits: map[types.UID]waitingPod{}}
	pod := func(uid, node string) *v1.Pod {
		p := st.MakePod().Name(uid).UID(uid).SchedulerName("mine").Req(map[v1.ResourceName]string{v1.ResourceCPU: "1"}).Node(node).Obj()
		return p
	}
	check := func(what string, arrived, waiting float64) {
		t.Helper()
		var gotArrived, gotWaiting float64
		for _, k := range a.now().Kinds {
			gotArrived, gotWaiting = gotArrived+k.Arrived, gotWaiting+k.Waiting
		}
		if gotWaiting != waiting || gotArrived > arrived || gotArrived < arrived-0.1 {
			t.Errorf("%s: %v arrived and %v wait, want %v and %v", what, gotArrived, gotWaiting, arrived, waiting)
		}
	}
	a.change(nil, pod("a", ""))
	a.change(nil, pod("runs", "n1"))
	check("two pods", 2, 1)
	a.change(pod("a", ""), pod("a", ""))
	check("an update", 2, 1)
	a.change(pod("a", ""), pod("a", "n1"))
	check("bound", 2, 0)
	a.change(nil, pod("b", ""))
	a.change(pod("b", ""), nil)
	check("deleted before it had a node", 3, 0)
	other := pod("c", "")
	other.Spec.SchedulerName = "default-scheduler"
	a.change(nil, other)
	check("another scheduler's", 3, 0)
	d := pod("d", "")
	a.set(d, true, true)
	a.set(d, true, true)
	a.change(nil, d)
	check("attempts and the event of one pod", 4, 1)
	e := pod("e", "")
	e.Spec.SchedulerName = "default-scheduler" // whoever asks
	a.arrives(e, nil)
	a.arrives(e, nil)
	check("asked about twice", 5, 2)
	a.leaves(e)
	a.leaves(e)
	check("placed by whoever asked", 5, 1)
	if (*arrivals)(nil).now() != nil {
		t.Error("without a count there is a demand")
	}
}

// Where a bound volume is decides the kind of its pod, together with what the pod selects.
func TestVolumesMakeKinds(t *testing.T) {
	claims := cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc})
	volumes := cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{})
	a := &arrivals{profile: "mine", waits: map[types.UID]waitingPod{}, claims: corelisters.NewPersistentVolumeClaimLister(claims),
		volumes: corelisters.NewPersistentVolumeLister(volumes)}
	for _, zone := range []string{"east", "west"} {
		volume := st.MakePersistentVolume().Name(zone).Obj()
		volume.Spec.NodeAffinity = &v1.VolumeNodeAffinity{Required: &v1.NodeSelector{NodeSelectorTerms: []v1.NodeSelectorTerm{
			{MatchExpressions: []v1.NodeSelectorRequirement{{Key: "zone", Operator: v1.NodeSelectorOpIn, Values: []string{zone}}}}}}}
		if volumes.Add(volume) != nil || claims.Add(&v1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Name: "in-" + zone, Namespace: "ns"},
			Spec: v1.PersistentVolumeClaimSpec{VolumeName: zone}}) != nil {
			t.Fatal("not added")
		}
	}
	if claims.Add(&v1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Name: "pod-scratch", Namespace: "ns"}}) != nil {
		t.Fatal("not added")
	}
	pod := func(claims ...string) *v1.Pod {
		p := st.MakePod().Name("pod").Namespace("ns").NodeAffinityIn("disk", []string{"ssd"}, st.NodeSelectorTypeMatchExpressions).Obj()
		for _, c := range claims {
			p.Spec.Volumes = append(p.Spec.Volumes, v1.Volume{VolumeSource: v1.VolumeSource{
				PersistentVolumeClaim: &v1.PersistentVolumeClaimVolumeSource{ClaimName: c}}})
		}
		p.Spec.Volumes = append(p.Spec.Volumes, v1.Volume{Name: "scratch", VolumeSource: v1.VolumeSource{Ephemeral: &v1.EphemeralVolumeSource{}}})
		return p
	}
	for i, c := range []struct {
		claims []string
		want   string
	}{{nil, "disk=ssd"}, {[]string{"in-east"}, "disk=ssd, zone=east"}, {[]string{"in-east", "in-west"}, "disk=ssd, zone=east, zone=west"},
		{[]string{"none"}, "disk=ssd"}} {
		p := pod(c.claims...)
		p.UID, p.Spec.SchedulerName = types.UID(rune('a'+i)), "mine"
		a.change(nil, p)
		if got := a.waits[p.UID]; got.Where() != c.want {
			t.Errorf("claims %v: %q, want %q", c.claims, got.Where(), c.want)
		}
	}
}

// A namespace's pods that get no node count up to a limit, whether they stay or are deleted. Beyond it they count when they run.
func TestPodsThatOnlyWaitAreLimited(t *testing.T) {
	a := &arrivals{profile: "mine", waits: map[types.UID]waitingPod{}, open: map[string]int{}}
	pod := func(namespace string, i int, node string) *v1.Pod {
		return st.MakePod().Name("p").Namespace(namespace).UID(fmt.Sprint(namespace, i)).SchedulerName("mine").Node(node).
			NodeSelector(map[string]string{"rare": namespace}).Obj()
	}
	count := func() (arrived, waiting float64) {
		for _, k := range a.now().Kinds {
			if k.Pod.NodeSelector["rare"] == "bad" {
				return k.Arrived, k.Waiting
			}
		}
		return 0, 0
	}
	for i := range 300 {
		a.change(nil, pod("bad", i, ""))
		if i%2 == 0 {
			a.change(pod("bad", i, ""), nil)
		}
	}
	if arrived, waiting := count(); arrived > mostOpen || waiting > mostOpen || arrived < mostOpen-2 {
		t.Errorf("%v arrived and %v wait of 300 that nobody ran", arrived, waiting)
	}
	before, _ := count()
	for i := 201; i < 251; i += 2 {
		a.change(pod("bad", i, ""), pod("bad", i, "n"))
	}
	if arrived, _ := count(); arrived < before+20 {
		t.Errorf("%v arrived after 25 got a node, %v before", arrived, before)
	}
	a.change(nil, pod("good", 0, ""))
	if len(a.now().Kinds) != 2 {
		t.Errorf("%d kinds", len(a.now().Kinds))
	}
}
