package shadow

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/http"
	"time"

	"github.com/rs/zerolog"
	ucli "github.com/urfave/cli/v2"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/utils/clock"

	"gnnsched/cmd/internal/plan"
	"gnnsched/internal/cli"
	"gnnsched/internal/exit"
	"gnnsched/internal/files"
	"gnnsched/internal/kubeconfig"
	"gnnsched/scheduler/decision"
	"gnnsched/scheduler/defrag"
	"gnnsched/scheduler/moves"
	"gnnsched/scheduler/objective"
	planning "gnnsched/scheduler/plan"
	"gnnsched/scheduler/plugin"
	"gnnsched/scheduler/serve"
	"gnnsched/scheduler/server"
	"gnnsched/scheduler/shadow"
	"gnnsched/scheduler/usage"
)

// roleName is the name of the printed role.
const roleName = "gnnsched-shadow"

// Command returns `gnnsched shadow`.
func Command() *ucli.Command {
	return &ucli.Command{
		Name:      "shadow",
		Usage:     "read the report of a scheduler that watched another one with --shadow",
		ArgsUsage: "[REPORT]",
		Description: "`rungnn --shadow --shadow-report REPORT` writes the report. This command says what follows from it: safe to switch, not\n" +
			"yet, or not worth it, and why.\n\n" +
			"Examples:\n" +
			"   rungnn --shadow --shadow-report shadow.json          # watch, beside the default scheduler; Ctrl-C ends it\n" +
			"   gnnsched shadow shadow.json                          # what was found so far\n" +
			"   gnnsched shadow --gate shadow.json                   # exit code 99 unless it is safe to switch\n" +
			"   gnnsched shadow -o json shadow.json | jq .gain\n" +
			"   gnnsched shadow --print-rbac | kubectl apply -f -    # the rights that rungnn --shadow needs: it only reads",
		Flags: []ucli.Flag{
			&ucli.StringFlag{Name: "output", Aliases: []string{"o"}, Value: "text", Usage: "`FORMAT`: text or json"},
			&ucli.BoolFlag{Name: "gate", Usage: "end with exit code 99 unless it is safe to switch"},
			&ucli.BoolFlag{Name: "print-rbac", Usage: "print the ServiceAccount and the ClusterRole with the rights to watch, and exit"},
			&ucli.StringFlag{Name: "namespace", Aliases: []string{"n"}, Value: "kube-system",
				Usage: "`NAMESPACE` of the ServiceAccount, for --print-rbac"},
		},
		Action: read,
	}
}

func read(c *ucli.Context) error {
	if c.Bool("print-rbac") {
		return cli.Written(c)(serve.Role{Name: roleName, Namespace: c.String("namespace"), Delegates: true}.RBAC())
	}
	if c.NArg() != 1 {
		return exit.New(exit.Usage, fmt.Errorf("there are %d arguments, want the file of a report", c.NArg()),
			"rungnn --shadow --shadow-report FILE writes it")
	}
	path := c.Args().First()
	text, err := files.Read(path, files.Text)
	if err != nil {
		return exit.New(exit.Usage, fmt.Errorf("read the report: %w", err),
			"rungnn --shadow --shadow-report FILE writes it every minute, and at its end")
	}
	r, err := shadow.Parse(text)
	if err != nil {
		return exit.New(exit.Usage, fmt.Errorf("%s: %w", path, err), "rungnn --shadow --shadow-report FILE writes a report")
	}
	switch c.String("output") {
	case "text":
		err = r.WriteText(c.App.Writer)
	case "json":
		err = cli.JSON(c.App.Writer, r)
	default:
		return exit.Usagef("--output %q: choose text or json", c.String("output"))
	}
	if err == nil && c.Bool("gate") && r.Verdict.Answer != shadow.Safe {
		return exit.New(exit.Gate, fmt.Errorf("the verdict is %q", r.Verdict.Answer), "")
	}
	return err
}

// Flag makes a scheduler's command watch another scheduler.
const Flag = "shadow"

// category is the heading of the flags in --help.
const category = "with --shadow"

// Flags returns --shadow and the flags that go with it.
func Flags() []ucli.Flag {
	return append([]ucli.Flag{
		&ucli.BoolFlag{Name: Flag, Category: category,
			Usage: "place nothing: watch what another scheduler places, and tell what this one would have done"},
	}, more()...)
}

