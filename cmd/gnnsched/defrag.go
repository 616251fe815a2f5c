package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/rs/zerolog"
	ucli "github.com/urfave/cli/v2"
	"golang.org/x/sync/errgroup"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"

	cmdplan "gnnsched/cmd/internal/plan"
	"gnnsched/cmd/internal/recording"
	"gnnsched/internal/cli"
	"gnnsched/internal/cluster/kube"
	"gnnsched/internal/exit"
	"gnnsched/internal/metric"
	"gnnsched/scheduler/defrag"
	"gnnsched/scheduler/moves"
	"gnnsched/scheduler/plan"
	"gnnsched/scheduler/replay"
	"gnnsched/workload/cleanup"
)

// defragCommand returns the command.
func defragCommand() *ucli.Command {
	return &ucli.Command{
		Name:      "defrag",
		Usage:     "move pods so that nodes become empty, an objective falls, or a waiting pod fits",
		ArgsUsage: "[RECORD]",
		Description: "Looks at the cluster, or at a record, and prints which pods to move where. Without --apply nothing is moved, " +
			"and reading is all\nthat it needs. With --apply it evicts the pods through the Eviction API, so that PodDisruptionBudgets hold, " +
			"round by round,\nand goes on when their owners' new pods run. Nodes that it empties stay cordoned. " +
			"docs/how-to/defrag.md says what stays.\n\nExamples:\n" +
			"   gnnsched defrag                                      # which nodes could be empty?\n" +
			"   gnnsched defrag --apply                              # move the pods\n" +
			"   gnnsched defrag --for ml/train-0                     # what has to move so that this pod fits?\n" +
			"   gnnsched defrag --objective energy                   # which moves save power?\n" +
			"   gnnsched defrag --moves 5% --min-age 1h --apply\n" +
			"   gnnsched defrag --apply --every 1h --between 02:00-05:00\n" +
			"   gnnsched defrag prod.record                          # of a record; see also gnnsched plan\n" +
			"   gnnsched defrag --print-rbac --apply | kubectl apply -f -",
		Flags: cli.Grouped(slices.Concat(cli.ClusterFlags(), defragFlags(), cmdplan.SearchFlags(), cli.LogFlags()),
			cli.Group{Heading: "with --apply", Flags: "wait every between lease-namespace metrics-address"},
			cli.Group{Heading: "which moves are looked for", Flags: "search search-time also-move"}),
		Action: runDefrag,
	}
}

func defragFlags() []ucli.Flag {
	usual := plan.UsualLimits(0)
	return []ucli.Flag{
		&ucli.StringFlag{Name: "for", Usage: "make room for the waiting `POD`, namespace/name, and do not empty nodes"},
		&ucli.StringFlag{Name: "objective", Usage: "lower this `MIX` of objectives, such as balance=1,energy=0.5 or gpu-fragmentation, " +
			"and do not empty nodes; gnnsched eval --help lists them"},
		&ucli.StringFlag{Name: "moves", Value: fmt.Sprintf("%g%%", 100*plan.UsualShare),
			Usage: "move at most `N` pods, or so many percent of the pods, at least 1; 0 for any number"},
		&ucli.StringFlag{Name: "memory", Usage: "move pods that request this `AMOUNT` of memory together at most, such as 64Gi"},
		&ucli.BoolFlag{Name: "delete-emptydir-data", Usage: "move pods though their emptyDir volumes lose their data"},
		&ucli.DurationFlag{Name: "min-age", Value: usual.Age, Usage: "move no pod that has run for less than this `TIME`"},
		&ucli.IntFlag{Name: "max-priority", Value: int(*usual.Priority),
			Usage: "move no pod of a priority over `N`; by default none of system-cluster-critical"},
		&ucli.BoolFlag{Name: "apply", Usage: "move the pods; on a cluster that is not simulated it asks before"},
		yesFlag(),
		&ucli.DurationFlag{Name: "wait", Value: 5 * time.Minute, Usage: "end if pods do not run again after this `TIME`"},
		&ucli.DurationFlag{Name: "every", Usage: "go on, and plan anew after this `TIME`; 0: once"},
		&ucli.StringFlag{Name: "between", Usage: "begin to move only between these `TIMES` of the day, such as 22:00-05:00"},
		&ucli.StringFlag{Name: "lease-namespace", Value: "kube-system",
			Usage: "`NAMESPACE` of the lease gnnsched-defrag, of which one process at a time is the holder"},
		&ucli.StringFlag{Name: "metrics-address", Usage: "serve /metrics and /healthz at this `ADDRESS`, such as 127.0.0.1:9090"},
		&ucli.BoolFlag{Name: "print-rbac", Usage: "print the ClusterRole that this needs, with --apply or without, and end"},
		&ucli.StringFlag{Name: "output", Aliases: []string{"o"}, Value: "text", Usage: "`FORMAT`: text or json"},
	}
}

