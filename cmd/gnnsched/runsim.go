package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/rs/zerolog"
	ucli "github.com/urfave/cli/v2"
	"k8s.io/client-go/tools/clientcmd"

	"gnnsched/internal/cli"
	"gnnsched/internal/cluster"
	"gnnsched/internal/exit"
	"gnnsched/internal/files"
	"gnnsched/internal/kubeconfig"
	"gnnsched/workload"
	"gnnsched/workload/cleanup"
	"gnnsched/workload/driver"
	"gnnsched/workload/record"
	"gnnsched/workload/record/play"
	"gnnsched/workload/trace"
)

const runsimDescription = `runsim creates random Deployments until the requests of all pods reach 20% of the CPU, the memory
or the pod slots of the schedulable nodes. If one of --cpu-load, --mem-load and --pod-load is given, that load
alone ends a fill; of several, the first that is reached. Then it deletes them and fills the cluster again,
--cluster-resets times in all. The pods of the last fill stay; cleancluster removes them.

It asks first unless every node of the cluster is simulated (has kwok's annotation).

The same --seed on the same cluster gives the same arrivals for every scheduler. runsim writes
what it deployed to a CSV; --replay deploys such a file again, or one of AAML's.

--replay RECORD plays the pods of a recorded cluster (docs/how-to/record.md) with all their constraints, at the record's
times, which --speed compresses. Pods that ran at its beginning and those of DaemonSets are where they were. Each namespace of
the record becomes a new one.

--trace deploys the pods of a trace instead: an openb pod list or a CSV of arrivals. Pods come at the trace's times,
which --speed compresses, and leave at the end of their lifetimes.

Examples:
   runsim                                              # fill to 20%, reset, fill again, for the gnn scheduler
   runsim --scheduler-name default-scheduler           # the same arrivals for another scheduler
   runsim --cpu-load 0.5                               # until half of the CPU is requested
   runsim --seed 7 --shapes shapes.yaml                # other arrivals, from your own pod shapes
   runsim --dry-run > plan.csv                         # print what would be deployed
   runsim --replay plan.csv                            # deploy it
   runsim --replay prod.record --speed 60              # play a record, an hour in a minute
   runsim --trace openb_pod_list_default.csv --speed 36000 --limit 500`

func runsimCommand() *ucli.Command {
	return &ucli.Command{
		Name:        "runsim",
		Usage:       "deploy random pods until the cluster carries a load",
		Description: runsimDescription,
		Flags: cli.Grouped(append(append(cli.ClusterFlags(), runsimFlags()...), cli.LogFlags()...),
			cli.Group{Heading: "random pods", Flags: "mem-load pod-load shapes replicas-min replicas-max interval"},
			cli.Group{Heading: "a plan, record or trace", Flags: "speed limit"},
			cli.Group{Heading: "names and output", Flags: "namespace run csv output"}),
		Action: func(c *ucli.Context) error { return kubeconfig.Explain(runSim(c)) },
	}
}

