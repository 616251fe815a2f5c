package eval

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/olekukonko/tablewriter"
	"github.com/olekukonko/tablewriter/renderer"
	"github.com/olekukonko/tablewriter/tw"
)

// Page collects the text and the tables of a report.
type Page struct {
	Markdown bool // else for a terminal
	text     bytes.Buffer
	err      error
}

// Title writes a name and a sentence about it.
func (p *Page) Title(name, about string) {
	if p.Markdown {
		p.Printf("### %s\n\n%s.", name, about)
	} else {
		p.Printf("%s: %s.", name, about)
	}
}

// Printf writes text.
func (p *Page) Printf(format string, a ...any) { fmt.Fprintf(&p.text, format, a...) }

// Table writes a table as Render does.
func (p *Page) Table(rows [][]string) { p.err = errors.Join(p.err, Render(&p.text, rows, p.Markdown)) }

// Write writes the page, unless a table failed.
func (p *Page) Write(w io.Writer) error {
	if p.err != nil {
		return p.err
	}
	_, err := w.Write(p.text.Bytes())
	return err
}

// Render writes rows as a table for a terminal, or as Markdown. The first row is the header. The first column, "policy" and "class" are
// aligned to the left, the others to the right.
func Render(w io.Writer, rows [][]string, markdown bool) error {
	align := slices.Repeat([]tw.Align{tw.AlignRight}, len(rows[0]))
	for i, title := range rows[0] {
		if i == 0 || title == "policy" || title == "class" {
			align[i] = tw.AlignLeft
		}
	}
	cell := tw.CellConfig{
		Formatting: tw.CellFormatting{AutoWrap: tw.WrapNone, AutoFormat: tw.Off},
		Alignment:  tw.CellAlignment{Global: tw.AlignRight, PerColumn: align},
	}
	options := []tablewriter.Option{tablewriter.WithConfig(tablewriter.Config{Header: cell, Row: cell})}
	if markdown {
		options = append(options, tablewriter.WithRenderer(renderer.NewMarkdown()))
	}
	t := tablewriter.NewTable(w, options...)
	t.Header(rows[0])
	if err := errors.Join(t.Bulk(rows[1:]), t.Render()); err != nil {
		return fmt.Errorf("write the table: %w", err)
	}
	return nil
}
