package cluster

import (
	"slices"
	"strconv"
)

// Requirement is what a node's labels must be, as in a pod's node affinity. Operator is In, NotIn, Exists, DoesNotExist, Gt or Lt; no node
// meets another one.
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

// meetsOne reports whether the node's labels meet all requirements of one of the terms. Without terms they do. As in Kubernetes, a term
// without requirements is not met.
func (n *Node) meetsOne(terms [][]Requirement) bool {
	return len(terms) == 0 || slices.ContainsFunc(terms, func(all []Requirement) bool {
		return len(all) > 0 && !slices.ContainsFunc(all, func(r Requirement) bool { return !r.met(n.Labels) })
	})
}
