package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/rs/zerolog"
	ucli "github.com/urfave/cli/v2"

	"gnnsched/internal/cli"
	"gnnsched/internal/exit"
	"gnnsched/internal/logging"
	"gnnsched/kwok"
	"gnnsched/kwok/nodepool"
	"gnnsched/workload/trace/openb"
)

const (
	component = "kwokcluster"
	// stopWithin is how long a cluster that was told to stop may take before the process
	// ends all the same. Nothing is lost then: etcd's files are made for that.
	stopWithin = 2800 * time.Millisecond
)

const upExamples = `kwokcluster up --nodes 100 --port 6443
   kwokcluster up --pools kwok/testdata/mixed.yaml
   kwokcluster up --nodes-file openb_node_list_gpu_node.csv --nodes 200
   kwokcluster up --detach && kwokcluster status
   kwokcluster up --bind-address 0.0.0.0 --advertise-host cluster --kubeconfig-out /shared/kubeconfig`

func upCommand(args []string) *ucli.Command {
	return &ucli.Command{
		Name: "up", Usage: "start the cluster; data, port and nodes of last time are used again",
		Description: "Without --nodes and --pools a new cluster has ten nodes of 64 CPU, 256Gi and 110 pods, and a tainted\n" +
			"control-plane node; one that was started before has the nodes of last time. Nodes that are missing are\n" +
			"made, and those that kwokcluster made and that are no longer wanted are deleted.\n\nEXAMPLES:\n   " + upExamples,
		Flags: []ucli.Flag{
			dirFlag(),
			&ucli.IntFlag{Name: "nodes", Aliases: []string{"n"}, DefaultText: "10, or those of last time", Usage: "`NUMBER` of nodes, besides the control-plane node"},
			&ucli.StringFlag{Name: "pools", Aliases: []string{"f"}, Usage: "YAML `FILE` with the node pools, instead of --nodes"},
			&ucli.StringFlag{Name: "nodes-file", Usage: "node list `FILE` of the openb trace; with --nodes a share of them, at least so many, in which each kind of machine has its part"},
			&ucli.IntFlag{Name: "port", DefaultText: "the one of last time, or a free one", Usage: "`PORT` of the API server"},
			&ucli.BoolFlag{Name: "wait", Value: true, Usage: "wait until every node is ready"},
			&ucli.BoolFlag{Name: "detach", Aliases: []string{"d"}, Usage: "start it in the background and return when it is ready"},
			&ucli.StringFlag{Name: "context", Value: kwok.DefaultContext, Usage: "`NAME` of the context in the kubeconfig"},
			&ucli.StringSliceFlag{Name: "kubeconfig-out", Usage: "`FILE` that gets a copy of the kubeconfig; may be repeated"},
			&ucli.StringFlag{Name: "kubeconfig-mode", Value: "0600", Usage: "permissions of these copies, in octal"},
			&ucli.StringFlag{Name: "bind-address", Value: "127.0.0.1", Usage: "`IP` address to listen on; another than loopback needs --advertise-host"},
			&ucli.StringFlag{Name: "advertise-host", Usage: "`HOST` under which others reach the cluster; put into certificate and kubeconfig"},
			&ucli.BoolFlag{Name: "fsync", Usage: "wait for the disk at each write, so that data outlives a crash of the machine"},
			&ucli.StringFlag{Name: "log-dir", Usage: "`DIR`ectory of the log file; default: the data directory"},
			&ucli.StringFlag{Name: "log-level", Value: "info", Usage: "`LEVEL`: debug, info, warn or error"},
		},
		Before: noArguments,
		Action: func(c *ucli.Context) error { return up(c, args) },
	}
}

func up(c *ucli.Context, args []string) error {
	cfg, err := configFrom(c)
	if err != nil {
		return err
	}
	parent, err := reporterFromEnv() // before anything that can fail: the parent waits for it
	if err != nil {
		return err
	}
	if c.Bool("detach") && parent == nil {
		return detach(c, args)
	}
	err = run(c, cfg, parent)
	parent.failed(err)
	return err
}

