package view

import (
	"fmt"
	"time"

	"gnnsched/cmd/internal/top/state"
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