func runsimFlags() []ucli.Flag {
	return []ucli.Flag{
		&ucli.Float64Flag{Name: "cpu-load", Value: 0.20, Usage: "end a fill at this `FRACTION` of the nodes' CPU, 2 at most; no default if another load is given"},
		&ucli.Float64Flag{Name: "mem-load", Value: 0.20, Usage: "end a fill at this `FRACTION` of the nodes' memory, 2 at most; no default if another load is given"},
		&ucli.Float64Flag{Name: "pod-load", Value: 0.20, Usage: "end a fill at this `FRACTION` of the nodes' pod slots, 2 at most; no default if another load is given"},
		&ucli.IntFlag{Name: "cluster-resets", Value: 2, Usage: "`NUMBER` of fills; between two fills, everything deployed is deleted"},
		&ucli.StringFlag{Name: "scheduler-name", Value: "gnn", Usage: "schedulerName of the pods, a `NAME`"},
		&ucli.StringFlag{Name: "shapes", Usage: "YAML `FILE` with the pod shapes to draw from; default: five built-in shapes"},
		&ucli.Uint64Flag{Name: "seed", Value: 1, Usage: "`SEED` of the random arrivals"},
		&ucli.IntFlag{Name: "replicas-min", Value: 5, Usage: "smallest `NUMBER` of pods of a Deployment"},
		&ucli.IntFlag{Name: "replicas-max", Value: 15, Usage: "largest `NUMBER` of pods of a Deployment"},
		&ucli.StringFlag{Name: "replay", Usage: "deploy the plan in a CSV `FILE` instead, or play a record; - is stdin"},
		&ucli.StringFlag{Name: "trace", Usage: "deploy the pods of a trace `FILE` instead; - is stdin"},
		&ucli.Float64Flag{Name: "speed", Value: 3600, Usage: "`SECONDS` of the trace or record that pass in one second"},
		&ucli.IntFlag{Name: "limit", Usage: "deploy this `NUMBER` of pods of the trace or record at most; 0 for all"},
		&ucli.DurationFlag{Name: "interval", Value: 100 * time.Millisecond,
			Usage: "`TIME` between two Deployments; with --trace or a record, none by default"},
		&ucli.StringFlag{Name: "namespace", Aliases: []string{"n"}, Value: driver.DefaultNamespace,
			Usage: "`NAMESPACE` to deploy to, created if it is missing; for a record, the beginning of its namespaces' names"},
		&ucli.StringFlag{Name: "run", Usage: "`ID` of the run, a label of everything it creates; default: the time and random digits"},
		&ucli.StringFlag{Name: "csv", Usage: "write what was deployed to `FILE`; default: runsim-<run>.csv in the log directory, " +
			"or none without one; empty for none"},
		&ucli.StringFlag{Name: "output", Aliases: []string{"o"}, Value: "table", Usage: "print the summary as `FORMAT`: table or json"},
		&ucli.BoolFlag{Name: "dry-run", Usage: "print the CSV of what would be deployed, and deploy nothing; without a cluster, " +
			"for the nodes of kwokcluster up"},
		yesFlag(),
	}
}

func runSim(c *ucli.Context) error {
	run := cmp.Or(c.String("run"), driver.NewRunID(time.Now()))
	csv := csvPath(c, run)
	source, err := planSource(c, csv)
	if err != nil {
		return err
	}
	format, err := cli.Format(c, driver.ReportFormats)
	if err != nil {
		return err
	}
	if c.Bool("dry-run") && source.Fixed { // needs no cluster
		plan, err := source.Plan(driver.Capacity{})
		if err != nil {
			return err
		}
		return printPlan(c, source, plan, driver.Capacity{})
	}
	log, closer, err := cli.Log(c, "runsim", cli.OnTerminal())
	if err != nil {
		return err
	}
	defer closer.Close()
	s := &simulation{
		seed: source.Seed, csv: csv, csvNamed: c.IsSet("csv"), format: format,
		approval: approvalFor(c), terminal: cli.OnTerminal(),
		out: c.App.Writer, err: c.App.ErrWriter, log: log,
		config: driver.Config{
			Log: log, SchedulerName: c.String("scheduler-name"), Namespace: c.String("namespace"), RunID: run,
			Interval: interval(c),
		},
	}
	source.Pace(&s.config)
	err = s.connect(c)
	if c.Bool("dry-run") && noCluster(c, err) {
		fmt.Fprintln(c.App.ErrWriter, "runsim: no cluster is there; this plan is for the nodes of `kwokcluster up`")
		capacity := defaultCapacity()
		plan, err := source.Plan(capacity)
		if err != nil {
			return err
		}
		return printPlan(c, source, plan, capacity)
	}
	if err != nil {
		return err
	}
	if err := s.measure(c.Context, source); err != nil {
		return err
	}
	if c.Bool("dry-run") {
		return printPlan(c, source, s.config.Plan, s.config.Capacity)
	}
	for _, note := range source.Notes(s.config.Plan) {
		log.Warn().Msg(note)
	}
	return s.run(c.Context)
}

// connect makes the clients for the cluster.
func (s *simulation) connect(c *ucli.Context) error {
	client, rest, err := cli.Target(c).Connect(c.Context)
	if err != nil {
		return err
	}
	s.host = rest.Host
	s.config.Client = client
	s.config.Cleaner, err = cleanup.New(rest)
	return err
}

// noCluster reports whether err means that no cluster is there, and neither a flag nor KUBECONFIG names one. A kubeconfig that does not
// work, as for a missing plugin, names one too.
func noCluster(c *ucli.Context, err error) bool {
	if c.String("kubeconfig") != "" || c.String("context") != "" || os.Getenv(clientcmd.RecommendedConfigPathEnvVar) != "" {
		return false
	}
	_, none := os.Stat(clientcmd.RecommendedHomeFile)
	return exit.Code(err) == exit.Unreachable || exit.Code(err) == exit.Kubeconfig && none != nil
}

