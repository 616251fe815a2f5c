package table_test

import (
	"os"

	"gnnsched/internal/table"
)

func pods() table.Table {
	t := table.Of("node", "pods", "why")
	t.Add("b", 3, "full")
	t.Add("  of which new", 10)
	return t
}

func ExampleTable_Columns() {
	pods().Columns(os.Stdout)
	// Output:
	// node            pods  why
	// b               3     full
	//   of which new  10
}

func ExampleTable_Framed() {
	pods().Framed(os.Stdout, 26)
	// Output:
	// ┌────────────────┬──────┐
	// │ node           │ pods │
	// ├────────────────┼──────┤
	// │ b              │    3 │
	// │   of which new │   10 │
	// └────────────────┴──────┘
	// ┌────────────────┬──────┐
	// │ node           │ why  │
	// ├────────────────┼──────┤
	// │ b              │ full │
	// │   of which new │      │
	// └────────────────┴──────┘
}

func ExampleTable_Markdown() {
	pods().Markdown(os.Stdout)
	// Output:
	// | node           | pods | why  |
	// |:---------------|-----:|:-----|
	// | b              |    3 | full |
	// |   of which new |   10 |      |
}
