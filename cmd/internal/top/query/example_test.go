package query_test

import (
	"fmt"

	"gnnsched/cmd/internal/top/query"
	"gnnsched/cmd/internal/top/state"
)

// A filter works on any list: a function returns the texts and amounts of a row.
func ExampleSelect() {
	filter, err := query.ParseFilter("node cpu>50%")
	if err != nil {
		fmt.Println(err)
		return
	}
	nodes := []state.Node{
		{Name: "node-1", CPU: state.Usage{Requested: 3000, Allocatable: 4000}},
		{Name: "node-2", CPU: state.Usage{Requested: 1000, Allocatable: 4000}},
		{Name: "spare", CPU: state.Usage{Requested: 4000, Allocatable: 4000}},
	}
	for _, n := range query.Select(filter, nodes, func(n *state.Node) query.Row {
		return query.Row{Texts: []string{n.Name}, Amounts: &query.Amounts{CPU: n.CPU}}
	}) {
		fmt.Println(n.Name)
	}
	// Output: node-1
}

// The fullest node comes first, because that is the usual order of a usage.
func ExampleSort_Apply() {
	order, err := query.ParseSort("cpu")
	if err != nil {
		fmt.Println(err)
		return
	}
	nodes := []state.Node{
		{Name: "node-1", CPU: state.Usage{Requested: 1000, Allocatable: 4000}},
		{Name: "node-2", CPU: state.Usage{Requested: 3000, Allocatable: 4000}},
	}
	order.Apply(nodes)
	fmt.Println(nodes[0].Name, order)
	// Output: node-2 cpu:desc
}
