// Package defrag moves the pods of a cluster as a plan says: it evicts a pod, waits until its owner's new pod runs, and goes on. [Look] lists
// the cluster for package plan; [Mover] moves.
package defrag

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"gnnsched/scheduler/replay"
	"gnnsched/workload/record"
	"gnnsched/workload/record/observe"
)

// Look lists the nodes, pods, namespaces, priority classes and budgets of a cluster once.
func Look(ctx context.Context, c kubernetes.Interface, now time.Time) (replay.Source, error) {
	seen := &sight{pods: map[string]record.Pod{}, nodes: map[string]record.Node{}}
	f := observe.NewFollower(observe.Config{Out: seen, Now: func() int64 { return now.UnixMilli() }})
	all := metav1.ListOptions{}
	nodes, err := c.CoreV1().Nodes().List(ctx, all)
	if err != nil {
		return replay.Source{}, fmt.Errorf("list nodes: %w", err)
	}
	f.Nodes(pointers(nodes.Items))
	pods, err := c.CoreV1().Pods("").List(ctx, all)
	if err != nil {
		return replay.Source{}, fmt.Errorf("list pods: %w", err)
	}
	f.Pods(pointers(pods.Items))
	budgets, err := c.PolicyV1().PodDisruptionBudgets("").List(ctx, all)
	if err != nil {
		return replay.Source{}, fmt.Errorf("list PodDisruptionBudgets: %w", err)
	}
	f.Objects(record.KindBudget, rows(budgets.Items, observe.Budget))
	namespaces, err := c.CoreV1().Namespaces().List(ctx, all)
	if err != nil {
		return replay.Source{}, fmt.Errorf("list namespaces: %w", err)
	}
	f.Objects(record.KindNamespace, rows(namespaces.Items, observe.Namespace))
	classes, err := c.SchedulingV1().PriorityClasses().List(ctx, all)
	if err != nil {
		return replay.Source{}, fmt.Errorf("list priority classes: %w", err)
	}
	f.Objects(record.KindPriorityClass, rows(classes.Items, observe.PriorityClass))
	return seen.source(now.UnixMilli()), nil
}

func pointers[T any](items []T) []*T {
	out := make([]*T, len(items))
	for i := range items {
		out[i] = &items[i]
	}
	return out
}

func rows[T any](items []T, row func(*T) record.Object) []record.Object {
	out := make([]record.Object, len(items))
	for i := range items {
		out[i] = row(&items[i])
	}
	return out
}

// sight holds the newest row of each object. It implements observe.Sink.
type sight struct {
	pods    map[string]record.Pod
	nodes   map[string]record.Node
	objects []record.Object
}

// Pod implements observe.Sink.
func (s *sight) Pod(p record.Pod) { s.pods[p.UID] = p }

// Node implements observe.Sink.
func (s *sight) Node(n record.Node) { s.nodes[n.Name] = n }

// Object implements observe.Sink.
func (s *sight) Object(o record.Object) { s.objects = append(s.objects, o) }

// source returns the rows as the state at a time, or, if the API server's clock is ahead, at the time of the newest row.
func (s *sight) source(at int64) replay.Source {
	out := replay.Source{
		Pods: slices.SortedFunc(maps.Values(s.pods), func(a, b record.Pod) int {
			return cmp.Or(cmp.Compare(a.Arrived, b.Arrived), cmp.Compare(a.UID, b.UID))
		}),
		Nodes:   slices.SortedFunc(maps.Values(s.nodes), func(a, b record.Node) int { return cmp.Compare(a.Name, b.Name) }),
		Objects: s.objects,
	}
	for _, p := range out.Pods {
		at = max(at, p.Arrived, p.Bound, p.HealthSince)
	}
	for _, n := range out.Nodes {
		at = max(at, n.From)
	}
	out.From, out.To = at, at+1
	return out
}
