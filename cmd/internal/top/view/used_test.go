package view

import (
	"testing"

	"github.com/charmbracelet/x/ansi"

	"gnnsched/cmd/internal/top/state"
	"gnnsched/cmd/internal/top/view/paint"
	"gnnsched/internal/golden"
	"gnnsched/scheduler/usage"
)

// someScored is the report of a scheduler that scores some nodes by requests.
var someScored = usage.Report{
	Source: "prometheus", Polled: noon.Unix() - 3, Newest: noon.Unix() - 12, Measured: 9, Degraded: 4,
	Named: []usage.Degraded{
		{Node: "node-3", Reason: "stale"}, {Node: "node-7", Reason: "absent"}, {Node: "a\x1b[2J\u202e", Reason: "invalid"},
	},
}

// scoring gives a view a scheduler's reports about its sources of usage.
func scoring(reports []usage.Report, err error) func(*Config, *state.Frame) {
	return func(cfg *Config, _ *state.Frame) {
		cfg.Details = func(ask state.Ask) state.Details {
			if !ask.Usage {
				return state.Details{}
			}
			return state.Details{Usage: reports, UsageErr: err}
		}
	}
}

// The scheduler's basis for scoring a node stands beside the cluster's figures for it.
func TestGoldenScored(t *testing.T) {
	all, away, begun := someScored, someScored, usage.Report{Source: "metrics.k8s.io"}
	all.Measured, all.Degraded, all.Named = 13, 0, nil
	away.Failed = true
	for _, c := range []struct {
		name          string
		reports       []usage.Report
		err           error
		look          paint.Look
		width, height int
	}{
		{"scored.txt", []usage.Report{someScored}, nil, full, 80, 24},
		{"scored-wide.txt", []usage.Report{someScored}, nil, full, 140, 20},
		{"scored-narrow.txt", []usage.Report{someScored}, nil, ascii, 40, 12},
		{"scored-all.txt", []usage.Report{all}, nil, full, 80, 24},
		{"scored-failed.txt", []usage.Report{away}, nil, full, 140, 20},
		{"scored-begun.txt", []usage.Report{begun, all}, nil, full, 140, 20},
		{"scored-away.txt", []usage.Report{all}, errAway, full, 140, 20},
		{"scored-unknown.txt", nil, errAway, full, 80, 24},
	} {
		t.Run(c.name, func(t *testing.T) {
			m := model(t, measured(12), terminal{c.look, c.width, c.height}, scoring(c.reports, c.err))
			press(m, "u")
			golden.Check(t, c.name, trimmed(ansi.Strip(m.View().Content)))
		})
	}
}
