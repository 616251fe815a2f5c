package view

import (
	"fmt"

	"charm.land/lipgloss/v2"

	tea "charm.land/bubbletea/v2"

	"gnnsched/cmd/internal/top/query"
	"gnnsched/cmd/internal/top/state"
)

// eventsScreen lists the cluster's events, the newest first.
type eventsScreen struct {
	shown []state.Event // those that pass the filter
}

func (*eventsScreen) describe() description {
	return description{name: "events", heading: 1, open: bind("e", "events", "e")}
}

func (*eventsScreen) asks() state.Ask { return state.Ask{Events: true} }

func (s *eventsScreen) update(c *canvas, f query.Filter) {
	s.shown = query.Select(f, c.details.Events, func(e *state.Event) query.Row {
		return query.Row{Texts: []string{e.Type, e.Reason, e.Object, e.From, e.Message}}
	})
}

func (*eventsScreen) press(*canvas, tea.KeyPressMsg)      {}
func (*eventsScreen) order(*canvas) string                { return "newest first" }
func (s *eventsScreen) opens(_ *canvas, row int) target   { return eventTarget(&s.shown[row]) }
func (s *eventsScreen) size(c *canvas) (shown, total int) { return len(s.shown), len(c.details.Events) }

func (*eventsScreen) empty(c *canvas) string {
	switch {
	case c.details.EventsErr != nil:
		return state.Printable(c.details.EventsErr.Error())
	case len(c.details.Events) > 0:
		return "no event passes the filter"
	}
	return "no events in this cluster"
}

func (s *eventsScreen) draw(c *canvas, from, to int) []string {
	of := func(cell func(e *state.Event) string) func(int) string {
		return func(row int) string { return cell(&s.shown[row]) }
	}
	warns := func(row int) lipgloss.Style {
		if s.shown[row].Type != "Normal" {
			return c.st.Warn
		}
		return c.st.Plain
	}
	return c.textTable([]textColumn{
		{title: "AGE", right: true, cell: of(func(e *state.Event) string { return state.Age(c.frame.Time, e.Time) })},
		{title: "REASON", cell: of(func(e *state.Event) string { return e.Reason }), style: warns},
		{title: "OBJECT", middle: true, cell: of(func(e *state.Event) string { return e.Object })},
		{title: "COUNT", right: true, extra: true, cell: of(func(e *state.Event) string { return fmt.Sprint(e.Count) })},
		{title: "FROM", extra: true, cell: of(func(e *state.Event) string { return e.From })},
		{title: "MESSAGE", cell: of(func(e *state.Event) string { return state.Excluded(e.Message) })},
	}, len(s.shown), from, to)
}
