package main

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"gnnsched/internal/cli"
	"gnnsched/internal/exit"
	"gnnsched/scheduler/plugin"
)

// fakeSuite stands in for scheduler_perf: the default profile schedules 100 pods/s, ours 120. It fails
// where the workload is called Both, and where it does not find what scheduler_perf needs.
const fakeSuite = `#!/bin/bash
set -e
while [ $# -gt 0 ]; do
	case $1 in
	-config) config=$2; shift;;
	-data-items-dir) data=$2; shift;;
	-test.cpuprofile) echo profile >"$2"; shift;;
	esac
	shift
done
ls performance-config.yaml >/dev/null # in the folder of the suite
etcd
[ "$TEST_SRCDIR/$TEST_WORKSPACE" = "$WANT_MODULES/." ]
[ "$TMPDIR" = "$data" ]
if grep -q 'name: Both' "$config"; then echo "there is a fault"; exit 7; fi
rate=100
if scheduler=$(sed -n 's/.*schedulerConfigPath: //p' "$config") && [ -n "$scheduler" ]; then
	grep -q 'schedulerName: default-scheduler' "$scheduler"
	grep -q 'variant: gnn' "$scheduler"
	rate=120
	echo "E1122 learnedscore.go:1] $FALLBACK"
fi
echo '{"version": "v1", "dataItems": [
	{"data": {"Average": '$rate'}, "unit": "pods/s", "labels": {"Metric": "SchedulingThroughput"}},
	{"data": {"Average": 7}, "unit": "ms", "labels": {"Metric": "scheduler_scheduling_attempt_duration_seconds"}}]}' >"$data/BenchmarkPerfScheduling_benchmark_x.json"
`

// fakeUpstream makes programs and a source tree, and returns the flags that name them.
func fakeUpstream(t *testing.T, suite string) []string {
	t.Helper()
	modules, bin := t.TempDir(), t.TempDir()
	kubernetes := filepath.Join(modules, "k8s.io", "kubernetes@v1.2.3")
	write(t, filepath.Join(kubernetes, "test", "integration", "scheduler_perf", "misc", "performance-config.yaml"), twoCases)
	write(t, filepath.Join(bin, "etcd"), "#!/bin/sh\n")
	write(t, filepath.Join(bin, "suite"), suite)
	t.Setenv("WANT_MODULES", modules)
	t.Setenv("FALLBACK", plugin.FallbackMessage)
	t.Setenv("TMPDIR", t.TempDir())
	return []string{"bench", "upstream", "--bin", bin, "--kubernetes", kubernetes, "--suites", "misc"}
}

func runUpstream(ctx context.Context, args ...string) (code int, out, errOut string) {
	a := app()
	var o, e bytes.Buffer
	a.Writer, a.ErrWriter = &o, &e
	code = cli.RunContext(ctx, a, args)
	return code, o.String(), e.String()
}

func leftovers(t *testing.T) []string {
	t.Helper()
	left, err := filepath.Glob(filepath.Join(os.TempDir(), "perf-*"))
	if err != nil {
		t.Fatal(err)
	}
	return left
}

// Each workload runs through both profiles, and its line ends in the ratio. A failing workload does not stop the others, but fails the
// command, and its output stays.
func TestUpstreamBenchmark(t *testing.T) {
	args := fakeUpstream(t, fakeSuite)
	profiles := t.TempDir()
	code, out, errOut := runUpstream(t.Context(), append(args, "--pairs", "2", "--profile-dir", profiles)...)
	if code != exit.Internal {
		t.Errorf("code %d, want %d\n%s", code, exit.Internal, errOut)
	}
	line := regexp.MustCompile(`(?m)^misc Basic/large \(initNodes 1000, initPods 2, measurePods 2000\): gnn 120 pods/s with \d+\.\d\d ms CPU a pod, default-scheduler 100 pods/s with .* \(medians of 2\), ratio 1\.20$`)
	if !line.MatchString(out) {
		t.Errorf("no result in\n%s", out)
	}
	if n := strings.Count(errOut, "not of the network alone: E1122 learnedscore.go:1] "+strings.TrimSpace(plugin.FallbackMessage)); n != 2 {
		t.Errorf("%d warnings about fallbacks, want one for each run of ours\n%s", n, errOut)
	}
	left := leftovers(t)
	if len(left) != 1 {
		t.Fatalf("folders %q, want that of the failure", left)
	}
	output := filepath.Join(left[0], outputFile)
	if text, err := os.ReadFile(output); err != nil || !strings.Contains(string(text), "there is a fault") {
		t.Errorf("%v, output %q", err, text)
	}
	if want := "1 of 2 workloads failed"; !strings.Contains(errOut, want) || !strings.Contains(errOut, output) {
		t.Errorf("error %q, want %q and the output's path", errOut, want)
	}
	if files, err := os.ReadDir(profiles); err != nil || len(files) != 4 {
		t.Errorf("%v, %d CPU profiles, want 4", err, len(files))
	}
}

