package canary

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"

	"gnnsched/internal/cluster/kube"
)

// pod returns a pod of a controller; of none if kind is empty.
func pod(namespace, kind, controller, uid string) *v1.Pod {
	p := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, UID: types.UID(uid)}}
	if kind != "" {
		yes := true
		p.OwnerReferences = []metav1.OwnerReference{{Kind: kind, Name: controller, Controller: &yes}}
	}
	return p
}

// Of many owners, namespaces or bare pods, about the share is drawn.
func TestFraction(t *testing.T) {
	const many = 20000
	for _, of := range []float64{0.01, 0.05, 0.25, 0.9} {
		for name, c := range map[string]struct {
			by  string
			pod func(i int) *v1.Pod
		}{
			"owners":     {ByOwner, func(i int) *v1.Pod { return pod("default", "Job", fmt.Sprint("job-", i), "x") }},
			"bare pods":  {ByOwner, func(i int) *v1.Pod { return pod("default", "", "", fmt.Sprint(i)) }},
			"namespaces": {ByNamespace, func(i int) *v1.Pod { return pod(fmt.Sprint("team-", i), "Job", "same", "x") }},
		} {
			a, in := Args{Of: of, By: c.by}, 0
			for i := range many {
				if a.place(c.pod(i)) < of {
					in++
				}
			}
			if sd := math.Sqrt(of * (1 - of) * many); math.Abs(float64(in)-of*many) > 4*sd {
				t.Errorf("%v of %s: %d of %d are drawn", of, name, in, many)
			}
		}
	}
}

// The pods of an owner are in one group, whatever else differs, and a larger share keeps those of a smaller one. All
// pods of a namespace are in one group if namespaces are drawn.
func TestStable(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.StringN(0, 20, 60)
		namespace, name, hash := text.Draw(t, "namespace"), text.Draw(t, "name"), rapid.StringMatching("[a-z0-9]{1,10}").Draw(t, "hash")
		byOwner, byNamespace := Args{By: ByOwner}, Args{By: ByNamespace}
		one := pod(namespace, "StatefulSet", name, text.Draw(t, "uid"))
		other := pod(namespace, "StatefulSet", name, text.Draw(t, "another uid"))
		other.Labels = map[string]string{"pod-template-hash": hash, "a": "b"}
		at := byOwner.place(one)
		if at < 0 || at >= 1 || byOwner.place(other) != at || byOwner.place(one) != at {
			t.Fatalf("%v and %v", at, byOwner.place(other))
		}
		rollout := func(hash string) *v1.Pod {
			p := pod(namespace, "ReplicaSet", name+"-"+hash, text.Draw(t, "uid of a replica"))
			p.Labels = map[string]string{"pod-template-hash": hash}
			return p
		}
		if byOwner.place(rollout(hash)) != byOwner.place(rollout(hash+"x")) {
			t.Fatal("a rollout changes the group of a Deployment")
		}
		if byNamespace.place(one) != byNamespace.place(pod(namespace, "", "", "z")) {
			t.Fatal("a namespace has two groups")
		}
		small, large := rapid.Float64Range(0, 1).Draw(t, "small"), rapid.Float64Range(0, 1).Draw(t, "large")
		if small > large {
			small, large = large, small
		}
		if at < small && !(at < large) {
			t.Fatal("a larger share drops an owner")
		}
	})
}

func TestOwnersDiffer(t *testing.T) {
	a := Args{By: ByOwner}
	seen := map[float64]string{}
	for _, p := range []*v1.Pod{pod("a", "Job", "x", ""), pod("b", "Job", "x", ""), pod("a", "StatefulSet", "x", ""),
		pod("a", "Job", "y", ""), pod("a", "", "", "1"), pod("a", "", "", "2")} {
		if other, has := seen[a.place(p)]; has {
			t.Errorf("%s/%s has the place of %s", p.Namespace, owner(p), other)
		}
		seen[a.place(p)] = p.Namespace + "/" + owner(p)
	}
}

