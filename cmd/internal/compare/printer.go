package compare

import (
	"bytes"
	"strings"
	"unicode/utf8"

	"github.com/charmbracelet/x/ansi"

	"gnnsched/scheduler/eval"
)

// printer collects text whose lines have at most width columns, as far as words and single columns of tables allow.
type printer struct {
	b     bytes.Buffer
	width int
}

// say writes a paragraph behind an indent. Its spaces at the beginning add to the indent.
func (p *printer) say(indent, text string) {
	words := strings.TrimLeft(text, " ")
	indent += text[:len(text)-len(words)]
	for i, line := range strings.Split(ansi.Wordwrap(words, max(p.width-len(indent)-2, 20), ""), "\n") {
		if i > 0 {
			line = "  " + strings.TrimLeft(line, " ")
		}
		p.b.WriteString(indent + line + "\n")
	}
}

// table writes a table whose first column has the titles of the rows. If it is too wide, it becomes several ones with the same
// titles.
func (p *printer) table(lines [][]string) error {
	const frame = 3 // columns between two cells
	wide := func(column int) int {
		most := 0
		for _, l := range lines {
			most = max(most, utf8.RuneCountInString(l[column]))
		}
		return most + frame
	}
	for from := 1; from < len(lines[0]); {
		to, total := from+1, 1+wide(0)+wide(from)
		for to < len(lines[0]) && total+wide(to) <= p.width {
			total += wide(to)
			to++
		}
		part := make([][]string, len(lines))
		for i, l := range lines {
			part[i] = append([]string{l[0]}, l[from:to]...)
		}
		if err := eval.Render(&p.b, part, false); err != nil {
			return err
		}
		from = to
	}
	return nil
}
