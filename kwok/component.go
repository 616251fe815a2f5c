package kwok

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	etcdmetrics "k8s.io/apiserver/pkg/storage/etcd3/metrics"

	"gnnsched/kwok/internal/etcdlog"
)

// component is a part of the cluster that runs until its context is cancelled.
type component struct {
	name   string
	cancel context.CancelFunc
	done   chan struct{}
}

// stopTimeout limits the wait for one component to stop before the next one is stopped.
const stopTimeout = 10 * time.Second

// launch runs a component in a new goroutine. If the component ends before its context is
// cancelled, with or without an error, the cluster ends.
func (cl *Cluster) launch(ctx context.Context, name string, run func(context.Context) error) *component {
	// supervise stops the components one after another, so each has its own context, which
	// does not end with ctx.
	own, cancel := context.WithCancel(context.WithoutCancel(ctx))
	c := &component{name: name, cancel: cancel, done: make(chan struct{})}
	cl.components = append(cl.components, c)
	go func() {
		defer close(c.done)
		err := run(own)
		if own.Err() != nil {
			return // it was stopped; its error does not matter
		}
		err = cmp.Or(err, errors.New("ended unexpectedly"))
		cl.cancel(fmt.Errorf("%s: %w", name, err)) // before done is closed, so that waiters see the cause
	}()
	return c
}

// supervise waits until ctx ends and stops the components, the last started one first.
func (cl *Cluster) supervise(ctx context.Context) {
	<-ctx.Done()
	<-cl.booted // boot may still launch components; it returns soon after ctx ends
	for _, c := range slices.Backward(cl.components) {
		begin := time.Now()
		c.cancel()
		select {
		case <-c.done:
			cl.config.Log.Debug().Str("part", c.name).Dur("took", time.Since(begin)).Msg("stopped")
		case <-time.After(stopTimeout):
			cl.config.Log.Error().Str("part", c.name).Dur("waited", stopTimeout).Msg("does not stop")
		}
	}
	if cause := context.Cause(ctx); !errors.Is(cause, errStopped) {
		cl.err = cause
	}
	if err := cl.dir.close(); err != nil && cl.err == nil {
		cl.err = err
	}
	etcdlog.Route(nil)
	// Metrics of the process would wait ten seconds for the etcd that is gone, each time that they are read.
	etcdmetrics.SetStorageMonitorGetter(func() ([]etcdmetrics.Monitor, error) { return nil, nil })
	close(cl.done)
}

// processStart returns the start time of a process: the id of the machine's boot and the clock
// ticks since then. Together with the pid it identifies a process for good. It returns "" if
// there is no such process or no /proc.
func processStart(pid int) string {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return ""
	}
	// The second field is the program's name in parentheses, which may contain any characters.
	end := bytes.LastIndexByte(stat, ')')
	fields := strings.Fields(string(stat[end+1:]))
	const startTime = 22 - 3 // the 22nd field; fields begins with the third
	if end < 0 || len(fields) <= startTime {
		return ""
	}
	boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(boot)) + "/" + fields[startTime]
}
