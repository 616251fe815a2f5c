package cluster

import (
	"slices"
	"strings"
	"testing"
)

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
