package eval

import (
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// No mark contradicts the interval in its row, for any values: better and worse have an interval on one side of 0 and a p below 0.05, and
// "no" has neither. Too few seeds mark nothing.
func TestMarksNeverContradictIntervals(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		seeds, policies := rapid.IntRange(1, 14).Draw(t, "seeds"), rapid.IntRange(1, 4).Draw(t, "policies")
		value := rapid.OneOf(rapid.Map(rapid.IntRange(-3, 3), func(i int) float64 { return float64(i) }), rapid.Float64Range(-1, 1))
		var list []Difference
		var all []*Difference
		for range policies {
			shift := rapid.Float64Range(-1, 1).Draw(t, "shift")
			ours, theirs := rapid.SliceOfN(value, seeds, seeds).Draw(t, "ours"), make([]float64, seeds)
			for i := range ours {
				ours[i] += shift
			}
			list = append(list, paired(ours, theirs))
		}
		for i := range list {
			all = append(all, &list[i])
		}
		together(all...)
		for _, d := range list {
			apart, likely := d.Low > 0 || d.High < 0, d.Adjusted < level
			var want Mark
			switch {
			case seeds < MinSeeds(policies):
				want = Unmarked
			case apart && likely && d.Mean < 0:
				want = Lower
			case apart && likely:
				want = Higher
			case apart || likely:
				want = Unclear
			default:
				want = None
			}
			if d.Mark != want {
				t.Fatalf("%+v is marked %q, want %q", d, d.Mark, want)
			}
			if likely && seeds < MinSeeds(policies) {
				t.Fatalf("%+v: p %v on %d seeds, where no p can be so low", d, d.Adjusted, seeds)
			}
		}
	})
}

func TestMinSeeds(t *testing.T) {
	for comparisons, want := range map[int]int{0: 6, 1: 6, 2: 7, 3: 7, 4: 8, 13: 10, 28: 11} {
		if got := MinSeeds(comparisons); got != want {
			t.Errorf("%d comparisons: %d seeds, want %d", comparisons, got, want)
		}
	}
}

// The rule names the actual and the required number of seeds.
func TestRule(t *testing.T) {
	for _, c := range []struct {
		samples, comparisons int
		want                 string
	}{
		{5, 1, "Nothing is marked: a mark takes at least 6 seeds; you have 5."},
		{5, 13, "Nothing is marked: a mark takes at least 6 seeds; you have 5. Marks among 13 comparisons take 10."},
		{7, 13, "Nothing is marked: marks among 13 comparisons take at least 10 seeds; you have 7."},
		{10, 13, "Better and worse mark a difference whose 95% interval excludes 0 and whose p is below 0.05 (Wilcoxon's signed-rank test, " +
			"adjusted by Holm for 13 comparisons); unclear marks one with only one of the two."},
	} {
		if got := strings.ReplaceAll(Words.Rule(c.samples, c.comparisons), "\n", " "); got != c.want {
			t.Errorf("%d seeds, %d comparisons: %q, want %q", c.samples, c.comparisons, got, c.want)
		}
	}
}
