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

// keyMap holds the keys that work on every screen.
type keyMap struct {
	moves                              []move
	enter, filter, clear, server, quit key.Binding
}

// move is a key that moves the cursor.
type move struct {
	key.Binding
	rows func(page, all int) int // how far down, given the rows that fit and all rows
}

func newKeyMap() keyMap {
	return keyMap{
		moves: []move{
			{bind("↑ k", "one line up", "up", "k"), func(int, int) int { return -1 }},
			{bind("↓ j", "one line down", "down", "j"), func(int, int) int { return 1 }},
			{bind("PgUp ^b", "one page up", "pgup", "ctrl+b"), func(page, _ int) int { return -page }},
			{bind("PgDn ^f", "one page down", "pgdown", "ctrl+f", "space"), func(page, _ int) int { return page }},
			{bind("^u", "half a page up", "ctrl+u"), func(page, _ int) int { return -max(page/2, 1) }},
			{bind("^d", "half a page down", "ctrl+d"), func(page, _ int) int { return max(page/2, 1) }},
			{bind("g Home", "first line", "home", "g"), func(_, all int) int { return -all }},
			{bind("G End", "last line", "end", "G"), func(_, all int) int { return all }},
		},
		enter:  bind("Enter", "open the row", "enter"),
		filter: bind("/", "filter", "/"),
		clear:  bind("Esc", "clear the filter, go back", "esc"),
		server: bind("o", "in t and s: the next scheduler", "o"),
		quit:   bind("q", "quit", "q"),
	}
}

// bind makes a key binding; label and text are for the help.
func bind(label, text string, keys ...string) key.Binding {
	return key.NewBinding(key.WithKeys(keys...), key.WithHelp(label, text))
}

// moving returns the keys that move in a screen or between screens.
func (k *keyMap) moving() (out []key.Binding) {
	for _, m := range k.moves {
		out = append(out, m.Binding)
	}
	return append(out, k.enter, k.filter, k.clear)
}

func (m *Model) startTyping() tea.Cmd {
	m.typing = true
	m.input.SetValue(m.page().text)
	m.input.CursorEnd()
	return m.input.Focus()
}

// edit handles a key while a filter is typed. The rows follow every letter.
func (m *Model) edit(k tea.KeyPressMsg) tea.Cmd {
	switch k.String() {
	case "esc":
		m.setFilter("")
		fallthrough
	case "enter":
		m.typing = false
		m.input.Blur()
		return nil
	}
	return m.enterText(k)
}

// enterText hands a key or a pasted text to the input.
func (m *Model) enterText(msg tea.Msg) (cmd tea.Cmd) {
	m.input, cmd = m.input.Update(msg)
	m.setFilter(m.input.Value())
	return cmd
}

func (m *Model) setFilter(text string) {
	m.page().setFilter(text)
	m.update()
}

// scroll moves the cursor, and tells whether the key was one for that.
func (m *Model) scroll(k tea.KeyPressMsg) bool {
	p := m.page()
	all, _ := p.size(&m.canvas)
	for _, x := range m.keys.moves {
		if key.Matches(k, x.Binding) {
			m.move(x.rows(max(m.rows(), 1), all))
			return true
		}
	}
	return false
}

// move puts the cursor some rows further down. An overlay has none and scrolls.
func (m *Model) move(rows int) {
	p := m.page()
	if p.about.overlay {
		p.offset += rows
		return
	}
	m.choose(p.cursor + rows)
}

// choose puts the cursor on a row, or the next that exists. From then on it follows that row, unless it is the first.
func (m *Model) choose(row int) {
	p := m.page()
	shown, _ := p.size(&m.canvas)
	p.choose(max(0, min(row, shown-1)))
	if p.cursor > 0 {
		p.chosen = p.name(p.cursor)
	}
}

// find puts the cursor on the chosen row after the rows have changed.
func (p *page) find(c *canvas) {
	if p.chosen == "" {
		return
	}
	shown, _ := p.size(c)
	if p.cursor < shown && p.name(p.cursor) == p.chosen {
		return
	}
	for row := range shown {
		if p.name(row) == p.chosen {
			p.cursor = row
			return
		}
	}
	p.chosen = ""
}

// helpScreen explains every key, and the figures of the other screens. It covers the screen
// that the reader came from.
func helpScreen() screen {
	return &help{prose{lines: helpLines, list: list[struct{}]{
		about: description{name: "help", open: bind("?", "help", "?"), overlay: true},
	}}}
}

type help struct{ prose }

func (*help) order(c *canvas) string { return c.pages[0].order(c) }

// helpLines draws the whole help: the view's keys beside the screens' keys, then the notes of the screens.
func helpLines(c *canvas) []string {
	k, st := &c.keys, &c.st
	general := k.moving()
	var own []key.Binding
	for _, p := range c.pages {
		if p.about.open.Enabled() {
			general = append(general, p.about.open)
		}
		own = append(own, p.about.keys...)
	}
	general = append(general, k.server, k.quit)
	lines := append([]string{st.Bold.Render("Keys")}, keyLines(c, general, own)...)
	for _, p := range c.pages {
		for _, n := range p.about.notes {
			lines = append(lines, "", st.Bold.Render(n.title)+n.text)
			lines = append(lines, n.lines...)
		}
	}
	return lines
}

// keyLines draws two lists of keys side by side, or one below the other in a narrow window.
func keyLines(c *canvas, left, right []key.Binding) []string {
	st := &c.st
	line := func(b key.Binding) string {
		return "  " + st.Bold.Render(st.Fit(b.Help().Key, 9)) + b.Help().Desc
	}
	var lines []string
	half := c.width / 2
	if half < 38 {
		for _, b := range append(left, right...) {
			lines = append(lines, line(b))
		}
		return lines
	}
	for i := range max(len(left), len(right)) {
		l, r := "", ""
		if i < len(left) {
			l = line(left[i])
		}
		if i < len(right) {
			r = line(right[i])
		}
		lines = append(lines, st.Fit(l, half)+r)
	}
	return lines
}
