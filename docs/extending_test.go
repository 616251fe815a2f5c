// Package docs_test holds what the documentation says against the code.
package docs_test

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"gnnsched/scheduler/eval"
	"gnnsched/workload"
)

// root is the module's folder.
const root = ".."

// block is a fenced code block of a page, with the section that it is in.
type block struct {
	section, language string
	lines             []string
}

// blocks returns the fenced code blocks of a page.
func blocks(t *testing.T, page string) (out []block) {
	t.Helper()
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	var section string
	var open *block
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSuffix(line, "\n")
		switch {
		case open != nil && line == "```":
			out, open = append(out, *open), nil
		case open != nil:
			open.lines = append(open.lines, line)
		case strings.HasPrefix(line, "```"):
			open = &block{section: section, language: line[3:]}
		case strings.HasPrefix(line, "## "):
			section = line[3:]
		}
	}
	return out
}

// edits collects the files that a page's snippets write or change, by their path in the module.
func edits(t *testing.T, page string) (content map[string]string, sections map[string][]string) {
	t.Helper()
	content, sections = map[string]string{}, map[string][]string{}
	for _, b := range blocks(t, page) {
		path, text := "", strings.Join(b.lines, "\n")+"\n"
		switch first := b.lines[0]; {
		case b.language == "go" && strings.HasPrefix(first, "// ") && strings.HasSuffix(first, ".go"):
			path = first[3:]
		case b.language == "yaml" && strings.HasPrefix(first, "# ") && strings.HasSuffix(first, ".yaml"):
			path = first[2:]
		case b.language == "diff":
			path = strings.TrimPrefix(first, "+++ ")
			text = patched(t, path, b.lines[1:])
		default:
			continue
		}
		if content[path] != "" {
			t.Errorf("two snippets of %s concern %s", page, path)
		}
		content[path] = text
		sections[b.section] = append(sections[b.section], path)
	}
	return content, sections
}

// patched returns a file of the module after a diff: the lines with a space or a minus must stand in it
// once, one after the other.
func patched(t *testing.T, path string, diff []string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, path))
	if err != nil {
		t.Fatal(err)
	}
	var before, after strings.Builder
	for _, line := range diff {
		mark, rest := line[:1], line[1:]+"\n"
		if mark != "+" {
			before.WriteString(rest)
		}
		if mark != "-" {
			after.WriteString(rest)
		}
	}
	if n := strings.Count(string(text), before.String()); n != 1 {
		t.Fatalf("the lines that a snippet changes stand %d times in %s, want once:\n%s", n, path, before.String())
	}
	return strings.Replace(string(text), before.String(), after.String(), 1)
}

// TestExtending compiles the snippets of extending.md in place: the go command reads them over the files
// of the module.
func TestExtending(t *testing.T) {
	content, sections := edits(t, "extending.md")
	for section, paths := range sections {
		if len(paths) > 2 {
			t.Errorf("section %q touches %v, more than two files", section, paths)
		}
	}
	overlay := map[string]map[string]string{"Replace": {}}
	var packages []string
	for path, text := range content {
		file := filepath.Join(t.TempDir(), filepath.Base(path))
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		at, err := filepath.Abs(filepath.Join(root, path))
		if err != nil {
			t.Fatal(err)
		}
		overlay["Replace"][at] = file
		if folder := "./" + filepath.Dir(path); strings.HasSuffix(path, ".go") && !slices.Contains(packages, folder) {
			packages = append(packages, folder)
		}
	}
	text, err := json.Marshal(overlay)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "overlay.json")
	if err := os.WriteFile(file, text, 0o600); err != nil {
		t.Fatal(err)
	}
	build := exec.Command("go", append([]string{"vet", "-overlay", file}, packages...)...)
	build.Dir = root
	if out, err := build.CombinedOutput(); err != nil {
		t.Errorf("the snippets of extending.md do not compile: %v\n%s", err, out)
	}
}

// TestExtendingWithoutGo reads the scenario and the shapes of extending.md as the programs do.
func TestExtendingWithoutGo(t *testing.T) {
	content, _ := edits(t, "extending.md")
	read := 0
	for path, text := range content {
		var err error
		switch {
		case strings.Contains(path, "scenarios/"):
			_, err = eval.Read(path, []byte(text))
		case strings.HasSuffix(path, "shapes_default.yaml"):
			_, err = workload.ReadShapes(path, []byte(text))
		default:
			continue
		}
		read++
		if err != nil {
			t.Errorf("%s: %v", path, err)
		}
	}
	if read != 2 {
		t.Errorf("read %d files, want a scenario and a list of shapes", read)
	}
}

// TestExtendingNamesFolders checks that every file and folder in code spans of the page exists.
func TestExtendingNamesFolders(t *testing.T) {
	for _, page := range []string{"extending.md", "walkthrough.md"} {
		for _, path := range paths(t, page) {
			if _, err := os.Stat(filepath.Join(root, path)); err != nil {
				t.Errorf("%s names %s, which is not there", page, path)
			}
		}
	}
}

// paths returns the paths of the module that a page names: words with a slash that begin with one of
// the top folders.
func paths(t *testing.T, page string) (out []string) {
	t.Helper()
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	top := []string{"cmd", "gnn", "internal", "kwok", "scheduler", "workload"}
	added := map[string]bool{}
	for _, b := range blocks(t, page) {
		for _, path := range []string{strings.TrimPrefix(b.lines[0], "// "), strings.TrimPrefix(b.lines[0], "# ")} {
			added[path] = true // a file that the page adds
		}
	}
	words := strings.FieldsFunc(string(text), func(r rune) bool { return strings.ContainsRune(" \n\t`\"'()[]{}<>|,;*", r) })
	for _, w := range words {
		w = strings.TrimRight(w, ".:/")
		first, _, nested := strings.Cut(w, "/")
		if nested && slices.Contains(top, first) && !added[w] && !slices.Contains(out, w) {
			out = append(out, w)
		}
	}
	if len(out) < 5 {
		t.Fatal(fmt.Errorf("%s names only %v", page, out))
	}
	return out
}
