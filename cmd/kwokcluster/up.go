package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/rs/zerolog"
	ucli "github.com/urfave/cli/v2"

	"gnnsched/internal/choice"
	"gnnsched/internal/cli"
	"gnnsched/internal/exit"
	"gnnsched/internal/logging"
	"gnnsched/kwok"
	"gnnsched/kwok/nodepool"
	"gnnsched/workload/record"
	"gnnsched/workload/trace/openb"
)

const (
	component = "kwokcluster"
	// stopTimeout limits a cluster's stop before the process exits anyway. No data is lost: etcd survives a killed process.
	stopTimeout = 2800 * time.Millisecond
)

const upExamples = `kwokcluster up --nodes 100 --port 6443
   kwokcluster up --pools kwok/testdata/mixed.yaml
   kwokcluster up --pools prod.record
   kwokcluster up --pools prod.record@2026-03-01T12:00:00Z
   kwokcluster up --nodes-file openb_node_list_gpu_node.csv --nodes 200
   kwokcluster up --nodes-file openb_node_list_gpu_node.csv --nodes 200 --gpus slices
   kwokcluster up --detach && kwokcluster status
   kwokcluster up --bind-address 0.0.0.0 --advertise-host cluster --kubeconfig-out /shared/kubeconfig`

func upCommand(args []string) *ucli.Command {
	return &ucli.Command{
		Name: "up", Usage: "start the cluster; a restart keeps its data, port and nodes",
		Description: "A new cluster has ten nodes of 64 CPU, 256Gi and 110 pods, and a tainted control-plane node, unless\n" +
			"--nodes, --pools or --nodes-file say otherwise. With these flags, a restart creates missing nodes and\n" +
			"deletes nodes that kwokcluster made and that are no longer listed.\n\nExamples:\n   " + upExamples,
		Flags: cli.Grouped([]ucli.Flag{
			dirFlag(),
			&ucli.IntFlag{Name: "nodes", Aliases: []string{"n"}, DefaultText: "10, or those of the previous start",
				Usage: "`NUMBER` of nodes besides the control-plane node"},
			&ucli.StringFlag{Name: "pools", Aliases: []string{"f"},
				Usage: "YAML `FILE` with the node pools, or a record: its nodes at its end, or at a time with RECORD@TIME"},
			&ucli.StringFlag{Name: "nodes-file", Usage: "node list `FILE` of the openb trace; with --nodes a sample of at least that " +
				"many, in proportion"},
			&ucli.StringFlag{Name: "gpus", Value: string(nodepool.InCapacity), Usage: "how the nodes of --nodes-file offer GPUs, a `WAY`: " +
				"capacity (to annotations), slices (to claims), both, or turns (both and slices by turns)"},
			&ucli.IntFlag{Name: "port", DefaultText: "the port of the previous start, or a free one", Usage: "`PORT` of the API server"},
			&ucli.BoolFlag{Name: "wait", Value: true, Usage: "wait until every node is ready"},
			&ucli.BoolFlag{Name: "detach", Aliases: []string{"d"}, Usage: "start it in the background and return when it is ready"},
			&ucli.StringFlag{Name: "context", DefaultText: "gnnsched-kwok; with --dir a name of its own",
				Usage: "`NAME` of the context in the kubeconfig"},
			&ucli.StringSliceFlag{Name: "kubeconfig-out", Usage: "also write the kubeconfig to `FILE`; may be repeated"},
			&ucli.StringFlag{Name: "bind-address", Value: "127.0.0.1",
				Usage: "`IP` address to listen on; addresses other than loopback require --advertise-host"},
			&ucli.StringFlag{Name: "advertise-host",
				Usage: "`HOST` name under which others reach the cluster, for the certificate and the kubeconfig"},
			&ucli.StringSliceFlag{Name: "feature-gates",
				Usage: "feature gates of Kubernetes to set, as `NAME=BOOL`; may be repeated. rungnn has the same flag"},
			&ucli.StringSliceFlag{Name: "runtime-config",
				Usage: "versions of APIs to serve besides the usual ones, as `GROUP/VERSION=BOOL`, for example resource.k8s.io/v1beta2=true"},
			&ucli.StringFlag{Name: "log-dir", Usage: "`DIR`ectory of the log file; default: the data directory"},
			&ucli.StringFlag{Name: "log-level", Value: "info", Usage: "`LEVEL`: debug, info, warn or error"},
		},
			cli.Group{Heading: "access from elsewhere", Flags: "bind-address advertise-host kubeconfig-out context"},
			cli.Group{Heading: "Kubernetes", Flags: "feature-gates runtime-config"},
			cli.Group{Heading: "logs", Flags: "log-dir log-level"}),
		Before: noArguments,
		Action: func(c *ucli.Context) error { return up(c, args) },
	}
}

