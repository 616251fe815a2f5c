package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"gnnsched/internal/kubeconfig"
	"gnnsched/scheduler/plugin"
	"gnnsched/scheduler/server"
)

// measure runs a workload through a profile and returns the throughput that scheduler_perf measured.
// number tells the runs of a workload apart.
func (u *upstream) measure(ctx context.Context, w workload, profile string, number int) (run, error) {
	var out run
	err := u.runOnce(ctx, w, profile, func(dir string, cpu time.Duration) (err error) {
		if err := u.warn(dir); err != nil {
			return err
		}
		out.rate, err = throughput(dir)
		out.cpu = 1000 * cpu.Seconds() / float64(w.params[measured])
		if u.profileDir != "" {
			name := strings.NewReplacer("/", "-", " ", "-").
				Replace(fmt.Sprintf("%s %s %s %s run %d.pprof", w.suite, w.testCase, w.name, profile, number))
			err = errors.Join(err, os.Rename(filepath.Join(dir, cpuProfile), filepath.Join(u.profileDir, name)))
		}
		return err
	})
	return out, err
}

// warn tells where upstream's scoring decided instead of the network, which is then not what was measured.
func (u *upstream) warn(dir string) error {
	text, err := os.ReadFile(filepath.Join(dir, outputFile))
	if err != nil {
		return err
	}
	for line := range strings.Lines(string(text)) {
		if strings.Contains(line, plugin.FallbackMessage) {
			fmt.Fprintf(u.progress, "warning, this run's figure is not of the network alone: %s\n", strings.TrimSpace(line))
		}
	}
	return nil
}

// Files of one run.
const (
	suiteConfig  = "performance-config.yaml"
	schedulerOut = "scheduler.yaml"
	outputFile   = "output.log"
	cpuProfile   = "cpu.pprof"
)

// runOnce runs one workload in a process of its own. done, if not nil, gets the folder with the results
// and the CPU time of the process with its etcd. The folder is removed unless the run fails.
func (u *upstream) runOnce(ctx context.Context, w workload, profile string, done func(dir string, cpu time.Duration) error) (err error) {
	// The name is short because etcd's socket lies below, and paths of sockets are limited.
	dir, err := os.MkdirTemp("", "perf-")
	if err != nil {
		return err
	}
	output := filepath.Join(dir, outputFile)
	defer func() {
		if err == nil || ctx.Err() != nil {
			err = errors.Join(err, os.RemoveAll(dir))
			return
		}
		err = fmt.Errorf("%v with %s: %w; its output is in %s", w, profile, err, output)
	}()
	if err := writeConfig(dir, w, profile); err != nil {
		return err
	}
	file, err := os.Create(output)
	if err != nil {
		return err
	}
	defer file.Close()
	cmd := u.command(ctx, dir, w.suite)
	cmd.Stdout, cmd.Stderr = file, file
	if err := cmd.Run(); err != nil {
		return err
	}
	if done == nil {
		return nil
	}
	return done(dir, cmd.ProcessState.UserTime()+cmd.ProcessState.SystemTime())
}

// command prepares the process. Its working directory is the suite's, whose templates the
// configuration names by relative paths.
func (u *upstream) command(ctx context.Context, dir, suite string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, filepath.Join(u.bin, "suite"),
		"-config", filepath.Join(dir, suiteConfig), "-data-items-dir", dir, "-perf-scheduling-label-filter=",
		"-test.run=^$", "-test.bench=^BenchmarkPerfScheduling$", "-test.benchtime=1x",
		"-test.v") // otherwise it drops the scheduler's log
	if u.profileDir != "" {
		cmd.Args = append(cmd.Args, "-test.cpuprofile", filepath.Join(dir, cpuProfile))
	}
	cmd.Dir = filepath.Join(u.perf, suite)
	cmd.Env = append(os.Environ(),
		"PATH="+u.bin+string(os.PathListSeparator)+os.Getenv("PATH"), // for etcd
		"TMPDIR="+dir,
		// Kubernetes' test server looks for the folder of its source, which -trimpath cuts short.
		// These say where the path begins.
		"TEST_SRCDIR="+u.modules, "TEST_WORKSPACE=.")
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // a group with etcd, which must not stay behind
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGTERM) }
	cmd.WaitDelay = 10 * time.Second
	return cmd
}

// writeConfig writes the workload's configuration and, for a learned profile, the scheduler's. The
// default profile is upstream's own, without any of our plugins. Pods of scheduler_perf name no
// scheduler, so that both profiles have the default name.
func writeConfig(dir string, w workload, profile string) error {
	schedulerConfig := ""
	if profile != defaultProfile {
		// A configuration needs a limit, but scheduler_perf sets its own, 5000.
		p := server.Profile{SchedulerName: defaultProfile, Args: plugin.Args{Variant: profile}}
		c := server.Config{QPS: kubeconfig.UnlimitedQPS, Profiles: []server.Profile{p}}
		text, err := c.YAML()
		if err != nil {
			return err
		}
		schedulerConfig = filepath.Join(dir, schedulerOut)
		if err := os.WriteFile(schedulerConfig, text, 0o600); err != nil {
			return err
		}
	}
	text, err := w.config(schedulerConfig)
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, suiteConfig), text, 0o600)
}

// throughput reads the pods a second from the results that scheduler_perf wrote: the mean of its samples, and
// of its measurements where a workload has several.
func throughput(dir string) (float64, error) {
	files, err := filepath.Glob(filepath.Join(dir, "BenchmarkPerfScheduling_benchmark_*.json"))
	if err != nil || len(files) != 1 {
		return 0, fmt.Errorf("%d files of results, want 1: %w", len(files), errors.Join(err, os.ErrNotExist))
	}
	text, err := os.ReadFile(files[0])
	if err != nil {
		return 0, err
	}
	var results struct {
		DataItems []struct {
			Data   map[string]float64
			Labels map[string]string
		}
	}
	if err := json.Unmarshal(text, &results); err != nil {
		return 0, fmt.Errorf("%s: %w", files[0], err)
	}
	var sum, n float64
	for _, item := range results.DataItems {
		if item.Labels["Metric"] == "SchedulingThroughput" {
			sum, n = sum+item.Data["Average"], n+1
		}
	}
	if n == 0 || sum == 0 {
		return 0, errNoSamples
	}
	return sum / n, nil
}
