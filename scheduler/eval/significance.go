package eval

import (
	"fmt"
	"math"
)

// level is the adjusted p below which a difference can be marked.
const level = 0.05

// Mark is the judgement of a difference. All reports follow the same rule, which Words.Rule explains beside their tables.
type Mark int

// The marks. Lower and Higher require both an interval that excludes 0 and an adjusted p below level. None has neither, and Unclear only
// one of the two. So no mark contradicts the interval in its row.
const (
	Unmarked Mark = iota // too few seeds for any mark; see MinSeeds
	None
	Unclear
	Lower
	Higher
)

// String returns the mark as a word for metrics where less is better; empty for Unmarked.
func (m Mark) String() string { return [...]string{"", "no", "unclear", "better", "worse"}[m] }

// MinSeeds returns the number of seeds at which one of several comparisons can first be marked. The smallest p of the signed-rank test on n
// seeds is 2/2ⁿ, and Holm's correction multiplies it by the number of comparisons.
func MinSeeds(comparisons int) (n int) {
	for n = 1; float64(max(comparisons, 1))*math.Exp2(float64(1-n)) >= level; n++ {
	}
	return n
}

// together adjusts the p of differences for their number, by Holm, and marks them.
func together(all ...*Difference) {
	p := make([]float64, len(all))
	for i, d := range all {
		p[i] = d.P
	}
	least := MinSeeds(len(all))
	for i, adjusted := range holm(p) {
		d := all[i]
		d.Adjusted = adjusted
		likely, apart := adjusted < level, d.Beyond(0) != None
		switch {
		case d.Samples < least:
			d.Mark = Unmarked
		case likely != apart:
			d.Mark = Unclear
		case !likely:
			d.Mark = None
		case d.High < 0:
			d.Mark = Lower
		default:
			d.Mark = Higher
		}
	}
}

// Beyond marks an interval that has no p, such as one of stretches of time: Lower or Higher if it lies beyond a distance from 0,
// Unclear if it excludes 0 only, and else None.
func (i Interval) Beyond(distance float64) Mark {
	switch {
	case i.High < -distance:
		return Lower
	case i.Low > distance:
		return Higher
	case i.High < 0 || i.Low > 0:
		return Unclear
	}
	return None
}

// style holds a table's words for marks.
type style struct{ marked, unclear string }

// The styles: a column of words, or signs behind the p of Difference.Chance.
var (
	Words = style{"Better and worse mark", "unclear marks"}
	signs = style{"A * marks", "a ? marks"}
)

// Rule returns the sentences beside a table that explain how its differences are marked, or why none is.
func (s style) Rule(samples, comparisons int) string {
	all, fewest, least := count(comparisons, "comparison"), MinSeeds(1), MinSeeds(comparisons)
	switch {
	case samples >= least:
		return fmt.Sprintf("%s a difference whose 95%% interval excludes 0 and whose p is below %v (Wilcoxon's signed-rank test,\nadjusted by "+
			"Holm for %s); %s one with only one of the two.", s.marked, level, all, s.unclear)
	case samples >= fewest:
		return fmt.Sprintf("Nothing is marked: marks among %s take at least %d seeds; you have %d.", all, least, samples)
	case least == fewest:
		return fmt.Sprintf("Nothing is marked: a mark takes at least %d seeds; you have %d.", least, samples)
	}
	return fmt.Sprintf("Nothing is marked: a mark takes at least %d seeds; you have %d. Marks among %s take %d.", fewest, samples, all, least)
}

// Sign returns the sign of a mark in a table without a column for it, behind a space.
func (m Mark) Sign() string { return [...]string{"", "", " ?", " *", " *"}[m] }

// Chance returns the adjusted p for a table, with the sign of its mark; empty without a difference, or with too few seeds for any mark.
func (d *Difference) Chance() string {
	if d == nil || d.Mark == Unmarked {
		return ""
	}
	return Significance(d.Adjusted) + d.Mark.Sign()
}

// Cell returns the difference with its interval in parentheses, unless it is of one sample, and the sign of its mark. It is empty without a
// difference.
func (d *Difference) Cell(digits int) string {
	switch {
	case d == nil:
		return ""
	case d.Samples < 2:
		return fmt.Sprintf("%+.*f", digits, d.Mean)
	}
	return d.Text(digits) + d.Mark.Sign()
}

// Text returns the mean with the interval in parentheses.
func (i Interval) Text(digits int) string {
	return fmt.Sprintf("%+.*f (%+.*f to %+.*f)", digits, i.Mean, digits, i.Low, digits, i.High)
}

// Significance formats a p for a table. A p below the rounding error of the normal approximation is
// shown as less than 1e-09.
func Significance(p float64) string {
	const least = 1e-9
	if p < least {
		return fmt.Sprintf("<%.0e", least)
	}
	return fmt.Sprintf("%.3g", p)
}