func up(c *ucli.Context, args []string) error {
	cfg, err := configFrom(c)
	if err != nil {
		return err
	}
	parent, err := ParentFromEnv()
	if err != nil {
		return err
	}
	if parent == nil {
		if err := makeDirs(c); err != nil {
			return err
		}
	}
	if c.Bool("detach") && parent == nil {
		return detach(c, args)
	}
	err = run(c, cfg, parent)
	parent.Failed(err)
	return err
}

// makeDirs makes the directories of the log and of copies of the kubeconfig, and reports each.
func makeDirs(c *ucli.Context) error {
	if d := c.String("log-dir"); d != "" {
		if err := cli.MakeDir(c.App.ErrWriter, d, "--log-dir", 0o700); err != nil {
			return err
		}
	}
	for _, path := range c.StringSlice("kubeconfig-out") {
		if err := cli.MakeDir(c.App.ErrWriter, filepath.Dir(path), "--kubeconfig-out", 0o700); err != nil {
			return err
		}
	}
	return nil
}

// configFrom reads the flags and the pool file.
func configFrom(c *ucli.Context) (kwok.Config, error) {
	cfg := kwok.Config{
		Dir: dir(c), Port: c.Int("port"), BindAddress: c.String("bind-address"), AdvertiseHost: c.String("advertise-host"),
		Context: c.String("context"), KubeconfigCopies: c.StringSlice("kubeconfig-out"), NoWait: !c.Bool("wait"),
		FeatureGates: c.StringSlice("feature-gates"), RuntimeConfig: c.StringSlice("runtime-config"),
	}
	var err error
	switch {
	case c.IsSet("nodes") && c.IsSet("pools"):
		return cfg, exit.New(exit.Usage, fmt.Errorf("--nodes and --pools exclude each other"), "set the number in the file, as count")
	case c.IsSet("pools") && c.IsSet("nodes-file"):
		return cfg, exit.New(exit.Usage, fmt.Errorf("--pools and --nodes-file exclude each other"), "leave one of the two out")
	case c.IsSet("gpus") && !c.IsSet("nodes-file"):
		return cfg, exit.New(exit.Usage, errors.New("--gpus works with --nodes-file only"),
			"with --pools, the field devices of a pool offers GPUs to claims")
	case !slices.Contains(nodepool.Offers, nodepool.Offer(c.String("gpus"))):
		return cfg, exit.Usagef("--gpus: %w", choice.Unknown("way", c.String("gpus"), []string{"capacity", "slices", "both", "turns"}))
	case c.IsSet("pools"):
		cfg.Pools, err = pools(c)
	case c.IsSet("nodes-file"):
		cfg.Pools, err = openbPools(c)
	case c.IsSet("nodes"):
		if n := c.Int("nodes"); n < 0 || n >= nodepool.MaxNodes {
			return cfg, exit.Usagef("--nodes %d is not between 0 and %d", n, nodepool.MaxNodes-1)
		}
		cfg.Pools = nodepool.Default(c.Int("nodes"))
	}
	if err != nil {
		return cfg, err
	}
	return cfg, cfg.Validate()
}

// pools reads a pool file or the nodes of a record.
func pools(c *ucli.Context) ([]nodepool.Pool, error) {
	moment, ok, err := record.ParseMoment(c.String("pools"))
	if err != nil {
		return nil, exit.New(exit.Usage, fmt.Errorf("--pools: %w", err), "RECORD@TIME has the record's nodes at a time, RECORD those at its end")
	}
	if !ok {
		return nodepool.Load(c.String("pools"))
	}
	out, notes, err := nodepool.Recorded(moment)
	if err != nil {
		return nil, exit.New(exit.Usage, fmt.Errorf("--pools: %w", err), "docs/how-to/record.md says how to make a record")
	}
	for _, n := range notes {
		fmt.Fprintf(c.App.ErrWriter, "%s: %s: %s\n", component, moment.Dir, n)
	}
	return out, nil
}

