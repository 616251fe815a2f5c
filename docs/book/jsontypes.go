package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"slices"
	"strings"
)

// jsonTypes lists the structs of a source file that have fields with JSON names. A row holds the struct's places in the
// document, its fields and its comment. The first struct is the document.
func jsonTypes(root, of string) (string, error) {
	file, err := parser.ParseFile(token.NewFileSet(), filepath.Join(root, of), nil, parser.ParseComments)
	if err != nil {
		return "", err
	}
	var found []jsonType
	for _, d := range file.Decls {
		if g, ok := d.(*ast.GenDecl); ok && g.Tok == token.TYPE {
			if t := jsonTypeOf(g); len(t.fields) > 0 {
				found = append(found, t)
			}
		}
	}
	var rows [][]string
	for i, t := range found {
		var places []string
		for _, outer := range found[:i] {
			for _, f := range outer.fields {
				if f.kind == t.name {
					places = append(places, span(strings.TrimPrefix(outer.name+".", found[0].name+".")+f.name))
				}
			}
		}
		if i == 0 {
			places = []string{"the document"}
		}
		var fields []string
		for _, f := range t.fields {
			fields = append(fields, span(f.name)+f.note)
		}
		rows = append(rows, []string{strings.Join(places, ", "), strings.Join(fields, ", "), t.about})
	}
	if len(rows) == 0 {
		return "", fmt.Errorf("%s has no struct with JSON names", of)
	}
	return markdownTable([]string{"object", "fields", ""}, rows), nil
}

// A jsonType is a struct with JSON names; about is its comment.
type jsonType struct {
	name, about string
	fields      []jsonField
}

// A jsonField is a field of a jsonType; kind is the name of its Go type.
type jsonField struct{ name, kind, note string }

// jsonTypeOf reads the declaration of a type. It returns no fields if that is no struct with JSON names.
func jsonTypeOf(g *ast.GenDecl) (t jsonType) {
	spec := g.Specs[0].(*ast.TypeSpec)
	s, ok := spec.Type.(*ast.StructType)
	if !ok {
		return t
	}
	t.name = spec.Name.Name
	t.about = strings.Join(strings.Fields(g.Doc.Text()), " ")
	if _, rest, ok := strings.Cut(t.about, " "); ok {
		t.about = rest // after the type's name
	}
	for _, f := range s.Fields.List {
		name := tagOf(f)
		field := jsonField{name: name, kind: kindOf(f.Type)}
		if note := strings.TrimSpace(f.Comment.Text()); note != "" {
			field.note = " (" + note + ")"
		}
		if name != "" && !slices.ContainsFunc(t.fields, func(other jsonField) bool { return other.name == name }) {
			t.fields = append(t.fields, field)
		}
	}
	return t
}

// kindOf returns the name of a type, or the name of the type that a pointer or a list holds.
func kindOf(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.Ident:
		return e.Name
	case *ast.StarExpr:
		return kindOf(e.X)
	case *ast.ArrayType:
		return kindOf(e.Elt)
	}
	return ""
}
