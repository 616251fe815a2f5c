package each

import (
	"slices"
	"strconv"
	"testing"
)

// An empty list gives nil, as a loop that appends does.
func TestEach(t *testing.T) {
	odd := func(n int) bool { return n%2 == 1 }
	for _, all := range [][]int{nil, {1}, {3, 4, 5}} {
		var texts []string
		var filtered []int
		sum := 0
		for _, n := range all {
			if sum += n; odd(n) {
				filtered = append(filtered, n)
			}
			texts = append(texts, strconv.Itoa(n))
		}
		if got := Map(all, strconv.Itoa); !slices.Equal(got, texts) || (got == nil) != (texts == nil) {
			t.Errorf("Map of %v: %q", all, got)
		}
		if got := Filter(all, odd); !slices.Equal(got, filtered) || (got == nil) != (filtered == nil) {
			t.Errorf("Filter of %v: %v", all, got)
		}
		if n := Count(all, odd); n != len(filtered) {
			t.Errorf("Count of %v: %d", all, n)
		}
		if got := Sum(all, func(n int) int { return n }); got != sum {
			t.Errorf("Sum of %v: %d", all, got)
		}
	}
}
