package testbed

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"gnnsched/internal/exit"
	"gnnsched/internal/kubeconfig"
	"gnnsched/scheduler/server"
)

// Config describes a test bed.
type Config struct {
	Name      string // part of the names of the temporary folder and of the cluster's log
	Launcher  Launcher
	Nodes     Nodes
	LogDir    string        // folder of the log Name-cluster.log; empty: the log is deleted with the cluster
	Scheduler server.Config // as of StartScheduler; without profiles, no scheduler is started
}

// Bed is a running cluster with kube-scheduler.
type Bed struct {
	Client kubernetes.Interface
	REST   *rest.Config

	dir        string // temporary folder
	cluster    Cluster
	cancel     context.CancelCauseFunc
	schedulers atomic.Int64 // started so far
}

// Run starts a test bed, calls use and takes the test bed down. The context of use ends when ctx
// ends, when the cluster or the scheduler ends, and when use calls End; the error is then the
// cause. When Run returns, the scheduler and the cluster have stopped and the temporary folder
// is deleted.
func Run(ctx context.Context, c Config, use func(ctx context.Context, b *Bed) error) (err error) {
	dir, err := os.MkdirTemp("", "gnnsched-"+c.Name+"-*")
	if err != nil {
		return fmt.Errorf("make a directory for the cluster: %w", err)
	}
	defer os.RemoveAll(dir)
	b := &Bed{dir: dir}
	if b.cluster, err = c.launch(ctx, dir); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, b.cluster.Stop()) }()
	ctx, b.cancel = context.WithCancelCause(ctx)
	defer b.cancel(nil)
	go b.watch(ctx)
	err = b.use(ctx, c, use)
	if cause := context.Cause(ctx); err != nil && cause != nil {
		return cause
	}
	return err
}

// launch starts the cluster.
func (c Config) launch(ctx context.Context, dir string) (Cluster, error) {
	logDir := cmp.Or(c.LogDir, dir)
	return c.Launcher.Launch(ctx, c.Nodes, filepath.Join(dir, "cluster"), filepath.Join(logDir, c.Name+"-cluster.log"))
}

// watch ends the context of use when the cluster ends.
func (b *Bed) watch(ctx context.Context) {
	select {
	case <-b.cluster.Done():
		b.End(b.cluster.Err())
	case <-ctx.Done():
	}
}

// use connects to the cluster and calls use while the scheduler runs.
func (b *Bed) use(ctx context.Context, c Config, use func(ctx context.Context, b *Bed) error) error {
	client, rest, err := kubeconfig.Target{Kubeconfig: b.cluster.Kubeconfig()}.Connect(ctx)
	if err != nil {
		return err
	}
	b.Client, b.REST = client, rest
	if len(c.Scheduler.Profiles) > 0 {
		stop, err := b.StartScheduler(ctx, c.Scheduler, server.Endpoint{})
		if err != nil {
			return err
		}
		defer stop()
	}
	return use(ctx, b)
}

// Kubeconfig returns the path of the cluster's kubeconfig.
func (b *Bed) Kubeconfig() string { return b.cluster.Kubeconfig() }

// End ends the context of use with a cause.
func (b *Bed) End(cause error) { b.cancel(cause) }

// Launcher starts simulated clusters.
type Launcher interface {
	// Launch returns when the nodes are Ready. The cluster keeps its files in folder and, if it is a process of its own, its output in the
	// file log. When ctx ends before the nodes are Ready, Launch stops the cluster and returns an error; later, only Stop stops it.
	Launch(ctx context.Context, nodes Nodes, folder, log string) (Cluster, error)
}

// Cluster is a running cluster.
type Cluster interface {
	// Kubeconfig returns the path of the cluster's kubeconfig.
	Kubeconfig() string
	// Done is closed when the cluster has ended.
	Done() <-chan struct{}
	// Err returns why the cluster ended without Stop. It is valid once Done is closed.
	Err() error
	// Stop stops the cluster and waits until it has ended.
	Stop() error
}

// Nodes describes the nodes of a cluster. Give Pools, Record, or List and Count, or Count alone.
type Nodes struct {
	Count int    // nodes of kwokcluster's default size, besides a control-plane node
	Pools []byte // node pools in the YAML of `kwokcluster up --pools`
	// Record is the absolute path of a record whose nodes the cluster has, those at its end or those at the time in RECORD@TIME.
	Record string
	List   string // absolute path of an openb node list; the cluster has Count of its machines
	GPUs   string // how the machines of List offer their GPUs, as kwokcluster's --gpus; default: capacity
}

// StartScheduler runs kube-scheduler in this process until the returned function stops it. It
// sets the kubeconfig, the endpoint's address, and kubeconfig.UnlimitedQPS as the limit of requests if c has none. When the scheduler ends
// by itself, its error ends the context of the bed.
func (b *Bed) StartScheduler(ctx context.Context, c server.Config, e server.Endpoint) (stop func(), err error) {
	e.Address = "127.0.0.1"
	c.Kubeconfig = b.Kubeconfig()
	c.QPS = cmp.Or(c.QPS, kubeconfig.UnlimitedQPS)
	y, err := c.YAML()
	if err != nil {
		return nil, exit.New(exit.Usage, err, "")
	}
	file := filepath.Join(b.dir, fmt.Sprintf("scheduler-%d.yaml", b.schedulers.Add(1))) // of its own: it is read later
	if err := os.WriteFile(file, y, 0o600); err != nil {
		return nil, fmt.Errorf("write the scheduler configuration: %w", err)
	}
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := server.Run(ctx, file, e, nil); err != nil {
			b.End(err)
		}
	}()
	return func() { cancel(); <-done }, nil
}

// Program is the path of the kwokcluster program. It launches clusters as child processes, since
// a scheduler that people deploy contains no API server.
type Program string

