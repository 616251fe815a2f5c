package cluster

import (
	"testing"
)

func TestEntriesAreValidUntilTheNodeChanges(t *testing.T) {
	n := &Node{Name: "n", Version: NextVersion(), Allocatable: Resources{MilliCPU: 1000, Pods: 10}}
	r := Resources{MilliCPU: 100, Pods: 1}
	var c Cache[int]
	e := &c.Column(r, 1)[0]
	if e.Valid(n) {
		t.Error("an empty entry is valid")
	}
	e.Set(n, 7)
	if again := &c.Column(r, 1)[0]; !again.Valid(n) || again.Value != 7 {
		t.Errorf("got %+v, want a valid 7", again)
	}
	if other := &c.Column(Resources{MilliCPU: 200}, 1)[0]; other.Valid(n) {
		t.Error("the entry of another request is valid")
	}
	if grown := c.Column(r, 3); len(grown) < 3 || !grown[0].Valid(n) || grown[2].Valid(n) {
		t.Errorf("after growing: %+v", grown)
	}
	n.Add(r)
	if c.Column(r, 1)[0].Valid(n) {
		t.Error("the entry is valid after the node changed")
	}
	e = &c.Column(r, 1)[0]
	e.Set(n, 8)
	if c.Clear(); c.Column(r, 1)[0].Valid(n) {
		t.Error("the entry is valid after Clear")
	}
}

// The memory is bounded, however many different requests there are.
func TestColumnsAreBounded(t *testing.T) {
	var c Cache[int]
	for i := range int64(3 * maxColumns) {
		c.Column(Resources{MilliCPU: i}, 1)
	}
	if len(c.columns) > maxColumns {
		t.Errorf("%d columns", len(c.columns))
	}
}
