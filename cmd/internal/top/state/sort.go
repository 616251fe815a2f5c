package state

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"gnnsched/internal/choice"
)

// Column is a column of the node list, to sort by.
type Column string

// The columns, in the order in which the view shows them.
const (
	ByName    Column = "name"
	ByStatus  Column = "status"
	ByRole    Column = "role"
	ByAge     Column = "age"
	ByVersion Column = "version"
	ByPods    Column = "pods"
	ByCPU     Column = "cpu"
	ByMemory  Column = "memory"
	ByGPU     Column = "gpu"
)

// Columns lists every column.
func Columns() []Column {
	return []Column{ByName, ByStatus, ByRole, ByAge, ByVersion, ByPods, ByCPU, ByMemory, ByGPU}
}

// Sort is an order of nodes. The zero value sorts by name, ascending.
type Sort struct {
	Column Column
	Desc   bool
}

// By returns the usual order for a column: usage descending, so that the fullest node comes
// first, and everything else ascending.
func By(c Column) Sort {
	return Sort{Column: c, Desc: c == ByPods || c == ByCPU || c == ByMemory || c == ByGPU}
}

// ParseSort parses "column", "column:asc" or "column:desc". The empty text means by name.
func ParseSort(s string) (Sort, error) {
	name, dir, directed := strings.Cut(strings.ToLower(strings.TrimSpace(s)), ":")
	switch name {
	case "":
		if directed {
			return Sort{}, fmt.Errorf("sort %q names no column", s)
		}
		name = string(ByName)
	case "mem":
		name = string(ByMemory)
	case "roles":
		name = string(ByRole)
	}
	if !slices.Contains(Columns(), Column(name)) {
		return Sort{}, choice.Unknown("column", name, columnList())
	}
	out := By(Column(name))
	switch {
	case dir == "asc":
		out.Desc = false
	case dir == "desc":
		out.Desc = true
	case directed:
		return Sort{}, fmt.Errorf("sort direction %q is not asc or desc", dir)
	}
	return out, nil
}

// Apply sorts nodes in place. Nodes that are equal in the column are sorted by name, in
// natural order and ascending, so that rows keep their places from one redraw to the next.
func (s Sort) Apply(nodes []Node) {
	col := s.column()
	slices.SortFunc(nodes, func(a, b Node) int {
		c := compare(col, &a, &b)
		if s.Desc {
			c = -c
		}
		if c == 0 && col != ByName {
			c = CompareNatural(a.Name, b.Name)
		}
		return c
	})
}

func (s Sort) column() Column { return cmp.Or(s.Column, ByName) }

func compare(col Column, a, b *Node) int {
	switch col {
	case ByStatus: // trouble first
		return cmp.Or(cmp.Compare(health(a), health(b)), cmp.Compare(a.Status, b.Status))
	case ByRole:
		return slices.Compare(a.Roles, b.Roles)
	case ByAge: // the youngest first
		return b.Created.Compare(a.Created)
	case ByVersion:
		return CompareNatural(a.Version, b.Version)
	case ByPods:
		return cmp.Compare(a.Pods.Requested, b.Pods.Requested)
	case ByCPU:
		return cmp.Compare(a.CPU.Fraction(), b.CPU.Fraction())
	case ByMemory:
		return cmp.Compare(a.Memory.Fraction(), b.Memory.Fraction())
	case ByGPU:
		return cmp.Compare(a.GPU.Fraction(), b.GPU.Fraction())
	}
	return CompareNatural(a.Name, b.Name)
}

func health(n *Node) int {
	switch {
	case !n.Ready:
		return 0
	case n.Cordoned:
		return 1
	}
	return 2
}

func columnList() []string { return choice.Names(Columns(), choice.Text) }

// Select returns the rows of a list that contain a text, in upper or lower case, in the same order. texts returns what a row
// says. The empty text selects all rows.
func Select[T any](list []T, text string, texts func(*T) []string) []T {
	text = strings.ToLower(strings.TrimSpace(text))
	if text == "" {
		return slices.Clone(list)
	}
	out := make([]T, 0, len(list))
	for i := range list {
		if slices.ContainsFunc(texts(&list[i]), func(t string) bool { return strings.Contains(strings.ToLower(t), text) }) {
			out = append(out, list[i])
		}
	}
	return out
}

// Texts returns what the filter searches of a node.
func (n *Node) Texts() []string {
	return []string{n.Name, n.Status, n.Role(), n.Zone, n.Version, n.GPUModel}
}

// Texts returns what the filter searches of a pending pod.
func (p *PendingPod) Texts() []string {
	return []string{p.Namespace + "/" + p.Name, p.Workload, p.Scheduler, p.Reason, p.Message}
}

// Texts returns what the filter searches of a pod.
func (p *ListedPod) Texts() []string {
	return []string{p.Namespace + "/" + p.Name, p.Status, p.Node, p.Workload, p.Scheduler}
}

// Texts returns what the filter searches of a node with GPUs: the node, and who has them.
func (x *NodeCards) Texts() []string {
	out := x.Node.Texts()
	for _, c := range x.Cards {
		for _, p := range c.Parts {
			out = append(out, p.Pod, p.Claim, p.Device)
		}
	}
	return out
}
