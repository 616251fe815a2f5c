package live

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	toolswatch "k8s.io/client-go/tools/watch"
	"k8s.io/utils/ptr"

	"gnnsched/scheduler/cluster"
	"gnnsched/scheduler/sim"
	"gnnsched/workload"
)

const (
	namespace = "default" // the cluster is ours alone
	// patience is how long kube-scheduler may take for one pod. It decides within
	// milliseconds; on a machine that stands still for so long nothing else would help.
	patience = time.Minute
)

// board is the cluster as the playing field of one episode.
type board struct {
	client    kubernetes.Interface
	scheduler string
	env       *sim.Env
	row       map[string]int32 // of the environment's nodes by name
	pods      map[int]string   // names of the pods that run, by arrival
	plan      []sim.Arrival
	events    *toolswatch.RetryWatcher
}

// newBoard empties the cluster and puts on it what runs from the start.
func newBoard(ctx context.Context, client kubernetes.Interface, scheduler string, env *sim.Env) (*board, error) {
	b := &board{client: client, scheduler: scheduler, env: env, row: map[string]int32{}, pods: map[int]string{}, plan: env.Plan()}
	if err := b.empty(ctx); err != nil {
		return nil, err
	}
	for i, n := range env.Snapshot().Nodes {
		b.row[n.Name] = int32(i)
		for k, g := range n.Groups {
			for c := range g.Count {
				p := b.pod(fmt.Sprintf("initial-%d-%d-%d", i, k, c), &cluster.Pod{Requests: g.Each})
				p.Spec.NodeName = nodeName(n.Name)
				if err := b.create(ctx, p); err != nil {
					return nil, err
				}
			}
		}
	}
	list, err := client.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{Limit: 1})
	if err != nil {
		return nil, fmt.Errorf("list the pods: %w", err)
	}
	b.events, err = toolswatch.NewRetryWatcherWithContext(ctx, list.ResourceVersion, &podWatcher{client})
	if err != nil {
		return nil, fmt.Errorf("watch the pods: %w", err)
	}
	return b, nil
}

func (b *board) close() { b.events.Stop() }

// podWatcher watches the namespace's pods.
type podWatcher struct{ client kubernetes.Interface }

// WatchWithContext implements cache.WatcherWithContext.
func (w *podWatcher) WatchWithContext(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
	return w.client.CoreV1().Pods(namespace).Watch(ctx, o)
}

// pod is a pod for the cluster that asks for what a pod of the simulator does.
func (b *board) pod(name string, p *cluster.Pod) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: namespace, Labels: map[string]string{workload.LabelManagedBy: workload.ManagedBy}},
		Spec: corev1.PodSpec{
			SchedulerName: b.scheduler, NodeSelector: p.NodeSelector, Tolerations: tolerations(p.Tolerations),
			EnableServiceLinks: ptr.To(false), TerminationGracePeriodSeconds: ptr.To[int64](0),
			Containers: []corev1.Container{{Name: "app", Image: "none", Resources: corev1.ResourceRequirements{Requests: requests(p.Requests)}}},
		},
	}
}

func (b *board) create(ctx context.Context, p *corev1.Pod) error {
	if _, err := b.client.CoreV1().Pods(namespace).Create(ctx, p, metav1.CreateOptions{}); err != nil {
		return fmt.Errorf("make pod %s: %w", p.Name, err)
	}
	return nil
}

// place makes the pending pod and returns which of the candidates kube-scheduler bound it to.
func (b *board) place(ctx context.Context) (choice int, err error) {
	arrival := b.env.Next()
	name := podName(arrival)
	if err := b.create(ctx, b.pod(name, b.env.Pending())); err != nil {
		return 0, err
	}
	p, err := b.decided(ctx, name)
	if err != nil {
		return 0, err
	}
	if p.Spec.NodeName == "" {
		return 0, fmt.Errorf("kube-scheduler finds no node for pod %s, and the simulator %d: %s", name, len(b.env.Candidates()), unschedulable(p).Message)
	}
	b.pods[arrival] = name
	row, known := b.row[simulatedName(p.Spec.NodeName)]
	choice = slices.Index(b.env.Candidates(), row)
	if !known || choice < 0 {
		return 0, fmt.Errorf("kube-scheduler bound pod %s to %s, where it does not fit by the simulator", name, p.Spec.NodeName)
	}
	return choice, nil
}

func podName(arrival int) string { return "pod-" + strconv.Itoa(arrival) }

// decided waits until kube-scheduler has bound the pod, or said that it cannot.
func (b *board) decided(ctx context.Context, name string) (*corev1.Pod, error) {
	timeout := time.NewTimer(patience)
	defer timeout.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-timeout.C:
			return nil, fmt.Errorf("kube-scheduler did nothing about pod %s within %v", name, patience)
		case e, open := <-b.events.ResultChan():
			if !open {
				return nil, errors.Join(context.Cause(ctx), errors.New("the watch of the pods ended"))
			}
			if p, is := e.Object.(*corev1.Pod); is && p.Name == name && e.Type != watch.Deleted && (p.Spec.NodeName != "" || unschedulable(p) != nil) {
				return p, nil
			}
		}
	}
}

func unschedulable(p *corev1.Pod) *corev1.PodCondition {
	for i, c := range p.Status.Conditions {
		if c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse {
			return &p.Status.Conditions[i]
		}
	}
	return nil
}

var now = metav1.DeleteOptions{GracePeriodSeconds: ptr.To[int64](0)}

// remove deletes the pods that have left the simulator, given who will leave later. Those that
// stay for ever are in neither.
func (b *board) remove(ctx context.Context, leaving []int) error {
	stays := map[int]bool{}
	for _, a := range leaving {
		stays[a] = true
	}
	for arrival, name := range b.pods {
		if stays[arrival] || isForever(b.plan[arrival]) {
			continue
		}
		if err := b.client.CoreV1().Pods(namespace).Delete(ctx, name, now); err != nil {
			return fmt.Errorf("delete pod %s: %w", name, err)
		}
		delete(b.pods, arrival)
	}
	return nil
}

// empty deletes every pod and waits until none is left.
func (b *board) empty(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, patience, fmt.Errorf("the pods of the last episode were not gone within %v", patience))
	defer cancel()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		if err := b.client.CoreV1().Pods(namespace).DeleteCollection(ctx, now, metav1.ListOptions{}); err != nil {
			return fmt.Errorf("delete the pods: %w", err)
		}
		list, err := b.client.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{Limit: 1})
		if err != nil {
			return fmt.Errorf("list the pods: %w", err)
		}
		if len(list.Items) == 0 {
			return nil
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-tick.C:
		}
	}
}

// outcome lets kube-scheduler try the pods that still wait, and measures.
func (b *board) outcome(ctx context.Context) (sim.Outcome, error) {
	for _, arrival := range b.env.Waiting() {
		name := podName(arrival)
		if err := b.create(ctx, b.pod(name, b.plan[arrival].Pod)); err != nil {
			return sim.Outcome{}, err
		}
		if _, err := b.decided(ctx, name); err != nil {
			return sim.Outcome{}, err
		}
	}
	nodes, unbound, err := snapshot(ctx, b.client)
	if err != nil {
		return sim.Outcome{}, err
	}
	o := sim.Measure(nodes)
	o.Cost, o.Unscheduled, o.Arrived = b.env.Config().Objective.Cost(nodes), unbound, len(b.plan)
	o.Placed = o.Arrived - unbound
	return o, nil
}