func more() []ucli.Flag {
	return []ucli.Flag{
		&ucli.StringSliceFlag{Name: "shadow-of", Category: category, Value: ucli.NewStringSlice(server.DefaultProfile),
			Usage: "`NAME` of the scheduler to watch, as pods have it in schedulerName; may be given several times"},
		&ucli.StringFlag{Name: "shadow-objective", Category: category, Value: "balance",
			Usage: "`OBJECTIVE` by which the clusters are compared, such as pack or balance=1,pack=0.5"},
		&ucli.StringFlag{Name: "shadow-report", Category: category,
			Usage: "keep the report in this JSON `FILE`, written every minute and at the end; gnnsched shadow reads it"},
		&ucli.IntFlag{Name: "shadow-pods", Category: category, Value: shadow.DefaultLimits.Pods,
			Usage: "`NUMBER` of pods that must be compared before the verdict is other than \"not yet\""},
	}
}

// Check refuses flags that have no effect, and profiles that cannot be watched for.
func Check(c *ucli.Context) error {
	if c.Bool(Flag) {
		for _, name := range []string{"learn", "leader-elect"} {
			if c.Bool(name) {
				return exit.New(exit.Usage, fmt.Errorf("--%s and --%s exclude each other", name, Flag),
					"nothing is placed in the shadow, so nothing can be learned from it, and several may run")
			}
		}
		for _, name := range []string{"decision-events", "leader-elect-resource-name"} {
			if c.IsSet(name) {
				return exit.New(exit.Usage, fmt.Errorf("--%s has no effect with --%s", name, Flag),
					"leave it out; --decision-log keeps the decisions, and --shadow-report what was compared")
			}
		}
		_, err := configOf(c)
		return err
	}
	for _, f := range more() {
		if name := f.Names()[0]; c.IsSet(name) {
			return exit.New(exit.Usage, fmt.Errorf("--%s has no effect without --%s", name, Flag), "add --"+Flag)
		}
	}
	return nil
}

// configOf reads the flags.
func configOf(c *ucli.Context) (shadow.Config, error) {
	term, err := objective.Parse(c.String("shadow-objective"))
	if err == nil {
		err = term.NoQueue()
	}
	if err != nil {
		return shadow.Config{}, exit.New(exit.Usage, fmt.Errorf("--shadow-objective: %w", err), "")
	}
	out := shadow.Config{
		Of: c.StringSlice("shadow-of"), Objective: term, Block: time.Minute, Clock: clock.RealClock{},
		Seed: uint64(time.Now().UnixNano()), Limits: shadow.DefaultLimits,
	}
	out.Limits.Pods = c.Int("shadow-pods")
	if err := out.Validate(); err != nil {
		return out, exit.New(exit.Usage, err, "see --help")
	}
	return out, nil
}

// Scheduler describes the profile to run in the shadow.
type Scheduler struct {
	Name   string // of the profile, for the report
	File   string // its configuration, which names the kubeconfig
	Remove func() // called once File was read
	// Recording, if it has a book, gets the decisions.
	Recording plugin.Recording
	// Page starts a page that shows the cluster, and what live says; stop ends it.
	Page func(client kubernetes.Interface, live func(context.Context) (shadow.Live, error)) (stop func(), err error)
}

// Run watches until the context ends, and then prints the report.
func (s Scheduler) Run(c *ucli.Context, log zerolog.Logger) error {
	config, err := configOf(c)
	if err != nil {
		return err
	}
	path := c.String("shadow-report")
	if path != "" {
		if err := cli.Writable(path); err != nil {
			return exit.New(exit.Usage, err, "choose a place that you can write to with --shadow-report")
		}
	}
	r, err := s.watch(c, config, log, func(r shadow.Report) { keepReport(log, path, r) })
	if err != nil {
		return err
	}
	printed := r.WriteText(c.App.Writer) // before the file, for which there may be no room
	keepReport(log, path, r)
	return printed
}