// openbPools returns the nodes of an openb node list, or a sample of them.
func openbPools(c *ucli.Context) ([]nodepool.Pool, error) {
	nodes, err := openb.LoadNodes(c.String("nodes-file"))
	if err != nil {
		return nil, exit.New(exit.Usage, fmt.Errorf("--nodes-file: %w", err), "docs/reference/nodes.md describes the file")
	}
	if c.IsSet("nodes") {
		n := c.Int("nodes")
		if n < 1 || n > len(nodes) {
			return nil, exit.Usagef("--nodes %d is not between 1 and the %d nodes of %s", n, len(nodes), c.String("nodes-file"))
		}
		nodes = openb.Sample(nodes, n)
	}
	return nodepool.Single(openb.ClusterNodes(nodes), nodepool.Offer(c.String("gpus"))), nil
}

// run runs the cluster until it is stopped. parent, if not nil, receives the progress of the start.
func run(c *ucli.Context, cfg kwok.Config, parent *Parent) error {
	ctx := c.Context
	defer endWithin(ctx, stopTimeout, func() {
		fmt.Fprintf(c.App.ErrWriter, "%s: still not stopped after %v; exiting, the data is kept\n", component, stopTimeout)
		os.Exit(exit.Interrupted)
	})()
	if err := kwok.MakeDir(cfg.Dir); err != nil {
		return err
	}
	screen := &screen{ctx: ctx, w: c.App.ErrWriter}
	if parent != nil {
		screen.w = io.Discard // in the background there is only the log file
	}
	log, closer, err := upLog(c, screen)
	if err != nil {
		return err
	}
	defer closer.Close() //nolint:errcheck // the last line is already written
	cfg.Log = log
	begin := time.Now()
	cfg.Progress = func(step string) {
		log.Debug().Str("step", step).Msg("starting")
		if parent != nil {
			parent.Progress(step)
		} else {
			fmt.Fprintf(c.App.ErrWriter, "%s: %s\n", component, step)
		}
	}
	cluster, err := kwok.Start(ctx, cfg)
	if err != nil {
		return err
	}
	up := readyMessage{
		NoWait: cfg.NoWait, URL: cluster.URL(), Kubeconfig: cluster.Kubeconfig(), Context: cluster.Context(),
		Nodes: nodepool.Nodes(cluster.Pools()), Took: time.Since(begin),
	}
	log.Info().Str("url", up.URL).Int("nodes", up.Nodes).Dur("took", up.Took).Msg("ready")
	if parent != nil {
		if err := parent.Ready(up); err != nil {
			log.Warn().Err(err).Msg("the process that waits for this one was not told that the cluster is ready")
		}
	} else {
		up.print(c, "Ctrl-C stops it and keeps the data")
	}
	screen.up.Store(true)
	err = cluster.Wait()
	if ctx.Err() != nil {
		log.Info().Msg("stopped")
		return nil
	}
	return err
}

// endWithin calls end if ctx has ended and the limit has passed since then, unless stop is called
// before.
func endWithin(ctx context.Context, limit time.Duration, end func()) (stop func()) {
	stopped := make(chan struct{})
	go func() {
		select {
		case <-ctx.Done():
		case <-stopped:
			return
		}
		select {
		case <-time.After(limit):
			end()
		case <-stopped:
		}
	}()
	return func() { close(stopped) }
}

// upLog opens the log.
func upLog(c *ucli.Context, screen io.Writer) (zerolog.Logger, io.Closer, error) {
	cfg := logging.Config{
		Component: component, Dir: dir(c), Level: c.String("log-level"), Stderr: screen,
		NoColor: os.Getenv("NO_COLOR") != "" || !cli.IsTerminal(os.Stderr),
	}
	if c.IsSet("log-dir") {
		cfg.Dir = c.String("log-dir")
	}
	return logging.Setup(cfg)
}

// screen writes log lines to the terminal while the cluster is up. It drops them during start and
// stop, when components report that others do not run yet or any more. The log file has them all.
type screen struct {
	ctx context.Context // ends when the cluster is to stop
	w   io.Writer
	up  atomic.Bool
}

