package view

import (
	"fmt"
	"strings"

	"charm.land/bubbles/v2/key"
	tea "charm.land/bubbletea/v2"
	"charm.land/lipgloss/v2"

	"gnnsched/cmd/internal/top/state"
)

// screen is one list of the view, such as the nodes or the pending pods. The view draws the
// header and the footer around it, scrolls it, and reads its filter; everything else about the
// list is the screen's own.
//
// Most screens are a [list], which a function in a file of its own fills in. To add one, write such a function and add it
// to [newScreens].
type screen interface {
	// describe returns the screen's properties for the view and the help. The view calls it once.
	describe() description
	// asks returns what the screen shows besides a frame; the zero value for nothing.
	asks() state.Ask
	// update recomputes the rows: those that pass the filter, in order.
	update(c *canvas, filter string)
	// press handles a key that the view has no use for.
	press(c *canvas, k tea.KeyPressMsg)
	// order says in the title how the rows are ordered, such as "oldest first".
	order(c *canvas) string
	// size returns the number of rows that pass the filter, and of all rows.
	size(c *canvas) (shown, total int)
	// name returns a name of a row that does not change, so that the cursor follows a row that moves; empty if it has none.
	name(row int) string
	// opens returns the target of a row.
	opens(c *canvas, row int) target
	// open makes the screen show a target, and reports whether it is one for this screen.
	open(to target) bool
	// heading returns the number of lines above the rows, which do not scroll.
	heading(c *canvas) int
	// draw returns the heading, and below it the rows with index from up to, but not including, to.
	draw(c *canvas, from, to int) []string
	// empty returns the text that is shown if there are no rows.
	empty(c *canvas) string
}

// newScreens lists the screens. The view starts with the first one.
func newScreens(cfg Config) []screen {
	return []screen{
		newNodesScreen(cfg.Sort),
		pendingScreen(),
		podsScreen(),
		newHeatScreen(),
		decisionsScreen(),
		newNodeScreen(),
		newPodScreen(),
		eventsScreen(),
		newVersusScreen(),
		newLearningScreen(),
		newShadowScreen(),
		helpScreen(),
	}
}

// description tells the view and the help about a screen.
type description struct {
	name    string        // one word, for the footer
	open    key.Binding   // shows the screen and, pressed again, leaves it; the first screen has none
	keys    []key.Binding // the screen's own keys, for the help
	hints   [][2]string   // the most important of them, key and word, for the footer
	notes   []note        // paragraphs of the help
	pending int           // number of pending pods that the screen wants in a frame
	grid    bool          // the screen marks the chosen row itself, because the rows hold several objects
	overlay bool          // hides the cluster's figures, has no filter, and leads back to the screen below it
}

// note is a paragraph of the help.
type note struct {
	title string
	text  string // on the title's line
	lines []string
}

// canvas holds the input of a screen's drawing: the newest frame, the size of the window, and styles.
type canvas struct {
	frame         state.Frame
	asked         state.Ask
	details       state.Details // the answer to asked
	servers       []string      // names of the asked schedulers
	server        int           // index of the scheduler for screens of one scheduler
	width, height int           // of the window, in cells
	st            styles
	space         int     // rows that fit below the heading
	cursor        int     // index of the chosen row of the visible screen
	keys          keyMap  // of the view, for the help
	pages         []*page // all screens, for the help
}

// gap is the space between two columns.
func (c *canvas) gap() string {
	if c.width < 60 {
		return " "
	}
	return "  "
}

// page is a screen with its state in the view: where the reader is, and the filter.
type page struct {
	screen
	about  description
	above  int    // lines of the heading in this window
	offset int    // first row shown
	cursor int    // the chosen row
	chosen string // the name of the chosen row, if the screen names its rows; empty for the first row
	text   string // the filter
}

// setFilter takes a new filter.
func (p *page) setFilter(text string) {
	p.text, p.offset = text, 0
	p.choose(0)
}

// choose puts the cursor on a row, which need not exist.
func (p *page) choose(row int) { p.cursor, p.chosen = row, "" }

// target names the object that Enter opens, in one of its fields. The zero value opens nothing.
type target struct {
	node string
	pod  state.PodAsk // with the decision that is explained
}

// chosenTarget returns the target of the chosen row.
func (m *Model) chosenTarget() target {
	p := m.page()
	if shown, _ := p.size(&m.canvas); p.cursor >= shown {
		return target{}
	}
	return p.opens(&m.canvas, p.cursor)
}

// enter opens the target of the chosen row.
func (m *Model) enter() tea.Cmd {
	to := m.chosenTarget()
	for i, p := range m.pages {
		if i != m.current && p.open(to) {
			m.stack = append(m.stack, m.current)
			m.current, p.offset = i, 0
			m.setFilter("")
			return m.complete()
		}
	}
	return nil
}

// podTarget is a pod as "NAMESPACE/NAME".
func podTarget(pod string) target {
	namespace, name, _ := strings.Cut(pod, "/")
	return target{pod: state.PodAsk{Namespace: namespace, Name: name}}
}

func nodeTarget(n *state.Node) target { return target{node: n.Name} }

// decisionTarget is the pod of a decision, with the decision's explanation.
func decisionTarget(d *state.Decision) target {
	to := target{pod: state.PodAsk{Namespace: d.Namespace, Name: d.Pod}}
	if !d.Counted { // otherwise no scheduler reported it
		to.pod.Decision = &d.Record
	}
	return to
}

// eventTarget is the pod or the node that an event is about.
func eventTarget(e *state.Event) target {
	switch kind, name, _ := strings.Cut(e.Object, " "); kind {
	case "Pod":
		return podTarget(name)
	case "Node":
		return target{node: name}
	}
	return target{}
}

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