// defaultCapacity is that of an empty simulated cluster with the nodes that kwokcluster up makes.
func defaultCapacity() driver.Capacity {
	capacity := driver.Capacity{Nodes: 10, Excluded: 1}
	for range capacity.Nodes {
		capacity.Allocatable = capacity.Allocatable.Plus(cluster.Resources{MilliCPU: 64_000, Memory: 256 << 30, Pods: 110})
	}
	return capacity
}

// measure makes the plan for the cluster's capacity.
func (s *simulation) measure(ctx context.Context, source driver.Source) (err error) {
	if s.config.Capacity, err = driver.Measure(ctx, s.config.Client, source.Tolerations); err != nil {
		return err
	}
	s.config.Plan, err = source.Plan(s.config.Capacity)
	s.ends = source.Ends(s.config.Plan, s.config.Capacity)
	return err
}

// checkNodes asks for approval if the cluster is a real one. On a simulated one, pods are deleted
// without waiting for a kubelet.
func (s *simulation) checkNodes(ctx context.Context) error {
	nodes, err := s.config.Cleaner.Nodes(ctx)
	if err != nil {
		return err
	}
	if err := s.ask(nodes, fmt.Sprintf("Deploy %v to it? The pods will really run.", planned(s.config.Plan))); err != nil {
		return err
	}
	s.config.Cleaner.Force, s.config.Simulated = nodes.Simulated(), nodes.Simulated()
	return nil
}

// planned counts the Deployments of a plan: "210 pods in 2 fills".
func planned(p workload.Plan) string {
	pods, fills := 0, p.Fills()
	for _, f := range fills {
		pods += f.Pods
	}
	if len(fills) == 1 {
		return fmt.Sprintf("%d pods", pods)
	}
	return fmt.Sprintf("%d pods in %d fills", pods, len(fills))
}

// timed reports whether the pods come by themselves, at times of their own.
func timed(c *ucli.Context) bool { return c.IsSet("trace") || playsRecord(c) }

// interval is the pause between two Deployments. A trace has none unless the flag is set.
func interval(c *ucli.Context) time.Duration {
	if timed(c) && !c.IsSet("interval") {
		return 0
	}
	return c.Duration("interval")
}

// csvPath is the file for the deployed workload; empty means none.
func csvPath(c *ucli.Context, run string) string {
	if c.IsSet("csv") || timed(c) { // the CSV would hold less than the trace
		return c.String("csv")
	}
	if dir := c.String("log-dir"); dir != "" {
		return filepath.Join(dir, "runsim-"+run+".csv")
	}
	return ""
}

// printPlan is the dry run: it writes the CSV to stdout and the totals to stderr.
func printPlan(c *ucli.Context, s driver.Source, p workload.Plan, capacity driver.Capacity) error {
	if err := trace.WritePlan(c.App.Writer, p); err != nil {
		return err
	}
	ends := s.Ends(p, capacity)
	for i, f := range p.Fills() {
		load := ""
		if capacity.Allocatable.Pods > 0 {
			load = fmt.Sprintf(", %v of the cluster with what is there", workload.LoadOf(capacity.Used.Plus(f.Requests), capacity.Allocatable))
		}
		if len(ends) > i {
			load += ", ended by " + ends[i]
		}
		deployments := fmt.Sprintf("%d deployments, ", f.Deployments)
		if timed(c) {
			deployments = "" // its pods come by themselves
		}
		fmt.Fprintf(c.App.ErrWriter, "fill %d: %s%d pods%s\n", i+1, deployments, f.Pods, load)
	}
	return nil
}

// simulation is one call of runsim: it deploys and writes the summary.
type simulation struct {
	approval
	config   driver.Config
	seed     *uint64 // of the plan; nil if no random numbers decide it
	ends     []string
	csv      string // file for the deployed workload; empty for none
	csvNamed bool   // the user named it; otherwise the run can do without
	format   string // of the summary
	terminal bool   // draw progress in place
	out, err io.Writer
	log      zerolog.Logger
}

