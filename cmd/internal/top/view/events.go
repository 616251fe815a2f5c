package view

import (
	"fmt"

	"charm.land/lipgloss/v2"

	"gnnsched/cmd/internal/top/state"
)

// eventsScreen lists the cluster's events, the newest first.
func eventsScreen() screen {
	return &list[state.Event]{
		about: description{name: "events", open: bind("e", "events", "e")}, ask: state.Ask{Events: true}, sorted: "newest first",
		noun: "event", to: eventTarget, columns: eventColumns,
		none: func(c *canvas) string {
			if err := c.details.EventsErr; err != nil {
				return state.Printable(err.Error())
			}
			return "no events in this cluster"
		},
		rows:  func(c *canvas) []state.Event { return c.details.Events },
		texts: func(e *state.Event) []string { return []string{e.Type, e.Reason, e.Object, e.From, e.Message} },
	}
}

func eventColumns(c *canvas) []column[state.Event] {
	warns := func(e *state.Event) lipgloss.Style {
		if e.Type != "Normal" {
			return c.st.Warn
		}
		return c.st.Plain
	}
	return []column[state.Event]{
		{title: "AGE", right: true, cell: func(e *state.Event) string { return state.Age(c.frame.Time, e.Time) }},
		{title: "REASON", cell: func(e *state.Event) string { return e.Reason }, style: warns},
		{title: "OBJECT", middle: true, cell: func(e *state.Event) string { return e.Object }},
		{title: "COUNT", right: true, extra: 1, cell: func(e *state.Event) string { return fmt.Sprint(e.Count) }},
		{title: "FROM", extra: 2, cell: func(e *state.Event) string { return e.From }},
		{title: "MESSAGE", cell: func(e *state.Event) string { return state.Excluded(e.Message) }},
	}
}