// FindProgram returns kwokcluster in the folder of this program, else in PATH.
func FindProgram() (Program, error) {
	if self, err := os.Executable(); err == nil {
		beside := filepath.Join(filepath.Dir(self), "kwokcluster")
		if info, err := os.Stat(beside); err == nil && info.Mode().IsRegular() {
			return Program(beside), nil
		}
	}
	found, err := exec.LookPath("kwokcluster")
	if err != nil {
		return "", exit.New(exit.Usage, err, "build it with `make build`, beside this program or in PATH")
	}
	return Program(found), nil
}

// Launch implements Launcher.
func (p Program) Launch(ctx context.Context, nodes Nodes, folder, log string) (Cluster, error) {
	args, err := nodes.arguments(folder)
	if err != nil {
		return nil, err
	}
	_ = os.Remove(log) // of an earlier run
	started, err := Start("the cluster", log, string(p), append([]string{"up", "--dir", folder}, args...)...)
	if err != nil {
		return nil, err
	}
	c := &kwokcluster{Process: started, dir: folder}
	if err := c.waitReady(ctx); err != nil {
		return nil, errors.Join(err, c.Stop())
	}
	return c, nil
}

// arguments are the flags of `kwokcluster up` for the nodes. Pools are written to a file beside
// folder.
func (n Nodes) arguments(folder string) ([]string, error) {
	count := strconv.Itoa(n.Count)
	switch {
	case n.Pools != nil:
		file := folder + "-pools.yaml"
		if err := os.WriteFile(file, n.Pools, 0o600); err != nil {
			return nil, fmt.Errorf("write the node pools: %w", err)
		}
		return []string{"--pools", file}, nil
	case n.Record != "":
		return []string{"--pools", n.Record}, nil
	case n.List != "":
		args := []string{"--nodes-file", n.List, "--nodes", count}
		if n.GPUs != "" {
			args = append(args, "--gpus", n.GPUs)
		}
		return args, nil
	}
	return []string{"--nodes", count}, nil
}

const readyWithin = 2 * time.Minute

// kwokcluster is a running kwokcluster. It implements Cluster.
type kwokcluster struct {
	*Process
	dir string
}

// waitReady waits until the nodes are Ready.
func (c *kwokcluster) waitReady(ctx context.Context) error {
	return c.wait(ctx, func(ctx context.Context) bool {
		return exec.CommandContext(ctx, c.cmd.Path, "status", "--dir", c.dir).Run() == nil
	})
}

// Kubeconfig implements Cluster.
func (c *kwokcluster) Kubeconfig() string { return kubeconfig.SimulatedKubeconfig(c.dir) }

// Process is a running program whose output goes to a log.
type Process struct {
	name string // in errors
	log  string
	cmd  *exec.Cmd
	done chan struct{} // closed when the process has ended
}

// Start starts a program, and appends its output to a log.
func Start(name, log, program string, args ...string) (*Process, error) {
	out, err := os.OpenFile(log, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, exit.New(exit.Usage, fmt.Errorf("write the log of %s: %w", name, err),
			"choose a directory that you can write to with --log-dir")
	}
	defer out.Close() // the process has its own handle
	p := &Process{name: name, log: log, cmd: exec.Command(program, args...), done: make(chan struct{})}
	p.cmd.Stderr, p.cmd.Stdout = out, out
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // Ctrl-C must reach it after the scheduler has stopped
	if err := p.cmd.Start(); err != nil {
		return nil, exit.New(exit.Usage, fmt.Errorf("start %s: %w", name, err),
			"build it with `make build`, beside this program or in PATH")
	}
	go func() {
		_ = p.cmd.Wait() // the log tells the reason
		close(p.done)
	}()
	return p, nil
}

// PID returns the ID of the process.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// Signal sends a signal to the process.
func (p *Process) Signal(s os.Signal) error { return p.cmd.Process.Signal(s) }

const stopWithin = 10 * time.Second

// wait asks whether the process is ready until it is.
func (p *Process) wait(ctx context.Context, ready func(context.Context) bool) error {
	ctx, cancel := context.WithTimeout(ctx, readyWithin)
	defer cancel()
	tick := time.NewTicker(250 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-p.done:
			return fmt.Errorf("%s did not start: %s (its log is %s)", p.name, p.lastLine(), p.log)
		case <-ctx.Done():
			return fmt.Errorf("%s was not ready: %w; its log ends with: %s", p.name, context.Cause(ctx), p.lastLine())
		case <-tick.C:
			if ready(ctx) {
				return nil
			}
		}
	}
}

// Done is closed when the process has ended.
func (p *Process) Done() <-chan struct{} { return p.done }

// Err returns why the process ended without Stop.
func (p *Process) Err() error {
	return fmt.Errorf("%s ended: %v: %s; its log is %s", p.name, p.cmd.ProcessState, p.lastLine(), p.log)
}

// Stop interrupts the process and waits until it has ended.
func (p *Process) Stop() error {
	_ = p.Signal(os.Interrupt) // it may have ended already
	select {
	case <-p.done:
		return nil
	case <-time.After(stopWithin):
		_ = p.cmd.Process.Kill()
		<-p.done
		return fmt.Errorf("%s did not stop within %v and was killed", p.name, stopWithin)
	}
}

// lastLine returns the last line of the log that is not empty.
func (p *Process) lastLine() string {
	f, err := os.Open(p.log)
	if err != nil {
		return "no log"
	}
	defer f.Close()
	last := "no output"
	for r := bufio.NewReader(f); ; {
		line, err := r.ReadString('\n')
		if l := strings.TrimSpace(line); l != "" {
			last = l
		}
		if err != nil {
			return last
		}
	}
}
