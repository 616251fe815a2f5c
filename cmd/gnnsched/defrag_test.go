package main

import (
	"bytes"
	"strings"
	"testing"
	"time"

	ucli "github.com/urfave/cli/v2"

	"gnnsched/internal/cli"
	"gnnsched/internal/exit"
)

func TestWindow(t *testing.T) {
	at := func(text string) time.Time {
		d, err := time.Parse(time.DateTime, text)
		if err != nil {
			t.Fatal(err)
		}
		return d
	}
	for _, c := range []struct {
		window, now string
		want        time.Duration
	}{
		{"", "2026-03-01 12:00:00", 0},
		{"02:00-05:00", "2026-03-01 02:00:00", 0},
		{"02:00-05:00", "2026-03-01 04:59:59", 0},
		{"02:00-05:00", "2026-03-01 05:00:00", 21 * time.Hour},
		{"02:00-05:00", "2026-03-01 01:30:00", 30 * time.Minute},
		{"22:00-05:00", "2026-03-01 23:00:00", 0},
		{"22:00-05:00", "2026-03-01 03:00:00", 0},
		{"22:00-05:00", "2026-03-01 12:00:00", 10 * time.Hour},
		{"00:00-00:30", "2026-02-28 23:59:00", time.Minute},
	} {
		w, err := parseWindow(c.window)
		if got := w.until(at(c.now)); err != nil || got != c.want {
			t.Errorf("%s at %s: %v, %v", c.window, c.now, got, err)
		}
	}
}

func TestFlags(t *testing.T) {
	for _, c := range []struct{ args, want string }{
		{"--moves many", "--moves"},
		{"--moves 1.5", "--moves"},
		{"--moves -1", "--moves"},
		{"--moves NaN", "--moves"},
		{"--moves 200%", "--moves"},
		{"--memory x", "--memory"},
		{"--for train-0", "namespace/name"},
		{"--every 1h", "without --apply"},
		{"--search greedy --for ml/train-0", "--search has no effect with --for"},
		{"--objective balance --for ml/train-0", "--objective has no effect with --for"},
		{"--objective speed", "no term is called"},
		{"--objective throttled", "measured after a move"},
		{"--between 1-2 --apply", "--between"},
		{"--between 02:00-02:00 --apply", "--between"},
		{"--apply prod.record", "not of the record"},
		{"--wait 0s", "--wait"},
		{"-o xml", "--output"},
		{"no.record", "read the record"},
		{"--print-rbac --apply", ""},
	} {
		var out bytes.Buffer
		command := defragCommand()
		app := &ucli.App{Name: "gnnsched", Commands: []*ucli.Command{command}, Writer: &out, ErrWriter: &out}
		code := cli.Run(app, append([]string{"gnnsched", "defrag", "--log-dir="}, strings.Fields(c.args)...))
		if c.want == "" && code == 0 && strings.Contains(out.String(), "pods/eviction") {
			continue
		}
		if code != exit.Usage || c.want != "" && !strings.Contains(out.String(), c.want) {
			t.Errorf("%s: code %d\n%s", c.args, code, &out)
		}
	}
}
