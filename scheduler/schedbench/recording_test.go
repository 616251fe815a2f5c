package main

import (
	"bytes"
	"context"
	"errors"
	"regexp"
	"slices"
	"strings"
	"testing"

	"gnnsched/internal/cli"
	"gnnsched/internal/exit"
)

// A small run binds blocks in every way, and prints a line for each.
func TestRecordingSmall(t *testing.T) {
	a := app()
	var out, progress bytes.Buffer
	a.Writer, a.ErrWriter = &out, &progress
	if code := cli.RunContext(t.Context(), a, []string{"schedbench", "recording", "--nodes", "5", "--pods", "10", "--rounds", "2"}); code != exit.OK {
		t.Fatalf("code %d\n%s%s", code, &out, &progress)
	}
	if found := regexp.MustCompile(`(?m)^(ring|ring and JSON lines|ring and Parquet): -?\d+ ± \d+ µs more CPU time a pod`).FindAllString(out.String(), -1); len(found) != 3 {
		t.Errorf("%s", &out)
	}
	if code := cli.RunContext(t.Context(), a, []string{"schedbench", "recording", "--rounds", "1"}); code != exit.Usage {
		t.Errorf("code %d", code)
	}
}

// The figures are differences within a round, less what creating pods takes and with the collection of what was allocated.
// The first round does not count. The gate is about the CPU time.
func TestRecordingDifferences(t *testing.T) {
	var out bytes.Buffer
	r := &recordingCost{rounds: 5, out: &out, progress: &bytes.Buffer{}, gate: 0.97}
	var order []int
	more, cleanings := 1e6, 0 // from round to round; the first ones would spoil everything
	all, cleaned, err := r.turns(t.Context(), func(way int) (block, error) {
		if order = append(order, way); len(order)%5 == 1 && len(order) > 5*tidy {
			more = float64(len(order))
		}
		b := block{cpu: 1000 + more, wall: 2000, allocated: 100}
		switch way {
		case 1:
			b.cpu += 8
		case 2:
			b.allocated += 10
		case 3:
			b.cpu, b.allocated = b.cpu+20, b.allocated+10
		case 4:
			b.cpu -= 900
		}
		return b, nil
	}, func() (collection, error) { cleanings++; return collection{cpu: 300, live: 100}, nil }) // 1 µs a KB
	if err != nil {
		t.Fatal(err)
	}
	if cleanings != 3 {
		t.Errorf("cleaned %d times in 5 rounds and %d before", cleanings, tidy)
	}
	for round := range slices.Chunk(order, len(recordings)) {
		if slices.Sort(round); !slices.Equal(round, []int{0, 1, 2, 3, 4}) {
			t.Errorf("a round of %v", round)
		}
	}
	err = r.sumUp(all, cleaned)
	if exit.Code(err) != exit.Gate || strings.Contains(err.Error(), "JSON") || !strings.Contains(err.Error(), "Parquet") {
		t.Errorf("%v, want a missed gate of Parquet alone", err)
	}
	for _, want := range []string{"a pod without recording: 900 µs", "ring: 8 ± 0 µs more CPU time a pod, 0.9 ± 0.0 %; 0.0 KB", "JSON lines: 10 ± 0 µs more CPU time a pod, 1.1 ± 0.0 %; 10.0 KB", "Parquet: 30 ± 0 µs more"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %q in\n%s", want, &out)
		}
	}
	if r.gate = 0; r.sumUp(all, cleaned) != nil {
		t.Error(r.sumUp(all, cleaned))
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errors.New("enough"))
	if _, _, err := r.turns(ctx, nil, func() (collection, error) { return collection{}, nil }); err == nil || err.Error() != "enough" {
		t.Errorf("%v, want that turns end with the context", err)
	}
}
