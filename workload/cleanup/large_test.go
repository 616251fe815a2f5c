package cleanup_test

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"

	"gnnsched/workload/cleanup"
	"gnnsched/workload/driver/fakecluster"
)

// crowded returns a cluster with the given number of pods of run a, and a pod that no run made.
func crowded(pods int) *fakecluster.Cluster {
	objects := []runtime.Object{pod("gnnsched-sim", "mine", nil)}
	for i := range pods {
		objects = append(objects, pod("gnnsched-sim", fmt.Sprintf("p-%05d", i), ours("a")))
	}
	return fakecluster.New(objects...)
}

// A server does not finish the deletion of a large collection within its request timeout.
func TestRemoveMoreThanOneRequestDeletes(t *testing.T) {
	for _, largest := range []int{600, 100, 40} {
		c := crowded(1300)
		c.LargestDelete = largest
		var seen []int
		err := client(t, c).Remove(context.Background(), cleanup.Scope{Run: "a"}, func(left cleanup.Counts) { seen = append(seen, left.Pods) })
		if err != nil {
			t.Fatalf("a server that deletes %d pods a request: %v", largest, err)
		}
		if got := everything(t, c); len(got) != 1 || got[0] != "pod gnnsched-sim/mine" {
			t.Errorf("a server that deletes %d pods a request: %d objects are left, the first %s", largest, len(got), got[0])
		}
		if seen[0] != 1300 || seen[len(seen)-1] != 0 {
			t.Errorf("progress %v", seen)
		}
	}
}

// A broken connection is no reason to give up, if it comes back soon.
func TestRemoveSurvivesBrokenConnections(t *testing.T) {
	c := crowded(3)
	broken := 4
	c.OnDelete = func(resource string) error {
		if resource != "pods" || broken == 0 {
			return nil
		}
		broken--
		return &url.Error{Op: "Delete", URL: "https://fake/pods", Err: errors.New("connection reset by peer")}
	}
	if err := client(t, c).Remove(context.Background(), cleanup.Scope{Run: "a"}, nil); err != nil {
		t.Error(err)
	}
}

// A server that fails every time is reported with its error.
func TestRemoveGivesUp(t *testing.T) {
	c := crowded(3)
	tries := 0
	c.OnDelete = func(resource string) error {
		if resource != "pods" {
			return nil
		}
		tries++
		return apierrors.NewInternalError(errors.New("no leader"))
	}
	err := client(t, c).Remove(context.Background(), cleanup.Scope{Run: "a"}, nil)
	if err == nil || !strings.Contains(err.Error(), "delete pods in namespace gnnsched-sim") || !strings.Contains(err.Error(), "no leader") {
		t.Errorf("got %v", err)
	}
	if tries < 5 || tries > 20 {
		t.Errorf("it tried %d times", tries)
	}
}
