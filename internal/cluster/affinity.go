package cluster

import (
	"maps"
	"slices"
	"strconv"
	"strings"
)

// Requirement is a condition on a node's labels, as in a pod's node affinity. Operator is In, NotIn, Exists, DoesNotExist, Gt or Lt. With
// any other operator no node meets the condition.
type Requirement struct {
	Key, Operator string
	Values        []string
}

// met reports whether labels meet the requirement. As in Kubernetes, NotIn is met without the label, and Gt and Lt need whole numbers.
func (r Requirement) met(labels map[string]string) bool {
	v, has := labels[r.Key]
	switch r.Operator {
	case "In":
		return has && slices.Contains(r.Values, v)
	case "NotIn":
		return !has || !slices.Contains(r.Values, v)
	case "Exists":
		return has
	case "DoesNotExist":
		return !has
	case "Gt", "Lt":
		if !has || len(r.Values) != 1 {
			return false
		}
		a, err := strconv.ParseInt(v, 10, 64)
		b, err2 := strconv.ParseInt(r.Values[0], 10, 64)
		return err == nil && err2 == nil && (r.Operator == "Gt" && a > b || r.Operator == "Lt" && a < b)
	}
	return false
}

// mostTerms is the largest number of terms that BothTerms makes of two lists: whoever writes manifests could ask for any number.
const mostTerms = 1024

// BothTerms returns terms that are met where one of each of two lists is met. An empty list is met everywhere. If they would be too many,
// it returns the first list.
func BothTerms(a, b [][]Requirement) (both [][]Requirement) {
	switch {
	case len(a) == 0 || len(b) == 0:
		return append(a, b...)
	case len(a)*len(b) > mostTerms:
		return a
	}
	for _, x := range a {
		for _, y := range b {
			if len(x) > 0 && len(y) > 0 { // a term without requirements is not met
				both = append(both, slices.Concat(x, y))
			}
		}
	}
	if both == nil {
		both = [][]Requirement{{}}
	}
	return both
}

// text writes the requirement as kubectl's selectors do.
func (r Requirement) text() string {
	switch r.Operator {
	case "Exists":
		return r.Key
	case "DoesNotExist":
		return "!" + r.Key
	case "Gt":
		return r.Key + ">" + strings.Join(r.Values, ",")
	case "Lt":
		return r.Key + "<" + strings.Join(r.Values, ",")
	case "In":
		if len(r.Values) == 1 {
			return r.Key + "=" + r.Values[0]
		}
	}
	return r.Key + " " + strings.ToLower(r.Operator) + " (" + strings.Join(r.Values, ",") + ")"
}

// Where writes which labels a node must have to run the pod, such as "disk=ssd, zone in (a,b)"; empty if it needs none.
func (p *Pod) Where() string {
	var all []string
	for _, k := range slices.Sorted(maps.Keys(p.NodeSelector)) {
		all = append(all, k+"="+p.NodeSelector[k])
	}
	var terms []string
	for _, term := range p.NodeAffinity {
		var requirements []string
		for _, r := range term {
			requirements = append(requirements, r.text())
		}
		terms = append(terms, strings.Join(requirements, ", "))
	}
	if len(terms) > 0 {
		all = append(all, strings.Join(terms, " or "))
	}
	text := strings.Join(all, ", ")
	if len(text) > longestWhere {
		text = text[:longestWhere] + "…"
	}
	return text
}

// longestWhere is the length at which Where cuts its text.
const longestWhere = 120

// meetsOne reports whether the node's labels meet all requirements of one of the terms. Without terms they do. As in Kubernetes, a term
// without requirements is not met.
func (n *Node) meetsOne(terms [][]Requirement) bool {
	return len(terms) == 0 || slices.ContainsFunc(terms, func(all []Requirement) bool {
		return len(all) > 0 && !slices.ContainsFunc(all, func(r Requirement) bool { return !r.met(n.Labels) })
	})
}