// session is a run of the command.
type session struct {
	*ucli.Context
	limits  plan.Limits
	search  plan.Search
	share   float64 // of the pods that may move; NaN if limits.Pods counts
	window  window
	profile config.KubeSchedulerProfile
	client  kubernetes.Interface // nil for a record
	bar     *cli.Bar
	log     zerolog.Logger
}

func runDefrag(c *ucli.Context) error {
	if c.Bool("print-rbac") {
		return cli.Written(c)(defrag.RBAC(c.Bool("apply")))
	}
	s, err := sessionOf(c)
	if err != nil {
		return err
	}
	var closer io.Closer
	if s.log, closer, err = cli.Log(c, "defrag", cli.OnTerminal()); err != nil {
		return err
	}
	defer closer.Close()
	s.bar = cli.NewBar(c.App.ErrWriter, cli.OnTerminal(), s.log)
	defer s.bar.Close()
	if c.NArg() > 0 {
		source, err := recording.Source(c, replay.Window{State: true})
		if err != nil {
			return err
		}
		_, err = s.plan(c.Context, source)
		return err
	}
	client, target, err := cli.Target(c).Connect(c.Context)
	if err != nil {
		return err
	}
	s.client = client
	if !c.Bool("apply") {
		return s.once(c.Context)
	}
	if err := confirm(c, target); err != nil {
		return err
	}
	running, stop := context.WithCancel(c.Context)
	defer stop()
	all, ctx := errgroup.WithContext(running)
	if address := c.String("metrics-address"); address != "" {
		all.Go(func() error { return metric.Serve(ctx, address, func() error { return nil }) })
	}
	all.Go(func() error {
		defer stop()
		return defrag.Alone(ctx, client, c.String("lease-namespace"), func(holder string) {
			s.log.Warn().Str("holder", holder).Msg("another process moves pods; waiting until it has ended")
		}, s.often)
	})
	return all.Wait()
}

// confirm asks whether to move pods of a cluster that is not simulated. Nothing has been changed.
func confirm(c *ucli.Context, target *rest.Config) error {
	counter, err := cleanup.New(target)
	if err != nil {
		return err
	}
	nodes, err := counter.Nodes(c.Context)
	if err != nil {
		return err
	}
	a := approvalFor(c)
	a.host, a.look = target.Host, "without --apply"
	return a.ask(nodes, "Evict pods there, so that their owners make them anew on other nodes?")
}

