package view

import (
	"errors"
	"fmt"
	"time"

	"charm.land/bubbles/v2/key"
	"charm.land/bubbles/v2/textinput"
	tea "charm.land/bubbletea/v2"

	"gnnsched/cmd/internal/top/query"
	"gnnsched/cmd/internal/top/state"
)

// MaxPending is how many pending pods a frame for the list of them holds: enough to look
// at, and cheap enough to sort at every redraw.
const MaxPending = 5000

// MinInterval keeps the redraws from becoming the load that they show.
const MinInterval = 100 * time.Millisecond

// Config says what is drawn and how. Read is needed.
type Config struct {
	Title    string        // shown first; which cluster it is
	Interval time.Duration // between two frames; 0 means two seconds
	Sort     query.Sort
	Look     Look

	// Read returns the cluster now, with the maxPending oldest pending pods. It is called
	// from another goroutine, one call at a time for the regular frames.
	Read func(maxPending int) state.Frame

	// Status, if set, returns a line to show under the header: what a program that embeds
	// the view is doing. It is called like Read.
	Status func() string

	// Done, if set, ends a pause between two frames early, so that nothing is left running
	// when the program quits.
	Done <-chan struct{}
}

// Validate tells what is wrong with the configuration.
func (c Config) Validate() error {
	switch {
	case c.Read == nil:
		return errors.New("view: no Read function")
	case c.Interval != 0 && c.Interval < MinInterval:
		return fmt.Errorf("the interval is %v: choose at least %v", c.Interval, MinInterval)
	}
	return nil
}

// screen is what fills the space between header and footer.
type screen int

const (
	nodesScreen screen = iota
	pendingScreen
	helpScreen
	screens // how many there are
)

// list is what the nodes and the pending pods each remember: where the reader scrolled to,
// and what they filter by.
type list struct {
	offset int
	text   string
	filter query.Filter // what text says; everything passes if it cannot be read
	err    error        // why it cannot be
}

// Model is the view. Make one with [New].
type Model struct {
	cfg    Config
	st     styles
	keys   keyMap
	width  int
	height int
	loaded bool

	frame   state.Frame
	status  string
	header  []string           // drawn from frame and status for this window
	nodes   []state.Node       // of frame, filtered and sorted
	pending []state.PendingPod // of frame, filtered

	screen      screen
	behindHelp  screen
	lists       [screens]list
	sort        query.Sort
	editing     bool
	input       textinput.Model
	interrupted bool
}

// New returns a model that has drawn nothing yet.
func New(cfg Config) (*Model, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	if cfg.Interval == 0 {
		cfg.Interval = 2 * time.Second
	}
	if cfg.Sort.Column == "" {
		cfg.Sort = query.By(query.Name)
	}
	cfg.Title = state.Printable(cfg.Title)
	m := &Model{cfg: cfg, st: newStyles(cfg.Look), keys: newKeyMap(cfg.Look.Unicode), sort: cfg.Sort, width: 80, height: 24}
	m.input = textinput.New()
	m.input.Prompt = "/"
	m.input.SetVirtualCursor(false) // the terminal's own needs no redraws to blink
	m.input.SetStyles(textinput.Styles{})
	m.settle()
	return m, nil
}

// Interrupted tells whether the reader left with Ctrl-C rather than with q.
func (m *Model) Interrupted() bool { return m.interrupted }

type (
	frameMsg struct {
		frame   state.Frame
		status  string
		regular bool // the next pause follows; the others come between two regular ones
	}
	tickMsg struct{}
)

// Init implements tea.Model: the first frame is read at once.
func (m *Model) Init() tea.Cmd { return m.read(true) }

func (m *Model) read(regular bool) tea.Cmd {
	cfg, limit := m.cfg, 0
	if m.screen == pendingScreen {
		limit = MaxPending
	}
	return func() tea.Msg {
		msg := frameMsg{frame: cfg.Read(limit), regular: regular}
		if cfg.Status != nil {
			msg.status = state.Printable(cfg.Status())
		}
		return msg
	}
}

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
		m.frame, m.status, m.loaded = msg.frame, msg.status, true
		m.arrange()
		if msg.regular {
			cmd = m.pause()
		}
	case tea.PasteMsg:
		if m.editing {
			m.input, cmd = m.input.Update(msg)
			m.setFilter(m.input.Value())
		}
	case tea.KeyPressMsg:
		cmd = m.press(msg)
	}
	m.settle()
	return m, cmd
}

func (m *Model) press(k tea.KeyPressMsg) tea.Cmd {
	switch {
	case k.String() == "ctrl+c":
		m.interrupted = true
		return tea.Quit
	case k.String() == "ctrl+z":
		return tea.Suspend
	case m.editing:
		return m.edit(k)
	case key.Matches(k, m.keys.quit):
		return tea.Quit
	case key.Matches(k, m.keys.help):
		m.toggleHelp()
	case m.screen == helpScreen && key.Matches(k, m.keys.clear):
		m.toggleHelp()
	case key.Matches(k, m.keys.pending):
		return m.togglePending()
	case m.screen == helpScreen:
		m.scroll(k)
	case key.Matches(k, m.keys.filter):
		return m.startFilter()
	case key.Matches(k, m.keys.clear):
		if m.list().text == "" && m.screen == pendingScreen {
			return m.togglePending()
		}
		m.setFilter("")
	case m.scroll(k):
	case m.screen == nodesScreen:
		m.resort(k)
	}
	return nil
}

func (m *Model) toggleHelp() {
	if m.screen == helpScreen {
		m.screen = m.behindHelp
		return
	}
	m.behindHelp, m.screen = m.screen, helpScreen
	m.lists[helpScreen].offset = 0
}

// togglePending reads at once: frames for the nodes carry no pending pods.
func (m *Model) togglePending() tea.Cmd {
	if m.screen == pendingScreen {
		m.screen = nodesScreen
		return nil
	}
	m.screen = pendingScreen
	return m.read(false)
}

func (m *Model) list() *list { return &m.lists[m.screen] }

func (m *Model) startFilter() tea.Cmd {
	m.editing = true
	m.input.SetValue(m.list().text)
	m.input.CursorEnd()
	return m.input.Focus()
}

// edit handles a key while the filter is typed: the list follows every letter.
func (m *Model) edit(k tea.KeyPressMsg) tea.Cmd {
	switch k.String() {
	case "enter":
		m.stopEditing()
		return nil
	case "esc":
		m.stopEditing()
		m.setFilter("")
		return nil
	}
	var cmd tea.Cmd
	m.input, cmd = m.input.Update(k)
	m.setFilter(m.input.Value())
	return cmd
}

func (m *Model) stopEditing() {
	m.editing = false
	m.input.Blur()
}

// setFilter takes a new expression. One that cannot be read (yet) filters nothing and is
// explained in the footer.
func (m *Model) setFilter(text string) {
	l := m.list()
	l.filter, l.err = query.ParseFilter(text)
	l.text, l.offset = text, 0
	m.arrange()
}

// arrange derives from the frame what the lists show.
func (m *Model) arrange() {
	m.nodes = m.lists[nodesScreen].filter.Nodes(m.frame.Nodes)
	m.sort.Apply(m.nodes)
	m.pending = m.lists[pendingScreen].filter.Pending(m.frame.Pending)
}
