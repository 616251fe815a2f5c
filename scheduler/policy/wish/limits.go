package wish

import (
	"fmt"
	"strconv"
	"strings"

	"gnnsched/gnn/feature"
	"gnnsched/internal/choice"
)

// Limits are the shares that somebody else may ask for: the least and the most of each term. A term that they do not
// name must have the share 0.
type Limits [len(feature.WishTerms)]struct{ least, most float32 }

// ParseLimits reads limits such as "balance=0.5:1,energy=0:0.5". They must leave at least one objective.
func ParseLimits(text string) (l Limits, err error) {
	var least, most float32
	seen := map[int]bool{}
	for _, part := range strings.Split(text, ",") {
		name, span, _ := strings.Cut(strings.TrimSpace(part), "=")
		low, high, given := strings.Cut(span, ":")
		i := indexOf(name)
		if i < 0 || seen[i] {
			return l, fmt.Errorf("limits %q: %q is no term that networks can read, or named twice%s", text, name, choice.Among(name, Terms()))
		}
		seen[i] = true
		a, errLow := strconv.ParseFloat(low, 32)
		b, errHigh := strconv.ParseFloat(high, 32)
		if !given || errLow != nil || errHigh != nil || !(0 <= a && a <= b && b <= 1) {
			return l, fmt.Errorf("limits %q: %q is no range of shares such as 0:0.5", text, span)
		}
		l[i].least, l[i].most = float32(a), float32(b)
		least, most = least+l[i].least, most+l[i].most
	}
	if least > 1+slack || most < 1-slack {
		return l, fmt.Errorf("limits %q: no objective has such shares, which add up to 1", text)
	}
	return l, nil
}

// Check returns an error for the first share outside of the limits.
func (l Limits) Check(w feature.Wishes) error {
	for i, share := range w {
		if !(share >= l[i].least-slack && share <= l[i].most+slack) {
			return fmt.Errorf("the share of %s is %.3g, and the operator allows %g to %g", feature.WishTerms[i].Name, share, l[i].least, l[i].most)
		}
	}
	return nil
}
