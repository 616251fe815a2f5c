// Figures writes the tables and plots of the docs from the data files of docs/results/data.
//
// A generated part stands in a page between two comments. The first says what to write:
//
//	<!-- generated: table cpu.csv section=scenarios scenario=hetero95 metric="over time" -->
//	…
//	<!-- end -->
//
// `go run ./docs/figures` rewrites all tables and plots and prints the files that it changed. `go run ./docs/figures SECTION METRICS` reads
// the JSON of gnnsched eval instead, and prints its figures as rows of a data file.
package main

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"log"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"gnnsched/scheduler/eval"
)

// part matches a table or a plot, with the rest of the comment.
var part = regexp.MustCompile(`(?s)<!-- generated: (table|plot) ([^\n]*?) -->\n.*?<!-- end -->`)

func main() {
	log.SetFlags(0)
	if len(os.Args) == 3 {
		metrics, err := eval.ParseMetrics(os.Args[2])
		if err == nil {
			err = writeRows(os.Args[1], metrics, os.Stdin, os.Stdout)
		}
		if err != nil {
			log.Fatal(err)
		}
		return
	}
	fresh, err := render(".")
	if err != nil {
		log.Fatal(err)
	}
	for file, text := range fresh {
		if err := os.WriteFile(file, text, 0o644); err != nil {
			log.Fatal(err)
		}
		fmt.Println(file)
	}
}

// render returns the pages and plots of the repository at root that are stale, by their paths, with their new contents.
func render(root string) (map[string][]byte, error) {
	pages := []string{filepath.Join(root, "README.md")}
	err := filepath.WalkDir(filepath.Join(root, "docs"), func(path string, _ fs.DirEntry, err error) error {
		if strings.HasSuffix(path, ".md") {
			pages = append(pages, path)
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	fresh := map[string][]byte{}
	for _, page := range pages {
		text, err := os.ReadFile(page)
		if err != nil {
			return nil, err
		}
		plots, err := filepath.Rel(filepath.Dir(page), filepath.Join(root, "docs", "results", "plots"))
		if err != nil {
			return nil, err
		}
		fresh[page] = part.ReplaceAllFunc(text, func(old []byte) []byte {
			m := part.FindSubmatch(old)
			text, e := produce(root, string(m[1]), string(m[2]), fresh)
			if e == nil && bytes.Count(old, []byte("<!-- generated:")) > 1 {
				e = errors.New("no <!-- end --> comes before the next part")
			}
			if e != nil {
				err = errors.Join(err, fmt.Errorf("%s: %s %s: %w", page, m[1], m[2], e))
			}
			text = strings.Replace(text, "](plots/", "]("+filepath.ToSlash(plots)+"/", 1)
			first, _, _ := bytes.Cut(old, []byte("\n"))
			return []byte(string(first) + "\n\n" + strings.TrimSpace(text) + "\n\n<!-- end -->")
		})
		if err != nil {
			return nil, err
		}
	}
	for path, text := range fresh {
		if old, err := os.ReadFile(path); err == nil && bytes.Equal(old, text) {
			delete(fresh, path)
		}
	}
	return fresh, nil
}

// produce returns a table, or the line that shows a plot, which it adds to files.
func produce(root, kind, of string, files map[string][]byte) (string, error) {
	r, err := parseRequest(of)
	if err != nil {
		return "", err
	}
	if r.all, err = readData(filepath.Join(root, "docs", "results", "data", r.file)); err != nil {
		return "", err
	}
	chosen, err := r.chosen()
	if err != nil {
		return "", err
	}
	if kind == "table" {
		return r.table(chosen)
	}
	name := r.setting("out", "plot")
	files[filepath.Join(root, "docs", "results", "plots", name+".svg")], err = r.plot(chosen)
	return fmt.Sprintf("![%s](plots/%s.svg)", r.setting("title", name), name), err
}
