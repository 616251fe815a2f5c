// Package doctor is the command `gnnsched doctor`.
package doctor

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	ucli "github.com/urfave/cli/v2"
	"k8s.io/client-go/kubernetes"

	"gnnsched/cmd/internal/promflags"
	"gnnsched/cmd/internal/queue"
	"gnnsched/cmd/internal/work"
	"gnnsched/gnn/checkpoint"
	"gnnsched/internal/cli"
	"gnnsched/internal/exit"
	"gnnsched/internal/kubeconfig"
	"gnnsched/scheduler/experience/hub"
	"gnnsched/scheduler/server"
	"gnnsched/workload/cleanup"
)

// The commands whose needs are checked. Without arguments, an unmet need of an optional command is no failure.
var (
	expected = []string{"rungnn", "ktop", "runsim", "cleancluster"}
	optional = []string{"record", "shadow", "share", "explain", "usage", "convert", "work", "kwokcluster", "gnntrain", "deploy", "compose"}
)

// onClusters are the commands that need rights on a cluster.
var onClusters = []string{"rungnn", "ktop", "runsim", "cleancluster", "record", "shadow", "share", "explain", "usage"}

// Command returns the command.
func Command() *ucli.Command {
	return &ucli.Command{
		Name:      "doctor",
		Usage:     "check what each command needs, and say what to do",
		ArgsUsage: "[COMMAND...]",
		Description: "It only looks: at the kubeconfig, the cluster and the user's rights there, at weights, ports, disk and programs.\n" +
			"The commands are " + strings.Join(slices.Concat(expected, optional), ", ") + ".\n" +
			"Without arguments it checks all; only the first four are then expected to lack nothing. For share it checks what a share needs\n" +
			"beside rungnn, for convert whether the Prometheus of --prometheus answers, for work the queue of --workers and who works there. " +
			"The exit code is that of the first failure.\n\nExamples:\n" +
			"   gnnsched doctor                                      # everything\n" +
			"   gnnsched doctor gnntrain compose                     # only these, which then must not lack anything\n" +
			"   gnnsched doctor --context production rungnn          # may this user schedule there?\n" +
			"   gnnsched doctor --prometheus http://localhost:9090 convert\n" +
			"   gnnsched doctor --workers nats://127.0.0.1:4222 work # who would play for eval --workers?\n" +
			"   gnnsched doctor --experience tls://nats:4222 rungnn   # can it learn with a trainer there?\n" +
			"   gnnsched doctor --checkpoint my.safetensors rungnn",
		Flags: slices.Concat(cli.ClusterFlags(), []ucli.Flag{
			&ucli.StringFlag{Name: "checkpoint", Usage: "`FILE` with weights, to say whether it can be read and what it holds"},
			&ucli.StringFlag{Name: "prometheus", Usage: "`URL` of the Prometheus server that convert will read"},
			&ucli.StringFlag{Name: "experience", Usage: "`URL` of the NATS server for rungnn --learn and gnntrain --online, to say what it has"},
		}, promflags.Flags(""), work.Flags()),
		Action: run,
	}
}

func run(c *ucli.Context) error {
	x := examination{machine: thisMachine(), only: c.Args().Slice()}
	for _, name := range x.only {
		if !slices.Contains(slices.Concat(expected, optional), name) {
			return exit.New(exit.Usage, fmt.Errorf("no checks for %q", name), "choose from "+strings.Join(slices.Concat(expected, optional), ", "))
		}
	}
	if err := x.checkPrometheus(c); err != nil {
		return err
	}
	if x.needsCluster() {
		x.connected(c.Context, cli.Target(c))
	}
	if c.IsSet("prometheus") {
		x.prometheus(c.Context, promflags.Server(c, ""))
	}
	if err := x.workers(c); err != nil {
		return err
	}
	if err := x.experience(c); err != nil {
		return err
	}
	x.weights(c.String("checkpoint"))
	x.local(c.Context)
	if err := c.Context.Err(); err != nil {
		return err
	}
	if err := write(c.App.Writer, x.found); err != nil {
		return err
	}
	return verdict(x.found)
}

// workers checks who works at the queue of --workers.
func (x *examination) workers(c *ucli.Context) error {
	if c.IsSet("workers") != slices.Contains(x.only, "work") && !(c.IsSet("workers") && len(x.only) == 0) {
		return exit.New(exit.Usage, errors.New("work is checked at the queue of --workers"), "give both work and --workers URL")
	}
	if !c.IsSet("workers") {
		return nil
	}
	f := finding{what: "work queue"}
	var err error
	if f.detail, err = work.Look(c); err != nil {
		f = x.failure(f.what, err)
	}
	x.add(f)
	return nil
}

