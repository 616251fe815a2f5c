//go:build torch

package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"gnnsched/gnn/checkpoint"
	"gnnsched/internal/cli"
	"gnnsched/internal/exit"
	"gnnsched/internal/fatal"
	"gnnsched/scheduler/learn"
	"gnnsched/workload/record"
)

func gnntrain(t *testing.T, ctx context.Context, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, errs bytes.Buffer
	a := app()
	a.Writer, a.ErrWriter = &out, &errs
	code = cli.RunContext(ctx, a, append([]string{"gnntrain"}, args...))
	return code, out.String(), errs.String()
}

const tinyRun = `
variant: acdqn
hiddenLayers: 8
steps: 600
batchSize: 64
evaluateEvery: 200
evaluateSeeds: 2
rollouts: {envs: 2, every: 2, candidates: 3, horizon: 4, memory: 100}
environment: {scenario: training, nodes: {min: 4, max: 5}, turnover: 0, load: {min: 0.25, max: 0.3}}
`

// An interrupted run says how to continue. When it continues, the figures of both parts are in one file.
func TestTrainAndResume(t *testing.T) {
	dir := t.TempDir()
	config, out, events := filepath.Join(dir, "my.yaml"), filepath.Join(dir, "my.safetensors"), filepath.Join(dir, "events")
	fatal.If(t, os.WriteFile(config, []byte(tinyRun), 0o600))
	stopped, stop := context.WithCancel(context.Background())
	stop()
	code, _, errs := gnntrain(t, stopped, "--config", config, "--out", out, "--events", events)
	if !strings.Contains(errs, "made the directory "+events) {
		t.Errorf("the directory of the events was made silently: %s", errs)
	}
	if code != exit.Interrupted || !strings.Contains(errs, "--resume") {
		t.Fatalf("code %d: %s", code, errs)
	}
	code, stdout, errs := gnntrain(t, context.Background(), "--resume", "--out", out, "--events", events)
	if code != exit.OK || !strings.Contains(stdout, "wrote "+out) {
		t.Fatalf("code %d: %s%s", code, stdout, errs)
	}
	c, err := checkpoint.Load(out)
	if err != nil || c.Manifest.Architecture.Head != checkpoint.ActorCritic || c.Manifest.Training["defaultCost"] == 0 {
		t.Errorf("%+v, %v", c, err)
	}
	if _, err := os.Stat(out + ".state"); !os.IsNotExist(err) {
		t.Errorf("the state of a run that is over: %v", err)
	}
	figures(t, events, "charts/episodic_length", "rollouts/agreement", "eval/cost", "cluster/variance")
}

// --print-config prints the configuration with the changes of the flags.
// A run on a record learns from its nodes and earlier pods, and refuses what contradicts that.
func TestTrainOnRecord(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "prod.record")
	w, err := record.Create(dir, record.Options{})
	fatal.If(t, err)
	const begin = 1_700_000_000_000
	for i := range 3 {
		w.Node(record.Node{Name: fmt.Sprint("n", i), From: begin, MilliCPU: 8000, Memory: 32 << 30, Pods: 110})
	}
	for i := range int64(60) {
		at := begin + i*10_000
		w.Pod(record.Pod{UID: fmt.Sprint(i), Namespace: "shop", Name: fmt.Sprint("p", i), MilliCPU: 500, Memory: 1 << 30, Arrived: at,
			Bound: at, Ended: at + 40_000, End: record.Succeeded, Node: "n0"})
	}
	w.Run(record.Run{ID: "1", Source: "live", From: begin, To: begin + 600_000})
	if _, err := w.Close(); err != nil {
		t.Fatal(err)
	}
	out, events := filepath.Join(t.TempDir(), "my.safetensors"), filepath.Join(t.TempDir(), "events")
	args := []string{"--variant", "acdqn", "--steps", "200", "--hidden-layers", "8", "--trace", dir, "--out", out,
		"--events", events}
	code, stdout, errs := gnntrain(t, context.Background(), args...)
	if code != exit.OK || !strings.Contains(errs,
		"episodes are drawn from 6 blocks of 1m0s; the next 2 blocks are for choosing, 2 later blocks are for judging") {
		t.Fatalf("code %d: %s", code, errs)
	}
	c, err := checkpoint.Load(out)
	fatal.If(t, err)
	if text := string(c.Manifest.Config); !strings.Contains(text, dir) {
		t.Errorf("the checkpoint does not name the record: %s", text)
	}
	j, err := learn.ReadJob(out, c.Manifest.Config, "")
	fatal.If(t, err)
	if to := j.Environment.Trace.To; to != 360 || j.HeldOut.Trace.From != to || j.HeldOut.Trace.To != 480 || j.Judge.Trace.From != 480 ||
		j.Judge.Trace.To != 0 {
		t.Errorf("learns until %v, is chosen on %+v, judged on %+v", to, j.HeldOut.Trace, j.Judge.Trace)
	}
	again, err := j.Judgement(c)
	if err != nil || again.TeacherName == "" {
		t.Fatalf("%+v, %v", again, err)
	}
	if !strings.HasSuffix(stdout, "judged on episodes that neither trained nor chose it: "+again.String()+"\n") {
		t.Errorf("printed %s, judged again %v", stdout, again)
	}
	for name, want := range again.Figures() {
		if got, there := c.Manifest.Training[name]; !there || got != want {
			t.Errorf("%s is %v in the manifest, want %v", name, got, want)
		}
	}
	if code, _, errs := gnntrain(t, context.Background(), append(args, "--scenario", "mixed")...); code != exit.Usage ||
		!strings.Contains(errs, "exclude each other") {
		t.Errorf("code %d: %s", code, errs)
	}
	if code, _, errs := gnntrain(t, context.Background(), "--trace", t.TempDir(), "--out", out); code != exit.Usage ||
		!strings.Contains(errs, "gnnsched record --out writes one") {
		t.Errorf("code %d: %s", code, errs)
	}
}

