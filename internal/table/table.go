// Package table writes tables for people. All programs print theirs with it.
package table

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/olekukonko/tablewriter"
	"github.com/olekukonko/tablewriter/renderer"
	"github.com/olekukonko/tablewriter/tw"
)

// Table is rows of cells. The first row is the header.
type Table [][]string

// Of returns a table with a header and no other row.
func Of(header ...string) Table { return Table{header} }

// Add adds a row. Cells that it lacks at its end are empty.
func (t *Table) Add(cells ...any) {
	row := make([]string, max(len(cells), len((*t)[0])))
	for i, c := range cells {
		row[i] = fmt.Sprint(c)
	}
	*t = append(*t, row)
}

// Columns writes the table without lines, as kubectl does.
func (t Table) Columns(w io.Writer) error {
	lines := tw.Settings{Separators: tw.SeparatorsNone, Lines: tw.LinesNone}
	var b bytes.Buffer
	err := t.write(&b, renderer.NewBlueprint(tw.Rendition{Borders: tw.BorderNone, Settings: lines}), tw.CellConfig{
		Alignment: tw.CellAlignment{Global: tw.AlignLeft}, Padding: tw.CellPadding{Global: tw.Padding{Right: "  ", Overwrite: true}},
	})
	for line := range strings.Lines(b.String()) {
		fmt.Fprintln(w, strings.TrimRight(line, " \n"))
	}
	return err
}

// Framed writes the table with lines. If it is wider than width, it becomes several ones with the same first column. No width is too
// wide if width is 0.
func (t Table) Framed(w io.Writer, width int) error {
	const frame = 3 // columns between two cells
	wide := func(column int) int {
		most := 0
		for _, row := range t {
			most = max(most, utf8.RuneCountInString(row[column]))
		}
		return most + frame
	}
	for from := 1; from < len(t[0]); {
		to, total := from+1, 1+wide(0)+wide(from)
		for to < len(t[0]) && (width == 0 || total+wide(to) <= width) {
			total += wide(to)
			to++
		}
		var part Table
		for _, row := range t {
			part = append(part, append([]string{row[0]}, row[from:to]...))
		}
		if err := part.write(w, renderer.NewBlueprint(), part.aligned()); err != nil {
			return err
		}
		from = to
	}
	return nil
}

// Markdown writes the table as Markdown.
func (t Table) Markdown(w io.Writer) error { return t.write(w, renderer.NewMarkdown(), t.aligned()) }

// aligned aligns to the left the columns whose cells are words rather than numbers, and the others to the right.
func (t Table) aligned() tw.CellConfig {
	align := make([]tw.Align, len(t[0]))
	for i := range align {
		words := 0
		for _, row := range t[1:] {
			first, size := utf8.DecodeRuneInString(strings.TrimLeft(row[i], " "))
			switch {
			case unicode.IsLetter(first):
				words++
			case size > 0:
				words--
			}
		}
		if align[i] = tw.AlignRight; words > 0 {
			align[i] = tw.AlignLeft
		}
	}
	return tw.CellConfig{Alignment: tw.CellAlignment{Global: tw.AlignRight, PerColumn: align}}
}

func (t Table) write(w io.Writer, r tw.Renderer, cell tw.CellConfig) error {
	cell.Formatting = tw.CellFormatting{AutoWrap: tw.WrapNone, AutoFormat: tw.Off}
	all := tablewriter.Config{Header: cell, Row: cell, Behavior: tw.Behavior{TrimSpace: tw.Off}}
	p := tablewriter.NewTable(w, tablewriter.WithConfig(all), tablewriter.WithRenderer(r))
	p.Header(t[0])
	if err := errors.Join(p.Bulk([][]string(t[1:])), p.Render()); err != nil {
		return fmt.Errorf("write the table: %w", err)
	}
	return nil
}
