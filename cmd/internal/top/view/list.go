package view

import (
	"strings"

	"charm.land/bubbles/v2/table"
	tea "charm.land/bubbletea/v2"
	"charm.land/lipgloss/v2"
	"github.com/charmbracelet/x/ansi"

	"gnnsched/cmd/internal/top/state"
)

// list is a screen of rows of one type in columns. Screens that differ in more than these fields embed it. Fields may be nil or
// empty, except about, rows and columns.
type list[T any] struct {
	about   description
	ask     state.Ask // what it shows besides a frame
	sorted  string    // how the rows are ordered, such as "oldest first"
	rows    func(c *canvas) []T
	texts   func(*T) []string        // what the filter searches of a row
	id      func(*T) string          // names a row
	to      func(*T) target          // that Enter opens
	above   func(c *canvas) []string // the lines above the titles
	columns func(c *canvas) []column[T]
	bare    bool                   // without rows there are no titles
	noun    string                 // names a row in the text that no row passes the filter
	none    func(c *canvas) string // the text if there are no rows even without the filter

	shown []T // the rows that pass the filter, in order
	total int // number of rows without the filter
}

func (l *list[T]) describe() description           { return l.about }
func (l *list[T]) asks() state.Ask                 { return l.ask }
func (l *list[T]) press(*canvas, tea.KeyPressMsg)  {}
func (l *list[T]) order(*canvas) string            { return l.sorted }
func (l *list[T]) size(*canvas) (shown, total int) { return len(l.shown), l.total }
func (l *list[T]) open(target) bool                { return false }

func (l *list[T]) update(c *canvas, filter string) {
	all := l.rows(c)
	l.shown, l.total = state.Select(all, filter, l.texts), len(all)
}

func (l *list[T]) name(row int) string {
	if l.id == nil {
		return ""
	}
	return l.id(&l.shown[row])
}

func (l *list[T]) opens(_ *canvas, row int) target {
	if l.to == nil {
		return target{}
	}
	return l.to(&l.shown[row])
}

func (l *list[T]) empty(c *canvas) string {
	if l.total > 0 || l.none == nil {
		return "no " + l.noun + " passes the filter"
	}
	return l.none(c)
}

// heading implements screen: lines above the titles, and the titles.
func (l *list[T]) heading(c *canvas) int { return len(l.top(c)) + 1 }

func (l *list[T]) top(c *canvas) []string {
	if l.above == nil {
		return nil
	}
	return l.above(c)
}

func (l *list[T]) draw(c *canvas, from, to int) []string {
	if l.bare && len(l.shown) == 0 {
		return append(l.top(c), "")
	}
	return append(l.top(c), drawTable(c, l.columns(c), l.shown, from, to)...)
}

// always returns a function that returns a fixed text.
func always(s string) func(*canvas) string { return func(*canvas) string { return s } }

// prose is a screen of text that covers the others.
type prose struct {
	list[struct{}]
	lines func(c *canvas) []string
}

func (*prose) update(*canvas, string) {}
func (*prose) heading(*canvas) int    { return 0 }
func (*prose) empty(*canvas) string   { return "" }
func (s *prose) size(c *canvas) (shown, total int) {
	n := len(s.lines(c))
	return n, n
}
func (s *prose) draw(c *canvas, from, to int) []string { return s.lines(c)[from:to] }

// column is a column of a table. It is as wide as its text if the window has room.
type column[T any] struct {
	title  string
	strong bool // the title is that of the order
	right  bool // right-aligned
	middle bool // cut in the middle: the ends of pods' names differ
	extra  int  // from 1: left out unless there is room for it, those with higher numbers first
	most   int  // largest width, 0 for any
	cell   func(*T) string
	style  func(*T) lipgloss.Style // nil for plain

	// draw replaces cell and style where a cell has several styles. It returns text of this width.
	draw  func(*T) string
	width int
}

// measuredRows is the number of further rows, besides the drawn ones, that determine the column widths: a list of all pods may have
// 100,000.
const measuredRows = 2000

// drawTable draws the titles of the columns, and the rows with index from up to, but not including, to.
func drawTable[T any](c *canvas, cols []column[T], rows []T, from, to int) []string {
	wide := measure(c, cols, rows, from, to)
	place := func(i int, text string) string {
		switch {
		case cols[i].right:
			return c.st.fitRight(text, wide[i])
		case cols[i].middle:
			return c.st.fitMiddle(text, wide[i])
		}
		return c.st.Fit(text, wide[i])
	}
	heads, lines := make([]table.Column, len(cols)), make([]table.Row, to-from)
	for i := range cols {
		style := c.st.Dim
		if cols[i].strong {
			style = c.st.Bold
		}
		heads[i] = table.Column{Title: style.Render(place(i, cols[i].title)), Width: wide[i]}
	}
	for row := range lines {
		x := &rows[from+row]
		for i, col := range cols {
			var text string
			switch {
			case wide[i] == 0: // not shown
			case col.draw != nil:
				text = col.draw(x)
			default:
				if text = place(i, state.Printable(col.cell(x))); col.style != nil {
					text = col.style(x).Render(text)
				}
			}
			lines[row] = append(lines[row], text)
		}
	}
	gap := lipgloss.NewStyle().PaddingRight(len(c.gap()))
	t := table.New(table.WithStyles(table.Styles{Header: gap, Cell: gap}), table.WithColumns(heads), table.WithRows(lines),
		table.WithHeight(len(lines)+1), table.WithWidth(c.width))
	drawn := strings.Split(t.View(), "\n")[:len(lines)+1]
	for i := range drawn {
		drawn[i] = ansi.Truncate(drawn[i], c.width, "") // the last column's gap
	}
	return drawn
}

// measure returns the widths of the columns; 0 for those that are left out. Where the window is too narrow, columns with the highest extra
// go first, then the widest are cut, and columns that would be too narrow to read go, the last ones first.
func measure[T any](c *canvas, cols []column[T], rows []T, from, to int) []int {
	const least = 8
	wide := make([]int, len(cols))
	for i, col := range cols {
		if wide[i] = col.width; col.draw != nil {
			continue
		}
		wide[i] = ansi.StringWidth(col.title)
		for row := range rows {
			if row < measuredRows || row >= from && row < to {
				wide[i] = max(wide[i], min(ansi.StringWidth(col.cell(&rows[row])), c.width))
			}
		}
		if col.most > 0 {
			wide[i] = min(wide[i], col.most)
		}
	}
	for {
		taken, extra, widest, last := -len(c.gap()), -1, -1, -1
		for i, w := range wide {
			if w == 0 {
				continue
			}
			taken, last = taken+w+len(c.gap()), i
			if cols[i].extra > 0 && (extra < 0 || cols[i].extra >= cols[extra].extra) {
				extra = i
			}
			if cols[i].draw == nil && (widest < 0 || w > wide[widest]) {
				widest = i
			}
		}
		switch {
		case taken <= c.width:
			return wide
		case extra >= 0:
			wide[extra] = 0
		case widest >= 0 && wide[widest] > least:
			wide[widest]--
		case taken == wide[last]: // the only one
			wide[last] = max(c.width, 1)
			return wide
		default:
			wide[last] = 0
		}
	}
}
