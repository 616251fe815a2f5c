package cluster

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
)

func podOf(cpu int64, selector map[string]string) *Pod {
	return &Pod{Name: "p", Owner: "o", Requests: Resources{MilliCPU: cpu, Pods: 1}, NodeSelector: selector}
}

func TestDemand(t *testing.T) {
	var d Demand
	db := podOf(4000, map[string]string{"disk": "ssd"})
	for range 3 {
		d.Arrive(KindKey(podOf(1000, nil)), podOf(1000, nil))
		d.Arrive(KindKey(&Pod{Name: "other name", Requests: Resources{MilliCPU: 1000, Pods: 1}}), &Pod{Name: "other name", Requests: Resources{MilliCPU: 1000, Pods: 1}})
		d.Arrive(KindKey(db), db)
	}
	d.Wait(KindKey(db), db, 2)
	d.Wait(KindKey(db), db, -1)
	if len(d.Kinds) != 2 || d.Kinds[0].Pod.Name != "" {
		t.Fatalf("%d kinds, the first named %q", len(d.Kinds), d.Kinds[0].Pod.Name)
	}
	if a, b := d.Kinds[0].Arrived, d.Kinds[1].Arrived; !(a > 5.9 && a < 6 && b > 2.9 && b <= 3) {
		t.Errorf("%v and %v pods arrived", a, b)
	}
	if d.Kinds[1].Waiting != 1 {
		t.Errorf("%v wait", d.Kinds[1].Waiting)
	}

	var c Demand
	d.CopyTo(&c)
	c.NoneWait()
	c.Arrive(KindKey(podOf(1, nil)), podOf(1, nil))
	if len(d.Kinds) != 2 || d.Kinds[1].Waiting != 1 || c.Epoch == d.Epoch {
		t.Error("a change of the copy changed the original, or left the epoch the same")
	}
	before := d.Kinds[0].Arrived
	d.Arrive(KindKey(podOf(1000, nil)), podOf(1000, nil))
	d.CopyTo(&c)
	if len(c.Kinds) != 2 || c.Kinds[0].Arrived <= before || c.Epoch != d.Epoch {
		t.Error("the second copy is not like the original")
	}
}

// What no longer comes fades, and at most maxKinds are told apart, those that wait longest of all.
func TestDemandForgets(t *testing.T) {
	var d Demand
	once, stays := podOf(1, nil), podOf(2, nil)
	d.Arrive(KindKey(once), once)
	d.Arrive(KindKey(stays), stays)
	d.Wait(KindKey(stays), stays, 1)
	for range int(remembered * math.Log(1/forgotten) * 1.1) {
		d.Arrive(KindKey(podOf(1000, nil)), podOf(1000, nil))
	}
	if len(d.Kinds) != 2 {
		t.Fatalf("%d kinds, want the one that comes and the one that waits", len(d.Kinds))
	}
	for i := range 3 * maxKinds {
		d.Arrive(KindKey(podOf(1000, map[string]string{"only": fmt.Sprint(i)})), podOf(1000, map[string]string{"only": fmt.Sprint(i)}))
	}
	if len(d.Kinds) != maxKinds {
		t.Errorf("%d kinds", len(d.Kinds))
	}
	if k := d.kind(KindKey(stays), stays); k.Waiting != 1 {
		t.Error("the kind that waits was dropped before kinds that came once")
	}
}

func TestDroppedKindStaysAway(t *testing.T) {
	var d Demand
	p := podOf(1000, nil)
	if d.Wait(KindKey(p), p, -1); len(d.Kinds) != 0 {
		t.Error("a pod of a dropped kind that got its node made the kind anew")
	}
}

func TestAffinity(t *testing.T) {
	is := func(key, operator string, values ...string) Requirement { return Requirement{key, operator, values} }
	n := &Node{Labels: map[string]string{"disk": "ssd", "cores": "32", "name": "x"}, Allocatable: Resources{Pods: 10}}
	for _, c := range []struct {
		terms [][]Requirement
		want  Reason
	}{
		{nil, Fits},
		{[][]Requirement{{is("disk", "In", "hdd", "ssd")}}, Fits},
		{[][]Requirement{{is("disk", "In", "hdd")}}, SelectorMiss},
		{[][]Requirement{{is("disk", "In", "hdd")}, {is("cores", "Gt", "16")}}, Fits},
		{[][]Requirement{{is("disk", "Exists"), is("cores", "Gt", "32")}}, SelectorMiss},
		{[][]Requirement{{is("cores", "Lt", "33"), is("gpu", "DoesNotExist"), is("zone", "NotIn", "a")}}, Fits},
		{[][]Requirement{{is("disk", "NotIn", "ssd")}}, SelectorMiss},
		{[][]Requirement{{is("name", "Gt", "1")}}, SelectorMiss},
		{[][]Requirement{{is("cores", "Gt", "1", "2")}}, SelectorMiss},
		{[][]Requirement{{is("disk", "Like", "ssd")}}, SelectorMiss},
		{[][]Requirement{{}}, SelectorMiss},
	} {
		if got := n.Fit(&Pod{NodeAffinity: c.terms}); got != c.want {
			t.Errorf("%v: %q, want %q", c.terms, got, c.want)
		}
	}
	if KindKey(&Pod{}) == KindKey(&Pod{NodeAffinity: [][]Requirement{{is("disk", "Exists")}}}) {
		t.Error("affinity makes no other kind")
	}
}

func TestWhere(t *testing.T) {
	p := &Pod{NodeSelector: map[string]string{"disk": "ssd", "arch": "arm64"}, NodeAffinity: [][]Requirement{
		{{"zone", "In", []string{"a", "b"}}, {"cores", "Gt", []string{"8"}}}, {{"gpu", "DoesNotExist", nil}, {"team", "NotIn", []string{"x"}}},
	}}
	if got, want := p.Where(), "arch=arm64, disk=ssd, zone in (a,b), cores>8 or !gpu, team notin (x)"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	p.NodeSelector["long"] = strings.Repeat("x", 200)
	if got := p.Where(); len(got) > longestWhere+len("…") {
		t.Errorf("%d bytes", len(got))
	}
}

func TestBothTerms(t *testing.T) {
	a, b := []Requirement{{"a", "Exists", nil}}, []Requirement{{"b", "Exists", nil}}
	if got := (&Pod{NodeAffinity: BothTerms([][]Requirement{a, b}, [][]Requirement{b})}).Where(); got != "a, b or b, b" {
		t.Errorf("%q", got)
	}
	if many := slices.Repeat([][]Requirement{a}, 100); len(BothTerms(many, many)) != len(many) {
		t.Error("terms without limit")
	}
	n := &Node{Labels: map[string]string{"a": ""}, Allocatable: Resources{Pods: 1}}
	for _, c := range []struct {
		x, y [][]Requirement
		want bool
	}{{nil, nil, true}, {[][]Requirement{a}, nil, true}, {nil, [][]Requirement{b}, false}, {[][]Requirement{a}, [][]Requirement{b}, false},
		{[][]Requirement{{}}, [][]Requirement{a}, false}} {
		if got := n.meetsOne(BothTerms(c.x, c.y)); got != c.want {
			t.Errorf("%v and %v: %v", c.x, c.y, got)
		}
	}
}
