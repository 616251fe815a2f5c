package plugin

import (
	"cmp"
	"context"
	"errors"
	"io/fs"
	"os"
	"time"

	"gnnsched/gnn/checkpoint"
	"gnnsched/gnn/infer"
	"gnnsched/scheduler/policy/neural"
)

// model loads a profile's network and makes it the active decider, again whenever its file changes.
type model struct {
	profile  string
	deadline time.Duration // of one pass of the network
	active   *activeDecider
	file     string      // empty for a shipped checkpoint, which never changes
	seen     os.FileInfo // of the file when it was last read; nil if it never was
	missing  bool        // whether the file was not there when it was last looked for

	kinds bool // the profile counts pods by kind
}

// openModel loads the checkpoint that args name and stores its decider in active. A checkpoint that
// is missing or invalid is not an error: the profile starts with upstream's scoring, and the file
// may come later.
func openModel(ctx context.Context, args Args, profile string, active *activeDecider) *model {
	m := &model{profile: profile, deadline: args.Deadline.Duration, active: active, file: args.Checkpoint, kinds: true}
	active.store(noDecider{})
	if m.file != "" {
		m.reload(ctx)
		m.kinds = active.load() == decider(noDecider{}) || readsKinds(active.load()) // a file that comes later may read them
		return m
	}
	c, err := checkpoint.Shipped(args.Variant)
	if errors.Is(err, fs.ErrNotExist) { // not a failed load; every decision is counted as a fallback
		logger(ctx).Info("No checkpoint is shipped for the variant: upstream's scoring decides", "profile", profile, "variant", args.Variant)
		return m
	}
	m.swap(ctx, c, err)
	m.kinds = readsKinds(active.load())
	return m
}

// readsKinds reports whether a decider is a network that reads kinds of pods.
func readsKinds(d decider) bool {
	n, is := d.(*networkDecider)
	return is && n.net.Architecture().Graph == checkpoint.KindsGraph
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

// reload reads the file if it has changed since the last look. If it is invalid, or its network fails in a trial decision, the
// network in use goes on.
func (m *model) reload(ctx context.Context) {
	info, err := os.Stat(m.file)
	if err != nil {
		if !m.missing { // complain once, not at every look
			m.complain(ctx, err)
		}
		m.missing = true
		return
	}
	m.missing = false
	if same(info, m.seen) {
		return
	}
	m.seen = info // from before the read, so that a change during it shows at the next look
	c, err := checkpoint.Load(m.file)
	m.swap(ctx, c, err)
}

// same reports whether a and b are the same file, unchanged. Size and time are not enough: all
// checkpoints of one architecture have the same size, and a copy may keep its time.
func same(a, b os.FileInfo) bool {
	return b != nil && os.SameFile(a, b) && a.ModTime().Equal(b.ModTime()) && a.Size() == b.Size()
}

// swap makes the checkpoint's network decide, unless it could not be loaded or fails in a trial decision.
func (m *model) swap(ctx context.Context, c *checkpoint.Checkpoint, err error) {
	if err == nil {
		err = neural.Try(c, m.active.latest.Decisions()...)
	}
	if err == nil {
		err = m.use(c)
	}
	if err != nil {
		m.complain(ctx, err)
		return
	}
	reloads.WithLabelValues(m.profile, "ok").Inc()
	logger(ctx).Info("Network loaded", "profile", m.profile, "file", cmp.Or(m.file, "built in"), "network",
		c.Manifest.Architecture.String(), "objective", c.Manifest.Objective)
}

// use makes the checkpoint's network decide.
func (m *model) use(c *checkpoint.Checkpoint) error {
	n, err := infer.New(c)
	if err != nil {
		return err
	}
	if n.Architecture().Graph == checkpoint.KindsGraph && !m.kinds {
		return errors.New("the network reads kinds of pods, which are counted from the start on: start the scheduler again")
	}
	m.active.store(&networkDecider{name: m.profile, deadline: m.deadline, net: n})
	return nil
}

func (m *model) complain(ctx context.Context, err error) {
	result := "error"
	if errors.Is(err, neural.ErrFails) {
		result = "refused"
	}
	reloads.WithLabelValues(m.profile, result).Inc()
	doing := "the network that was loaded before decides"
	if _, none := m.active.load().(noDecider); none {
		doing = "upstream's scoring decides until the file is usable; it is looked at all the time"
	}
	logger(ctx).Error(err, "The checkpoint cannot be used", "profile", m.profile, "file", m.file, "meanwhile", doing)
}
