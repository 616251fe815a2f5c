package nodereservation

import (
	"encoding/json"
	"slices"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	testingclock "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"

	"gnnsched/internal/cluster/kube"
	"gnnsched/internal/fatal"
)

var start = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

func podOf(uid, owner types.UID) *v1.Pod {
	return &v1.Pod{ObjectMeta: metav1.ObjectMeta{UID: uid, OwnerReferences: []metav1.OwnerReference{{UID: owner, Controller: ptr.To(true)}}}}
}

func node(name, annotation string, pods ...*v1.Pod) fwk.NodeInfo {
	n := framework.NewNodeInfo(pods...)
	n.SetNode(&v1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: map[string]string{kube.HoldsAnnotation: annotation}}})
	return n
}

func TestFor(t *testing.T) {
	text := func(list ...Reservation) string {
		b := fatal.Value(json.Marshal(list))(t)
		return string(b)
	}
	one := Reservation{Owner: "a", Pods: 1, Until: start.Add(time.Minute)}
	two, other, over := one, one, one
	two.Pods, other.Owner, over.Until = 2, "b", start.Add(time.Second)
	first, second, going, bare := podOf("1", "a"), podOf("2", "a"), podOf("3", "a"), podOf("4", "a")
	going.DeletionTimestamp, bare.OwnerReferences = &metav1.Time{Time: start}, nil
	for _, c := range []struct {
		name       string
		annotation string
		on         []*v1.Pod
		pod        *v1.Pod
		want       bool
	}{
		{"held", text(one), nil, first, true},
		{"held for another owner too", text(other, one), nil, first, true},
		{"another owner's", text(other), nil, first, false},
		{"no controller", text(one), nil, bare, false},
		{"a sibling that goes", text(one), []*v1.Pod{going}, second, true},
		{"a pod of another owner", text(one), []*v1.Pod{podOf("5", "b")}, second, true},
		{"taken", text(one), []*v1.Pod{first}, second, false},
		{"taken once of twice", text(two), []*v1.Pod{first}, second, true},
		{"over", text(over), nil, first, false},
		{"broken", `[{"owner":`, nil, first, false},
		{"of another type", `{"owner": 1}`, nil, first, false},
		{"none", "", nil, first, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			nodes := []fwk.NodeInfo{node("free", ""), node("held", c.annotation, c.on...)}
			n := &Nodes{clock: testingclock.NewFakePassiveClock(start.Add(2 * time.Second)), byNode: map[string][]Reservation{},
				tried: map[types.UID]struct{}{}}
			n.set("held", c.annotation)
			if got := n.For(c.pod, nodes); slices.Equal(got, []int32{1}) != c.want || !c.want && len(got) > 0 {
				t.Errorf("%v, want %v", got, c.want)
			}
			if first, again := n.Once(c.pod, nodes), n.Once(c.pod, nodes); first.Has("held") != c.want || len(again) > 0 {
				t.Errorf("once: %v, again: %v", first, again)
			}
			n.set("held", "")
			if got := n.For(c.pod, nodes); len(got) > 0 {
				t.Errorf("without the annotation: %v", got)
			}
		})
	}
}

