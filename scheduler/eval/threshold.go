package eval

import (
	"encoding"
	"fmt"
	"math"
	"path"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"gonum.org/v1/gonum/stat"

	"gnnsched/internal/choice"
)

// Threshold is a condition on the means that a comparison has to meet, such as
//
//	gnn.cpuStd <= 0.75*kube-scheduler.cpuStd
//	hetero*: gnn.unscheduled < kube-scheduler.unscheduled + 0.5
//	"greedy:pack=0.5+zones".zoneStd > 0.01
//
// Each side is a sum of numbers and of terms policy.metric, which may have a factor in front of
// them; between the sides stands <, <=, > or >=. A name or pattern of scenarios with a colon in
// front restricts the threshold to these scenarios. A policy's name that contains one of the
// characters <>=*+: or a space must stand in double quotes.
type Threshold struct {
	scenarios   string // pattern of path.Match; empty: every scenario
	left, right []term
	operator    string
}

// term is a number, or a number times the mean of a policy's metric.
type term struct {
	factor         float64
	policy, metric string // empty if the term is a number
}

var (
	_ encoding.TextMarshaler   = Threshold{}
	_ encoding.TextUnmarshaler = &Threshold{}
)

// ParseThreshold parses a threshold. The error names the wrong part.
func ParseThreshold(text string) (Threshold, error) {
	t, err := parseThreshold(text)
	if err != nil {
		return Threshold{}, fmt.Errorf("threshold %q: %w", text, err)
	}
	return t, nil
}