func TestPrintConfig(t *testing.T) {
	code, out, errs := gnntrain(t, context.Background(), "--variant", "acgnn", "--learning_rate", "0.003", "--scenario", "mixed",
		"--print-config")
	if code != exit.OK {
		t.Fatalf("code %d: %s", code, errs)
	}
	j, err := learn.ReadJob("printed", []byte(out), "gnn")
	if err != nil || j.Variant != "acgnn" || j.LearningRate != 0.003 || j.Environment.Nodes.Min != 50 {
		t.Errorf("%+v, %v", j, err)
	}
}

func TestTrainBadInput(t *testing.T) {
	dir := t.TempDir()
	bad := filepath.Join(dir, "bad.yaml")
	fatal.If(t, os.WriteFile(bad, []byte("stepz: 3"), 0o600))
	for want, args := range map[string][]string{
		"stepz":                             {"--config", bad},
		"no such file":                      {"--config", filepath.Join(dir, "none.yaml")},
		`no variant is called "cnn"`:        {"--variant", "cnn"},
		"no scenario":                       {"--scenario", "nowhere"},
		"learning rate is 2":                {"--learning-rate", "2"},
		"seed is 0: choose 1 to 1073741823": {"--seed", "0"},
		"seed is 1073741824: choose 1 to":   {"--seed", "1073741824"},
		"no heuristic":                      {"--teacher", "nobody"},
		"unexpected":                        {"now"},
		"no state of a run":                 {"--resume", "--out", filepath.Join(dir, "x")},
		"keeps its configuration":           {"--resume", "--batch-size", "5"},
		"nowhere":                           {"--out", filepath.Join(dir, "nowhere", "x")},
	} {
		if code, _, errs := gnntrain(t, context.Background(), args...); code != exit.Usage || !strings.Contains(errs, want) {
			t.Errorf("%v: code %d, want one with %q: %s", args, code, want, errs)
		}
	}
}

// The program has a manual page with the flags of its commands.
func TestManual(t *testing.T) {
	code, page, errs := gnntrain(t, t.Context(), "man")
	if code != exit.OK {
		t.Fatalf("code %d: %s", code, errs)
	}
	for _, want := range []string{".TH gnntrain 8", "variant", "typical", "episodes"} {
		if !strings.Contains(page, want) {
			t.Errorf("the page lacks %q", want)
		}
	}
}

// gnntrain completes its flags for the scripts of gnnsched completion.
func TestCompletion(t *testing.T) {
	if code, _, errs := gnntrain(t, context.Background(), "--generate-bash-completion"); code != exit.OK || errs != "" {
		t.Errorf("code %d: %s", code, errs)
	}
}