// sessionOf reads the flags.
func sessionOf(c *ucli.Context) (*session, error) {
	s := &session{Context: c, share: math.NaN(), limits: plan.Limits{
		Chains: true, EmptyDirs: c.Bool("delete-emptydir-data"), Age: c.Duration("min-age"),
		Priority: ptr.To(int32(min(c.Int("max-priority"), math.MaxInt32))), Also: cmdplan.Also(c),
	}}
	if o := c.String("output"); o != "text" && o != "json" {
		return nil, exit.Usagef("--output %q: choose text or json", o)
	}
	for _, f := range []string{"every", "between", "metrics-address", "yes"} {
		if c.IsSet(f) && !c.Bool("apply") {
			return nil, exit.Usagef("--%s has no effect without --apply", f)
		}
	}
	if c.NArg() > 0 && c.Bool("apply") {
		return nil, exit.Usagef("--apply moves pods of a cluster, not of the record %s", c.Args().First())
	}
	if c.Duration("every") < 0 || c.Duration("wait") <= 0 || c.Duration("min-age") < 0 {
		return nil, exit.Usagef("--every and --min-age must not be negative, and --wait must be over 0")
	}
	if pod := c.String("for"); pod != "" && strings.Count(pod, "/") != 1 {
		return nil, exit.Usagef("--for %q: name the pod as namespace/name", pod)
	}
	for _, f := range []string{"search", "search-time", "objective"} {
		if c.IsSet(f) && c.IsSet("for") {
			return nil, exit.Usagef("--%s has no effect with --for", f)
		}
	}
	var err error
	if s.search, err = cmdplan.Search(c); err != nil {
		return nil, err
	}
	if text := c.String("objective"); text != "" {
		lower, err := moves.ParseObjective(text)
		if err != nil {
			return nil, exit.New(exit.Usage, fmt.Errorf("--objective: %w", err), "")
		}
		s.search.Objective = &lower
	}
	if s.limits.Memory, err = cmdplan.Memory(c.String("memory")); err != nil {
		return nil, err
	}
	if err := s.readMoves(c.String("moves")); err != nil {
		return nil, err
	}
	if s.window, err = parseWindow(c.String("between")); err != nil {
		return nil, exit.New(exit.Usage, fmt.Errorf("--between %q: %w", c.String("between"), err), "write it as 22:00-05:00")
	}
	s.profile, err = cmdplan.UpstreamProfile()
	return s, err
}

// readMoves reads --moves: N or N%.
func (s *session) readMoves(text string) error {
	number, percent := strings.CutSuffix(text, "%")
	n, err := strconv.ParseFloat(number, 64)
	if err != nil || !(n >= 0) || percent && n > 100 || !percent && n != math.Trunc(n) {
		return exit.Usagef("--moves %q: give a number of pods, or percent of them such as 2%%", text)
	}
	if percent {
		s.share = n / 100
	} else {
		s.limits.Pods = int(n)
	}
	return nil
}

// plan looks for moves and prints them.
func (s *session) plan(ctx context.Context, source replay.Source) (plan.Moves, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel() // ends the plugins
	state, err := plan.At(ctx, source, s.profile)
	if err != nil {
		return plan.Moves{}, err
	}
	limits := s.limits
	if !math.IsNaN(s.share) {
		limits.Pods = max(1, int(s.share*float64(state.Pods())))
	}
	s.search.Progress = func(done float64) { s.bar.Show(done, "search", fmt.Sprintf("%.0f %%", 100*done)) }
	var moves plan.Moves
	if pod := s.String("for"); pod != "" {
		moves, err = plan.MakeRoom(ctx, state, pod, limits, s.search.Progress)
	} else {
		moves, err = plan.Find(ctx, state, limits, s.search)
	}
	s.bar.Close()
	if err != nil {
		return moves, err
	}
	if s.String("output") == "json" {
		if s.Bool("apply") { // the outcome has the moves
			return moves, nil
		}
		moves.Commands = []string{}
		return moves, cli.Print(s.Context, moves)
	}
	moves.Commands = nil // kubectl would not hold the nodes
	if err := cli.Print(s.Context, moves); err != nil || s.client == nil || s.Bool("apply") || len(moves.Moves) == 0 {
		return moves, err
	}
	_, err = fmt.Fprintln(s.App.Writer, "\nNothing has been moved. The same command with --apply moves the pods.")
	return moves, err
}

