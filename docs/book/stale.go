package main

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// The producer stale lists what was measured by commit, the oldest first, from the sources of the data files:
//
//	<!-- generated: stale -->
func init() { producers["stale"] = stale }

func stale(root, _ string) (string, error) {
	sources, err := readData(dataFile(root, "sources.csv"))
	if err != nil {
		return "", err
	}
	slices.SortStableFunc(sources, func(a, b row) int {
		return cmp.Or(cmp.Compare(a["date"], b["date"]), cmp.Compare(a["commit"], b["commit"]), cmp.Compare(a["file"], b["file"]))
	})
	var out strings.Builder
	out.WriteString("| measured | commit | data file | sections |\n|---|---|---|---|\n")
	for len(sources) > 0 {
		first := sources[0]
		if first["commit"] == "" || first["date"] == "" {
			return "", fmt.Errorf("%s of %s has no commit or no date", first["section"], first["file"])
		}
		var sections []string
		for len(sources) > 0 && sources[0]["date"] == first["date"] && sources[0]["commit"] == first["commit"] && sources[0]["file"] == first["file"] {
			sections, sources = append(sections, sources[0]["section"]), sources[1:]
		}
		fmt.Fprintf(&out, "| %s | %s | %s | %s |\n", first["date"], first["commit"], first["file"], strings.Join(sections, ", "))
	}
	return out.String(), nil
}
