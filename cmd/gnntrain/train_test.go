//go:build torch

package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"gnnsched/gnn/checkpoint"
	"gnnsched/internal/cli"
	"gnnsched/internal/exit"
	"gnnsched/internal/fatal"
	"gnnsched/scheduler/learn/value"
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

const tinyRun = "iterations: 2\nepisodes: 2\nupdates: 5\nimitation: 1\nevaluateEvery: 1\nevaluateWorkloads: 2\nhorizon: 0.1\n"

// An interrupted run says how to continue. When it continues, the figures of both parts are in one file.
func TestTrainAndResume(t *testing.T) {
	dir := t.TempDir()
	config, out, events := filepath.Join(dir, "my.yaml"), filepath.Join(dir, "my.safetensors"), filepath.Join(dir, "events")
	fatal.If(t, os.WriteFile(config, []byte(tinyRun), 0o600))
	stopped, stop := context.WithCancel(context.Background())
	stop()
	code, _, errs := gnntrain(t, stopped, "--config", config, "--scenario", "scarce8", "--variant", "acdqn", "--out", out, "--events", events)
	if !strings.Contains(errs, "made the directory "+events) {
		t.Errorf("the directory of the events was made silently: %s", errs)
	}
	if code != exit.Interrupted || !strings.Contains(errs, "--resume") {
		t.Fatalf("code %d: %s", code, errs)
	}
	code, stdout, errs := gnntrain(t, context.Background(), "--resume", "--out", out, "--events", events)
	if code != exit.OK || !strings.Contains(stdout, "wrote "+out) || !strings.Contains(stdout, "under price ") {
		t.Fatalf("code %d: %s%s", code, stdout, errs)
	}
	c, err := checkpoint.Load(out)
	if err != nil || c.Manifest.Architecture.Head != checkpoint.ActorCritic || c.Manifest.Training["judgedWaiting.linear"] == 0 {
		t.Errorf("%+v, %v", c, err)
	}
	if _, err := os.Stat(out + ".state"); !os.IsNotExist(err) {
		t.Errorf("the state of a run that is over: %v", err)
	}
	figures(t, events, "charts/waiting", "losses/value_loss", "eval/waiting_over_price")
}

// A run on a record learns from its nodes and earlier pods, is judged on later ones, and refuses what contradicts that.
func TestTrainOnRecord(t *testing.T) {
	dir, config := filepath.Join(t.TempDir(), "prod.record"), filepath.Join(t.TempDir(), "my.yaml")
	fatal.If(t, os.WriteFile(config, []byte(tinyRun), 0o600))
	w, err := record.Create(dir, record.Options{})
	fatal.If(t, err)
	const begin = 1_700_000_000_000
	for i := range 3 {
		w.Node(record.Node{Name: fmt.Sprint("n", i), From: begin, MilliCPU: 2000, Memory: 32 << 30, Pods: 110})
	}
	for i := range int64(600) {
		at := begin + i*1000
		w.Pod(record.Pod{UID: fmt.Sprint(i), Namespace: "shop", Name: fmt.Sprint("p", i), MilliCPU: 500 + i%2*1500, Memory: 1 << 30, Arrived: at,
			Bound: at, Ended: at + 6000, End: record.Succeeded, Node: "n0"})
	}
	w.Run(record.Run{ID: "1", Source: "live", From: begin, To: begin + 600_000})
	if _, err := w.Close(); err != nil {
		t.Fatal(err)
	}
	out, events := filepath.Join(t.TempDir(), "my.safetensors"), filepath.Join(t.TempDir(), "events")
	args := []string{"--config", config, "--hidden-layers", "8", "--trace", dir, "--out", out, "--events", events}
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
	if waits := c.Manifest.Training["judgedWaiting"]; !(waits > 0) ||
		!strings.Contains(stdout, fmt.Sprintf("judged on episodes that neither trained nor chose it: %.3f%% of the cluster waits", 100*waits)) {
		t.Errorf("%v waits: %s", waits, stdout)
	}
	for say, args := range map[string][]string{
		"exclude each other":           append(args, "--scenario", "mixed"),
		"gnnsched record --out writes": {"--trace", t.TempDir(), "--out", out},
	} {
		if code, _, errs := gnntrain(t, context.Background(), args...); code != exit.Usage || !strings.Contains(errs, say) {
			t.Errorf("code %d, want %q: %s", code, say, errs)
		}
	}
}

// --print-config prints the configuration with the changes of the flags, and of a file.
func TestPrintConfig(t *testing.T) {
	config := filepath.Join(t.TempDir(), "my.yaml")
	fatal.If(t, os.WriteFile(config, []byte(tinyRun), 0o600))
	code, out, errs := gnntrain(t, context.Background(), "--config", config, "--variant", "acgnn", "--learning_rate", "0.003", "--scenario", "mixed",
		"--scenario", "jobs", "--print-config")
	if code != exit.OK {
		t.Fatalf("code %d: %s", code, errs)
	}
	c, err := value.KindDefaults().Read("printed", []byte(out))
	if err != nil || c.Name() != "acgnn" || c.LearningRate != 0.003 || c.Horizon != 0.1 || !slices.Equal(c.Scenarios, []string{"mixed", "jobs"}) {
		t.Errorf("%+v, %v", c, err)
	}
}

func TestTrainBadInput(t *testing.T) {
	dir := t.TempDir()
	bad := filepath.Join(dir, "bad.yaml")
	fatal.If(t, os.WriteFile(bad, []byte("stepz: 3"), 0o600))
	for want, args := range map[string][]string{
		"stepz":                             {"--config", bad},
		"none.yaml":                         {"--config", filepath.Join(dir, "none.yaml")},
		`no variant is called "cnn"`:        {"--variant", "cnn"},
		"no scenario":                       {"--scenario", "nowhere"},
		"learningRate: 2":                   {"--learning-rate", "2"},
		"seed is 0: choose 1 to 1073741823": {"--seed", "0"},
		"seed is 1073741824: choose 1 to":   {"--seed", "1073741824"},
		"unexpected":                        {"now"},
		"no state of a run":                 {"--resume", "--out", filepath.Join(dir, "x")},
		"keeps its configuration":           {"--resume", "--iterations", "5"},
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
	for _, want := range []string{".TH gnntrain 8", "variant", "typical", "iterations"} {
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
