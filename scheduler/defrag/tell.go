package defrag

import (
	"context"
	"fmt"
	"slices"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"gnnsched/internal/metric"
)

var (
	measured metric.Set
	moved    = measured.Counters("defrag_pods_total",
		"Pods of plans, by what became of them: planned (they run on the planned node), elsewhere, or stayed.", "result")
	underWay = measured.Gauge("defrag_pods_under_way", "Pods that were evicted, and do not run again yet.")
)

// say counts a pod that is back, and leaves an event on it that tells why it is there. Without the right to write events there is none.
func (x *run) say(ctx context.Context, d due, m Moved) {
	result := "planned"
	if m.elsewhere() {
		result = "elsewhere"
	}
	moved.WithLabelValues(result).Inc()
	why := "to make room"
	if slices.Contains(x.plan.Freed, m.From) {
		why = "so that the node becomes empty"
	} else if l := x.plan.Lower; l != nil {
		why = "to lower " + l.Objective
	}
	now := metav1.NewTime(x.Clock.Now())
	_, err := x.Client.CoreV1().Events(d.pod.Namespace).Create(ctx, &v1.Event{
		ObjectMeta:     metav1.ObjectMeta{GenerateName: "gnnsched-defrag-", Namespace: d.pod.Namespace},
		InvolvedObject: v1.ObjectReference{APIVersion: "v1", Kind: "Pod", Namespace: d.pod.Namespace, Name: d.pod.Name, UID: d.pod.UID},
		Type:           v1.EventTypeNormal, Reason: "Moved", Source: v1.EventSource{Component: "gnnsched-defrag"},
		Message:        fmt.Sprintf("%s was evicted from %s %s; this pod took its place on %s (planned: %s)", m.Pod, m.From, why, m.Node, m.To),
		FirstTimestamp: now, LastTimestamp: now, Count: 1,
	}, metav1.CreateOptions{})
	if err != nil {
		x.report("no event on " + m.New + ": " + err.Error())
	}
}