// configFrom reads the flags and the pool file.
func configFrom(c *ucli.Context) (kwok.Config, error) {
	cfg := kwok.Config{
		Dir: dir(c), Port: c.Int("port"), BindAddress: c.String("bind-address"), AdvertiseHost: c.String("advertise-host"),
		Context: c.String("context"), KubeconfigCopies: c.StringSlice("kubeconfig-out"), Fsync: c.Bool("fsync"), NoWait: !c.Bool("wait"),
	}
	mode, err := strconv.ParseUint(c.String("kubeconfig-mode"), 8, 32)
	if err != nil {
		return cfg, exit.New(exit.Usage, fmt.Errorf("--kubeconfig-mode %q is not an octal number", c.String("kubeconfig-mode")), "for example 0640, which lets the group read it")
	}
	cfg.KubeconfigMode = os.FileMode(mode)
	switch {
	case c.IsSet("nodes") && c.IsSet("pools"):
		return cfg, exit.New(exit.Usage, fmt.Errorf("--nodes and --pools exclude each other"), "say the number in the file, as count")
	case c.IsSet("pools") && c.IsSet("nodes-file"):
		return cfg, exit.New(exit.Usage, fmt.Errorf("--pools and --nodes-file exclude each other"), "leave one of the two out")
	case c.IsSet("pools"):
		cfg.Pools, err = nodepool.Load(c.String("pools"))
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

// openbPools are the machines of a node list, or a share of them.
func openbPools(c *ucli.Context) ([]nodepool.Pool, error) {
	nodes, err := openb.LoadNodes(c.String("nodes-file"))
	if err != nil {
		return nil, exit.New(exit.Usage, fmt.Errorf("--nodes-file: %w", err), "docs/cluster.md describes the file")
	}
	if c.IsSet("nodes") {
		n := c.Int("nodes")
		if n < 1 || n > len(nodes) {
			return nil, exit.Usagef("--nodes %d is not between 1 and the %d nodes of %s", n, len(nodes), c.String("nodes-file"))
		}
		nodes = openb.Sample(nodes, n)
	}
	return nodepool.Single(openb.ClusterNodes(nodes)), nil
}

// run runs the cluster until it is told to stop.
func run(c *ucli.Context, cfg kwok.Config, parent *reporter) error {
	ctx := c.Context
	defer endWithin(ctx, stopWithin, func() {
		fmt.Fprintf(c.App.ErrWriter, "%s: not stopped after %v, ending now; the data is kept\n", component, stopWithin)
		os.Exit(exit.Interrupted)
	})()
	if err := kwok.MakeDir(cfg.Dir); err != nil {
		return err
	}
	screen := &screen{ctx: ctx, w: c.App.ErrWriter}
	if parent != nil {
		screen.w = io.Discard // a cluster in the background has the log file alone
	}
	log, closer, err := upLog(c, screen)
	if err != nil {
		return err
	}
	defer closer.Close() //nolint:errcheck // the last line is long since written
	cfg.Log = log
	begin := time.Now()
	cfg.Progress = func(step string) {
		log.Debug().Str("step", step).Msg("starting")
		if parent != nil {
			parent.progress(step)
		} else {
			fmt.Fprintf(c.App.ErrWriter, "%s: %s\n", component, step)
		}
	}
	cluster, err := kwok.Start(ctx, cfg)
	if err != nil {
		return err
	}
	up := readyMessage{NoWait: cfg.NoWait, URL: cluster.URL(), Kubeconfig: cluster.Kubeconfig(), Context: cluster.Context(), Nodes: nodepool.Nodes(cluster.Pools()), Took: time.Since(begin)}
	log.Info().Str("url", up.URL).Int("nodes", up.Nodes).Dur("took", up.Took).Msg("ready")
	if parent != nil {
		parent.ready(up)
	} else {
		up.print(c, "Ctrl-C stops it and keeps the data")
	}
	screen.up.Store(true)
	err = cluster.Wait()
	if ctx.Err() != nil {
		log.Info().Msg("stopped")
		return nil // it was told to stop, and did
	}
	return err
}

// endWithin calls end when ctx has been over for the given time, unless the function that it
// returns is called before.
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

// upLog sets up the log.
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

// screen passes log lines on while the cluster is up. Before, and while it stops, components
// complain that others are not there yet or no more; that is in the log file and helps nobody
// here, who is told by an error if the start fails.
type screen struct {
	ctx context.Context // over when the cluster is told to stop
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

// readyMessage is what a person learns when the cluster is ready.
type readyMessage struct {
	URL        string        `json:"url"`
	Kubeconfig string        `json:"kubeconfig"`
	Context    string        `json:"context"`
	Nodes      int           `json:"nodes"`
	Took       time.Duration `json:"took"`   // nanoseconds
	NoWait     bool          `json:"noWait"` // the nodes are made, and perhaps not ready
}

// print tells it: to the person on stderr, and on stdout the one command that a shell can
// evaluate.
func (m readyMessage) print(c *ucli.Context, next string) {
	what := "ready"
	if m.NoWait {
		what = "up, perhaps before its nodes,"
	}
	fmt.Fprintf(c.App.ErrWriter, "%s: %s after %.1f s: %s, %d nodes\n", component, what, m.Took.Seconds(), m.URL, m.Nodes)
	fmt.Fprintf(c.App.ErrWriter, "%s: kubeconfig %s, context %s; %s\n", component, m.Kubeconfig, m.Context, next)
	fmt.Fprintf(c.App.Writer, "export KUBECONFIG=%s\n", shellQuote(m.Kubeconfig))
}

// shellQuote quotes s for a POSIX shell where it needs it.
func shellQuote(s string) string {
	if s != "" && strings.Trim(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789/._-+:@%") == "" {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}

// logFile is where a cluster in the background writes to.
func logFile(c *ucli.Context) string {
	d := dir(c)
	if c.String("log-dir") != "" {
		d = c.String("log-dir")
	}
	return filepath.Join(d, component+".log")
}
