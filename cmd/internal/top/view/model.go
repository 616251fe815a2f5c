// Package view draws a cluster on a terminal and answers keys. It is the bubbletea model behind
// ktop and the demo.
//
// The model calls its Read function once per interval and draws the frame that it returns;
// events in the cluster cause no redraws. The output depends only on the configuration, the
// messages and the frames, so that tests can compare it with golden files.
//
// Each list that a person can look at is a screen: the nodes, the heat map, the decisions, the help. A screen
// that shows more than every frame holds asks for details. To add one, see screen.go.
package view

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"charm.land/bubbles/v2/key"
	"charm.land/bubbles/v2/textinput"
	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/x/ansi"

	"gnnsched/cmd/internal/top/state"
	"gnnsched/internal/logging"
)

// MinInterval is the shortest time between two frames, so that redraws cost little CPU.
const MinInterval = 100 * time.Millisecond

// Config says what to draw and how. Read is required.
type Config struct {
	Title    string        // name of the cluster
	Interval time.Duration // between two frames; 0 means two seconds
	Sort     state.Sort
	Look     Look
	Servers  []string // names of the schedulers that Details asks; shown only if there are several

	// Read returns the cluster now, with the maxPending oldest pending pods. It is called from
	// other goroutines; at most one call at a time is for a regular frame.
	Read func(maxPending int) state.Frame

	// Details, if set, returns the data that the visible screen needs besides the frame. It is called like Read, after it.
	Details func(state.Ask) state.Details

	// Done, if set, ends the pause between two frames early, so that no goroutine is left when the
	// program quits.
	Done <-chan struct{}
}

// Model is the view, a bubbletea model. Make one with [New].
type Model struct {
	canvas
	cfg    Config
	loaded bool     // a frame has been read
	header []string // drawn from frame for this window

	current int   // index in pages of the visible screen
	stack   []int // of the screens to go back to from overlays and from what Enter opened

	typing bool // the reader types a filter into the footer
	input  textinput.Model
}

// New returns a model that has read no frame yet.
func New(cfg Config) *Model {
	cfg.Interval = cmp.Or(cfg.Interval, 2*time.Second)
	if cfg.Sort.Column == "" {
		cfg.Sort = state.By(state.ByName)
	}
	cfg.Title = state.Printable(cfg.Title)
	m := &Model{cfg: cfg, canvas: canvas{
		st: newStyles(cfg.Look), keys: newKeyMap(), servers: cfg.Servers, width: 80, height: 24,
	}}
	for _, s := range newScreens(cfg) {
		m.pages = append(m.pages, &page{screen: s, about: s.describe()})
	}
	m.input = textinput.New()
	m.input.Prompt = "/"
	m.input.SetVirtualCursor(false) // the terminal's own cursor blinks without redraws
	m.input.SetStyles(textinput.Styles{})
	m.settle()
	return m
}

type (
	frameMsg struct {
		frame   state.Frame
		ask     state.Ask
		details state.Details
		regular bool // a pause and the next regular frame follow; other frames come in between
	}
	tickMsg struct{}
)

// Init implements tea.Model. It reads the first frame.
func (m *Model) Init() tea.Cmd { return m.read(true) }

// read returns a command that reads a frame.
func (m *Model) read(regular bool) tea.Cmd {
	cfg, limit, ask := m.cfg, m.wanting().about.pending, m.asking(m.wanting())
	return func() tea.Msg {
		msg := frameMsg{frame: cfg.Read(limit), ask: ask, regular: regular}
		if cfg.Details != nil && ask != (state.Ask{}) {
			msg.details = cfg.Details(ask)
		}
		return msg
	}
}

// asking returns the details that a screen shows besides a frame.
func (m *Model) asking(p *page) (ask state.Ask) {
	if ask = p.asks(); ofOne(ask) {
		ask.Server = m.server
	}
	return ask
}

// ofOne reports whether only one scheduler can be asked, so that the reader chooses it.
func ofOne(ask state.Ask) bool { return ask.Learning || ask.Shadow }

// wanting is the screen that needs a frame: the visible one, or the one below an overlay, to which the reader may return before the next
// frame.
func (m *Model) wanting() *page {
	if n := len(m.stack); n > 0 && m.page().about.overlay && m.asking(m.page()) == (state.Ask{}) {
		return m.pages[m.stack[n-1]]
	}
	return m.page()
}

// pause returns a command that waits for the interval.
func (m *Model) pause() tea.Cmd {
	interval, done := m.cfg.Interval, m.cfg.Done
	return func() tea.Msg {
		t := time.NewTimer(interval)
		defer t.Stop()
		select {
		case <-t.C:
			return tickMsg{}
		case <-done:
			return nil
		}
	}
}