func parseThreshold(text string) (t Threshold, err error) {
	if strings.Count(text, quote)%2 != 0 {
		return t, fmt.Errorf("a double quote is not closed")
	}
	rest := text
	at := unquoted(text, "<>")
	if colon := unquoted(text, ":"); colon >= 0 && (at < 0 || colon < at) {
		if t.scenarios, rest = strings.TrimSpace(text[:colon]), text[colon+1:]; t.scenarios == "" {
			return t, fmt.Errorf("the colon has no scenario before it")
		}
		if _, err := path.Match(t.scenarios, ""); err != nil {
			return t, fmt.Errorf("%q is not a pattern of scenarios", t.scenarios)
		}
		at = unquoted(rest, "<>")
	}
	if at < 0 {
		return t, fmt.Errorf("write <, <=, > or >= between two sides")
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

const quote = `"`

// unquoted returns the index of the first of the characters outside double quotes, or -1.
func unquoted(text, chars string) int {
	quoted := false
	for i, r := range text {
		if string(r) == quote {
			quoted = !quoted
		} else if !quoted && strings.ContainsRune(chars, r) {
			return i
		}
	}
	return -1
}

func parseSum(text string) ([]term, error) {
	var sum []term
	for {
		plus := unquoted(text, "+")
		part := text
		if plus >= 0 {
			part = text[:plus]
		}
		x, err := parseTerm(strings.TrimSpace(part))
		if err != nil {
			return nil, err
		}
		if sum = append(sum, x); plus < 0 {
			return sum, nil
		}
		text = text[plus+1:]
	}
}

func parseTerm(text string) (term, error) {
	if v, ok := number(text); ok {
		return term{factor: v}, nil
	}
	x := term{factor: 1}
	name := text
	if times := unquoted(text, "*"); times >= 0 {
		v, ok := number(strings.TrimSpace(text[:times]))
		if !ok {
			return x, fmt.Errorf("%q is not a number before a *", text[:times])
		}
		x.factor, name = v, strings.TrimSpace(text[times+1:])
	}
	dot := strings.LastIndex(name, ".")
	if dot <= 0 {
		return x, notTerm(text)
	}
	var known bool
	x.metric = name[dot+1:]
	if x.policy, known = policyName(name[:dot]); !known || !isBare(x.metric) {
		return x, notTerm(text)
	}
	_, err := FindMetric(x.metric)
	return x, err
}

func notTerm(text string) error {
	if strings.ContainsAny(text, ":=") {
		return fmt.Errorf(`%q is neither a number nor policy.metric; a policy's name with a colon in it stands in double quotes, as in "greedy:pack".cost`, text)
	}
	return fmt.Errorf("%q is neither a number nor policy.metric", text)
}

// policyName returns a policy's name without its quotes, if any, and whether it is valid.
func policyName(text string) (string, bool) {
	inner, opened := strings.CutPrefix(text, quote)
	if !opened {
		return text, isBare(text)
	}
	inner, closed := strings.CutSuffix(inner, quote)
	return inner, closed && inner != "" && !strings.Contains(inner, quote)
}

// isBare tells whether a policy's name can stand without quotes.
func isBare(name string) bool {
	return !strings.ContainsAny(name, "<>=*+:"+quote) && !strings.ContainsFunc(name, unicode.IsSpace)
}

// number parses a finite number in decimal notation.
func number(text string) (float64, bool) {
	if strings.Trim(text, "0123456789.eE-") != "" {
		return 0, false
	}
	v, err := strconv.ParseFloat(text, 64)
	return v, err == nil && !math.IsInf(v, 0)
}

// String returns the threshold in the form that ParseThreshold reads.
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
		name := x.policy
		if !isBare(name) {
			name = quote + name + quote
		}
		// Drop the + of an exponent: it would end the term.
		value := strings.Replace(strconv.FormatFloat(x.factor, 'g', -1, 64), "e+", "e", 1)
		switch {
		case x.policy == "":
			parts[i] = value
		case x.factor == 1:
			parts[i] = name + "." + x.metric
		default:
			parts[i] = value + "*" + name + "." + x.metric
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

// concerns tells whether the threshold applies to the scenario with a name.
func (t Threshold) concerns(scenario string) bool {
	matches, _ := path.Match(t.scenarios, scenario) // the pattern was checked
	return t.scenarios == "" || matches
}

// needs returns an error unless every policy in the threshold is one of policies.
func (t Threshold) needs(policies []string) error {
	for _, x := range slices.Concat(t.left, t.right) {
		if x.policy != "" && !slices.Contains(policies, x.policy) {
			return fmt.Errorf("threshold %q: policy %q does not take part; those that do are %s", t, x.policy, strings.Join(policies, ", "))
		}
	}
	return nil
}

// Verdict is a threshold with the values of its two sides and whether it holds.
type Verdict struct {
	Threshold Threshold `json:"threshold"`
	Left      float64   `json:"left"`
	Right     float64   `json:"right"`
	Pass      bool      `json:"pass"`
	// P is the p of Wilcoxon's signed-rank test between the two sides, adjusted by Holm for the thresholds
	// judged together; nil with one sample. It does not decide: a threshold compares means.
	P *float64 `json:"p,omitempty"`
}

// String returns the verdict as a line for people.
func (v Verdict) String() string {
	word := "PASS"
	if !v.Pass {
		word = "FAIL"
	}
	chance := ""
	if v.P != nil {
		chance = ", p " + Significance(*v.P)
	}
	return fmt.Sprintf("%s %s (%.4g and %.4g%s)", word, v.Threshold, v.Left, v.Right, chance)
}

// Judge sets the verdicts on the given thresholds that concern the scenario, and on the scenario's
// own. It returns an error if a threshold names a policy that is not in the comparison.
func (c *Comparison) Judge(thresholds []Threshold) error {
	c.Verdicts = nil
	policies := choice.Names(c.Results, func(r Result) string { return r.Name })
	var ps []float64
	for _, t := range c.Scenario.judged(thresholds) {
		if err := t.needs(policies); err != nil {
			return err
		}
		left, right := c.sums(t.left), c.sums(t.right)
		v := Verdict{Threshold: t, Left: stat.Mean(left, nil), Right: stat.Mean(right, nil)}
		ps = append(ps, Wilcoxon(grains(left, right)))
		switch t.operator {
		case "<":
			v.Pass = v.Left < v.Right
		case "<=":
			v.Pass = v.Left <= v.Right
		case ">":
			v.Pass = v.Left > v.Right
		case ">=":
			v.Pass = v.Left >= v.Right
		}
		c.Verdicts = append(c.Verdicts, v)
	}
	if c.Samples() > 1 {
		for i, p := range holm(ps) {
			c.Verdicts[i].P = &p
		}
	}
	return nil
}

// sums returns the sum of the terms on each seed.
func (c *Comparison) sums(terms []term) []float64 {
	out := make([]float64, len(c.Seeds))
	for _, x := range terms {
		values := slices.Repeat([]float64{1}, len(out))
		for _, r := range c.Results {
			if x.policy != "" && r.Name == x.policy {
				values = r.Values(metric(x.metric))
			}
		}
		for i, v := range values {
			out[i] += x.factor * v
		}
	}
	return out
}
