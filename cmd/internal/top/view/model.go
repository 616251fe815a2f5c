package view

import (
	"cmp"
	"time"

	"charm.land/bubbles/v2/key"
	"charm.land/bubbles/v2/textinput"
	tea "charm.land/bubbletea/v2"

	"gnnsched/cmd/internal/top/state"
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

	// Status, if set, returns a line for the header: the current activity of the embedding program. It is called like Read.
	Status func() string

	// Done, if set, ends the pause between two frames early, so that no goroutine is left when the
	// program quits.
	Done <-chan struct{}
}

// Model is the view, a bubbletea model. Make one with [New].
type Model struct {
	canvas
	cfg    Config
	loaded bool // a frame has been read
	status string
	header []string // drawn from frame and status for this window

	current int   // index in pages of the visible screen
	stack   []int // of the screens to go back to from overlays and from what Enter opened

	typing      bool // the reader types a filter into the footer
	input       textinput.Model
	interrupted bool
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

// Interrupted tells whether the reader left with Ctrl-C instead of q.
func (m *Model) Interrupted() bool { return m.interrupted }

type (
	frameMsg struct {
		frame   state.Frame
		ask     state.Ask
		details state.Details
		status  string
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
		if cfg.Status != nil {
			msg.status = state.Printable(cfg.Status())
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
		m.frame, m.status = msg.frame, msg.status
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
		m.interrupted = true
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