// run applies the plan and writes the CSV and the summary, also if the plan fails halfway.
func (s *simulation) run(ctx context.Context) (err error) {
	if err := s.config.Validate(); err != nil {
		return err
	}
	if err := s.checkNodes(ctx); err != nil {
		return err
	}
	file, err := s.openCSV()
	if err != nil && s.csvNamed {
		return err
	}
	if err != nil {
		s.log.Warn().Err(err).Msg("what is deployed is not recorded; choose a file with --csv")
		s.csv = ""
	}
	view := cli.NewBar(s.err, s.terminal, s.log)
	s.config.Progress = func(p driver.Progress) {
		view.Show(p.Done, fmt.Sprint(p.Fill, p.Phase), p.String())
	}
	what := "deploying"
	if s.config.Speed > 0 {
		what = fmt.Sprintf("deploying at recorded times, %v times as fast (--speed)", s.config.Speed)
	}
	s.log.Info().Str("run", s.config.RunID).Str("scheduler", s.config.SchedulerName).Str("namespace", s.config.Namespace).
		Int("nodes", s.config.Capacity.Nodes).Stringer("load", s.config.Capacity.Load()).Msg(what)
	sum, err := driver.Run(ctx, s.config)
	view.Close()
	if len(sum.Fills) > 0 {
		err = errors.Join(err, driver.Report{Summary: sum, Seed: s.seed, CSV: s.csv, Ends: s.ends}.Write(s.out, s.format))
	}
	if file != nil {
		if cerr := file.Close(); cerr != nil {
			err = errors.Join(err, fmt.Errorf("close the CSV: %w", cerr))
		}
	}
	if n := len(sum.Fills); n > 0 && sum.Fills[n-1].Pods > 0 {
		s.log.Info().Msg("the pods of the last fill stay; `cleancluster --run " + sum.RunID + "` removes them")
	}
	return err
}

// openCSV creates the CSV and has the driver record every step in it.
func (s *simulation) openCSV() (*os.File, error) {
	path := s.csv
	if path == "" {
		return nil, nil
	}
	hint := "choose a file that you can write to with --csv, or --csv='' for none"
	if !s.csvNamed { // create the default log directory; the directory of --csv must exist
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return nil, exit.New(exit.Usage, fmt.Errorf("make the directory of the CSV: %w", err), hint)
		}
	}
	f, err := os.Create(path)
	if err != nil {
		return nil, exit.New(exit.Usage, fmt.Errorf("write the CSV: %w", err), hint)
	}
	w, err := trace.NewPlanWriter(f)
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	s.config.Record = w.WriteStep
	return f, nil
}

// Flags of one way to make a plan; with another they are refused.
var (
	generatorFlags = []string{"cpu-load", "mem-load", "pod-load", "cluster-resets", "shapes", "seed", "replicas-min", "replicas-max"}
	timedFlags     = []string{"speed", "limit"} // of --trace and of --replay RECORD
)

// playsRecord reports whether --replay names the record of a cluster.
func playsRecord(c *ucli.Context) bool { return record.Is(c.String("replay")) }

// planSource reads and checks all flags about the plan, before any cluster is touched. csv is
// the file that the deployed workload will be written to.
func planSource(c *ucli.Context, csv string) (s driver.Source, err error) {
	if c.NArg() > 0 {
		return s, exit.New(exit.Usage, fmt.Errorf("unexpected argument %q", c.Args().First()), "runsim takes flags only; see `runsim --help`")
	}
	played := playsRecord(c)
	for _, f := range timedFlags {
		if c.IsSet(f) && !c.IsSet("trace") && !played {
			return s, exit.New(exit.Usage, fmt.Errorf("--%s works with --trace only", f), "name a trace, or leave it out")
		}
	}
	switch {
	case played && !c.IsSet("trace"):
		return replayedSource(c)
	case c.IsSet("trace"):
		return traceSource(c, csv)
	case c.IsSet("replay"):
		return recordedSource(c, csv)
	}
	return generatedSource(c)
}

func generatedSource(c *ucli.Context) (s driver.Source, err error) {
	g := workload.Generator{
		Seed: c.Uint64("seed"), Shapes: workload.DefaultShapes(), ReplicasMin: c.Int("replicas-min"), ReplicasMax: c.Int("replicas-max"),
		Fills:  c.Int("cluster-resets"),
		Target: workload.Load{CPU: loadOf(c, "cpu-load"), Memory: loadOf(c, "mem-load"), Pods: loadOf(c, "pod-load")},
	}
	if file := c.String("shapes"); file != "" {
		data, err := files.Read(file, files.Data)
		if err != nil {
			return s, exit.New(exit.Usage, fmt.Errorf("read the shapes: %w", err), "")
		}
		if g.Shapes, err = workload.ReadShapes(file, data); err != nil {
			return s, exit.New(exit.Usage, err, "docs/reference/scenario-file.md describes the file")
		}
	}
	if err := g.Validate(); err != nil {
		return s, exit.New(exit.Usage, err, "see `runsim --help`")
	}
	return driver.Generated(g), nil
}

