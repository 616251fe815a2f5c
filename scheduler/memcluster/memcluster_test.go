package memcluster

import (
	"fmt"
	"os"
	"slices"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	st "k8s.io/kubernetes/pkg/scheduler/testing"
	clocktesting "k8s.io/utils/clock/testing"

	"gnnsched/internal/fatal"
	"gnnsched/internal/kuberelease"
	"gnnsched/internal/logging"
	"gnnsched/scheduler/objective"
	"gnnsched/scheduler/server"
)

func TestMain(m *testing.M) {
	logging.DropKlog()
	os.Exit(m.Run())
}

// noon is the time of the tests' clock.
var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// placements returns a cluster of nodes with 4 cores, whose profile packs, and its follower.
func placements(t testing.TB, nodes ...string) (*Placements, *follower) {
	t.Helper()
	profile, err := server.ProfileNamed("most-allocated")
	fatal.If(t, err)
	decoded, err := server.Config{Profiles: []server.Profile{profile}, QPS: 1}.Decode()
	fatal.If(t, err)
	client, err := kubernetes.NewForConfig(&rest.Config{}) // it is never asked
	fatal.If(t, err)
	c, err := New(t.Context(), Config{
		Client: client, Shared: kuberelease.Informers(client), Profile: decoded.Profiles[0],
		Objective: objective.Balance{}, Clock: clocktesting.NewFakePassiveClock(noon), Seed: 1,
	})
	fatal.If(t, err)
	for _, n := range nodes {
		c.AddNode(c.log, st.MakeNode().Name(n).Label(v1.LabelHostname, n).
			Capacity(map[v1.ResourceName]string{"cpu": "4", "memory": "16Gi", "pods": "110"}).Obj())
	}
	o, f := NewPlacements(c), &follower{}
	o.Follow = f
	return o, f
}

// follower writes down its calls.
type follower struct{ told []string }

func (f *follower) Placed(p *v1.Pod, _ Choice) { f.note("placed", p) }
func (f *follower) Preempted(p *v1.Pod)        { f.note("preempted", p) }
func (f *follower) Lost(p *v1.Pod)             { f.note("lost", p) }
func (f *follower) Refused(p *v1.Pod, _ error) { f.note("refused", p) }

func (f *follower) note(what string, p *v1.Pod) {
	f.told = append(f.told, fmt.Sprintf("%s %s %s", what, p.Name, p.Spec.NodeName))
}

// pod returns a pod with containers of its own, made at noon.
func pod(name string, cores int) *st.PodWrapper {
	return st.MakePod().Namespace("shop").Name(name).UID(name).CreationTimestamp(at(0)).
		Req(map[v1.ResourceName]string{"cpu": fmt.Sprint(cores)})
}

// replicas returns pods that share their containers.
func replicas(of *v1.Pod, names ...string) (out []*v1.Pod) {
	for _, n := range names {
		p := *of
		p.Name, p.UID = n, types.UID(n)
		out = append(out, &p)
	}
	return out
}

// settle tries the waiting pods until nothing changes.
func settle(t testing.TB, o *Placements) {
	t.Helper()
	for range 100 {
		if o.settled() {
			return
		}
		fatal.If(t, o.Retry(t.Context(), 1000))
	}
	t.Fatal("it does not settle")
}

// names returns the waiting pods in their order.
func names(pods []*v1.Pod) []string {
	out := []string{}
	for _, p := range pods {
		out = append(out, p.Name)
	}
	return out
}

func equal(t testing.TB, what string, got, want []string) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("%s: %q, want %q", what, got, want)
	}
}