// once plans for the cluster, and moves the pods if it may.
func (s *session) once(ctx context.Context) error {
	source, err := defrag.Look(ctx, s.client, time.Now())
	if err != nil {
		return err
	}
	moves, err := s.plan(ctx, source)
	if err == nil && !s.Bool("apply") && s.String("output") == "text" {
		err = s.left(ctx)
	}
	if err != nil || !s.Bool("apply") || len(moves.Moves) == 0 {
		return err
	}
	m := defrag.Mover{
		Client: s.client, Profile: s.profile, Limits: s.limits, Wait: s.Duration("wait"), Clock: clock.RealClock{},
		Progress: func(done int, what string) {
			if cli.OnTerminal() {
				s.bar.Show(float64(done)/float64(len(moves.Moves)), "move", what)
			}
			s.log.Info().Int("done", done).Int("of", len(moves.Moves)).Msg(what)
		},
	}
	out, err := m.Run(ctx, moves)
	s.bar.Close()
	if err2 := cli.Print(s.Context, out); err == nil {
		err = err2
	}
	if errors.Is(err, defrag.ErrStopped) {
		return exit.New(exit.Internal, err, "look at the pods that it names, then run the command again: it looks at the cluster and plans anew")
	}
	return err
}

// left prints how to use the nodes again that a killed run left cordoned.
func (s *session) left(ctx context.Context) error {
	list, err := s.client.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	if err != nil {
		return fmt.Errorf("list nodes: %w", err)
	}
	names := strings.Join(defrag.Left(list.Items), " ")
	if names == "" {
		return nil
	}
	_, err = fmt.Fprintf(s.App.Writer, "\nIf the run that cordoned these nodes was killed, the next one with --apply gives them back, or:\n"+
		"    kubectl uncordon %[1]s\n    kubectl annotate node %[1]s %s- %s-\n", names, kube.DefragAnnotation, kube.HoldsAnnotation)
	return err
}

// often moves again and again, at the times of --between, as --every says.
func (s *session) often(ctx context.Context) error {
	released, err := defrag.Release(ctx, s.client)
	if err != nil {
		return err
	}
	if len(released) > 0 {
		s.log.Warn().Strs("nodes", released).Msg("uncordoned: an earlier run was killed while it moved their pods")
	}
	for {
		if wait := s.window.until(time.Now()); wait > 0 {
			s.log.Info().Dur("wait", wait).Msg("waiting for the time of --between")
			if err := sleep(ctx, wait); err != nil {
				return err
			}
		}
		err := s.once(ctx)
		if errors.Is(err, defrag.ErrStopped) && s.Duration("every") > 0 { // to end would let the kubelet begin again at once
			s.log.Error().Err(err).Msg("the moves have stopped until the next time of --every")
			err = nil
		}
		if err != nil || s.Duration("every") == 0 {
			return err
		}
		if err := sleep(ctx, s.Duration("every")); err != nil {
			return err
		}
	}
}

func sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// window is a part of each day, in minutes since midnight. It may pass midnight. The empty window is the whole day.
type window struct{ from, to int }

// parseWindow reads a window such as 22:00-05:00; "" is the whole day.
func parseWindow(text string) (window, error) {
	if text == "" {
		return window{}, nil
	}
	a, b, is := strings.Cut(text, "-")
	from, err := time.Parse("15:04", a)
	to, err2 := time.Parse("15:04", b)
	if err := errors.Join(err, err2); err != nil || !is || from.Equal(to) {
		return window{}, errors.New("these are not two times of the day")
	}
	return window{from.Hour()*60 + from.Minute(), to.Hour()*60 + to.Minute()}, nil
}

// until returns the time until the window begins; 0 within it.
func (w window) until(now time.Time) time.Duration {
	minute := now.Hour()*60 + now.Minute()
	in := minute >= w.from && minute < w.to
	if w.to <= w.from {
		in = minute >= w.from || minute < w.to
	}
	if in || w == (window{}) {
		return 0
	}
	begin := time.Date(now.Year(), now.Month(), now.Day(), w.from/60, w.from%60, 0, 0, now.Location())
	if begin.Before(now) {
		begin = begin.AddDate(0, 0, 1)
	}
	return begin.Sub(now)
}