// Another pod gets the room of a held node that is left beside the pods that are to come, unless its priority is higher.
func TestKeeps(t *testing.T) {
	asks := func(p *v1.Pod, cpu string, priority int32) *v1.Pod {
		p.Spec = v1.PodSpec{Priority: &priority,
			Containers: []v1.Container{{Resources: v1.ResourceRequirements{Requests: v1.ResourceList{"cpu": resource.MustParse(cpu)}}}}}
		return p
	}
	reserved := Reservation{Owner: "a", Pods: 2, Until: start.Add(time.Minute),
		Room: v1.ResourceList{"cpu": resource.MustParse("3"), "memory": resource.MustParse("1Gi")}, Priority: 5}
	ended, gpu, absurd := reserved, reserved, reserved
	absurd.Pods, absurd.Room = 2_000_000_000, v1.ResourceList{"cpu": resource.MustParse("1m")}
	ended.Until, gpu.Room = start, v1.ResourceList{"nvidia.com/gpu": resource.MustParse("1")}
	for _, c := range []struct {
		name     string
		reserved Reservation
		on       []*v1.Pod
		pod      *v1.Pod
		want     bool
	}{
		{"beside both", reserved, nil, asks(podOf("1", "b"), "2", 0), false},
		{"in the room of one", reserved, nil, asks(podOf("1", "b"), "2100m", 0), true},
		{"one is there", reserved, []*v1.Pod{asks(podOf("2", "a"), "3", 0)}, asks(podOf("1", "b"), "2", 0), false},
		{"one is there, in the room of the other", reserved, []*v1.Pod{asks(podOf("2", "a"), "3", 0)}, asks(podOf("1", "b"), "2100m", 0), true},
		{"all are there", reserved, []*v1.Pod{asks(podOf("2", "a"), "1", 0), asks(podOf("3", "a"), "1", 0)}, asks(podOf("1", "b"), "6", 0), false},
		{"too many are there", reserved, []*v1.Pod{asks(podOf("2", "a"), "1", 0), asks(podOf("3", "a"), "1", 0), asks(podOf("4", "a"), "1", 0)},
			asks(podOf("1", "b"), "5", 0), false},
		{"of the same priority", reserved, nil, asks(podOf("1", "b"), "6", 5), true},
		{"of a higher priority", reserved, nil, asks(podOf("1", "b"), "6", 6), false},
		{"a sibling", reserved, nil, asks(podOf("1", "a"), "6", 0), false},
		{"the reservation has ended", ended, nil, asks(podOf("1", "b"), "6", 0), false},
		{"for more pods than any node has", absurd, nil, asks(podOf("1", "b"), "6", 0), false},
		{"of a resource that is not held", gpu, nil, asks(podOf("1", "b"), "8", 0), false},
	} {
		t.Run(c.name, func(t *testing.T) {
			text := fatal.Value(json.Marshal([]Reservation{c.reserved}))(t)
			held := node("held", string(text), c.on...).(*framework.NodeInfo)
			held.Node().Status.Allocatable = v1.ResourceList{"cpu": resource.MustParse("8"), "memory": resource.MustParse("8Gi"),
				"pods": resource.MustParse("10")}
			held.SetNode(held.Node())
			n := &Nodes{clock: testingclock.NewFakePassiveClock(start.Add(2 * time.Second)), byNode: map[string][]Reservation{},
				tried: map[types.UID]struct{}{}}
			n.set("held", string(text))
			if got := n.Keeps(c.pod, held); got != c.want {
				t.Errorf("kept: %v, want %v", got, c.want)
			}
			if free := node("free", ""); n.Keeps(c.pod, free) {
				t.Error("a node without a reservation is kept")
			}
		})
	}
}

// Nodes come back when their mark is over. A mark goes as soon as somebody has uncordoned the node: else it would undo a later cordon of theirs.
func TestGiveBack(t *testing.T) {
	later, before := Moving(start), Moving(start.Add(-time.Hour))
	for name, c := range map[string]struct {
		mark          string
		cordoned      bool
		marked, stays bool // then
	}{
		"moving":                 {later, true, true, true},
		"moving, uncordoned":     {later, false, false, false},
		"killed":                 {before, true, false, false},
		"emptied":                {Emptied, true, true, true},
		"emptied and uncordoned": {Emptied, false, false, false},
		"of others":              {"", true, false, true},
	} {
		n := &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n", Annotations: map[string]string{}}, Spec: v1.NodeSpec{Unschedulable: c.cordoned}}
		if c.mark != "" {
			n.Annotations[kube.DefragAnnotation] = c.mark
		}
		client := fake.NewClientset(n)
		fatal.Value(GiveBack(t.Context(), client, []*v1.Node{n}, func(until time.Time) bool { return start.After(until) }))(t)
		got := fatal.Value(client.CoreV1().Nodes().Get(t.Context(), "n", metav1.GetOptions{}))(t)
		if _, marked := got.Annotations[kube.DefragAnnotation]; marked != c.marked || got.Spec.Unschedulable != c.stays {
			t.Errorf("%s: marked %v and cordoned %v", name, marked, got.Spec.Unschedulable)
		}
	}
}
