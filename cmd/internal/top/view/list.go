package view

import (
	"strings"

	tea "charm.land/bubbletea/v2"
	"charm.land/lipgloss/v2"
	"github.com/charmbracelet/x/ansi"

	"gnnsched/cmd/internal/top/query"
	"gnnsched/cmd/internal/top/state"
)

// list is a screen of rows of one type in columns. Screens that differ in more than these fields embed it. Fields may be nil or
// empty, except about, rows and columns.
type list[T any] struct {
	about   description
	ask     state.Ask // what it shows besides a frame
	sorted  string    // how the rows are ordered, such as "oldest first"
	rows    func(c *canvas, f query.Filter) (shown []T, total int)
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

func (l *list[T]) describe() description            { return l.about }
func (l *list[T]) asks() state.Ask                  { return l.ask }
func (l *list[T]) press(*canvas, tea.KeyPressMsg)   {}
func (l *list[T]) order(*canvas) string             { return l.sorted }
func (l *list[T]) size(*canvas) (shown, total int)  { return len(l.shown), l.total }
func (l *list[T]) open(target) bool                 { return false }
func (l *list[T]) update(c *canvas, f query.Filter) { l.shown, l.total = l.rows(c, f) }

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
	return append(l.top(c), table(c, l.columns(c), l.shown, from, to)...)
}

// selected returns the rows of all that pass the filter, and the number of all.
func selected[T any](f query.Filter, all []T, row func(*T) query.Row) (shown []T, total int) {
	return query.Select(f, all, row), len(all)
}

// always returns a function that returns a fixed text.
func always(s string) func(*canvas) string { return func(*canvas) string { return s } }

// prose is a screen of text that covers the others.
type prose struct {
	list[struct{}]
	lines func(c *canvas) []string
}

func (*prose) update(*canvas, query.Filter) {}
func (*prose) heading(*canvas) int          { return 0 }
func (*prose) empty(*canvas) string         { return "" }
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
	extra  bool // left out unless there is room for it
	rest   bool // gets the room that the other columns leave
	free   int  // cells of this room that stay free
	width  int  // fixed width, 0 for none
	most   int  // largest width, 0 for any
	cell   func(*T) string
	style  func(*T) lipgloss.Style      // nil for plain
	draw   func(x *T, width int) string // in place of cell and style, for a fixed width or the rest
}

// measuredRows is the number of further rows, besides the drawn ones, that determine the column widths: a list of all pods may have
// 100,000.
const measuredRows = 2000

// table draws the titles of the columns, and the rows with index from up to, but not including, to.
// Where the window is too narrow, the widest columns are cut, and in the end the last ones left out.
func table[T any](c *canvas, cols []column[T], rows []T, from, to int) []string {
	wide := measure(c, cols, rows, from, to)
	line := func(text func(i int) string) string {
		var cells []string
		for i := range cols {
			if wide[i] > 0 {
				cells = append(cells, text(i))
			}
		}
		return strings.Join(cells, c.gap())
	}
	place := func(i int, text string) string {
		switch {
		case cols[i].right:
			return c.st.FitRight(text, wide[i])
		case cols[i].middle:
			return c.st.FitMiddle(text, wide[i])
		}
		return c.st.Fit(text, wide[i])
	}
	lines := []string{line(func(i int) string {
		if cols[i].strong {
			return c.st.Bold.Render(place(i, cols[i].title))
		}
		return c.st.Dim.Render(place(i, cols[i].title))
	})}
	for row := from; row < to; row++ {
		x := &rows[row]
		lines = append(lines, line(func(i int) string {
			if cols[i].draw != nil {
				return cols[i].draw(x, wide[i])
			}
			text := place(i, state.Printable(cols[i].cell(x)))
			if cols[i].style != nil {
				return cols[i].style(x).Render(text)
			}
			return text
		}))
	}
	return lines
}

// measure returns the widths of the columns; 0 for those that are left out.
func measure[T any](c *canvas, cols []column[T], rows []T, from, to int) []int {
	gap, room := len(c.gap()), c.width
	wide := make([]int, len(cols))
	for i, col := range cols {
		if wide[i] = col.width; col.width > 0 || col.rest {
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
	shrink(c, cols, wide)
	for i, col := range cols {
		if !col.extra && !col.rest {
			room -= wide[i] + gap
			if wide[i] == 0 { // a column that matters more has no room
				room = 0
				break
			}
		}
	}
	for i, col := range cols {
		switch {
		case col.rest:
			wide[i] = max(room-col.free, 0)
		case !col.extra:
		case wide[i] <= room:
			room -= wide[i] + gap
		default:
			wide[i] = 0
		}
	}
	return wide
}

// shrink cuts the widest of the columns that are always shown until all fit. Columns that would be too narrow to read get
// no width, the last ones first.
func shrink[T any](c *canvas, cols []column[T], wide []int) {
	const least = 8
	for {
		sum, widest, last := -len(c.gap()), -1, -1
		for i := range cols {
			if cols[i].extra || cols[i].rest || wide[i] == 0 {
				continue
			}
			sum += wide[i] + len(c.gap())
			if cols[i].width > 0 {
				continue
			}
			if last = i; widest < 0 || wide[i] > wide[widest] {
				widest = i
			}
		}
		switch {
		case last < 0 || sum <= c.width:
			return
		case wide[widest] > least:
			wide[widest]--
		case widest == last && sum == wide[last]:
			wide[last] = max(c.width, 1)
			return
		default:
			wide[last] = 0
		}
	}
}
