// Package defrag moves the pods of a cluster as a plan says: it evicts a pod, waits until its owner's new pod runs, and goes on. [Look]
// lists the cluster for package plan; [Mover] moves.
package defrag

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"gnnsched/scheduler/replay"
	"gnnsched/workload/record"
	"gnnsched/workload/record/observe"
)

// Look lists the nodes, pods, namespaces and budgets of a cluster once.
func Look(ctx context.Context, c kubernetes.Interface, now time.Time) (replay.Source, error) {
	seen := &sight{}
	f := observe.NewFollower(observe.Config{Out: seen, Now: func() int64 { return now.UnixMilli() }})
	all := metav1.ListOptions{}
	nodes, err := c.CoreV1().Nodes().List(ctx, all)
	if err != nil {
		return replay.Source{}, fmt.Errorf("list nodes: %w", err)
	}
	for i := range nodes.Items {
		f.Node(&nodes.Items[i])
	}
	pods, err := c.CoreV1().Pods("").List(ctx, all)
	if err != nil {
		return replay.Source{}, fmt.Errorf("list pods: %w", err)
	}
	for i := range pods.Items {
		f.Pod(&pods.Items[i], false)
	}
	budgets, err := c.PolicyV1().PodDisruptionBudgets("").List(ctx, all)
	if err != nil {
		return replay.Source{}, fmt.Errorf("list PodDisruptionBudgets: %w", err)
	}
	for i := range budgets.Items {
		f.Object(observe.Budget(&budgets.Items[i]))
	}
	namespaces, err := c.CoreV1().Namespaces().List(ctx, all)
	if err != nil {
		return replay.Source{}, fmt.Errorf("list namespaces: %w", err)
	}
	for i := range namespaces.Items {
		f.Object(observe.Namespace(&namespaces.Items[i]))
	}
	return seen.source(now.UnixMilli()), nil
}

// sight holds the rows, each of which comes once. It implements observe.Sink.
type sight struct{ replay.Source }

// Pod implements observe.Sink.
func (s *sight) Pod(p record.Pod) { s.Pods = append(s.Pods, p) }

// Node implements observe.Sink.
func (s *sight) Node(n record.Node) { s.Nodes = append(s.Nodes, n) }

// Object implements observe.Sink.
func (s *sight) Object(o record.Object) { s.Objects = append(s.Objects, o) }

// source returns the rows as the state at a time, or, if the API server's clock is ahead, at the time of the newest row.
func (s *sight) source(at int64) replay.Source {
	slices.SortFunc(s.Pods, func(a, b record.Pod) int {
		return cmp.Or(cmp.Compare(a.Arrived, b.Arrived), cmp.Compare(a.UID, b.UID))
	})
	for _, p := range s.Pods {
		at = max(at, p.Arrived, p.Bound, p.HealthSince)
	}
	for _, n := range s.Nodes {
		at = max(at, n.From)
	}
	s.From, s.To = at, at+1
	return s.Source
}