// Write implements io.Writer.
func (s *screen) Write(b []byte) (int, error) {
	if !s.up.Load() || s.ctx.Err() != nil {
		return len(b), nil
	}
	return s.w.Write(b)
}

// readyMessage describes a cluster that has started.
type readyMessage struct {
	URL        string        `json:"url"`
	Kubeconfig string        `json:"kubeconfig"`
	Context    string        `json:"context"`
	Nodes      int           `json:"nodes"`
	Took       time.Duration `json:"took"`   // nanoseconds
	NoWait     bool          `json:"noWait"` // the nodes exist, but may not be ready
}

// print writes the message to stderr, and to stdout only a command for the shell to evaluate.
func (m readyMessage) print(c *ucli.Context, next string) {
	what := "ready"
	if m.NoWait {
		what = "up, but its nodes may not be ready,"
	}
	fmt.Fprintf(c.App.ErrWriter, "%s: %s after %.1f s: %s, %d nodes\n", component, what, m.Took.Seconds(), m.URL, m.Nodes)
	fmt.Fprintf(c.App.ErrWriter, "%s: kubeconfig %s, context %s; %s\n", component, m.Kubeconfig, m.Context, next)
	exportKubeconfig(c, m.Kubeconfig)
}

// exportKubeconfig prints a command for the shell to evaluate.
func exportKubeconfig(c *ucli.Context, path string) {
	fmt.Fprintf(cli.Aside(c), "export KUBECONFIG=%s\n", exit.ShellLine(path))
}

// logPath returns the path of a file in the log directory of a cluster in the background.
func logPath(c *ucli.Context, name string) string {
	d := dir(c)
	if c.String("log-dir") != "" {
		d = c.String("log-dir")
	}
	return filepath.Join(d, name)
}

// Command is a start of the running program in the background.
type Command struct {
	Args     []string                   // without the program's name
	Output   *os.File                   // for stdout and stderr
	Progress func(step string)          // called for each step of the start
	Ready    func(message []byte) error // called with the message of Parent.Ready
}

// ErrEnded is the error of Start if the process ended before it was ready and gave no reason.
var ErrEnded = errors.New("the process ended during its start")

// Start starts the process in a new session and waits until it is ready. If the start fails, the error has
// the exit code and hint of the process. When ctx ends before that, Start ends the process.
func Start(ctx context.Context, c Command) error {
	self, err := os.Executable()
	if err != nil {
		return fmt.Errorf("find this program: %w", err)
	}
	r, w, err := os.Pipe()
	if err != nil {
		return fmt.Errorf("make a pipe: %w", err)
	}
	defer r.Close() //nolint:errcheck // only read
	child := exec.Command(self, c.Args...)
	child.Stdout, child.Stderr = c.Output, c.Output
	child.ExtraFiles = []*os.File{w}
	child.Env = append(os.Environ(), envReport+"="+strconv.Itoa(3)) // the number of the first extra file
	child.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	err = child.Start()
	_ = w.Close()
	if err != nil {
		return fmt.Errorf("start %s in the background: %w", self, err)
	}
	result := make(chan error, 1)
	go func() { result <- c.follow(r) }()
	select {
	case err := <-result:
		if errors.Is(err, io.ErrUnexpectedEOF) {
			return fmt.Errorf("%w: %v", ErrEnded, child.Wait())
		}
		if err != nil {
			_ = child.Wait() // it ends soon; err has its error
		}
		return err
	case <-ctx.Done():
		_ = child.Process.Signal(syscall.SIGTERM)
		_ = child.Wait()
		return ctx.Err()
	}
}

// follow passes the reports on until the process is ready or has failed. It returns
// io.ErrUnexpectedEOF if the reports end before that.
func (c Command) follow(r io.Reader) error {
	lines := bufio.NewScanner(r)
	for lines.Scan() {
		var m report
		if err := json.Unmarshal(lines.Bytes(), &m); err != nil {
			return fmt.Errorf("read the report of the process in the background: %w", err)
		}
		switch {
		case m.Failed != nil:
			return exit.New(m.Failed.Code, errors.New(m.Failed.Error), m.Failed.Hint)
		case m.Ready != nil:
			return c.Ready(m.Ready)
		default:
			c.Progress(m.Progress)
		}
	}
	return io.ErrUnexpectedEOF
}

