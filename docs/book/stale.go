package main

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// stale is a producer. It lists the sections of the data files by the date and the commit of their measurement, the oldest
// first:
//
//	<!-- generated: stale -->
func stale(root, _ string) (string, error) {
	sources, err := readData(dataFile(root, "sources.csv"))
	if err != nil {
		return "", err
	}
	together := []string{"date", "commit", "file"} // the sections of a line of the table have these in common
	slices.SortStableFunc(sources, func(a, b row) int {
		var order int
		for _, field := range together {
			order = cmp.Or(order, cmp.Compare(a[field], b[field]))
		}
		return order
	})
	var rows [][]string
	for len(sources) > 0 {
		first := sources[0]
		if first["commit"] == "" || first["date"] == "" {
			return "", fmt.Errorf("%s of %s has no commit or no date", first["section"], first["file"])
		}
		var sections []string
		for len(sources) > 0 && key(sources[0], together) == key(first, together) {
			sections, sources = append(sections, sources[0]["section"]), sources[1:]
		}
		rows = append(rows, []string{first["date"], first["commit"], first["file"], strings.Join(sections, ", ")})
	}
	return markdownTable([]string{"measured", "commit", "data file", "sections"}, rows), nil
}
