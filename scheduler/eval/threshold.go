package eval

import (
	"encoding"
	"fmt"
	"math"
	"path"
	"slices"
	"strconv"
	"strings"
)

// Threshold is a condition on the means that a comparison has to meet, such as
//
//	gnn.cpuStd <= 0.75*kube-scheduler.cpuStd
//	hetero*: gnn.unscheduled < kube-scheduler.unscheduled + 0.5
//
// Each side is a sum of numbers and of policy.metric, the latter perhaps times a number in
// front of it; between them stands <, <=, > or >=. With a name or a pattern of names and a
// colon before it, it holds for these scenarios alone.
type Threshold struct {
	scenarios   string // pattern of path.Match; empty: all
	left, right []term
	operator    string
}

// term is a number, or the mean of a policy's metric times a number.
type term struct {
	factor         float64
	policy, metric string // empty for a number
}

var (
	_ encoding.TextMarshaler   = Threshold{}
	_ encoding.TextUnmarshaler = &Threshold{}
)

// ParseThreshold reads a threshold. The error says which part is wrong.
func ParseThreshold(text string) (Threshold, error) {
	t, err := parseThreshold(text)
	if err != nil {
		return Threshold{}, fmt.Errorf("threshold %q: %w", text, err)
	}
	return t, nil
}

func parseThreshold(text string) (t Threshold, err error) {
	rest := text
	if before, after, given := strings.Cut(text, ":"); given {
		if t.scenarios, rest = strings.TrimSpace(before), after; t.scenarios == "" {
			return t, fmt.Errorf("no scenario stands before the colon")
		}
		if _, err := path.Match(t.scenarios, ""); err != nil {
			return t, fmt.Errorf("%q is no pattern of scenarios", t.scenarios)
		}
	}
	at := strings.IndexAny(rest, "<>")
	if at < 0 {
		return t, fmt.Errorf("it compares nothing; write <, <=, > or >= between two sides")
	}
	t.operator = rest[at : at+1]
	right := rest[at+1:]
	if strings.HasPrefix(right, "=") {
		t.operator, right = t.operator+"=", right[1:]
	}
	if t.left, err = parseSum(rest[:at]); err != nil {
		return t, err
	}
	t.right, err = parseSum(right)
	return t, err
}

func parseSum(text string) ([]term, error) {
	var sum []term
	for _, part := range strings.Split(text, "+") {
		x, err := parseTerm(strings.TrimSpace(part))
		if err != nil {
			return nil, err
		}
		sum = append(sum, x)
	}
	return sum, nil
}

func parseTerm(text string) (term, error) {
	if v, ok := number(text); ok {
		return term{factor: v}, nil
	}
	x := term{factor: 1}
	name := text
	if before, after, times := strings.Cut(text, "*"); times {
		v, ok := number(strings.TrimSpace(before))
		if !ok {
			return x, fmt.Errorf("%q is not a number before a *", before)
		}
		x.factor, name = v, strings.TrimSpace(after)
	}
	dot := strings.LastIndex(name, ".")
	if dot <= 0 || strings.ContainsAny(name, "<>=*: \t\r\n") {
		return x, fmt.Errorf("%q is neither a number nor policy.metric", text)
	}
	x.policy, x.metric = name[:dot], name[dot+1:]
	if _, known := FindMetric(x.metric); !known {
		return x, fmt.Errorf("no metric is called %q; there are %s", x.metric, metricNames())
	}
	return x, nil
}

// number reads a finite number in decimal notation.
func number(text string) (float64, bool) {
	if strings.Trim(text, "0123456789.eE-") != "" {
		return 0, false
	}
	v, err := strconv.ParseFloat(text, 64)
	return v, err == nil && !math.IsInf(v, 0)
}

// String is the threshold as ParseThreshold reads it.
func (t Threshold) String() string {
	text := sumString(t.left) + " " + t.operator + " " + sumString(t.right)
	if t.scenarios != "" {
		text = t.scenarios + ": " + text
	}
	return text
}

func sumString(sum []term) string {
	parts := make([]string, len(sum))
	for i, x := range sum {
		// Without an exponent's sign +, which would divide it.
		value := strings.Replace(strconv.FormatFloat(x.factor, 'g', -1, 64), "e+", "e", 1)
		switch {
		case x.policy == "":
			parts[i] = value
		case x.factor == 1:
			parts[i] = x.policy + "." + x.metric
		default:
			parts[i] = value + "*" + x.policy + "." + x.metric
		}
	}
	return strings.Join(parts, " + ")
}

// MarshalText implements encoding.TextMarshaler.
func (t Threshold) MarshalText() ([]byte, error) { return []byte(t.String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler.
func (t *Threshold) UnmarshalText(b []byte) (err error) {
	*t, err = ParseThreshold(string(b))
	return err
}

// Concerns tells whether the threshold holds for a scenario of that name.
func (t Threshold) Concerns(scenario string) bool {
	matches, _ := path.Match(t.scenarios, scenario) // the pattern was checked
	return t.scenarios == "" || matches
}

// Needs checks that every policy that the threshold names takes part.
func (t Threshold) Needs(policies []string) error {
	for _, x := range slices.Concat(t.left, t.right) {
		if x.policy != "" && !slices.Contains(policies, x.policy) {
			return fmt.Errorf("threshold %q: policy %q does not take part; those that do are %s", t, x.policy, strings.Join(policies, ", "))
		}
	}
	return nil
}

// FindMetric returns the metric of a name.
func FindMetric(name string) (Metric, bool) {
	for _, m := range Metrics {
		if m.Name == name {
			return m, true
		}
	}
	return Metric{}, false
}

func metricNames() string {
	names := make([]string, len(Metrics))
	for i, m := range Metrics {
		names[i] = m.Name
	}
	return strings.Join(names, ", ")
}
