package architecture

import (
	"bytes"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"unicode/utf8"

	"gnnsched/internal/fatal"
)

// Limits on the shape of the code. A reader holds this much in mind at a time.
const (
	maxFiles      = 24  // Go files in a package, without tests
	maxLines      = 600 // lines in a file
	maxColumns    = 140 // characters in a line, but for texts in backquotes and in tests
	maxFuncLines  = 60  // lines in a function
	maxParameters = 5   // parameters of a function, without its receiver
)

// longFunctions are the functions that may exceed maxFuncLines, with the reason.
var longFunctions = map[string]string{}

// manyParameters are the functions that may exceed maxParameters, with the reason.
var manyParameters = map[string]string{
	"gnn/infer.candidate": "it stands in for the function in assembly where that cannot run",
}

func TestShape(t *testing.T) {
	files := map[string]int{}
	for _, s := range sources(t) {
		text := fatal.Value(os.ReadFile(filepath.Join(root, s.path)))(t)
		if !s.test {
			files[s.folder]++
			if n := bytes.Count(text, []byte("\n")); n > maxLines {
				t.Errorf("%s has %d lines, more than %d: split it by noun", s.path, n, maxLines)
			}
			at := 0
			for line := range strings.Lines(string(text)) {
				if at++; utf8.RuneCountInString(line) > maxColumns+1 && !strings.Contains(line, "`") {
					t.Errorf("%s:%d is longer than %d characters", s.path, at, maxColumns)
				}
			}
		}
		for _, d := range s.ast.Decls {
			if f, is := d.(*ast.FuncDecl); is {
				checkFunction(t, s, f)
			}
		}
	}
	for folder, n := range files {
		if n > maxFiles {
			t.Errorf("%s has %d files, more than %d: it is more than one idea", folder, n, maxFiles)
		}
	}
}

// checkFunction checks the length and the parameters of a function. Assembly has no body here and may
// have as many parameters as it needs.
func checkFunction(t *testing.T, s source, f *ast.FuncDecl) {
	if f.Body == nil {
		return
	}
	name := s.folder + "." + f.Name.Name
	if n := f.Type.Params.NumFields(); n > maxParameters && manyParameters[name] == "" {
		t.Errorf("%s:%d: %s has %d parameters, more than %d: group them in a struct", s.path, s.line(f.Pos()), name, n, maxParameters)
	}
	if n := s.line(f.End()) - s.line(f.Pos()) + 1; n > maxFuncLines && !s.test && longFunctions[name] == "" {
		t.Errorf("%s:%d: %s has %d lines, more than %d", s.path, s.line(f.Pos()), name, n, maxFuncLines)
	}
}

const (
	module = "gnnsched/"
	root   = "../.."
)

// source is one Go file of the module, under any build tags.
type source struct {
	path    string // relative to the root of the module
	folder  string // of path
	ast     *ast.File
	fset    *token.FileSet
	test    bool
	imports map[string]string // folder of the module by the name that the file gives it
}

// tree parses every Go file of the module, once.
var tree = sync.OnceValues(func() ([]source, error) {
	var out []source
	fset := token.NewFileSet()
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		if d.IsDir() && (strings.HasPrefix(d.Name(), ".") && rel != "." || d.Name() == "testdata") {
			return fs.SkipDir
		}
		if !strings.HasSuffix(path, ".go") {
			return nil
		}
		file, err := parser.ParseFile(fset, path, nil, parser.ParseComments)
		if err != nil {
			return err
		}
		rel = filepath.ToSlash(rel)
		s := source{path: rel, folder: filepath.ToSlash(filepath.Dir(rel)), ast: file, fset: fset, test: strings.HasSuffix(rel, "_test.go")}
		s.imports = oursOf(file)
		out = append(out, s)
		return nil
	})
	return out, err
})

// oursOf returns the module's folders that a file imports, by their names in the file.
func oursOf(file *ast.File) map[string]string {
	out := map[string]string{}
	for _, i := range file.Imports {
		path, _ := strconv.Unquote(i.Path.Value) // the parser accepted it
		folder, ours := strings.CutPrefix(path, module)
		if !ours {
			continue
		}
		name := folder[strings.LastIndex(folder, "/")+1:]
		if i.Name != nil {
			name = i.Name.Name
		}
		out[name] = folder
	}
	return out
}

// sources returns the parsed module, or fails the test.
func sources(t *testing.T) []source {
	t.Helper()
	return fatal.Value(tree())(t)
}

// line returns the line of a position in the file.
func (s source) line(pos token.Pos) int { return s.fset.Position(pos).Line }

// external tells whether the file is a test outside the package of its folder.
func (s source) external() bool { return strings.HasSuffix(s.ast.Name.Name, "_test") }

// Images are built of what .dockerignore lets through: all that the Dockerfiles copy, and for the
// scheduler every folder with code.
func TestImagesGetTheirSources(t *testing.T) {
	lines := func(name string) []string {
		text := fatal.Value(os.ReadFile(filepath.Join(root, name)))(t)
		return strings.Split(string(text), "\n")
	}
	through := lines(".dockerignore")
	copied := map[string][]string{}
	for _, name := range []string{"cluster", "scheduler", "trainer"} {
		for _, line := range lines("compose/" + name + ".Dockerfile") {
			words := strings.Fields(line)
			if len(words) < 3 || words[0] != "COPY" || strings.HasPrefix(words[1], "--from") {
				continue
			}
			for _, source := range words[1 : len(words)-1] {
				copied[name] = append(copied[name], source)
				if !slices.Contains(through, "!"+source) {
					t.Errorf("compose/%s.Dockerfile copies %s, which .dockerignore holds back", name, source)
				}
			}
		}
	}
	for _, folder := range levels {
		if folder == "docs" { // its program is in no image
			continue
		}
		if !slices.Contains(copied["scheduler"], folder) {
			t.Errorf("compose/scheduler.Dockerfile does not copy %s", folder)
		}
	}
}
