package main

import (
	"bytes"
	"regexp"
	"slices"
	"testing"

	"gnnsched/internal/cli"
	"gnnsched/internal/exit"
)

// A small run binds a backlog in every way, and prints a line for each.
func TestRecordingSmall(t *testing.T) {
	a := app()
	var out, progress bytes.Buffer
	a.Writer, a.ErrWriter = &out, &progress
	if code := cli.RunContext(t.Context(), a, []string{"schedbench", "recording", "--nodes", "5", "--pods", "20", "--rounds", "1"}); code != exit.OK {
		t.Fatalf("code %d\n%s%s", code, &out, &progress)
	}
	if found := regexp.MustCompile(`(?m)^(ring|ring and JSON lines|ring and Parquet): CPU time of a pod \d\.\d+ ± 0\.000, pods a second \d+\.\d+ ± 0\.000$`).FindAllString(out.String(), -1); len(found) != 3 {
		t.Errorf("%s", &out)
	}
	if code := cli.RunContext(t.Context(), a, []string{"schedbench", "recording", "--rounds", "0"}); code != exit.Usage {
		t.Errorf("code %d", code)
	}
}

// Every round begins with another way, and ratios are within a round. The gate is about the CPU time.
func TestRecordingRatios(t *testing.T) {
	var out bytes.Buffer
	r := &recordingCost{rounds: 5, out: &out, progress: &bytes.Buffer{}, gate: 0.97}
	var order []int
	slower := 1.0
	all, err := r.turns(func(way int) (run, error) {
		if order = append(order, way); len(order)%4 == 1 {
			slower *= 2 // from round to round
		}
		return run{rate: 100, cpu: slower * []float64{1, 1.02, 1.02, 1.05}[way]}, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if want := []int{0, 1, 2, 3, 1, 2, 3, 0, 2, 3, 0, 1}; !slices.Equal(order[:12], want) {
		t.Errorf("order %v", order)
	}
	err = r.sumUp(all)
	if exit.Code(err) != exit.Gate {
		t.Errorf("%v, want a missed gate", err)
	}
	r.gate = 0
	if err := r.sumUp(all); err != nil {
		t.Error(err)
	}
}
