// Package top shows a cluster's nodes and pending pods and keeps the picture up to date. It
// connects the packages below it and serves ktop.
//
//	API server ──changes──▶ state ──a frame a tick──▶ view (a terminal), or a table, JSON or YAML
//
// [Run] draws until the reader quits; [Follow] prints at an interval; [Once] prints once.
package top

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/go-logr/logr"
	"k8s.io/client-go/kubernetes"

	"gnnsched/cmd/internal/top/state"
	"gnnsched/cmd/internal/top/view"
	"gnnsched/internal/cli"
	"gnnsched/internal/each"
	"gnnsched/internal/exit"
	"gnnsched/internal/logging"
	"gnnsched/scheduler/decision"
)

// DefaultInterval is the time between two redraws unless told otherwise.
const DefaultInterval = 2 * time.Second

// Config selects the cluster and the form of its view. Client is needed.
type Config struct {
	Client   kubernetes.Interface
	Title    string // names the cluster in the view
	Selector string // label selector of the nodes; empty means all
	// Namespace is the one whose pods are listed; "" for all.
	Namespace string
	Interval  time.Duration // between two frames; 0 means DefaultInterval
	Sort      state.Sort
	Servers   []state.Server // schedulers to ask for their decisions
	Log       logr.Logger    // client-go's messages; the zero value drops them

	// Explain says in sentences and tables why a pod got its node; nil if nothing is explained.
	Explain func(decision.Record) (string, error)

	in  io.Reader // keys; nil means the terminal
	Out io.Writer // screen or file; nil means stdout
	Env []string  // for NO_COLOR, TERM and the locale; nil means the process's
}

// Validate checks the configuration; its errors are usage errors. The client may still be
// missing.
func (c Config) Validate() error {
	if c.Interval != 0 && c.Interval < view.MinInterval {
		return exit.Usagef("the interval is %v: choose at least %v", c.Interval, view.MinInterval)
	}
	return c.source().Validate()
}

func (c Config) withDefaults() Config {
	c.Interval = cmp.Or(c.Interval, DefaultInterval)
	c.Out = cmp.Or[io.Writer](c.Out, os.Stdout)
	if c.Env == nil {
		c.Env = os.Environ()
	}
	return c
}

func (c Config) source() state.Config {
	return state.Config{Client: c.Client, Selector: c.Selector, Namespace: c.Namespace, Servers: c.Servers, Log: c.Log, Explain: c.Explain}
}

// Run draws the cluster on the terminal until the reader quits or ctx ends; it then returns nil. Run
// restores the terminal. If the cluster does not answer at the start, Run returns an error with exit code 3; if it stops answering later,
// the view shows it.
func Run(ctx context.Context, cfg Config) error {
	if err := cfg.Validate(); err != nil {
		return err
	}
	cfg = cfg.withDefaults()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	src, err := state.Start(ctx, cfg.source())
	if err != nil {
		return err
	}
	defer src.Stop()
	return draw(ctx, cfg, src.Frame, src.Details)
}

func draw(ctx context.Context, cfg Config, read func(int) state.Frame, details func(state.Ask) state.Details) error {
	servers := each.Map(cfg.Servers, func(s state.Server) string { return s.Name })
	m := view.New(view.Config{
		Title: cfg.Title, Interval: cfg.Interval, Sort: cfg.Sort, Look: lookOf(cfg.Env), Servers: servers,
		Read: read, Details: details, Done: ctx.Done(),
	})
	// 30 a second is smooth for text, and half the wake-ups of the default.
	opts := []tea.ProgramOption{
		tea.WithContext(ctx), tea.WithoutSignalHandler(), tea.WithFPS(30),
		tea.WithOutput(cfg.Out), tea.WithEnvironment(cfg.Env),
	}
	if cfg.in != nil {
		opts = append(opts, tea.WithInput(cfg.in))
	}
	if !IsScreen(cfg.Out) {
		opts = append(opts, tea.WithWindowSize(80, 24))
	}
	_, err := tea.NewProgram(m, opts...).Run()
	switch {
	case ctx.Err() != nil:
		return nil
	case err != nil:
		return fmt.Errorf("draw on the terminal: %w", err)
	}
	return nil
}

// Follow writes the cluster in the given format now and after every interval. It returns the
// error of ctx when ctx ends, or the first error of writing.
func Follow(ctx context.Context, cfg Config, format Format) error {
	if err := cfg.Validate(); err != nil {
		return err
	}
	cfg = cfg.withDefaults()
	src, err := state.Start(ctx, cfg.source())
	if err != nil {
		return err
	}
	defer src.Stop()
	tick := time.NewTicker(cfg.Interval)
	defer tick.Stop()
	for first := true; ; first = false {
		f := src.Frame(state.All)
		cfg.Sort.Apply(f.Nodes)
		if err := writeFrame(cfg.Out, format, &f, true, first); err != nil {
			return fmt.Errorf("write the cluster: %w", err)
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// Once writes the cluster once, in the given format.
func Once(ctx context.Context, cfg Config, format Format) error {
	if err := cfg.Validate(); err != nil {
		return err
	}
	cfg = cfg.withDefaults()
	f, err := state.List(ctx, cfg.source())
	if err != nil {
		return err
	}
	cfg.Sort.Apply(f.Nodes)
	if err := writeFrame(cfg.Out, format, &f, false, true); err != nil {
		return fmt.Errorf("write the cluster: %w", err)
	}
	return nil
}

// lookOf derives the terminal's abilities from the environment. A non-empty NO_COLOR turns colours off; a locale other than UTF-8 means
// ASCII.
func lookOf(env []string) view.Look {
	get := func(name string) string {
		for i := len(env) - 1; i >= 0; i-- { // the last one wins, as in os/exec
			if v, ok := strings.CutPrefix(env[i], name+"="); ok {
				return v
			}
		}
		return ""
	}
	return view.Look{Color: get("NO_COLOR") == "", Unicode: logging.UTF8(env)}
}

// IsScreen tells whether w is a terminal that the view can be drawn on.
func IsScreen(w io.Writer) bool {
	f, ok := w.(interface{ Fd() uintptr })
	return ok && cli.IsTerminal(f) && os.Getenv("TERM") != "dumb"
}
