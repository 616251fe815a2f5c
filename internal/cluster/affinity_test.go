package cluster

import "testing"

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
		if got := n.Fit(&Pod{Affinity: c.terms}); got != c.want {
			t.Errorf("%v: %q, want %q", c.terms, got, c.want)
		}
	}
	if KindKey(&Pod{}) == KindKey(&Pod{Affinity: [][]Requirement{{is("disk", "Exists")}}}) {
		t.Error("affinity makes no other kind")
	}
}