func TestUpstreamIntegration(t *testing.T) {
	args := fakeUpstream(t, fakeSuite)
	code, out, errOut := runUpstream(t.Context(), append(args, "--integration")...)
	if want := "ok    1 of 1  misc Basic/5Nodes (initNodes 5, measurePods 10)"; code != exit.OK || !strings.Contains(out, want) {
		t.Errorf("code %d, output %q, want %q\n%s", code, out, want, errOut)
	}
	if left := leftovers(t); len(left) != 0 {
		t.Errorf("%q stay", left)
	}
	args = fakeUpstream(t, strings.Replace(fakeSuite, "name: Both", "name: Basic", 1))
	code, out, errOut = runUpstream(t.Context(), append(args, "--integration")...)
	if code != exit.Internal || !strings.Contains(out, "FAIL  1 of 1") || !strings.Contains(errOut, "exit status 7") {
		t.Errorf("code %d, want a failure\n%s%s", code, out, errOut)
	}
}

// An interrupted run ends its child processes and leaves no files.
func TestUpstreamInterrupted(t *testing.T) {
	pids := filepath.Join(t.TempDir(), "pid")
	args := fakeUpstream(t, "#!/bin/bash\nsleep 600 &\necho $! >"+pids+".new; mv "+pids+".new "+pids+"\nwait\n")
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		defer cancel()
		for t.Context().Err() == nil {
			if _, err := os.Stat(pids); err == nil {
				return
			}
			time.Sleep(10 * time.Millisecond)
		}
	}()
	if code, out, errOut := runUpstream(ctx, args...); code != exit.Interrupted {
		t.Errorf("code %d, want %d\n%s%s", code, exit.Interrupted, out, errOut)
	}
	if left := leftovers(t); len(left) != 0 {
		t.Errorf("%q stay", left)
	}
	text, err := os.ReadFile(pids)
	if err != nil {
		t.Fatal(err)
	}
	for running(t, strings.TrimSpace(string(text))) { // it got the signal, and ends soon
		time.Sleep(10 * time.Millisecond)
	}
}

// running tells whether a process exists that has not ended.
func running(t *testing.T, pid string) bool {
	t.Helper()
	stat, err := os.ReadFile("/proc/" + pid + "/stat")
	if errors.Is(err, os.ErrNotExist) || errors.Is(err, syscall.ESRCH) {
		return false
	}
	if err != nil {
		t.Fatal(err)
	}
	_, state, _ := strings.Cut(string(stat), ") ")
	return !strings.HasPrefix(state, "Z")
}

func TestUpstreamFlags(t *testing.T) {
	args := fakeUpstream(t, fakeSuite)
	for _, more := range [][]string{
		{"--suites", "none"}, {"--only", "("}, {"--only", "nothing"}, {"--size", "-1"}, {"--pairs", "0"}, {"--variant", "transformer"},
		{"--bin", t.TempDir()}, {"--kubernetes", t.TempDir()}, {"argument"},
	} {
		all := append(args, more...)
		if more[0] == "--suites" {
			all = append(args[:len(args)-2], more...)
		}
		if code, _, errOut := runUpstream(t.Context(), all...); code != exit.Usage {
			t.Errorf("%v: code %d, want %d\n%s", more, code, exit.Usage, errOut)
		}
	}
	code, out, _ := runUpstream(t.Context(), append(fakeUpstream(t, fakeSuite), "--list", "--size", "0")...)
	if want := "misc Basic/huge (initNodes 5000, initPods 10, measurePods 50000, taintNodes 0)\nmisc Both/small " +
		"(measurePods 10)\n"; code != exit.OK || out != want {
		t.Errorf("code %d, list %q, want %q", code, out, want)
	}
}

func TestThroughput(t *testing.T) {
	for name, c := range map[string]struct {
		content string
		want    float64
		err     string
	}{
		"two measurements": {`{"dataItems": [{"data": {"Average": 10}, "labels": {"Metric": "SchedulingThroughput"}}, {"data": {"Average": 30}, "labels": {"Metric": "SchedulingThroughput"}}]}`, 20, ""},
		"no sample":        {`{"dataItems": [{"data": null, "labels": {"Name": "x"}}]}`, 0, "larger --size"},
		"malformed":        {`{`, 0, "JSON"},
		"none":             {"", 0, "0 files of results"},
	} {
		dir := t.TempDir()
		if c.content != "" {
			write(t, filepath.Join(dir, "BenchmarkPerfScheduling_benchmark_upstream_x.json"), c.content)
		}
		got, err := throughput(dir)
		if got != c.want || (err == nil) != (c.err == "") || err != nil && !strings.Contains(err.Error(), c.err) {
			t.Errorf("%s: %v, %v; want %v, %q", name, got, err, c.want, c.err)
		}
	}
}
