package testbed

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"gnnsched/internal/exit"
	"gnnsched/internal/kubeconfig"
)

// Program is the path of the kwokcluster program. It launches clusters as child processes, since
// a scheduler that people deploy contains no API server.
type Program string

// FindProgram returns the program with a path. If the path is empty, it is kwokcluster in the folder of this program, else in PATH.
func FindProgram(path string) (Program, error) {
	if path != "" {
		return Program(path), nil
	}
	if self, err := os.Executable(); err == nil {
		beside := filepath.Join(filepath.Dir(self), "kwokcluster")
		if info, err := os.Stat(beside); err == nil && info.Mode().IsRegular() {
			return Program(beside), nil
		}
	}
	found, err := exec.LookPath("kwokcluster")
	if err != nil {
		return "", exit.New(exit.Usage, err, "build it with `make build`, or name it with --kwokcluster")
	}
	return Program(found), nil
}

// Launch implements Launcher.
func (p Program) Launch(ctx context.Context, nodes Nodes, folder, log string) (Cluster, error) {
	args, err := nodes.arguments(folder)
	if err != nil {
		return nil, err
	}
	c := &process{dir: folder, log: log, done: make(chan struct{})}
	out, err := os.Create(log)
	if err != nil {
		return nil, exit.New(exit.Usage, fmt.Errorf("write the cluster's log: %w", err), "choose a directory that you can write to with --log-dir")
	}
	defer out.Close() // the process has its own handle
	c.cmd = exec.Command(string(p), append([]string{"up", "--dir", folder}, args...)...)
	c.cmd.Stderr, c.cmd.Stdout = out, out
	c.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // Ctrl-C must reach the cluster after the scheduler has stopped
	if err := c.cmd.Start(); err != nil {
		return nil, exit.New(exit.Usage, fmt.Errorf("start the cluster: %w", err), "build it with `make build`, or name it with --kwokcluster")
	}
	go func() {
		_ = c.cmd.Wait() // the log tells how it ended
		close(c.done)
	}()
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

// process is a running kwokcluster.
type process struct {
	dir  string
	log  string
	cmd  *exec.Cmd
	done chan struct{} // closed when the process has ended
}

const (
	readyWithin = 2 * time.Minute
	stopWithin  = 10 * time.Second
)

// waitReady waits until the nodes are Ready.
func (c *process) waitReady(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, readyWithin)
	defer cancel()
	tick := time.NewTicker(250 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-c.done:
			return fmt.Errorf("the cluster did not start: %s (its log is %s)", c.lastLine(), c.log)
		case <-ctx.Done():
			return fmt.Errorf("the cluster was not ready: %w", context.Cause(ctx))
		case <-tick.C:
			if c.ready(ctx) {
				return nil
			}
		}
	}
}

// ready asks `kwokcluster status`.
func (c *process) ready(ctx context.Context) bool {
	return exec.CommandContext(ctx, c.cmd.Path, "status", "--dir", c.dir).Run() == nil
}

// Kubeconfig implements Cluster.
func (c *process) Kubeconfig() string { return kubeconfig.SimulatedKubeconfig(c.dir) }

// Done implements Cluster.
func (c *process) Done() <-chan struct{} { return c.done }

// Err implements Cluster.
func (c *process) Err() error { return fmt.Errorf("the cluster ended; its log is %s", c.log) }

// Stop implements Cluster.
func (c *process) Stop() error {
	_ = c.cmd.Process.Signal(os.Interrupt) // it may have ended already
	select {
	case <-c.done:
		return nil
	case <-time.After(stopWithin):
		_ = c.cmd.Process.Kill()
		<-c.done
		return fmt.Errorf("the cluster did not stop within %v and was killed", stopWithin)
	}
}

// lastLine returns the last line of the log that is not empty.
func (c *process) lastLine() string {
	f, err := os.Open(c.log)
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
