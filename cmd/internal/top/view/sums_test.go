package view

import (
	"fmt"
	"testing"
	"time"

	"github.com/charmbracelet/x/ansi"

	"gnnsched/cmd/internal/top/state"
	"gnnsched/cmd/internal/top/view/paint"
	"gnnsched/internal/golden"
)

// workloads gives a cluster pods of several controllers.
func workloads(c *state.Cluster) *state.Cluster {
	for i := range 60 {
		p := state.Pod{
			Namespace: []string{"shop", "data"}[i%2], Name: fmt.Sprint("w-", i), Status: "Running", Scheduler: "gnn", CPU: int64(100 * (i%4 + 1)),
			Memory: 1 << 28, Created: noon.Add(-time.Hour),
		}
		p.Workload = []string{
			"Deployment/web", "StatefulSet/db", "Job/train-with-a-name-that-is-longer-than-the-column-of-a-narrow-window", "DaemonSet/agent",
		}[i*i%7%4]
		if i%9 > 0 {
			p.Node = fmt.Sprintf("node-%d", i%11)
		} else {
			p.Status = "Pending"
		}
		c.SetPod(p, noon)
	}
	return c
}

func someEvents() (out []state.Event) {
	for i := range 30 {
		e := state.Event{
			Time: noon.Add(-time.Duration(i*i) * time.Second), Type: "Normal", Reason: "Scheduled", From: "gnn", Count: 1,
			Object: fmt.Sprintf("Pod shop/web-%d", i), Message: fmt.Sprintf("Successfully assigned shop/web-%d to node-%d", i, i%12),
		}
		if i%4 == 1 {
			e.Type, e.Reason, e.Count = "Warning", "FailedScheduling", i
			e.Message = "0/13 nodes are available: 1 node(s) had untolerated taint {node-role.kubernetes.io/control-plane: }, 12 Insufficient cpu."
		}
		out = append(out, e)
	}
	return out
}

func TestGoldenSums(t *testing.T) {
	many := workloads(zoned(100, 3))
	for _, c := range []struct {
		name          string
		cluster       *state.Cluster
		look          paint.Look
		width, height int
		keys          []string
	}{
		{"workloads.txt", many, full, 80, 24, []string{"w"}},
		{"workloads-200x50.txt", many, full, 200, 50, []string{"w"}},
		{"workloads-none.txt", state.New(), full, 80, 24, []string{"w", "enter"}},
		{"zones.txt", many, full, 80, 24, []string{"z"}},
		{"zones-200x50.txt", many, full, 200, 50, []string{"z"}},
		{"zones-ascii.txt", zoned(40, 30), ascii, 80, 24, []string{"z", "G"}},
		{"events.txt", many, full, 80, 24, []string{"e"}},
		{"events-200x50.txt", many, full, 200, 50, []string{"e"}},
	} {
		m := summing(t, c.cluster, terminal{c.look, c.width, c.height})
		press(m, c.keys...)
		golden.Check(t, c.name, trimmed(ansi.Strip(m.View().Content)))
	}
}

// summing is a view of a cluster with workloads and events.
func summing(t *testing.T, c *state.Cluster, term terminal) *Model {
	return model(t, c, term, func(cfg *Config, _ *state.Frame) {
		cfg.Details = func(ask state.Ask) state.Details {
			d := state.Details{}
			if ask.Workloads {
				d.Workloads = c.Workloads()
			}
			if ask.Events {
				d.Events = someEvents()
			}
			return d
		}
	})
}