// Update implements tea.Model.
func (m *Model) Update(msg tea.Msg) (tea.Model, tea.Cmd) {
	var cmd tea.Cmd
	switch msg := msg.(type) {
	case tea.WindowSizeMsg:
		m.width, m.height = max(msg.Width, 0), max(msg.Height, 0)
	case tickMsg:
		return m, m.read(true)
	case frameMsg:
		m.frame = msg.frame
		m.asked, m.details = msg.ask, msg.details
		if ofOne(msg.ask) && msg.ask.Server != m.server { // the reader has chosen another scheduler since the request
			m.details = state.Details{}
		}
		m.loaded = true
		m.update()
		if msg.regular {
			cmd = m.pause()
		}
	case tea.PasteMsg:
		if m.typing {
			cmd = m.enterText(msg)
		}
	case tea.KeyPressMsg:
		cmd = m.press(msg)
	}
	m.settle()
	return m, cmd
}

// press handles a key.
func (m *Model) press(k tea.KeyPressMsg) tea.Cmd {
	switch {
	case k.String() == "ctrl+c":
		return tea.Quit
	case k.String() == "ctrl+z":
		return tea.Suspend
	case m.typing:
		return m.edit(k)
	case key.Matches(k, m.keys.quit):
		return tea.Quit
	}
	for i, other := range m.pages {
		if key.Matches(k, other.about.open) {
			return m.toggle(i)
		}
	}
	p := m.page()
	switch {
	case key.Matches(k, m.keys.clear):
		if p.text == "" && m.current != 0 {
			return m.leave()
		} else {
			m.setFilter("")
		}
	case m.scroll(k), p.about.overlay:
	case key.Matches(k, m.keys.server):
		return m.nextServer()
	case key.Matches(k, m.keys.filter):
		return m.startTyping()
	case key.Matches(k, m.keys.enter):
		return m.enter()
	default:
		p.press(&m.canvas, k)
		if !p.about.grid {
			p.choose(0) // the order may be another
		}
		m.update()
	}
	return nil
}

// nextServer asks the next scheduler, if the screen shows one of several.
func (m *Model) nextServer() tea.Cmd {
	if len(m.servers) < 2 || !ofOne(m.asking(m.page())) {
		return nil
	}
	m.server, m.details = (m.server+1)%len(m.servers), state.Details{}
	m.update()
	return m.complete()
}

// page is the screen that is shown.
func (m *Model) page() *page { return m.pages[m.current] }

// toggle shows a screen, or leaves it if it is shown already.
func (m *Model) toggle(screen int) tea.Cmd {
	if screen == m.current {
		return m.leave()
	}
	return m.show(screen)
}

// show shows a screen. If the screen needs more than every frame holds, it asks at once.
func (m *Model) show(screen int) tea.Cmd {
	next := m.pages[screen]
	switch {
	case screen == m.current:
		return nil
	case next.about.overlay:
		next.offset = 0
		m.stack = append(m.stack, m.current)
	default:
		m.stack = nil
	}
	next.open(target{}) // all that it can show
	m.current = screen
	return m.complete()
}

// complete reads the data that the visible screen needs besides a frame; nil if it needs none.
func (m *Model) complete() tea.Cmd {
	if m.asking(m.page()) != (state.Ask{}) || m.page().about.pending > 0 {
		return m.read(false)
	}
	return nil
}

// leave goes back to the screen below this one, or to the first.
func (m *Model) leave() tea.Cmd {
	was := m.page()
	m.current = 0
	if n := len(m.stack); n > 0 {
		m.current, m.stack = m.stack[n-1], m.stack[:n-1]
	}
	if was.about.overlay && m.asking(was) == (state.Ask{}) { // the frames were for the screen below
		return nil
	}
	return m.complete()
}

// update has every screen recompute its rows. The cursor stays on the row that it was put on, wherever that is now.
func (m *Model) update() {
	for _, p := range m.pages {
		p.update(&m.canvas, p.text)
		p.find(&m.canvas)
	}
}

// settle redraws the header, whose height determines the number of rows, and keeps cursor and offset within the rows. The last page stays
// full.
func (m *Model) settle() {
	if m.width == 0 || m.height == 0 {
		return
	}
	m.header = m.buildHeader()
	p := m.page()
	p.above = p.heading(&m.canvas)
	rows := m.rows()
	m.space = rows
	shown, _ := p.size(&m.canvas)
	p.cursor = max(0, min(p.cursor, shown-1))
	if !p.about.overlay {
		p.offset = max(min(p.offset, p.cursor), p.cursor-max(rows, 1)+1)
	}
	p.offset = max(0, min(p.offset, shown-rows))
	m.cursor = p.cursor
}

// minRows is the number of rows that keep their place when the header is shortened.
const minRows = 3

