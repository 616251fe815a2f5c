package liverun

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/rs/zerolog"

	"gnnsched/internal/exit"
	"gnnsched/scheduler/eval/testbed"
	"gnnsched/scheduler/plugin"
	"gnnsched/scheduler/replay"
	"gnnsched/scheduler/server"
	"gnnsched/workload/cleanup"
	"gnnsched/workload/driver"
	"gnnsched/workload/record"
	"gnnsched/workload/record/live"
	"gnnsched/workload/record/observe"
	"gnnsched/workload/record/play"
)

// Config describes a run.
type Config struct {
	Launcher testbed.Launcher
	Dir      string        // of the record, for the nodes
	Source   replay.Source // the record's window
	Profile  server.Profile
	Speed    float64 // seconds of the record in a real second; Speed returns a suitable one
	LogDir   string  // folder of the cluster's log; empty: the log is deleted with the cluster
	Log      zerolog.Logger
	Progress func(done float64, text string)
}

// Outcome is the result of a scheduler's run of the record.
type Outcome struct {
	Source    replay.Source // for replay.Real
	Late      Late
	Fallbacks int
	// Differs lists the differences of the run from a replay in memory.
	Differs []string
}

const (
	// settling is the time that the cluster gets to find its first nodes, and to create one pod of the beginning, in real time.
	settling  = 2 * time.Second
	onePod    = 20 * time.Millisecond
	beginning = 10_000 // nodes that come within this many milliseconds of the record belong to its beginning
)

// Run plays the record on a new cluster, which is gone when Run returns. After the end of ctx the error is its cause.
func Run(ctx context.Context, c Config) (Outcome, error) {
	moment := nodesFrom(&c.Source)
	dir, err := filepath.Abs(c.Dir)
	if err != nil {
		return Outcome{}, fmt.Errorf("find the record: %w", err)
	}
	cfg := testbed.Config{
		Name: "compare", Launcher: c.Launcher, LogDir: c.LogDir,
		Nodes:     testbed.Nodes{Record: dir + "@" + time.UnixMilli(moment).UTC().Format(time.RFC3339Nano)},
		Scheduler: server.Config{Profiles: []server.Profile{c.Profile}, PercentageOfNodesToScore: 100},
	}
	c.Progress(0, "starting a cluster")
	var out Outcome
	err = testbed.Run(ctx, cfg, func(ctx context.Context, b *testbed.Bed) error {
		fallbacks, err := plugin.FallbacksIn(c.Profile.SchedulerName, func() (err error) {
			out, err = c.on(ctx, b)
			return err
		})
		out.Fallbacks = fallbacks
		return err
	})
	if n := changes(c.Source.Nodes, moment, c.Source.To); n > 0 {
		out.Differs = append(out.Differs, fmt.Sprintf("%d changes of nodes are not played: the live cluster keeps the nodes of the beginning", n))
	}
	return out, err
}

// nodesFrom returns the time from which the cluster takes its nodes: when the last node of the window's beginning came.
func nodesFrom(s *replay.Source) int64 {
	out := s.From
	for _, n := range s.Nodes {
		if n.From <= s.From+beginning && n.From < s.To {
			out = max(out, n.From)
		}
	}
	return out
}

// changes counts the states of nodes that begin or end for good between two times.
func changes(nodes []record.Node, from, to int64) (n int) {
	for _, x := range nodes {
		if x.From > from && x.From < to {
			n++
		}
		if x.Gone && x.To > from && x.To < to {
			n++
		}
	}
	return n
}

