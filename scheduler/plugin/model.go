package plugin

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"sync/atomic"
	"time"

	"gnnsched/gnn/checkpoint"
	"gnnsched/gnn/infer"
)

// model holds the network in use and swaps in a new one when its file changes.
type model struct {
	profile string
	file    string // empty for a shipped checkpoint, which never changes
	current atomic.Pointer[infer.Network]
	devices atomic.Pointer[infer.GPUNetwork] // instead of current, where the checkpoint is one for GPU devices
	seen    os.FileInfo                      // of the file when it was last read; nil for never
	missing bool                             // the file was not there at the last look
}

// openModel loads what args name. A model that is not there, or of no use, is not an error:
// the profile starts on upstream's scoring, and a file may come later.
func openModel(ctx context.Context, args Args, profile string) *model {
	m := &model{profile: profile, file: args.Checkpoint}
	if m.file != "" {
		m.reload(ctx)
		return m
	}
	c, err := checkpoint.Shipped(args.Variant)
	if errors.Is(err, fs.ErrNotExist) { // nothing is wrong: every decision is counted as a fallback
		logger(ctx).Info("No checkpoint is shipped for the variant: upstream's scoring decides", "profile", profile, "variant", args.Variant)
		return m
	}
	m.swap(ctx, c, err)
	return m
}

// watch looks for a changed file until ctx ends.
func (m *model) watch(ctx context.Context, interval time.Duration) {
	if m.file == "" {
		return
	}
	tick := time.NewTicker(interval)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			m.reload(ctx)
		}
	}
}

// reload reads the file if it is not the one seen last. A bad file leaves the network in
// use as it is.
func (m *model) reload(ctx context.Context) {
	info, err := os.Stat(m.file)
	if err != nil {
		if !m.missing { // once, not at every look
			m.complain(ctx, err)
		}
		m.missing = true
		return
	}
	m.missing = false
	if same(info, m.seen) {
		return
	}
	m.seen = info // from before the read: a change during it shows at the next look
	c, err := checkpoint.Load(m.file)
	m.swap(ctx, c, err)
}

// same tells whether nothing was written between two looks. Checkpoints of one architecture
// are all of one size, and a copy may keep its time, so the file's identity counts too.
func same(a, b os.FileInfo) bool {
	return b != nil && os.SameFile(a, b) && a.ModTime().Equal(b.ModTime()) && a.Size() == b.Size()
}

func (m *model) swap(ctx context.Context, c *checkpoint.Checkpoint, err error) {
	if err == nil {
		err = m.use(c)
	}
	if err != nil {
		m.complain(ctx, err)
		return
	}
	reloads.WithLabelValues(m.profile, "ok").Inc()
	a := c.Manifest.Architecture
	logger(ctx).Info("Network loaded", "profile", m.profile, "file", m.file, "encoder", a.Encoder, "head", a.Head, "objective", c.Manifest.Objective)
}

// use makes the checkpoint's network the one in use.
func (m *model) use(c *checkpoint.Checkpoint) error {
	if c.Manifest.Architecture.Graph == checkpoint.GPUGraph {
		n, err := infer.NewGPU(c)
		if err == nil {
			m.devices.Store(n)
		}
		return err
	}
	n, err := infer.New(c)
	if err == nil {
		m.current.Store(n)
		m.devices.Store(nil)
	}
	return err
}

func (m *model) complain(ctx context.Context, err error) {
	reloads.WithLabelValues(m.profile, "error").Inc()
	doing := "upstream's scoring decides"
	if m.current.Load() != nil || m.devices.Load() != nil {
		doing = "the network loaded before goes on"
	}
	logger(ctx).Error(err, "Checkpoint of no use", "profile", m.profile, "file", m.file, "until then", doing)
}
