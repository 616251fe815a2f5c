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
		{[]string{"--data", dir, "--seeds", "2"}, exit.OK,
			[]string{"default: pods of the openb trace", "fgd", "gpu-packing", "95.39 ± 0.08", "2 paired seeds (42 to 43)"}},
		{[]string{"--data", dir, "--seeds", "2", "--policy", "random", "--policy", "best-fit", "-o", "markdown", "--node-order", "file"},
			exit.OK, []string{"### default", "| best-fit |", "Difference from random"}},
		{[]string{"--data", dir, "--seeds", "1", "--policies", "fgd,gpu-best-fit", "-o", "csv", "--factor", "1"}, exit.OK,
			[]string{"default,fgd,42,", "default,gpu-best-fit,42,"}},
		{[]string{"--data", dir, "--seeds", "1", "--policies", "fgd", "-o", "json"}, exit.OK,
			[]string{`"workload": "default"`, `"mean130": 95.391`}},
		{[]string{"--data", dir, "--seeds", "1", "--check"}, exit.Gate, []string{"published figures are not reproduced", "fgd on default"}},
		{[]string{"--data", dir, "--seeds", "1", "--policies", "fgd", "--factor", "0.5", "--check"}, exit.Usage,
			[]string{"no figures are published"}},
		{[]string{"--data", dir, "--seeds", "2", "--curve", "--policies", "fgd,gpu-best-fit,gpu-gnn"}, exit.OK,
			[]string{"Verdicts", "default: pods of the openb trace", "60% │", "150% │", "bound", "GPU pods without a node"}},
		{[]string{"--data", dir, "--seeds", "1", "--curve", "--policies", "fgd", "--workload", "default+cpu3,default+multi4", "-o", "markdown"},
			exit.OK, []string{"### default+cpu3", "three times the pods without GPUs", "### default+multi4"}},
		{[]string{"--data", dir, "--seeds", "1", "--curve", "--policies", "fgd", "-o", "csv"}, exit.OK,
			[]string{"workload,policy,seed,load,allocation,share,1,2,4,8,naming models", "default,fgd,42,0.95,"}},
		{[]string{"--data", dir, "--seeds", "1", "--curve", "--policies", "fgd", "-o", "json"}, exit.OK, []string{`"bounds": [`, `"load": 0.95`}},
		{[]string{"--data", dir, "--seeds", "2", "--steady", "--workload", "timed", "--policies", "fgd,gpu-best-fit,gpu-gnn"}, exit.OK,
			[]string{"pods of the openb trace come and go", "│ 85%", "│ 105%", "GPU hours waited", "difference %",
				"Marks among 12 comparisons take 9"}},
		{[]string{"--data", dir, "--seeds", "1", "--steady", "--workload", "timed", "--policies", "fgd", "--factor", "0.7", "--days", "0.5",
			"--all"}, exit.OK, []string{"seed 42 alone", "95th percentile", "no GPU"}},
		{[]string{"--data", dir, "--steady", "--totals", "--all"}, exit.Usage, []string{"--totals leaves out a table"}},
		{[]string{"--data", dir, "--all"}, exit.Usage, []string{"--all works with --steady only"}},
		{[]string{"--data", dir, "--seeds", "1", "--steady", "--workload", "timed", "--policies", "fgd", "--factor", "0.7", "--days", "0.5",
			"-o", "csv"}, exit.OK, []string{"workload,load,policy,seed,class,allocation", "timed,0.7,fgd,42,all,", "timed,0.7,fgd,42,no GPU,"}},
		{[]string{"--data", dir, "--steady", "--workload", "default"}, exit.Usage, []string{"lifetimes are not known"}},
		{[]string{"--data", dir, "--steady", "--check"}, exit.Usage, []string{"--steady has loads of its own"}},
		{[]string{"--data", dir, "--days", "3"}, exit.Usage, []string{"--days and --warm-up work with --steady only"}},
		{[]string{"--data", dir, "--speed", "3"}, exit.Usage, []string{"--speed works with --steady --live only"}},
		{[]string{"--data", dir, "--steady", "--live", "--speed", "0"}, exit.Usage, []string{"--speed 0"}},
		{[]string{"--data", dir, "--steady", "--live", "--ties", "first"}, exit.Usage, []string{"--ties does not work"}},
		{[]string{"--data", dir, "--live", "--policies", "running:gpu-gnn"}, exit.Usage, []string{"running:POLICY works with --steady only"}},
		{[]string{"--data", dir, "--steady", "--live", "--policies", "running:fgd"}, exit.Usage, []string{"for networks only"}},
		{[]string{"--data", dir, "--live", "--claims", "--policies", "first-fit:fgd"}, exit.Usage,
			[]string{"first-fit:fgd has no profile on a cluster"}},
		{[]string{"--data", dir, "--steady", "--live", "--claims", "--extended-resources"}, exit.Usage, []string{"two ways"}},
		{[]string{"--data", dir, "--claims"}, exit.Usage, []string{"--claims works with --live only"}},
		{[]string{"--data", dir, "--live", "--claims", "--mixed"}, exit.Usage, []string{"two ways"}},
		{[]string{"--data", dir, "--mixed"}, exit.Usage, []string{"--mixed works with --live only"}},
		{[]string{"--data", dir, "--steady", "--live", "--mixed"}, exit.Usage, []string{"--mixed does not work with --steady --live"}},
		{[]string{"--data", dir, "--seeds", "1", "--curve", "--policies", "fgd,first-fit:fgd"}, exit.OK, []string{"first-fit:fgd"}},
		{[]string{"--data", dir, "--steady", "--warm-up", "-1"}, exit.Usage, []string{"--warm-up -1"}},
		{[]string{"--data", dir, "--steady", "--days", "0"}, exit.Usage, []string{"--days 0"}},
		{[]string{"--data", dir, "--steady", "--factor", "20"}, exit.Usage, []string{"--factor 20: choose an offered load"}},
		{[]string{"--data", dir, "--curve", "--factor", "1.1"}, exit.Usage, []string{"--curve has loads of its own"}},
		{[]string{"--data", dir, "--curve", "--check"}, exit.Usage, []string{"--curve has loads of its own"}},
		{[]string{"--data", dir, "--power", "--seeds", "2", "--policies", "fgd,pwr,pwr+fgd:0.1,power+gpu-gnn:2"}, exit.OK,
			[]string{"pods of the openb trace until they have asked for 120%", "on the front", "beside it", "power+gpu-gnn:2"}},
		{[]string{"--data", dir, "--power", "--factor", "1.1"}, exit.Usage, []string{"--power has loads of its own"}},
		{[]string{"--data", dir, "--power", "--curve"}, exit.Usage, []string{"choose one"}},
		{[]string{"--data", dir, "--policies", "pwr+fgd:2"}, exit.Usage, []string{"no number from 0 to 1"}},
		{[]string{"--data", dir, "--policies", "power+gnn:1"}, exit.Usage, []string{"power+gnn:1"}},
		{[]string{"--data", dir, "--workload", "default+more"}, exit.Usage, []string{`no variant is called "more"`, "models40"}},
		{[]string{"--data", dir, "--nodes", "20"}, exit.Usage, []string{"--nodes works with --live only"}},
		{[]string{}, exit.Usage, []string{"--data is missing"}},
		{[]string{"--data", filepath.Join(dir, "none")}, exit.Usage, []string{"holds no openb_node_list_gpu_node.csv", "data/csv"}},
		{[]string{"--data", dir, "--workload", "cpu100"}, exit.Usage, []string{`no pod list is called "cpu100"`, "there are default"}},
		{[]string{"--data", dir, "--policies", "guess"}, exit.Usage, []string{"no policy is called"}},
		{[]string{"--data", dir, "--seeds", "0"}, exit.Usage, []string{"outside 1"}},
		{[]string{"--data", dir, "--seed", "1099511627776"}, exit.Usage, []string{"choose seeds below 4294967296"}},
		{[]string{"--data", dir, "--factor", "0"}, exit.Usage, []string{"--factor 0"}},
		{[]string{"--data", dir, "--node-order", "name"}, exit.Usage, []string{"there are drawn, file"}},
		{[]string{"--data", dir, "--ties", "last"}, exit.Usage, []string{"there are own, first, random"}},
		{[]string{"--data", dir, "--ties", "random", "--seeds", "1", "--policies", "fgd"}, exit.OK, []string{"fgd"}},
		{[]string{"--data", dir, "-o", "xml"}, exit.Usage, []string{"markdown"}},
		{[]string{"--data", dir, "more"}, exit.Usage, []string{"unexpected argument"}},
	} {
		code, stdout, stderr := run(t, append([]string{"gnnsched", "eval", "openb", "--log-dir", ""}, c.args...)...)
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
