package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
)

// fieldTable is the producer fields. It lists the fields of structs by the names that their tags give them, with their comments. A field
// without a comment shares the row of the field before it, if that field's comment names it.
//
//	<!-- generated: fields FILE.go TYPE… -->
func fieldTable(root, of string) (string, error) {
	words := strings.Fields(of)
	if len(words) < 2 {
		return "", fmt.Errorf("want FILE.go TYPE")
	}
	file, err := parser.ParseFile(token.NewFileSet(), filepath.Join(root, words[0]), nil, parser.ParseComments)
	if err != nil {
		return "", err
	}
	var rows [][]string
	for _, name := range words[1:] {
		s := structOf(file, name)
		if s == nil {
			return "", fmt.Errorf("%s has no struct %s", words[0], name)
		}
		described, err := rowsOf(s)
		if err != nil {
			return "", fmt.Errorf("%s: %s: %w", words[0], name, err)
		}
		for _, r := range described {
			rows = append(rows, []string{strings.Join(r.names, ", "), r.meaning})
		}
	}
	return markdownTable([]string{"field", "meaning"}, rows), nil
}

// fieldRow is a row of the table: fields that share a comment.
type fieldRow struct {
	names   []string // as code
	meaning string
}

// structOf returns the struct type with this name; nil if the file has none.
func structOf(file *ast.File, name string) *ast.StructType {
	for _, d := range file.Decls {
		g, ok := d.(*ast.GenDecl)
		if !ok {
			continue
		}
		for _, spec := range g.Specs {
			if t, ok := spec.(*ast.TypeSpec); ok && t.Name.Name == name {
				s, _ := t.Type.(*ast.StructType)
				return s
			}
		}
	}
	return nil
}

// rowsOf returns the rows of a struct's fields.
func rowsOf(s *ast.StructType) (rows []fieldRow, err error) {
	tags, shared := map[string]string{}, ""
	for _, f := range s.Fields.List {
		for _, n := range f.Names {
			tags[n.Name] = tagOf(f)
		}
	}
	for _, f := range s.Fields.List {
		if len(f.Names) != 1 || tagOf(f) == "" {
			continue
		}
		name := f.Names[0].Name
		if meaning := meaningOf(f, name, tags); meaning != "" {
			rows, shared = append(rows, fieldRow{[]string{span(tagOf(f))}, meaning}), f.Doc.Text()
			continue
		}
		if !regexp.MustCompile(`\b` + name + `\b`).MatchString(shared) {
			return nil, fmt.Errorf("the field %s has no comment", name)
		}
		last := &rows[len(rows)-1]
		last.names = append(last.names, span(tagOf(f)))
	}
	return rows, nil
}

// tagOf returns the name that the field's tag gives it in files; "" if files do not contain the field.
func tagOf(f *ast.Field) string {
	if f.Tag == nil {
		return ""
	}
	tag := reflect.StructTag(strings.Trim(f.Tag.Value, "`"))
	for _, key := range []string{"json", "parquet", "yaml"} {
		if name, _, _ := strings.Cut(tag.Get(key), ","); name != "" && name != "-" {
			return name
		}
	}
	return ""
}

// subject matches the beginning of a comment: the names of one or several fields, and the verb.
var subject = regexp.MustCompile(`^[A-Z]\w*(, [A-Z]\w*)*( and [A-Z]\w*)? (is|are) `)

// goName matches the Go name of a field, or of a field of a field.
var goName = regexp.MustCompile(`\b[A-Z]\w+(\.[A-Z]\w+)?\b`)

// meaningOf returns a field's comment without its subject. It replaces the Go names of fields by their tags.
func meaningOf(f *ast.Field, name string, tags map[string]string) string {
	text := strings.Join(strings.Fields(f.Doc.Text()+" "+f.Comment.Text()), " ")
	text = strings.TrimPrefix(subject.ReplaceAllString(text, ""), name+" ")
	text = strings.ReplaceAll(text, "nil: ", "left out: ")
	text = goName.ReplaceAllStringFunc(text, func(word string) string {
		first, rest, dotted := strings.Cut(word, ".")
		tag := tags[first]
		if tag == "" || !dotted && strings.EqualFold(tag, first) && strings.HasPrefix(text, word) {
			return word
		}
		if dotted {
			tag += "." + strings.ToLower(rest[:1]) + rest[1:]
		}
		return span(tag)
	})
	return strings.TrimSuffix(text, ".")
}
