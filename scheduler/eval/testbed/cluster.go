package testbed

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"

	"gnnsched/internal/exit"
	"gnnsched/internal/kubeconfig"
)

// Cluster is a kwokcluster process. It is a process of its own because a scheduler that
// people deploy carries no API server.
type Cluster struct {
	dir  string
	log  string
	cmd  *exec.Cmd
	done chan struct{} // closed when the process has ended
	err  error         // how, valid after done
}

// Config says which cluster.
type Config struct {
	Program string   // path of kwokcluster
	Dir     string   // of the cluster's data; made, and left behind
	Log     string   // file for what the program writes
	Nodes   []string // arguments of `kwokcluster up` that say which nodes
}

const readyWithin = 2 * time.Minute

// Start returns when the nodes are Ready.
func Start(ctx context.Context, c Config) (*Cluster, error) {
	s := &Cluster{dir: c.Dir, log: c.Log, done: make(chan struct{})}
	log, err := os.Create(s.log)
	if err != nil {
		return nil, exit.New(exit.Usage, fmt.Errorf("write the cluster's log: %w", err), "choose a directory that you can write to with --log-dir")
	}
	defer log.Close() // the process has its own handle
	s.cmd = exec.Command(c.Program, append([]string{"up", "--dir", c.Dir}, c.Nodes...)...)
	s.cmd.Stderr, s.cmd.Stdout = log, log
	s.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // Ctrl-C is ours to pass on, when the scheduler has stopped
	if err := s.cmd.Start(); err != nil {
		return nil, exit.New(exit.Usage, fmt.Errorf("start the cluster: %w", err), "build it with `make build`, or name it with --kwokcluster")
	}
	go func() {
		s.err = s.cmd.Wait()
		close(s.done)
	}()
	if err := s.waitReady(ctx); err != nil {
		return nil, errors.Join(err, s.Stop())
	}
	return s, nil
}

// waitReady waits until `kwokcluster up` has said that it is.
func (s *Cluster) waitReady(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, readyWithin)
	defer cancel()
	tick := time.NewTicker(250 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-s.done:
			return fmt.Errorf("the cluster did not start: %s (its log is %s)", s.lastLine(), s.log)
		case <-ctx.Done():
			return fmt.Errorf("the cluster was not ready: %w", context.Cause(ctx))
		case <-tick.C:
			if s.ready(ctx) {
				return nil
			}
		}
	}
}

// ready asks kwokcluster, which knows best.
func (s *Cluster) ready(ctx context.Context) bool {
	return exec.CommandContext(ctx, s.cmd.Path, "status", "--dir", s.dir).Run() == nil
}

// Kubeconfig is the file that clients reach the cluster with.
func (s *Cluster) Kubeconfig() string { return kubeconfig.SimulatedKubeconfig(s.dir) }

// Watch returns a context that also ends when the cluster does, which is then its cause.
func (s *Cluster) Watch(ctx context.Context) (context.Context, context.CancelCauseFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	go func() {
		select {
		case <-s.done:
			cancel(fmt.Errorf("the cluster ended; its log is %s", s.log))
		case <-ctx.Done():
		}
	}()
	return ctx, cancel
}

// Stop ends the process and waits for it.
func (s *Cluster) Stop() error {
	_ = s.cmd.Process.Signal(os.Interrupt) // it may have ended already
	select {
	case <-s.done:
		return nil
	case <-time.After(10 * time.Second):
		_ = s.cmd.Process.Kill()
		<-s.done
		return fmt.Errorf("the cluster did not stop within 10 s and was killed")
	}
}

func (s *Cluster) lastLine() string {
	f, err := os.Open(s.log)
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
