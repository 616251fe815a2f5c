package architecture

import (
	"bytes"
	"go/ast"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"
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
		text, err := os.ReadFile(filepath.Join(root, s.path))
		if err != nil {
			t.Fatal(err)
		}
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
