package main

import (
	"bytes"
	"os"
	"regexp"
	"slices"
	"testing"

	"gnnsched/internal/cli"
	"gnnsched/internal/exit"
)

// TestMain lets the test binary be the schedulers that the command outage starts.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && slices.Contains([]string{ourCommandName, upstreamCommandName}, os.Args[1]) {
		os.Exit(cli.Run(app(), os.Args))
	}
	os.Exit(m.Run())
}

// A short outage of each kind gives a pair of times and their ratio.
func TestOutage(t *testing.T) {
	for _, kind := range []string{kindRefuse, kindHang} {
		t.Run(kind, func(t *testing.T) {
			a := app()
			var out, progress bytes.Buffer
			a.Writer, a.ErrWriter = &out, &progress
			if code := cli.RunContext(t.Context(), a, []string{"schedbench", "outage", "--length", "1s", "--pairs", "1", "--kind", kind}); code != exit.OK {
				t.Fatalf("code %d\n%s%s", code, &out, &progress)
			}
			if !regexp.MustCompile(`(?m)^outage of 1s \(` + kind + `\), new pod placed after: gnn \d+\.\d\d s, kube-scheduler \d+\.\d\d s \(medians of 1\), ratio \d+\.\d\d$`).MatchString(out.String()) {
				t.Errorf("no result in\n%s", &out)
			}
		})
	}
}

func TestOutageFlags(t *testing.T) {
	for _, args := range [][]string{{"--kind", "flood"}, {"--length", "0s"}, {"--pairs", "0"}, {"argument"}} {
		a := app()
		a.Writer, a.ErrWriter = &bytes.Buffer{}, &bytes.Buffer{}
		if code := cli.RunContext(t.Context(), a, append([]string{"schedbench", "outage"}, args...)); code != exit.Usage {
			t.Errorf("%v: code %d, want %d", args, code, exit.Usage)
		}
	}
}
