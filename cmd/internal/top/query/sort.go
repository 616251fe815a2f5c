package query

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"gnnsched/cmd/internal/top/state"
	"gnnsched/internal/choice"
)

// Column is a column of the node list, to sort by.
type Column string

// The columns, in the order in which the view shows them.
const (
	Name    Column = "name"
	Status  Column = "status"
	Role    Column = "role"
	Age     Column = "age"
	Version Column = "version"
	Pods    Column = "pods"
	CPU     Column = "cpu"
	Memory  Column = "memory"
	GPU     Column = "gpu"
)

// Columns lists every column.
func Columns() []Column { return []Column{Name, Status, Role, Age, Version, Pods, CPU, Memory, GPU} }

// Sort is an order of nodes. The zero value sorts by name, ascending.
type Sort struct {
	Column Column
	Desc   bool
}

// By returns the usual order for a column: usage descending, so that the fullest node comes
// first, and everything else ascending.
func By(c Column) Sort {
	return Sort{Column: c, Desc: c == Pods || c == CPU || c == Memory || c == GPU}
}

// ParseSort parses "column", "column:asc" or "column:desc". The empty text means by name.
func ParseSort(s string) (Sort, error) {
	name, dir, directed := strings.Cut(strings.ToLower(strings.TrimSpace(s)), ":")
	switch name {
	case "":
		if directed {
			return Sort{}, fmt.Errorf("sort %q names no column", s)
		}
		name = string(Name)
	case "mem":
		name = string(Memory)
	case "roles":
		name = string(Role)
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

// String returns a text that ParseSort parses as s.
func (s Sort) String() string {
	c := s.column()
	if s.Desc {
		return string(c) + ":desc"
	}
	return string(c) + ":asc"
}

// Apply sorts nodes in place. Nodes that are equal in the column are sorted by name, in
// natural order and ascending, so that rows keep their places from one redraw to the next.
func (s Sort) Apply(nodes []state.Node) {
	col := s.column()
	slices.SortFunc(nodes, func(a, b state.Node) int {
		c := compare(col, &a, &b)
		if s.Desc {
			c = -c
		}
		if c == 0 && col != Name {
			c = state.CompareNatural(a.Name, b.Name)
		}
		return c
	})
}

func (s Sort) column() Column { return cmp.Or(s.Column, Name) }

func compare(col Column, a, b *state.Node) int {
	switch col {
	case Status: // trouble first
		return cmp.Or(cmp.Compare(health(a), health(b)), cmp.Compare(a.Status, b.Status))
	case Role:
		return slices.Compare(a.Roles, b.Roles)
	case Age: // the youngest first
		return b.Created.Compare(a.Created)
	case Version:
		return state.CompareNatural(a.Version, b.Version)
	case Pods:
		return cmp.Compare(a.Pods.Requested, b.Pods.Requested)
	case CPU:
		return cmp.Compare(a.CPU.Fraction(), b.CPU.Fraction())
	case Memory:
		return cmp.Compare(a.Memory.Fraction(), b.Memory.Fraction())
	case GPU:
		return cmp.Compare(a.GPU.Fraction(), b.GPU.Fraction())
	}
	return state.CompareNatural(a.Name, b.Name)
}

func health(n *state.Node) int {
	switch {
	case !n.Ready:
		return 0
	case n.Cordoned:
		return 1
	}
	return 2
}

func columnList() []string { return choice.Names(Columns(), choice.Text) }
