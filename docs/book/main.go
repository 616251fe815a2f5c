// Book writes the generated parts of the docs: tables, plots and lists that come from data files and from the code.
//
// A generated part stands in a page between two comments, the first of which names its producer and what that is asked for:
//
//	<!-- generated: policies cpu -->
//	…
//	<!-- end -->
//
// `go run ./docs/book` writes all parts anew; with --check it changes nothing, names the pages whose parts are stale, and ends with 1.
package main

import (
	"bytes"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

// Producers return a generated part, given what its comment says after the producer's name. A new kind of part is an entry here.
var producers = map[string]func(root, of string) (string, error){}

// part matches a generated part: its producer, what it is asked for, and its text.
var part = regexp.MustCompile(`(?s)<!-- generated: ([a-z-]+) ?([^\n]*?) -->\n.*?<!-- end -->`)

func main() {
	check := flag.Bool("check", false, "change nothing, and end with 1 if a page is stale")
	root := flag.String("root", ".", "the repository")
	data := flag.String("tidy", "", "instead read Markdown of gnnsched eval from standard input, and write its figures into this `FILE` of docs/results/data")
	t := tidied{source: row{}}
	flag.StringVar(&t.section, "section", "", "with --tidy: the section of the rows")
	for _, key := range []string{"command", "commit", "date", "seeds"} {
		flag.Func(key, "with --tidy: the "+key+" of the section in sources.csv", func(v string) error { t.source[key] = v; return nil })
	}
	list := func(to *[]string) func(string) error {
		return func(s string) error { *to = strings.Split(s, ","); return nil }
	}
	flag.Func("metrics", "with --tidy: only these `METRICS`", list(&t.metrics))
	flag.Func("at", "with --tidy: only these `LOADS` in %", list(&t.at))
	flag.Parse()
	if *data != "" {
		if err := tidy(dataFile(*root, *data), os.Stdin, t); err != nil {
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

// write writes the generated parts of all pages of the repository at root anew, unless it only checks, and returns the pages that were stale.
func write(root string, check bool) (stale []string, err error) {
	pages := []string{filepath.Join(root, "README.md")}
	err = filepath.WalkDir(filepath.Join(root, "docs"), func(path string, _ fs.DirEntry, err error) error {
		if strings.HasSuffix(path, ".md") {
			pages = append(pages, path)
		}
		return err
	})
	if err != nil {
		return nil, err
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
		if bytes.Equal(text, fresh) {
			continue
		}
		stale = append(stale, page)
		if !check {
			if err := os.WriteFile(page, fresh, 0o644); err != nil {
				return nil, err
			}
		}
	}
	for picture, fresh := range drawn {
		if old, err := os.ReadFile(picture); err == nil && bytes.Equal(old, fresh) {
			continue
		}
		stale = append(stale, picture)
		if !check {
			if err := os.WriteFile(picture, fresh, 0o644); err != nil {
				return nil, err
			}
		}
	}
	return stale, nil
}

// renew returns a page with its generated parts written anew.
func renew(root string, page []byte) (fresh []byte, err error) {
	fresh = part.ReplaceAllFunc(page, func(old []byte) []byte {
		m := part.FindSubmatch(old)
		name, of := string(m[1]), string(m[2])
		produce, known := producers[name]
		if !known {
			err = fmt.Errorf("no producer is called %q", name)
			return old
		}
		text, e := produce(root, of)
		if e != nil {
			err = fmt.Errorf("%s %s: %w", name, of, e)
			return old
		}
		first, _, _ := bytes.Cut(old, []byte("\n"))
		return []byte(string(first) + "\n\n" + strings.TrimSpace(text) + "\n\n<!-- end -->")
	})
	return fresh, err
}