// View implements tea.Model. It draws at most height lines of at most width cells.
func (m *Model) View() tea.View {
	v := tea.NewView(strings.Join(m.lines(), "\n"))
	v.AltScreen = true
	v.WindowTitle = "ktop"
	if m.cfg.Title != "" {
		v.WindowTitle += " " + m.cfg.Title
	}
	if m.typing && m.height > 0 {
		if c := m.input.Cursor(); c != nil {
			c.Position.X = min(c.Position.X, max(m.width-1, 0))
			c.Position.Y = m.height - 1
			v.Cursor = c
		}
	}
	return v
}

func (m *Model) lines() []string {
	if m.width <= 0 || m.height <= 0 {
		return nil
	}
	lines := slices.Clone(m.header)
	if m.loaded || m.page().about.overlay {
		lines = append(lines, m.body()...)
	} else if len(lines) < m.height-1 {
		lines = append(lines, m.st.Dim.Render("reading the cluster"+ellipsis))
	}
	for len(lines) < m.height-1 {
		lines = append(lines, "")
	}
	lines = append(lines[:m.height-1], m.footer())
	for i, l := range lines {
		if !m.cfg.Look.Unicode { // text of others, such as an explanation
			l = logging.ASCII(l)
			lines[i] = l
		}
		if ansi.StringWidth(l) > m.width {
			lines[i] = ansi.Truncate(l, m.width, "")
		}
	}
	return lines
}

// body is the shown screen: its heading and the rows that fit.
func (m *Model) body() []string {
	p, rows := m.page(), m.rows()
	shown, _ := p.size(&m.canvas)
	to := min(p.offset+rows, shown)
	lines := p.draw(&m.canvas, min(p.offset, to), to)
	if at := p.above + p.cursor - p.offset; !p.about.overlay && !p.about.grid && at >= 0 && at < len(lines) && shown > 0 {
		lines[at] = m.st.Chosen.Render(m.st.Fit(ansi.Strip(lines[at]), m.width))
	}
	if shown == 0 && rows > 0 {
		lines = slices.DeleteFunc(lines, func(l string) bool { return strings.TrimSpace(ansi.Strip(l)) == "" })
		text := p.empty(&m.canvas)
		if ask := m.asking(p); ask != (state.Ask{}) && ask != m.asked {
			text = "reading" + ellipsis
		}
		lines = append(lines, m.st.Dim.Render(text))
	}
	return lines
}

// rows is the number of rows of the visible screen that fit.
func (m *Model) rows() int {
	const footer = 1
	return max(m.height-len(m.header)-footer-m.page().above, 0)
}

// footer shows the filter, or keys, and the position.
func (m *Model) footer() string {
	st := &m.st
	if m.typing {
		return st.sides(m.input.View(), m.position(), m.width)
	}
	left := m.hints()
	if text := m.page().text; text != "" {
		left = st.Dim.Render("filter ") + st.Accent.Render(text) + st.Dim.Render("  Esc clears")
	}
	return st.sides(left, m.position(), m.width)
}

// position tells the visible rows: "1–17 of 1000".
func (m *Model) position() string {
	p, rows := m.page(), m.rows()
	n, all := p.size(&m.canvas)
	switch {
	case (p.about.overlay || p.about.grid) && n <= rows, !m.loaded:
		return ""
	case n == 0:
		return m.st.Dim.Render("0 of " + fmt.Sprint(all))
	}
	s := fmt.Sprintf("%d%s%d of %d", p.offset+1, dash, min(p.offset+rows, n), n)
	if all != n {
		s += fmt.Sprintf(" (%d in all)", all)
	}
	return m.st.Dim.Render(s)
}

// hints shows the keys that fit, the most important first.
func (m *Model) hints() string {
	st := &m.st
	room := m.width - ansi.StringWidth(m.position()) - 2
	var out string
	for _, b := range m.hintKeys() {
		next := st.Bold.Render(b[0]) + " " + st.Dim.Render(b[1])
		if out != "" {
			next = out + "  " + next
		}
		if ansi.StringWidth(next) > room {
			break
		}
		out = next
	}
	return out
}

// hintKeys are keys, each with a word: to overlays, to other screens, and the screen's own.
func (m *Model) hintKeys() [][2]string {
	var overlays, others [][2]string
	p := m.page()
	for _, other := range m.pages[1:] {
		hint := [2]string{other.about.open.Help().Key, other.about.name}
		switch {
		case !other.about.open.Enabled():
		case other == p && p.about.overlay:
			return [][2]string{{hint[0], "back"}, {"q", "quit"}}
		case other.about.overlay:
			overlays = append(overlays, hint)
		case other == p:
			others = append(others, [2]string{hint[0], m.pages[0].about.name})
		default:
			others = append(others, hint)
		}
	}
	if p != m.pages[0] && !p.about.open.Enabled() { // Enter led there
		overlays = append([][2]string{{"Esc", "back"}}, overlays...)
	}
	return slices.Concat(overlays, [][2]string{{"q", "quit"}, {"/", "filter"}}, others, p.about.hints)
}
