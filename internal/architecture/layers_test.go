package architecture

import (
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// The files of the plugin are layers: the names that they take from each other make no circle.
func TestFilesOfThePluginAreLayers(t *testing.T) {
	from := namesBetweenFiles(t, filepath.Join(root, "scheduler/plugin"))
	for len(from) > 0 {
		free := slices.DeleteFunc(slices.Sorted(maps.Keys(from)), func(file string) bool {
			for other := range from[file] {
				if from[other] != nil {
					return true
				}
			}
			return false
		})
		if len(free) == 0 {
			t.Fatalf("these files need names of each other in a circle, or stand above one: %v", from)
		}
		for _, file := range free {
			delete(from, file)
		}
	}
}

// namesBetweenFiles returns, of each file of a package, the names of package level that it takes from each other file. The
// receiver of a method is none: a stage of a decision is a method of the plugin, in a file of its own.
func namesBetweenFiles(t *testing.T, dir string) map[string]map[string][]string {
	paths, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil || len(paths) == 0 {
		t.Fatalf("no files in %s: %v", dir, err)
	}
	files, home := map[string]*ast.File{}, map[string]string{}
	for _, path := range paths {
		if strings.HasSuffix(path, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		files[filepath.Base(path)] = file
		for name := range file.Scope.Objects {
			home[name] = filepath.Base(path)
		}
	}
	out := map[string]map[string][]string{}
	for path, file := range files {
		out[path] = map[string][]string{}
		receivers := map[*ast.Ident]bool{}
		for _, d := range file.Decls {
			if f, is := d.(*ast.FuncDecl); is && f.Recv != nil {
				ast.Inspect(f.Recv, func(n ast.Node) bool {
					if id, is := n.(*ast.Ident); is {
						receivers[id] = true
					}
					return true
				})
			}
		}
		for _, use := range file.Unresolved {
			if receivers[use] {
				continue
			}
			if other := home[use.Name]; other != "" && !slices.Contains(out[path][other], use.Name) {
				out[path][other] = append(out[path][other], use.Name)
			}
		}
	}
	return out
}