// loadOf returns the load of a flag. One that is not given ends no fill if another one is given.
func loadOf(c *ucli.Context, flag string) float64 {
	given := func(f string) bool { return c.IsSet(f) }
	if !given(flag) && slices.ContainsFunc(generatorFlags[:3], given) {
		return workload.MaxTarget
	}
	return c.Float64(flag)
}

// replayedSource plays the record that --replay names.
func replayedSource(c *ucli.Context) (s driver.Source, err error) {
	if err := errors.Join(withoutGenerator(c), checkPace(c)); err != nil {
		return s, err
	}
	r, err := play.LoadReplay(c.String("replay"))
	if err != nil {
		return s, exit.New(exit.Usage, err, "docs/how-to/record.md says how to make a record")
	}
	return driver.Replayed(r, c.Float64("speed"), c.Int("limit")), nil
}

// withoutGenerator refuses the flags of random arrivals beside --replay.
func withoutGenerator(c *ucli.Context) error {
	for _, f := range generatorFlags {
		if c.IsSet(f) {
			return exit.New(exit.Usage, fmt.Errorf("--%s has no effect with --replay, which deploys the file as it is", f),
				"leave one of the two out")
		}
	}
	return nil
}

// checkPace checks the flags that pods with times have.
func checkPace(c *ucli.Context) error {
	if speed := c.Float64("speed"); !(speed > 0 && speed <= 1e9) {
		return exit.Usagef("--speed %v: choose a number over 0 and up to 1e9; 3600 deploys an hour of the trace in a second", speed)
	}
	if c.Int("limit") < 0 {
		return exit.Usagef("--limit %d is negative; 0 stands for all pods", c.Int("limit"))
	}
	return nil
}

func recordedSource(c *ucli.Context, csv string) (s driver.Source, err error) {
	file := c.String("replay")
	if err := withoutGenerator(c); err != nil {
		return s, err
	}
	if sameFile(file, csv) {
		return s, exit.New(exit.Usage, fmt.Errorf("--replay and --csv name the same file, %s", csv), "choose another file with --csv")
	}
	in, err := open(file)
	if err != nil {
		return s, err
	}
	defer in.Close()
	plan, err := trace.ReadPlan(in, file)
	if err != nil {
		return s, exit.New(exit.Usage, err, "docs/reference/scenario-file.md describes the file")
	}
	return driver.Recorded(plan), nil
}

func traceSource(c *ucli.Context, csv string) (s driver.Source, err error) {
	file := c.String("trace")
	if err := checkTraceFlags(c, csv); err != nil {
		return s, err
	}
	in, err := open(file)
	if err != nil {
		return s, err
	}
	defer in.Close()
	t, err := trace.Auto.Read(in, file)
	if err != nil {
		return s, exit.New(exit.Usage, err, "docs/reference/scenario-file.md describes the file")
	}
	return driver.Traced(t.Arrivals, c.Float64("speed"), c.Int("limit"), t.Notes), nil
}

// checkTraceFlags checks the values of the flags that go with --trace, and refuses the others.
func checkTraceFlags(c *ucli.Context, csv string) error {
	for _, f := range append([]string{"replay"}, generatorFlags...) {
		if c.IsSet(f) {
			return exit.New(exit.Usage, fmt.Errorf("--%s has no effect with --trace, which deploys the file as it is", f),
				"leave one of the two out")
		}
	}
	if err := checkPace(c); err != nil {
		return err
	}
	switch {
	case record.Is(c.String("trace")):
		return exit.New(exit.Usage, fmt.Errorf("%s is a record, not a trace", c.String("trace")),
			"runsim --replay plays a record, with the constraints of its pods")
	case sameFile(c.String("trace"), csv):
		return exit.New(exit.Usage, fmt.Errorf("--trace and --csv name the same file, %s", csv), "choose another file with --csv")
	}
	return nil
}

// open opens a file that a flag names; - is stdin.
func open(file string) (io.ReadCloser, error) {
	if file == "-" {
		return io.NopCloser(os.Stdin), nil
	}
	f, err := os.Open(file)
	if err != nil {
		return nil, exit.New(exit.Usage, fmt.Errorf("read the workload: %w", err), "")
	}
	return f, nil
}

// sameFile tells whether both paths lead to the same existing file.
func sameFile(a, b string) bool {
	x, err := os.Stat(a)
	if err != nil {
		return false
	}
	y, err := os.Stat(b)
	return err == nil && os.SameFile(x, y)
}
