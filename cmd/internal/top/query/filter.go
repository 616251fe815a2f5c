package query

import (
	"fmt"
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
		return comparison{}, false, fmt.Errorf("%q is no amount of %s: write a quantity such as 2, 500m or 16Gi, or a share such as 80%%", rest, c.field)
	}
	return c, true, nil
}

// amount parses a quantity and converts it into the unit of the field: millicores, bytes,
// devices or pods. It restores the capital letter of units, since terms are lower case.
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
	if field == "cpu" {
		return q.AsApproximateFloat64() * 1000, nil
	}
	return q.AsApproximateFloat64(), nil
}

// Empty tells whether the filter matches everything.
func (f Filter) Empty() bool { return len(f.words) == 0 && len(f.comparisons) == 0 }

// Match tells whether a node passes the filter.
func (f Filter) Match(n *state.Node) bool {
	if f.Empty() {
		return true
	}
	for _, c := range f.comparisons {
		if c.holds(n) == c.not {
			return false
		}
	}
	return f.matchText(n.Name, n.Status, n.Role(), n.Zone, n.Version)
}

// matchPending tells whether a pending pod passes the filter. Words are looked up in its
// namespace, name, scheduler, reason and message. No comparison is true of a pending pod.
func (f Filter) matchPending(p *state.PendingPod) bool {
	for _, c := range f.comparisons {
		if !c.not {
			return false
		}
	}
	return f.matchText(p.Namespace+"/"+p.Name, p.Scheduler, p.Reason, p.Message)
}

// Nodes returns the nodes that pass, in the same order.
func (f Filter) Nodes(nodes []state.Node) []state.Node {
	out := make([]state.Node, 0, len(nodes))
	for i := range nodes {
		if f.Match(&nodes[i]) {
			out = append(out, nodes[i])
		}
	}
	return out
}

// Pending returns the pending pods that pass, in the same order.
func (f Filter) Pending(pods []state.PendingPod) []state.PendingPod {
	out := make([]state.PendingPod, 0, len(pods))
	for i := range pods {
		if f.matchPending(&pods[i]) {
			out = append(out, pods[i])
		}
	}
	return out
}

func (f Filter) matchText(texts ...string) bool {
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

func (c comparison) holds(n *state.Node) bool {
	var u state.Usage
	switch c.field {
	case "cpu":
		u = n.CPU
	case "memory":
		u = n.Memory
	case "gpu":
		u = n.GPU
	case "pods":
		u = n.Pods
	}
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
