// Package docs_test checks the documentation against the code.
package docs_test

import (
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"gnnsched/internal/fatal"
	"gnnsched/scheduler/eval"
	"gnnsched/workload"
)

// root is the module's folder.
const root = ".."

// guide is the page about extending the project.
const guide = "contributing/extending.md"

// shapesFile is the list of shapes that the guide adds to.
const shapesFile = "workload/shapes_default.yaml"

// top are the folders with Go code.
var top = []string{"cmd", "deploy", "gnn", "internal", "kwok", "scheduler", "workload"}

// block is a fenced code block of a page, with the section that it is in.
type block struct {
	section, language string
	lines             []string
}

// blocks returns the fenced code blocks of a page.
func blocks(t *testing.T, page string) (out []block) {
	t.Helper()
	text := fatal.Value(os.ReadFile(page))(t)
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
	text := fatal.Value(os.ReadFile(filepath.Join(root, path)))(t)
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

// TestExtending follows the guide in a copy of the module, and runs the tests of the packages that the page touches and of the rules for
// all packages there, without the tests that play whole episodes. It skips the guide's new shape, because a shape changes golden files.
func TestExtending(t *testing.T) {
	content, sections := edits(t, guide)
	for section, paths := range sections {
		source := slices.DeleteFunc(slices.Clone(paths), func(path string) bool { return strings.HasPrefix(path, "docs/") })
		if len(source) > 2 {
			t.Errorf("section %q touches %v, more than two source files", section, source)
		}
	}
	module := t.TempDir()
	for _, folder := range append(slices.Clone(top), "compose", "docs") {
		fatal.If(t, os.CopyFS(filepath.Join(module, folder), os.DirFS(filepath.Join(root, folder))))
	}
	for _, file := range []string{"README.md", "CONTRIBUTING.md", "CHANGELOG.md", "go.mod", "go.sum", "go.k136.mod", "go.k136.sum",
		".dockerignore"} {
		text := fatal.Value(os.ReadFile(filepath.Join(root, file)))(t)
		write(t, filepath.Join(module, file), string(text))
	}
	packages := []string{"./internal/architecture"}
	for path, text := range content {
		if path == shapesFile {
			continue
		}
		write(t, filepath.Join(module, path), text)
		folder := "./" + filepath.Dir(path)
		switch {
		case strings.HasPrefix(path, "docs/"):
			continue
		case strings.HasSuffix(path, ".yaml"):
			folder = filepath.Dir(folder) // scenarios belong to the package above
		}
		if !slices.Contains(packages, "./"+filepath.Clean(folder)) {
			packages = append(packages, "./"+filepath.Clean(folder))
		}
	}
	for _, args := range [][]string{
		{"test", "./cmd/internal/top/view", "-update"}, // a screen changes golden files and a page
		append([]string{"test", "-short"}, packages...),
	} {
		command := exec.Command("go", args...)
		command.Dir = module
		if out, err := command.CombinedOutput(); err != nil {
			t.Errorf("after the changes of the guide, go %v fails: %v\n%s", args, err, out)
		}
	}
}

func write(t *testing.T, path, text string) {
	t.Helper()
	fatal.If(t, os.WriteFile(path, []byte(text), 0o600))
}

// TestExtendingWithoutGo reads the scenario and the shapes of the guide as the programs do.
func TestExtendingWithoutGo(t *testing.T) {
	content, _ := edits(t, guide)
	read := 0
	for path, text := range content {
		var err error
		switch {
		case strings.Contains(path, "scenarios/"):
			_, err = eval.Read(path, []byte(text))
		case path == shapesFile:
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

// TestPagesNameFolders checks that every file and folder of the module named by a page exists.
func TestPagesNameFolders(t *testing.T) {
	pages, err := filepath.Glob("../*.md")
	fatal.If(t, err)
	err = filepath.WalkDir(".", func(path string, _ fs.DirEntry, err error) error {
		if strings.HasSuffix(path, ".md") {
			pages = append(pages, path)
		}
		return err
	})
	fatal.If(t, err)
	total := 0
	for _, page := range pages {
		named := paths(t, page)
		total += len(named)
		for _, path := range named {
			if _, err := os.Stat(filepath.Join(root, path)); err != nil {
				t.Errorf("%s names %s, which is not there", page, path)
			}
		}
	}
	if total < 50 {
		t.Errorf("%v name only %d paths", pages, total)
	}
}

// paths returns the paths of the module in a page: words with a slash that begin with one of the top folders.
func paths(t *testing.T, page string) (out []string) {
	t.Helper()
	text := fatal.Value(os.ReadFile(page))(t)
	added := map[string]bool{}
	for _, b := range blocks(t, page) {
		for _, path := range []string{strings.TrimPrefix(b.lines[0], "// "), strings.TrimPrefix(b.lines[0], "# ")} {
			added[path] = true // a file that the page adds
		}
	}
	words := strings.FieldsFunc(string(text), func(r rune) bool { return strings.ContainsRune(" \n\t`\"'()[]{}<>|,;*", r) })
	for _, w := range words {
		w = strings.TrimRight(w, ".:/")
		w = strings.TrimLeft(w, "./")
		first, _, nested := strings.Cut(w, "/")
		if nested && slices.Contains(top, first) && !added[w] && !slices.Contains(out, w) {
			out = append(out, w)
		}
	}
	return out
}