// on plays on a cluster.
func (c Config) on(ctx context.Context, b *testbed.Bed) (Outcome, error) {
	w := play.Window{From: c.Source.From, To: c.Source.To}
	running := 0
	for i := range c.Source.Pods {
		if p := &c.Source.Pods[i]; p.Bound != 0 && p.Bound <= w.From && (p.Ended == 0 || p.Ended > w.From) {
			running++
		}
	}
	lead := settling + time.Duration(running)*onePod
	w.Lead = lead.Seconds() * c.Speed
	played, err := w.Replay(c.Source.Pods, c.Source.Nodes, c.Source.Objects)
	if err != nil {
		return Outcome{}, exit.New(exit.Usage, err, narrower)
	}
	seen := &rows{pods: map[string]record.Pod{}, nodes: map[string]record.Node{}}
	stop := c.record(ctx, b, seen)
	defer stop()
	p := pace{from: w.From, start: time.Now().Add(lead), speed: c.Speed}
	sum, err := c.drive(ctx, b, played)
	if err != nil {
		return Outcome{}, err
	}
	end := p.start.Add(time.Duration(float64(w.To-w.From) / 1000 / c.Speed * float64(time.Second)))
	select {
	case <-ctx.Done():
		return Outcome{}, context.Cause(ctx)
	case <-time.After(time.Until(end)):
	}
	if err := stop(); err != nil {
		return Outcome{}, err
	}
	out := Outcome{Differs: c.differs(played, sum)}
	out.Source, out.Late = seen.course(c.Source, played, p)
	return out, nil
}

// record follows the cluster until stop is called. Further calls of stop return the same.
func (c Config) record(ctx context.Context, b *testbed.Bed, into observe.Sink) (stop func() error) {
	ctx, cancel := context.WithCancel(ctx)
	f := observe.NewFollower(observe.Config{Out: into, Now: func() int64 { return time.Now().UnixMilli() }})
	r := live.New(live.Config{Client: b.Client, Follower: f, Warn: func(text string) { c.Log.Warn().Msg(text) }})
	ended := make(chan struct{})
	var err error
	go func() {
		defer close(ended)
		err = r.Run(ctx)
	}()
	return func() error { cancel(); <-ended; return err }
}

// drive creates and deletes the pods.
func (c Config) drive(ctx context.Context, b *testbed.Bed, played play.Replay) (driver.Summary, error) {
	cleaner, err := cleanup.New(b.REST)
	if err != nil {
		return driver.Summary{}, err
	}
	source := driver.Replayed(played, c.Speed, 0)
	cfg := driver.Config{
		Client: b.Client, Cleaner: cleaner, SchedulerName: c.Profile.SchedulerName, RunID: driver.NewRunID(time.Now()), Namespace: "live",
		Simulated: true, Log: c.Log,
		Settle: time.Millisecond, Progress: func(p driver.Progress) { c.Progress(p.Done, p.String()) },
	}
	source.Pace(&cfg)
	if cfg.Plan, err = source.Plan(driver.Room{}); err != nil {
		return driver.Summary{}, err
	}
	sum, err := driver.Run(ctx, cfg)
	if err == nil && len(sum.Fills) == 0 {
		err = errors.New("the driver played nothing")
	}
	return sum, err
}

// differs lists what distinguishes the run from a replay in memory.
func (c Config) differs(played play.Replay, sum driver.Summary) []string {
	out := []string{
		fmt.Sprintf("the live scheduler takes time, and the replay takes none: at this speed a real millisecond is %.3g s of the record",
			c.Speed/1000),
		fmt.Sprintf("the live scheduler tries a pod that fits nowhere again after 1 to 10 real seconds, which are %.3g to %.3g s of the record",
			c.Speed, 10*c.Speed),
		"chance decides among equal nodes, and which pod comes first of those that arrive almost together",
	}
	own := 0
	for _, part := range played.Parts {
		if end := part.Row.End; part.Node == "" && (end == record.Succeeded || end == record.Failed) {
			own++
		}
	}
	if own > 0 {
		out = append(out, fmt.Sprintf("%d pods that finished by themselves leave the live cluster when they really ended, "+
			"and the replay after running as long as they did", own))
	}
	if n := len(played.Parts) - sum.Fills[0].Arrived; n > 0 {
		out = append(out, fmt.Sprintf("%d pods did not come: the live cluster refused them, or lacks their node", n))
	}
	if n := sum.Fills[0].Lost; n > 0 {
		out = append(out,
			fmt.Sprintf("%d pods without an owner were preempted on the live cluster and did not come again; in the replay they wait", n))
	}
	for _, n := range played.Notes {
		if strings.HasPrefix(n, "not played: ") && !slices.Contains(out, n) {
			out = append(out, "on the live cluster, "+n)
		}
	}
	return out
}
