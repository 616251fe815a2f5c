package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"gnnsched/internal/exit"
)

// traceFolder holds a trace of three nodes and a few pods.
func traceFolder(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range map[string]string{
		"openb_node_list_gpu_node.csv": "sn,cpu_milli,memory_mib,gpu,model\na,8000,65536,2,T4\nb,16000,65536,4,P100\nc,4000,65536,1,T4\n",
		"openb_pod_list_timed.csv":     "name,cpu_milli,memory_mib,num_gpu,gpu_milli,creation_time,deletion_time\np0,1000,64,1,400,0,9000\np1,1000,64,1,1000,10,20000\np2,2000,64,0,0,20,500\n",
		"openb_pod_list_default.csv":   "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec\np0,1000,64,1,400,\np1,1000,64,1,1000,T4\np2,2000,64,0,0,\np3,2000,64,2,1000,\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func TestEvalOpenB(t *testing.T) {
	dir := traceFolder(t)
	for _, c := range []struct {
		args []string
		code int
		out  []string // in stdout, or in stderr where the code is not OK
	}{
		{[]string{"--scenario", "openb:default", "--policies", "fgd,gpu-gnn"}, exit.OK,
			[]string{"openb-default: pods of the openb trace, until they have requested 150% of the GPUs", "gpu-gnn"}},
		{[]string{"--scenario", "openb:default+cpu3", "--policies", "fgd,first-fit:fgd", "--metrics", "allocation95,watts100,bound130"}, exit.OK,
			[]string{"three times the pods without GPUs", "GPU allocation % at 95%", "watts at 100%", "bound % at 130%"}},
		{[]string{"--scenario", "openb:timed@70", "--policies", "fgd,running:gpu-gnn"}, exit.OK,
			[]string{"that come and go at 70% of the GPUs", "GPU hours waited", "rejected"}},
		{[]string{"--scenario", "openb:timed", "--policies", "fgd", "-o", "json"}, exit.OK, []string{`"allocation130"`, `"bound"`, `"left"`}},
		{[]string{"--scenario", "openb:default@70"}, exit.Usage, []string{"lifetimes are not known"}},
		{[]string{"--scenario", "openb:cpu100"}, exit.Usage, []string{`no pod list is called "cpu100"`}},
	} {
		code, stdout, stderr := run(t, append([]string{"gnnsched", "eval", "--log-dir", "", "--data", dir, "--seeds", "2"}, c.args...)...)
		text := stdout
		if c.code != exit.OK {
			text = stderr
		}
		for _, want := range c.out {
			if code != c.code || !strings.Contains(text, want) {
				t.Errorf("%v: exit code %d, want %d; no %q in %s", c.args, code, c.code, want, text)
			}
		}
	}
}

// A scenario can name the files of a trace, relative to its own file. Its tables and thresholds then
// have the metrics of GPUs.
func TestEvalScenarioOfTrace(t *testing.T) {
	dir := traceFolder(t)
	for name, factor := range map[string]string{"inflated": "2", "replayed": "0"} {
		file := filepath.Join(dir, name+".yaml")
		text := "name: " + name +
			"\nabout: a trace\nobjective: pack\nopenb: {nodes: openb_node_list_gpu_node.csv, pods: openb_pod_list_default.csv, factor: " + factor +
			"}\nthresholds: [fgd.gpuIdle <= 1]\n"
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		code, stdout, stderr := run(t, "gnnsched", "eval", "--scenario", file, "--policies", "fgd,random", "--seeds", "2", "--all",
			"--log-dir", "")
		if code != exit.OK || !strings.Contains(stdout, "gpu idle") || !strings.Contains(stdout, "gpu stranded") ||
			!strings.Contains(stdout, "PASS fgd.gpuIdle") {
			t.Errorf("%s: exit code %d: %s%s", name, code, stdout, stderr)
		}
		if !strings.Contains(stdout, "2 paired seeds") {
			t.Errorf("%s: not resampled: %s", name, stdout)
		}
		code, stdout, stderr = run(t, "gnnsched", "eval", "--scenario", file, "--policies", "fgd,random", "--seeds", "2", "--resample=false",
			"--log-dir", "")
		if name == "inflated" {
			if code != exit.Usage || !strings.Contains(stderr, "--resample: no scenario plays a trace at its times") {
				t.Errorf("%s as recorded: exit code %d: %s", name, code, stderr)
			}
		} else if code != exit.OK || !strings.Contains(stdout, "one sample, without intervals") {
			t.Errorf("%s as recorded: exit code %d: %s%s", name, code, stdout, stderr)
		}
	}
}
