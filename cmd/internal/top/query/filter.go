package query

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"

	"gnnsched/cmd/internal/top/state"
)

// Filter is a parsed filter expression. The zero value matches everything.
type Filter struct {
	words       []word
	comparisons []comparison
}

type word struct {
	text string // lower case
	not  bool
}

type comparison struct {
	field string // cpu, memory, gpu or pods
	op    string
	value float64 // a fraction if share, else in the field's unit
	share bool
	not   bool
}

// operators, the longer ones first so that ">=" is not read as ">".
var operators = []string{">=", "<=", ">", "<", "="}

// ParseFilter parses an expression, as the package comment describes it. The empty expression
// matches everything.
func ParseFilter(s string) (Filter, error) {
	var f Filter
	for _, term := range strings.Fields(strings.ToLower(s)) {
		body, not := strings.CutPrefix(term, "!")
		if body == "" {
			return Filter{}, fmt.Errorf("%q needs a word after the !", term)
		}
		c, ok, err := parseComparison(body)
		switch {
		case err != nil:
			return Filter{}, err
		case ok:
			c.not = not
			f.comparisons = append(f.comparisons, c)
		default:
			f.words = append(f.words, word{body, not})
		}
	}
	return f, nil
}

// parseComparison parses a field, an operator and a number. It returns false for a term that
// does not start with a field and an operator: that is a word.
func parseComparison(term string) (comparison, bool, error) {
	at := strings.IndexAny(term, "<>=")
	if at < 0 {
		return comparison{}, false, nil
	}
	var c comparison
	switch term[:at] {
	case "cpu", "gpu", "pods":
		c.field = term[:at]
	case "mem", "memory":
		c.field = "memory"
	default:
		return comparison{}, false, nil
	}
	rest := term[at:]
	for _, op := range operators {
		if number, ok := strings.CutPrefix(rest, op); ok {
			c.op, rest = op, number
			break
		}
	}
	var err error
	if number, ok := strings.CutSuffix(rest, "%"); ok {
		c.share = true
		c.value, err = strconv.ParseFloat(number, 64)
		c.value /= 100
	} else {
		c.value, err = amount(c.field, rest)
	}
	if err != nil || c.value != c.value {
		return comparison{}, false, fmt.Errorf("%q is no amount of %s: write a quantity such as 2, 500m or 16Gi, or a share such as 80%%",
			rest, c.field)
	}
	return c, true, nil
}

// amount parses a quantity and converts it into the unit of the field: millicores, bytes,
// thousandths of a device or pods. It restores the capital letter of units, since terms are lower case.
func amount(field, s string) (float64, error) {
	if n := len(s); n > 2 && s[n-1] == 'i' {
		s = s[:n-2] + strings.ToUpper(s[n-2:n-1]) + "i"
	} else if n > 1 && strings.ContainsRune("gtpe", rune(s[n-1])) {
		s = s[:n-1] + strings.ToUpper(s[n-1:])
	}
	q, err := resource.ParseQuantity(s)
	if err != nil {
		return 0, err
	}
	if field == "cpu" || field == "gpu" {
		return q.AsApproximateFloat64() * 1000, nil
	}
	return q.AsApproximateFloat64(), nil
}

// Empty tells whether the filter matches everything.
func (f Filter) Empty() bool { return len(f.words) == 0 && len(f.comparisons) == 0 }

// Row is a row of a list, as a filter sees it.
type Row struct {
	Texts   []string // searched for the words
	Amounts *Amounts // nil if the row has none
}

// Amounts are the numbers that comparisons read.
type Amounts struct{ CPU, Memory, GPU, Pods state.Usage }

// Requested returns amounts of which nothing is allocatable.
func Requested(cpu, memory, gpu, pods int64) *Amounts {
	return &Amounts{state.Usage{Requested: cpu}, state.Usage{Requested: memory}, state.Usage{Requested: gpu}, state.Usage{Requested: pods}}
}

func (a *Amounts) of(field string) state.Usage {
	switch field {
	case "cpu":
		return a.CPU
	case "memory":
		return a.Memory
	case "gpu":
		return a.GPU
	}
	return a.Pods
}

// Select returns the rows of a list that pass the filter, in the same order. row describes one.
func Select[T any](f Filter, list []T, row func(*T) Row) []T {
	if f.Empty() {
		return slices.Clone(list)
	}
	out := make([]T, 0, len(list))
	for i := range list {
		if f.match(row(&list[i])) {
			out = append(out, list[i])
		}
	}
	return out
}

// match tells whether a row passes the filter. No comparison is true of a row without usage.
func (f Filter) match(r Row) bool {
	for _, c := range f.comparisons {
		if (r.Amounts != nil && c.holds(r.Amounts.of(c.field))) == c.not {
			return false
		}
	}
	return f.matchText(r.Texts)
}

func (f Filter) matchText(texts []string) bool {
	for i, t := range texts {
		texts[i] = strings.ToLower(t)
	}
	for _, w := range f.words {
		found := false
		for _, t := range texts {
			if strings.Contains(t, w.text) {
				found = true
				break
			}
		}
		if found == w.not {
			return false
		}
	}
	return true
}

// holds tells whether the comparison is true of a usage.
func (c comparison) holds(u state.Usage) bool {
	have := float64(u.Requested)
	if c.share {
		have = u.Fraction()
	}
	switch c.op {
	case ">=":
		return have >= c.value
	case "<=":
		return have <= c.value
	case ">":
		return have > c.value
	case "<":
		return have < c.value
	}
	return have == c.value
}
