package architecture

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
)

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
	all, err := tree()
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// line returns the line of a position in the file.
func (s source) line(pos token.Pos) int { return s.fset.Position(pos).Line }

// external tells whether the file is a test outside the package of its folder.
func (s source) external() bool { return strings.HasSuffix(s.ast.Name.Name, "_test") }
