package top

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/go-logr/logr"
	"k8s.io/client-go/kubernetes"

	"gnnsched/cmd/internal/top/query"
	"gnnsched/cmd/internal/top/report"
	"gnnsched/cmd/internal/top/state"
	"gnnsched/cmd/internal/top/view"
	"gnnsched/cmd/internal/top/watch"
	"gnnsched/internal/exit"
)

// DefaultInterval is the time between two redraws unless told otherwise.
const DefaultInterval = 2 * time.Second

// ErrInterrupted is what [Run] returns when the reader left with Ctrl-C: the view can end
// quietly, but a program that embeds it may want to stop more than the view.
var ErrInterrupted = errors.New("interrupted")

// Config says which cluster is shown and how. Client is needed.
type Config struct {
	Client   kubernetes.Interface
	Title    string        // names the cluster in the view
	Selector string        // label selector of the nodes; empty means all
	Interval time.Duration // between two frames; 0 means DefaultInterval
	Sort     query.Sort
	Status   func() string // an embedding program's own line in the view; may be nil
	Log      logr.Logger   // client-go's messages; the zero value drops them

	In  io.Reader // keys; nil means the terminal
	Out io.Writer // screen or file; nil means stdout
	Env []string  // for NO_COLOR, TERM and the locale; nil means the process's
}

// Validate tells what is wrong with the configuration, as a usage error. The client may
// still be missing.
func (c Config) Validate() error {
	if c.Interval != 0 && c.Interval < view.MinInterval {
		return exit.Usagef("the interval is %v: choose at least %v", c.Interval, view.MinInterval)
	}
	return c.source().Validate()
}

func (c Config) withDefaults() Config {
	if c.Interval == 0 {
		c.Interval = DefaultInterval
	}
	if c.Out == nil {
		c.Out = os.Stdout
	}
	if c.Env == nil {
		c.Env = os.Environ()
	}
	return c
}

func (c Config) source() watch.Config {
	return watch.Config{Client: c.Client, Selector: c.Selector, Log: c.Log}
}

// Run draws the cluster on the terminal until the reader quits or ctx ends, both of which
// return nil; Ctrl-C returns [ErrInterrupted]. The terminal is left as it was found. A
// cluster that does not answer at the start is an error with exit code 3; one that goes
// away later is shown as such.
func Run(ctx context.Context, cfg Config) error {
	if err := cfg.Validate(); err != nil {
		return err
	}
	cfg = cfg.withDefaults()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	src, err := watch.Start(ctx, cfg.source())
	if err != nil {
		return err
	}
	defer src.Stop()
	return draw(ctx, cfg, src.Frame)
}

func draw(ctx context.Context, cfg Config, read func(int) state.Frame) error {
	m, err := view.New(view.Config{
		Title: cfg.Title, Interval: cfg.Interval, Sort: cfg.Sort, Look: LookOf(cfg.Env),
		Read: read, Status: cfg.Status, Done: ctx.Done(),
	})
	if err != nil {
		return err
	}
	// 30 a second is smooth for text, and half the wake-ups of the default.
	opts := []tea.ProgramOption{
		tea.WithContext(ctx), tea.WithoutSignalHandler(), tea.WithFPS(30),
		tea.WithOutput(cfg.Out), tea.WithEnvironment(cfg.Env),
	}
	if cfg.In != nil {
		opts = append(opts, tea.WithInput(cfg.In))
	}
	if !IsScreen(cfg.Out) {
		opts = append(opts, tea.WithWindowSize(80, 24))
	}
	_, err = tea.NewProgram(m, opts...).Run()
	switch {
	case ctx.Err() != nil:
		return nil
	case err != nil:
		return fmt.Errorf("draw on the terminal: %w", err)
	case m.Interrupted():
		return ErrInterrupted
	}
	return nil
}

// Follow writes the cluster in the given format now and after every interval until ctx
// ends, and returns its error, or the first error of writing.
func Follow(ctx context.Context, cfg Config, format report.Format) error {
	if err := cfg.Validate(); err != nil {
		return err
	}
	cfg = cfg.withDefaults()
	src, err := watch.Start(ctx, cfg.source())
	if err != nil {
		return err
	}
	defer src.Stop()
	tick := time.NewTicker(cfg.Interval)
	defer tick.Stop()
	for first := true; ; first = false {
		f := src.Frame(state.All)
		cfg.Sort.Apply(f.Nodes)
		if err := report.WriteNext(cfg.Out, format, &f, first); err != nil {
			return fmt.Errorf("write the cluster: %w", err)
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// Once writes the cluster in the given format one time.
func Once(ctx context.Context, cfg Config, format report.Format) error {
	if err := cfg.Validate(); err != nil {
		return err
	}
	cfg = cfg.withDefaults()
	f, err := watch.List(ctx, cfg.source())
	if err != nil {
		return err
	}
	cfg.Sort.Apply(f.Nodes)
	if err := report.Write(cfg.Out, format, &f); err != nil {
		return fmt.Errorf("write the cluster: %w", err)
	}
	return nil
}

// Snapshot reads the cluster once. [report.Line] makes one line of it; a program that
// wants many is better served by [watch.Start], which reads only changes.
func Snapshot(ctx context.Context, client kubernetes.Interface) (state.Frame, error) {
	return watch.List(ctx, watch.Config{Client: client})
}

// LookOf reads from the environment what the terminal can show: no colours under NO_COLOR
// (set and not empty), ASCII where the locale is not UTF-8.
func LookOf(env []string) view.Look {
	get := func(name string) string {
		for i := len(env) - 1; i >= 0; i-- { // the last one wins, as in os/exec
			if v, ok := strings.CutPrefix(env[i], name+"="); ok {
				return v
			}
		}
		return ""
	}
	look := view.Look{Color: get("NO_COLOR") == ""}
	for _, name := range []string{"LC_ALL", "LC_CTYPE", "LANG"} {
		if v := strings.ToUpper(get(name)); v != "" {
			look.Unicode = strings.Contains(v, "UTF-8") || strings.Contains(v, "UTF8")
			break
		}
	}
	return look
}