// detach starts the cluster in the background and waits until it is ready or has failed.
func detach(c *ucli.Context, args []string) error {
	if err := kwok.MakeDir(dir(c)); err != nil {
		return err
	}
	if s, err := kwok.Inspect(c.Context, dir(c)); err == nil && s.Phase == kwok.Ready { // what follows says that it runs already
		exportKubeconfig(c, s.Kubeconfig)
	}
	out, err := openOutput(c)
	if err != nil {
		return err
	}
	defer out.Close() //nolint:errcheck // the background process has its own
	err = Start(c.Context, Command{
		Args: args[1:], Output: out,
		Progress: func(step string) { fmt.Fprintf(c.App.ErrWriter, "%s: %s\n", component, step) },
		Ready: func(message []byte) error {
			var m readyMessage
			if err := json.Unmarshal(message, &m); err != nil {
				return err
			}
			m.print(c, "`"+downLine(c)+"` stops it")
			return nil
		},
	})
	if errors.Is(err, ErrEnded) {
		return exit.New(exit.Internal, err, "see "+logPath(c, outputFile)+" and its log, "+logPath(c, component+".log"))
	}
	return err
}

// outputFile receives a background cluster's output besides its log, such as a panic.
const outputFile = component + ".err"

// openOutput opens the file for the output of a background process and empties it.
func openOutput(c *ucli.Context) (*os.File, error) {
	f, err := os.OpenFile(logPath(c, outputFile), os.O_CREATE|os.O_TRUNC|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, exit.New(exit.Usage, fmt.Errorf("open the file for the cluster's output: %w", err), "choose another directory with --log-dir")
	}
	return f, nil
}

// downLine is the command that stops the cluster.
func downLine(c *ucli.Context) string {
	if d := c.String("dir"); d != "" {
		return "kwokcluster down --dir " + exit.ShellLine(d)
	}
	return "kwokcluster down"
}

// envReport is set in processes that Start starts. Its value is the file descriptor for reports to the
// parent process.
const envReport = "GNNSCHED_REPORT_FD"

// report is a line from a process that starts in the background. One of its fields is set.
type report struct {
	Progress string          `json:"progress,omitempty"`
	Ready    json.RawMessage `json:"ready,omitempty"`
	Failed   *failure        `json:"failed,omitempty"`
}

type failure struct {
	Code  int    `json:"code"`
	Error string `json:"error"`
	Hint  string `json:"hint,omitempty"`
}

// Parent is the process that waits until this one is ready. Write errors are ignored: the parent may
// have ended.
type Parent struct{ w io.WriteCloser }

// ParentFromEnv returns the parent if Start started this process, else nil. It must be called before the
// process starts others, and once.
func ParentFromEnv() (*Parent, error) {
	v := os.Getenv(envReport)
	if v == "" {
		return nil, nil
	}
	if err := os.Unsetenv(envReport); err != nil {
		return nil, err
	}
	fd, err := strconv.Atoi(v)
	if err != nil || fd < 3 {
		return nil, exit.Usagef("the environment variable %s is %q, not a file descriptor; it is for internal use, do not set it", envReport, v)
	}
	syscall.CloseOnExec(fd)
	return &Parent{os.NewFile(uintptr(fd), "report")}, nil
}

func (p *Parent) send(m report) {
	b, err := json.Marshal(m)
	if err != nil {
		panic(fmt.Sprintf("a report of strings and numbers does not marshal: %v", err)) // cannot happen
	}
	_, _ = p.w.Write(append(b, '\n'))
}

// Progress reports a step of the start.
func (p *Parent) Progress(step string) { p.send(report{Progress: step}) }

// Ready sends the last report: the process is ready. The parent shows message, encoded as JSON, to the user.
func (p *Parent) Ready(message any) error {
	b, err := json.Marshal(message)
	if err != nil {
		return err
	}
	p.send(report{Ready: b})
	return p.w.Close()
}

// Failed sends the last report if the start failed. It does nothing for a nil parent or error, or after
// Ready.
func (p *Parent) Failed(err error) {
	if p == nil || err == nil {
		return
	}
	f := &failure{Code: exit.Code(err), Error: err.Error()}
	var e *exit.Error
	if errors.As(err, &e) {
		f.Hint = e.Hint
	}
	p.send(report{Failed: f})
	_ = p.w.Close()
}
