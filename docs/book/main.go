// Book writes the generated parts of the docs: tables, plots and lists that come from data files and from the code.
//
// A generated part stands in a page between two comments. The first names its producer and says what to produce:
//
//	<!-- generated: policies cpu -->
//	…
//	<!-- end -->
//
// `go run ./docs/book` rewrites all parts and prints the pages that it changed. With --check it changes nothing, prints
// the pages that it would change, and exits with 1 if there are any.
package main

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// producers returns the functions that return a generated part, by the names in comments; of is the rest of the comment. Each is
// described where it is.
func producers() map[string]func(root, of string) (string, error) {
	return map[string]func(root, of string) (string, error){
		"claims": claims, "expect": expect, "table": table, "plot": plotted, "stale": stale, "fields": fieldTable, "json-types": jsonTypes,
		"scenarios": scenarios, "policies": policies, "networks": networks, "shipped": shipped, "features": features, "objectives": objectives,
		"eval-metrics": evalMetrics, "exit-codes": exitCodes, "prometheus-metrics": prometheusMetrics, "formats": formats,
		"leaderboard": leaderboard,
		"keys":        kept("ktop.md", "keys"),
	}
}

// part matches a generated part, with the producer's name and the rest of the comment.
var part = regexp.MustCompile(`(?s)<!-- generated: ([a-z-]+) ?([^\n]*?) -->\n.*?<!-- end -->`)

func main() {
	check := flag.Bool("check", false, "change nothing, and end with 1 if a page is stale")
	root := flag.String("root", ".", "the repository")
	data := flag.String("tidy", "",
		"instead read Markdown of gnnsched eval from standard input, and write its figures into this `FILE` of docs/results/data")
	tidying := tidyOptions{source: row{}}
	flag.StringVar(&tidying.section, "section", "", "with --tidy: the section of the rows")
	for _, key := range []string{"command", "commit", "date", "seeds"} {
		flag.Func(key, "with --tidy: the "+key+" of the section in sources.csv", func(v string) error {
			tidying.source[key] = v
			return nil
		})
	}
	list := func(to *[]string) func(string) error {
		return func(s string) error { *to = strings.Split(s, ","); return nil }
	}
	flag.Func("metrics", "with --tidy: only these `METRICS`", list(&tidying.metrics))
	flag.Func("at", "with --tidy: only these `LOADS` in %", list(&tidying.at))
	flag.Parse()
	if *data != "" {
		if err := tidy(dataFile(*root, *data), os.Stdin, tidying); err != nil {
			fmt.Fprintln(os.Stderr, "book:", err)
			os.Exit(1)
		}
		return
	}
	stale, err := write(*root, *check)
	if err != nil {
		fmt.Fprintln(os.Stderr, "book:", err)
		os.Exit(1)
	}
	for _, page := range stale {
		fmt.Println(page)
	}
	if *check && len(stale) > 0 {
		fmt.Fprintln(os.Stderr, "these pages are stale: run make docs")
		os.Exit(1)
	}
}

// write rewrites the generated parts of all pages of the repository at root, and the pictures that they show. It returns
// the stale pages and pictures; if check is set, it leaves them stale.
func write(root string, check bool) (stale []string, err error) {
	pages := []string{filepath.Join(root, "README.md"), filepath.Join(root, "CONTRIBUTING.md")}
	err = filepath.WalkDir(filepath.Join(root, "docs"), func(path string, _ fs.DirEntry, err error) error {
		if strings.HasSuffix(path, ".md") && !strings.HasPrefix(filepath.Base(path), "flags-") {
			pages = append(pages, path)
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	update := func(path string, old, fresh []byte) error {
		if bytes.Equal(old, fresh) {
			return nil
		}
		stale = append(stale, path)
		if check {
			return nil
		}
		return os.WriteFile(path, fresh, 0o644)
	}
	for _, page := range pages {
		text, err := os.ReadFile(page)
		if err != nil {
			return nil, err
		}
		fresh, err := renew(root, text)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", page, err)
		}
		if err := update(page, text, fresh); err != nil {
			return nil, err
		}
	}
	for _, picture := range slices.Sorted(maps.Keys(drawn)) {
		fresh := drawn[picture]
		old, err := os.ReadFile(picture)
		if err != nil && !os.IsNotExist(err) {
			return nil, err
		}
		if err := update(picture, old, fresh); err != nil {
			return nil, err
		}
	}
	return stale, nil
}

// renew returns a page with fresh generated parts.
func renew(root string, page []byte) (fresh []byte, err error) {
	fresh = part.ReplaceAllFunc(page, func(old []byte) []byte {
		m := part.FindSubmatch(old)
		name, of := string(m[1]), string(m[2])
		if bytes.Count(old, []byte("<!-- generated:")) > 1 {
			err = errors.Join(err, fmt.Errorf("%s %s: no <!-- end --> comes before the next part", name, of))
			return old
		}
		produce, known := producers()[name]
		if !known {
			err = errors.Join(err, fmt.Errorf("no producer is called %q", name))
			return old
		}
		text, e := produce(root, of)
		if e != nil {
			err = errors.Join(err, fmt.Errorf("%s %s: %w", name, of, e))
			return old
		}
		first, _, _ := bytes.Cut(old, []byte("\n"))
		return []byte(string(first) + "\n\n" + strings.TrimSpace(text) + "\n\n<!-- end -->")
	})
	return fresh, err
}
