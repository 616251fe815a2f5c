package holds

import (
	"encoding/json"
	"slices"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	testingclock "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"
)

var start = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

func podOf(uid, owner types.UID) *v1.Pod {
	return &v1.Pod{ObjectMeta: metav1.ObjectMeta{UID: uid, OwnerReferences: []metav1.OwnerReference{{UID: owner, Controller: ptr.To(true)}}}}
}

func node(name, annotation string, pods ...*v1.Pod) fwk.NodeInfo {
	n := framework.NewNodeInfo(pods...)
	n.SetNode(&v1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: map[string]string{Annotation: annotation}}})
	return n
}

func TestFor(t *testing.T) {
	text := func(list ...Hold) string {
		b, err := json.Marshal(list)
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	one := Hold{Owner: "a", Pods: 1, Until: start.Add(time.Minute)}
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
			n := &Nodes{clock: testingclock.NewFakePassiveClock(start.Add(2 * time.Second)), holds: map[string][]Hold{}, tried: map[types.UID]struct{}{}}
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