// watch watches until the context ends, and tells now and then what was found.
func (s Scheduler) watch(c *ucli.Context, config shadow.Config, log zerolog.Logger, tell func(shadow.Report)) (shadow.Report, error) {
	var none shadow.Report
	ctx := c.Context
	o, err := server.NewObserver(ctx, s.File, server.Endpoint{
		Address: c.String("bind-address"), Port: c.Int("port"), FeatureGates: c.StringSlice("feature-gates"),
	})
	if err != nil {
		return none, err
	}
	defer o.Close()
	s.Remove()
	if config.Profile, err = profileOf(o.Scheduler); err != nil {
		return none, err
	}
	config.Name, config.Recording = s.Name, s.Recording
	if config.Client, err = kubernetes.NewForConfig(o.REST); err != nil {
		return none, fmt.Errorf("make a client: %w", err)
	}
	const hint = "`gnnsched shadow --print-rbac` prints the rights"
	if err := kubeconfig.Require(ctx, config.Client, hint, serve.Rules()...); err != nil {
		return none, err
	}
	if config.Dynamic, err = dynamic.NewForConfig(o.REST); err != nil {
		return none, fmt.Errorf("make a client: %w", err)
	}
	config.Moves = func(ctx context.Context) (shadow.Moves, error) { return lower(ctx, config.Client, config.Objective) }
	config.Tell = func(r shadow.Report) { say(log, r); tell(r) }
	plugins, end := context.WithCancel(context.WithoutCancel(ctx)) // they are still asked when ctx has ended
	defer end()
	w, err := shadow.New(plugins, config)
	if err != nil {
		return none, exit.New(exit.Usage, err, "see --help")
	}
	paths := map[string]http.Handler{shadow.Path: w, usage.Path: http.HandlerFunc(usage.ServeReports)}
	if s.Recording.Book != nil {
		paths[decision.DebugPath] = s.Recording.Book
	}
	stop, err := o.Serve(w.Ready, paths)
	if err != nil {
		return none, err
	}
	defer stop()
	away, err := s.Page(o.Client, w.Live)
	if err != nil {
		return none, err
	}
	defer away()
	log.Info().Str("profile", s.Name).Strs("of", config.Of).Str("cluster", o.REST.Host).Int("port", c.Int("port")).
		Msg("watching, and placing nothing; Ctrl-C prints the report")
	return w.Run(ctx)
}

// lower looks for moves of running pods as gnnsched defrag does with an objective and without other flags, for a second.
func lower(ctx context.Context, client kubernetes.Interface, by objective.Mix) (shadow.Moves, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel() // ends the plugins
	source, err := defrag.Look(ctx, client, time.Now())
	if err != nil {
		return shadow.Moves{}, err
	}
	profile, err := plan.UpstreamProfile()
	if err != nil {
		return shadow.Moves{}, err
	}
	state, err := planning.At(ctx, source, profile)
	if err != nil {
		return shadow.Moves{}, err
	}
	found, err := planning.Find(ctx, state, planning.UsualLimits(state.Pods()), planning.Search{
		By: moves.Local{}, Objective: &moves.Objective{Mix: by}, Time: time.Second, Progress: func(float64) {},
	})
	if err != nil {
		return shadow.Moves{}, err
	}
	return shadow.Moves{Pods: len(found.Moves), Before: found.Lower.Before, After: found.Lower.After}, nil
}

// profileOf returns the one profile that is to be watched for.
func profileOf(c *config.KubeSchedulerConfiguration) (config.KubeSchedulerProfile, error) {
	if err := single(len(c.Profiles)); err != nil {
		return config.KubeSchedulerProfile{}, err
	}
	if len(c.Extenders) > 0 {
		return config.KubeSchedulerProfile{}, exit.New(exit.Usage,
			errors.New("the configuration has extenders, which would be asked about pods that they do not place"), "leave them out")
	}
	return c.Profiles[0], nil
}

func single(profiles int) error {
	if profiles == 1 {
		return nil
	}
	return exit.New(exit.Usage, fmt.Errorf("there are %d profiles, and one can be in the shadow", profiles),
		"run a process for each, with ports of their own")
}

// Take names the profile of the flags after the watched scheduler, so that the profile decides about that scheduler's pods.
func Take(c *ucli.Context, config *server.Config) error {
	if !c.Bool(Flag) {
		return nil
	}
	if err := single(len(config.Profiles)); err != nil {
		return err
	}
	if of := c.StringSlice("shadow-of"); len(of) > 0 {
		config.Profiles[0].SchedulerName = of[0]
	}
	return nil
}

// say logs the figures that matter.
func say(log zerolog.Logger, r shadow.Report) {
	e := log.Info().Str("verdict", string(r.Verdict.Answer)).Strs("why", r.Verdict.Why).Int("compared", r.Counts.Compared).
		Float64("cost", round(r.Whole.Theirs)).Float64("cost_ours", round(r.Whole.Ours))
	if r.Gain != nil {
		e = e.Float64("gain", round(r.Gain.Mean)).Float64("gain_low", round(r.Gain.Low)).Float64("gain_high", round(r.Gain.High))
	}
	e.Float64("p99_ms", round(1000*r.Time.P99)).Msg("watched so far")
}

// round keeps five digits after the point.
func round(x float64) float64 { return math.Round(x*1e5) / 1e5 }

// keepReport replaces the file of the report. A failure is logged: the report is also printed at the end.
func keepReport(log zerolog.Logger, path string, r shadow.Report) {
	if path == "" {
		return
	}
	if err := replace(path, r); err != nil {
		log.Error().Err(err).Str("file", path).Msg("the report is not written; it is tried again in a minute")
	}
}

func replace(path string, r shadow.Report) error {
	text, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return fmt.Errorf("encode the report: %w", err)
	}
	return files.Write(path, append(text, '\n'), 0o600)
}