// experience checks the server where schedulers and a trainer meet.
func (x *examination) experience(c *ucli.Context) error {
	url := c.String("experience")
	if url == "" {
		return nil
	}
	options, err := queue.Options(c, url)
	if err != nil {
		return err
	}
	f := finding{what: "experience"}
	switch f.detail, err = hub.Look(c.Context, url, options...); {
	case errors.Is(err, hub.ErrUnused):
		f = x.failure(f.what, exit.New(exit.Unreachable, err, "start gnntrain --online --experience with this URL, which makes the place"))
	case err != nil:
		f = x.failure(f.what, queue.Unreachable(err))
	}
	x.add(f)
	return nil
}

// examination collects the findings of the checks.
type examination struct {
	machine machine
	only    []string // the commands that were named; empty for all
	found   []finding
}

// add notes a finding.
func (x *examination) add(f finding) {
	f.state = cmp.Or(f.state, fine)
	x.found = append(x.found, f)
}

// asked reports whether the needs of a command are to be checked.
func (x *examination) asked(command string) bool {
	return len(x.only) == 0 || slices.Contains(x.only, command)
}

// lacking returns the state of an unmet need of a command.
func (x *examination) lacking(command string) state {
	if slices.Contains(x.only, command) || slices.Contains(expected, command) {
		return failed
	}
	return missing
}

// needsCluster reports whether a command that needs a cluster is to be checked.
func (x *examination) needsCluster() bool {
	return slices.ContainsFunc(onClusters, x.asked)
}

// connected connects, and checks the cluster.
func (x *examination) connected(ctx context.Context, t kubeconfig.Target) {
	client := x.connect(ctx, t)
	if client == nil {
		return
	}
	x.onCluster(ctx, client, func(ctx context.Context) (n cleanup.NodeCounts, err error) {
		rest, err := t.REST()
		if err != nil {
			return n, err
		}
		counter, err := cleanup.New(rest)
		if err != nil {
			return n, err
		}
		return counter.Nodes(ctx)
	})
}

// onCluster checks what commands need of the cluster.
func (x *examination) onCluster(ctx context.Context, c kubernetes.Interface, count func(context.Context) (cleanup.NodeCounts, error)) {
	x.server(c)
	x.nodes(ctx, count)
	for _, command := range onClusters {
		if x.asked(command) {
			x.allRights(ctx, c, command)
		}
	}
	if x.asked("usage") {
		x.usage(c)
	}
}

// weights checks the weights in the program, and a file.
func (x *examination) weights(file string) {
	if file != "" {
		f := finding{what: "checkpoint", code: exit.Checkpoint}
		if c, err := server.LoadCheckpoint(file); err != nil {
			f = x.failure("checkpoint", err)
		} else {
			f.detail = fmt.Sprintf("%s: %s, for the objective %q", file, c.Manifest.Architecture, c.Manifest.Objective)
		}
		x.add(f)
	}
	if !x.asked("rungnn") {
		return
	}
	names := checkpoint.ShippedNames()
	for _, name := range names {
		if _, err := checkpoint.Shipped(name); err != nil {
			x.add(finding{
				what: "built-in weights", state: failed, detail: name + ": " + err.Error(), hint: "build the program again", code: exit.Checkpoint,
			})
			return
		}
	}
	x.add(finding{what: "built-in weights", detail: strings.Join(names, ", ")})
}

// The room that commands need on a disk.
const (
	logRoom     = 256 << 20 // four files of 50 MB
	clusterRoom = 1 << 30
)

// local checks what commands need of this machine.
func (x *examination) local(ctx context.Context) {
	if x.asked("rungnn") {
		x.port("rungnn", "10259")
		x.disk("rungnn", ".", logRoom)
	}
	if x.asked("kwokcluster") {
		x.program(ctx, "kwokcluster", "run `make build`", "kwokcluster", "--version")
		x.disk("kwokcluster", filepath.Clean(kubeconfig.SimulatedDir()), clusterRoom)
	}
	if x.asked("gnntrain") {
		x.program(ctx, "gnntrain", "run `make toolchain` for libtorch, and `make trainer`", "gnntrain", "--version")
	}
	if x.asked("deploy") {
		x.program(ctx, "deploy", "install kubectl (https://kubernetes.io/docs/tasks/tools); gnnsched deploy --print does without, "+
			"and kubectl applies its manifests",
			"kubectl", "version", "--client")
	}
	if x.asked("compose") {
		x.program(ctx, "compose", "install Docker Engine 20.10 or later, and start it", "docker", "version", "--format", "{{.Server.Version}}")
		x.program(ctx, "compose", "run compose/install-compose-v2.sh", "docker", "compose", "version", "--short")
	}
}