// Anybody may write the annotation of a replay's pods, at any time. It moves no pod into another group.
func TestOwnerIsNoAnnotation(t *testing.T) {
	a := Args{By: ByOwner}
	for _, kind := range []string{"", "Job"} {
		one, same := pod("a", kind, "x", "1"), pod("a", kind, "x", "1")
		same.Annotations = map[string]string{kube.WorkloadAnnotation: "Deployment/web"}
		if a.place(one) != a.place(same) {
			t.Errorf("the annotation makes %s an owner, and not %s", owner(same), owner(one))
		}
	}
}

func comparisonOf(of float64) *comparison {
	a := Args{Of: of}
	if err := a.Default(); err != nil {
		panic(err)
	}
	return &comparison{args: a}
}

// next lets a pod of an owner with no other pods settle.
func (c *comparison) next(g Group, r Result) string {
	lastOwner++
	return c.settled(g, lastOwner, r)
}

var lastOwner uint64 // of next

// settle lets pods of both groups settle, 19 of the rest for each of the canary. Every canaryEach-th pod of the canary
// and every restEach-th of the rest fails; 0 for none.
func settle(c *comparison, pods, canaryEach, restEach int) (stoppedAt int, why string) {
	rest := 0
	for i := 1; i <= pods; i++ {
		for range 19 {
			r := Bound
			if rest++; restEach > 0 && rest%restEach == 0 {
				r = NotBound
			}
			c.next(Rest, r)
		}
		r := Bound
		if canaryEach > 0 && i%canaryEach == 0 {
			r = NotBound
		}
		if why := c.next(Learned, r); why != "" {
			return i, why
		}
	}
	return 0, ""
}

func TestFailures(t *testing.T) {
	for _, c := range []struct {
		name                 string
		canaryEach, restEach int
		first, last          int // between which it stops; 0 for never
	}{
		{"nothing fails", 0, 0, 0, 0},
		{"both fail alike", 20, 20, 0, 0},
		{"the rest fails", 0, 3, 0, 0},
		{"a few fail", 200, 0, 0, 0},
		{"all fail", 1, 0, leastFailures + 1, leastFailures + 5},
		{"every tenth fails", 10, 0, 50, 150},
		{"every fifth fails, and every twentieth of the rest", 5, 20, 20, 200},
	} {
		at, why := settle(comparisonOf(0.05), 5000, c.canaryEach, c.restEach)
		if at < c.first || at > c.last || (why == "") != (c.last == 0) {
			t.Errorf("%s: it stops after %d pods (%s), want %d to %d", c.name, at, why, c.first, c.last)
		}
	}
}

// A canary that breaks after many good pods stops as soon as one that is broken from the start, about: old pods leave
// the window.
func TestFailuresAfterGoodPods(t *testing.T) {
	c := comparisonOf(0.05)
	if at, why := settle(c, 20000, 0, 0); at != 0 {
		t.Fatal(why)
	}
	if at, _ := settle(c, 200, 1, 0); at == 0 || at > 60 {
		t.Errorf("it stops after %d pods", at)
	}
}

// Pods without scores are compared with the limit alone, at every share: the rest needs no scores, and has none of these
// failures. The owner of one of the failures does not count.
func TestFallbacks(t *testing.T) {
	for _, of := range append(shares, 1) {
		for _, f := range []struct{ each, first, last int }{
			{0, 0, 0}, {200, 0, 0}, {100, 0, 0}, {1, leastFailures + 1, leastFailures + 1}, {10, 50, 150}, {20, 100, 500},
		} {
			x, at := comparisonOf(of), 0
			for i := 1; i <= 5000 && at == 0; i++ {
				x.next(Rest, NotBound)
				r := Bound
				if f.each > 0 && i%f.each == 0 {
					r = Fallback
				}
				if x.next(Learned, r) != "" {
					at = i
				}
			}
			if at < f.first || at > f.last {
				t.Errorf("share %v, every %d-th pod has no scores: it stops after %d pods, want %d to %d", of, f.each, at, f.first, f.last)
			}
		}
	}
}

