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

// fields FILE.go TYPE… is a table of the fields that a file or a table has by these structs: the name that a tag gives each one, and its
// comment. A field without a comment shares the row of the one before it, whose comment must name it.
func init() { producers["fields"] = fieldTable }

func fieldTable(root, of string) (string, error) {
	words := strings.Fields(of)
	if len(words) < 2 {
		return "", fmt.Errorf("want FILE.go TYPE")
	}
	file, err := parser.ParseFile(token.NewFileSet(), filepath.Join(root, words[0]), nil, parser.ParseComments)
	if err != nil {
		return "", err
	}
	var b strings.Builder
	b.WriteString("| field | meaning |\n|---|---|\n")
	for _, name := range words[1:] {
		s := structOf(file, name)
		if s == nil {
			return "", fmt.Errorf("%s has no struct %s", words[0], name)
		}
		rows, err := rowsOf(s)
		if err != nil {
			return "", fmt.Errorf("%s: %s: %w", words[0], name, err)
		}
		for _, row := range rows {
			fmt.Fprintf(&b, "| %s | %s |\n", "`"+strings.Join(row.names, "`, `")+"`", row.meaning)
		}
	}
	return b.String(), nil
}

// fieldRow is a row of the table: fields that share a comment.
type fieldRow struct {
	names   []string
	meaning string
}

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
			rows, shared = append(rows, fieldRow{[]string{tagOf(f)}, meaning}), f.Doc.Text()
			continue
		}
		if !regexp.MustCompile(`\b` + name + `\b`).MatchString(shared) {
			return nil, fmt.Errorf("the field %s has no comment", name)
		}
		last := &rows[len(rows)-1]
		last.names = append(last.names, tagOf(f))
	}
	return rows, nil
}

// tagOf returns the name that the field's tag gives it; "" if it is in no file.
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

// subject matches what a field's comment begins with: its name, or the names of several, and the verb.
var subject = regexp.MustCompile(`^[A-Z]\w*(, [A-Z]\w*)*( and [A-Z]\w*)? (is|are) `)

// goName matches a name of Go, of a field or of a field's field.
var goName = regexp.MustCompile(`\b[A-Z]\w+(\.[A-Z]\w+)?\b`)

// meaningOf returns what a comment says of the field, in which the names of fields are those of the file.
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
		return "`" + tag + "`"
	})
	return strings.ReplaceAll(strings.TrimSuffix(text, "."), "|", `\|`)
}
