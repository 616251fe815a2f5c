package main

import (
	"fmt"
	"go/ast"
	"go/constant"
	"go/parser"
	"go/token"
	"go/types"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// prometheusMetrics lists the metrics that the source declares with package metric: the calls of a Set's methods, with literals as names,
// helps and labels.
func prometheusMetrics(root, _ string) (string, error) {
	var rows [][]string
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() && path != root && strings.HasPrefix(d.Name(), ".") {
			return filepath.SkipDir
		}
		if err != nil || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return err
		}
		text, err := os.ReadFile(path)
		if err != nil || !strings.Contains(string(text), `"gnnsched/internal/metric"`) {
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

// metricOf returns the name, type, labels and help of a metric if the node of the syntax tree declares one in a metric.Set, else nil.
func metricOf(n ast.Node) []string {
	call, ok := n.(*ast.CallExpr)
	if !ok || len(call.Args) < 2 {
		return nil
	}
	f, ok := call.Fun.(*ast.SelectorExpr)
	if !ok {
		return nil
	}
	kind := strings.ToLower(strings.TrimSuffix(f.Sel.Name, "s"))
	if !slices.Contains([]string{"counter", "gauge", "histogram"}, kind) {
		return nil
	}
	var labels []string
	for _, label := range call.Args[2:] {
		if text := textOf(label); text != "" { // else it is a histogram's buckets
			labels = append(labels, span(text))
		}
	}
	return []string{span("gnnsched_" + textOf(call.Args[0])), kind, strings.Join(labels, ", "), textOf(call.Args[1])}
}

// textOf returns the text of a constant string; "" for other expressions.
func textOf(e ast.Expr) string {
	v, err := types.Eval(token.NewFileSet(), nil, token.NoPos, types.ExprString(e))
	if err != nil || v.Value == nil || v.Value.Kind() != constant.String {
		return ""
	}
	return constant.StringVal(v.Value)
}