// With all pods in the share there is nothing to compare with, and the limit alone counts.
func TestFailuresOfAll(t *testing.T) {
	c := comparisonOf(1)
	for i := range 100 {
		if why := c.next(Learned, NotBound); why != "" {
			if i+1 != leastFailures+1 { // the owner of one of them does not count
				t.Errorf("it stops after %d", i+1)
			}
			return
		}
	}
	t.Error("it does not stop")
}

// Chance alone hardly ever stops the canary: both groups fail with the same probability.
func TestChance(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	stops := 0
	for i := range 20 {
		c, p := comparisonOf(0.05), float64(i)/100
		draw := func() Result {
			if random.Float64() < p {
				return NotBound
			}
			return Bound
		}
		for range 1000 {
			for range 19 {
				c.next(Rest, draw())
			}
			if c.next(Learned, draw()) != "" {
				stops++
				break
			}
		}
	}
	if stops > 0 {
		t.Errorf("%d of 20 are stopped by chance", stops)
	}
}

func TestTail(t *testing.T) {
	for _, c := range []struct {
		n, k int
		p    float64
		want float64
	}{{10, 0, 0.1, 1}, {1, 1, 0.25, 0.25}, {2, 1, 0.5, 0.75}, {4, 3, 0.5, 0.3125}, {5, 5, 0.1, 1e-5}, {3, 1, 1, 1}} {
		if got := tail(float64(c.n), float64(c.k), c.p); math.Abs(got-c.want) > 1e-12 {
			t.Errorf("tail(%d, %d, %v) = %v, want %v", c.n, c.k, c.p, got, c.want)
		}
	}
}

func TestLatency(t *testing.T) {
	const limit = DefaultLatency
	for _, c := range []struct {
		name                  string
		canary, slowest, rest time.Duration
		slow                  int // every so many attempts of the canary take slowest
		stops                 bool
	}{
		{"fast", limit / 10, 0, limit / 10, 0, false},
		{"one of two hundred is slow", limit / 10, 10 * limit, limit / 10, 200, false},
		{"one of twenty is slow", limit / 10, 10 * limit, limit / 10, 20, true},
		{"slow", 2 * limit, 0, limit / 10, 0, true},
		{"slow as the rest", 2 * limit, 0, 2 * limit, 0, false},
		{"much slower than a slow rest", 5 * limit, 0, 2 * limit, 0, true},
	} {
		x, stopped := comparisonOf(0.05), ""
		for i := 1; i <= 3000 && stopped == ""; i++ {
			x.attempted(Rest, uint64(1+i%50), c.rest)
			took := c.canary
			if c.slow > 0 && i%c.slow == 0 {
				took = c.slowest
			}
			if stopped = x.attempted(Learned, uint64(1+i%50), took); stopped != "" && i < leastTimes {
				t.Errorf("%s: it stops after %d", c.name, i)
			}
		}
		if (stopped != "") != c.stops {
			t.Errorf("%s: %q", c.name, stopped)
		}
	}
}

func TestArgs(t *testing.T) {
	for _, c := range []struct {
		args Args
		err  string
	}{
		{Args{Of: 0.05}, ""},
		{Args{Of: 1, By: ByNamespace}, ""},
		{Args{}, "of is 0"},
		{Args{Of: -0.1}, "of is -0.1"},
		{Args{Of: 1.01}, "of is 1.01"},
		{Args{Of: math.NaN()}, "of is NaN"},
		{Args{Of: 0.1, By: "pod"}, `by is "pod"; there are owner, namespace`},
		{Args{Of: 0.1, Failures: -1}, "failures is -1"},
		{Args{Of: 0.1, Failures: 1}, "failures is 1"},
		{Args{Of: 0.1, Latency: metav1.Duration{Duration: -1}}, "latency is -1ns"},
	} {
		err := c.args.Default()
		if (err == nil) != (c.err == "") || err != nil && !strings.Contains(err.Error(), c.err) {
			t.Errorf("%+v: %v, want %q", c.args, err, c.err)
		}
		if err == nil && (c.args.By == "" || c.args.Failures != DefaultFailures || c.args.Latency.Duration != DefaultLatency) {
			t.Errorf("%+v lacks defaults", c.args)
		}
	}
}
