package main

import (
	"bytes"
	"context"
	"errors"
	"regexp"
	"slices"
	"testing"

	"gnnsched/internal/cli"
	"gnnsched/internal/exit"
)

// A small run measures everything once and prints a line for each result that ends in its ratio.
func TestSmall(t *testing.T) {
	a := app()
	var out, progress bytes.Buffer
	a.Writer, a.ErrWriter = &out, &progress
	code := cli.RunContext(t.Context(), a, []string{
		"schedbench", "--nodes", "20", "--loop-nodes", "20", "--pods", "40", "--pods-fixed", "30", "--pairs", "1", "--profile-dir", t.TempDir(),
	})
	if code != exit.OK {
		t.Fatalf("code %d\n%s%s", code, &out, &progress)
	}
	results := regexp.MustCompile(`(?m)^(loop alone|cluster), 20 nodes, (40 pods, percentageOfNodesToScore 0 \(adaptive\)|30 pods, percentageOfNodesToScore 100): gnn \d+ pods/s with .* ratio \d+\.\d\d$`).FindAllString(out.String(), -1)
	if len(results) != 4 {
		t.Errorf("results %q in\n%s", results, &out)
	}
}

func TestFlags(t *testing.T) {
	for _, args := range [][]string{
		{"--only", "nothing"}, {"--preferences", "last"}, {"--variant", "transformer"}, {"--pods", "1"}, {"--pods-fixed", "1"},
		{"--nodes", "0"}, {"--pairs", "0"}, {"--percentages", "101"}, {"--loop-nodes", "1"}, {"--parallelism", "0"}, {"--no-such-flag"},
		{"argument"},
	} {
		a := app()
		a.Writer, a.ErrWriter = &bytes.Buffer{}, &bytes.Buffer{}
		if code := cli.RunContext(t.Context(), a, append([]string{"schedbench"}, args...)); code != exit.Usage {
			t.Errorf("%v: code %d, want %d", args, code, exit.Usage)
		}
	}
	a := app()
	a.Writer, a.ErrWriter = &bytes.Buffer{}, &bytes.Buffer{}
	if code := cli.RunContext(t.Context(), a, []string{"schedbench", "--checkpoint", "bench_test.go"}); code != exit.Checkpoint {
		t.Errorf("a file that is not a checkpoint: code %d, want %d", code, exit.Checkpoint)
	}
}

// Runs alternate, so that drift does not favour a profile, and each ratio compares two neighbours.
func TestCompareAlternates(t *testing.T) {
	var order []string
	o := options{variant: "gnn", pairs: 3, progress: &bytes.Buffer{}}
	speed := 100.0
	r, err := o.compare(context.Background(), "test", func(_ context.Context, profile string) (run, error) {
		order = append(order, profile)
		speed *= 0.9 // the machine slows down all the time
		if profile == "gnn" {
			return run{rate: 2 * speed}, nil
		}
		return run{rate: speed}, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if want := []string{defaultProfile, "gnn", "gnn", defaultProfile, defaultProfile, "gnn"}; !slices.Equal(order, want) {
		t.Errorf("order %v", order)
	}
	if got := r.ratio(); got < 1.79 || got > 1.81 {
		t.Errorf("ratio %v, want the median of 1.8, 2.22 and 1.8", got)
	}
	if _, err := o.compare(context.Background(), "test",
		func(context.Context, string) (run, error) { return run{}, errors.New("broken") }); err == nil {
		t.Error("no error")
	}
}

func TestGate(t *testing.T) {
	slow := result{what: "slow", baseline: []run{{rate: 100}}, ours: []run{{rate: 80}}}
	if err := (&options{gate: 0.9}).check([]result{slow}); exit.Code(err) != exit.Gate {
		t.Errorf("%v, want a missed gate", err)
	}
	if err := (&options{gate: 0.8}).check([]result{slow}); err != nil {
		t.Error(err)
	}
}

func TestMedian(t *testing.T) {
	for _, c := range []struct {
		x    []float64
		want float64
	}{{nil, 0}, {[]float64{3}, 3}, {[]float64{4, 1}, 2.5}, {[]float64{9, 1, 2}, 2}} {
		if got := median(c.x); got != c.want {
			t.Errorf("median of %v is %v", c.x, got)
		}
	}
}

func TestMeter(t *testing.T) {
	m := newMeter(2)
	m.add()
	m.add()
	if r, err := m.wait(context.Background()); err != nil || r.rate <= 0 || r.cpu < 0 {
		t.Errorf("%+v, %v", r, err)
	}
	ctx, cancel := context.WithCancelCause(context.Background())
	cancel(errors.New("why"))
	if _, err := newMeter(2).wait(ctx); err == nil || err.Error() != "why" {
		t.Errorf("%v, want the cause", err)
	}
}
