package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// prometheusMetrics lists the metrics that the source makes with k8s.io/component-base/metrics: the calls of metrics.New…
// with literals as options and labels.
func prometheusMetrics(root, _ string) (string, error) {
	var rows [][]string
	err := filepath.WalkDir(filepath.Join(root, "scheduler"), func(path string, _ fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return err
		}
		text, err := os.ReadFile(path)
		if err != nil || !strings.Contains(string(text), `"k8s.io/component-base/metrics"`) {
			return err
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, text, 0)
		if err != nil {
			return err
		}
		ast.Inspect(file, func(n ast.Node) bool {
			if row := metricOf(n); row != nil {
				rows = append(rows, row)
			}
			return true
		})
		return nil
	})
	slices.SortFunc(rows, func(a, b []string) int { return strings.Compare(a[0], b[0]) })
	if err == nil && len(rows) < 30 {
		err = fmt.Errorf("only %d metrics were found", len(rows))
	}
	return markdownTable([]string{"metric", "type", "labels", ""}, rows), err
}

// metricOf returns the name, type, labels and help of a metric if the node of the syntax tree makes one, else nil.
func metricOf(n ast.Node) []string {
	call, ok := n.(*ast.CallExpr)
	if !ok || len(call.Args) == 0 {
		return nil
	}
	f, ok := call.Fun.(*ast.SelectorExpr)
	if !ok {
		return nil
	}
	made, ok := strings.CutPrefix(f.Sel.Name, "New")
	if from, isName := f.X.(*ast.Ident); !ok || !isName || from.Name != "metrics" {
		return nil
	}
	options, ok := call.Args[0].(*ast.UnaryExpr)
	if !ok {
		return nil
	}
	literal, ok := options.X.(*ast.CompositeLit)
	if !ok {
		return nil
	}
	fields := map[string]string{}
	for _, e := range literal.Elts {
		if kv, ok := e.(*ast.KeyValueExpr); ok {
			fields[kv.Key.(*ast.Ident).Name] = textOf(kv.Value)
		}
	}
	var name []string
	for _, part := range []string{fields["Namespace"], fields["Subsystem"], fields["Name"]} {
		if part != "" {
			name = append(name, part)
		}
	}
	labels := ""
	if len(call.Args) > 1 {
		if list, ok := call.Args[1].(*ast.CompositeLit); ok {
			for i, e := range list.Elts {
				if i > 0 {
					labels += ", "
				}
				labels += span(textOf(e))
			}
		}
	}
	return []string{span(strings.Join(name, "_")), strings.ToLower(strings.TrimSuffix(made, "Vec")), labels, fields["Help"]}
}

// textOf returns the text of a string literal; "" for other expressions.
func textOf(e ast.Expr) string {
	if l, ok := e.(*ast.BasicLit); ok && l.Kind == token.STRING {
		text, _ := strconv.Unquote(l.Value)
		return text
	}
	return ""
}
