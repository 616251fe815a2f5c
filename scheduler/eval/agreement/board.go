package agreement

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

	"gnnsched/internal/cluster"
	"gnnsched/internal/cluster/kube"
	"gnnsched/scheduler/eval"
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
	lost      map[string]bool  // names on the cluster of the nodes that are gone
	pods      map[int]bound    // those that run, by arrival
	made      map[int]int      // how many pods have been made for an arrival, where any
	plan      []sim.Arrival
	events    *toolswatch.RetryWatcher
}

// bound is a pod that runs.
type bound struct{ name, node string }

// newBoard empties the cluster and puts on it what runs from the start.
func newBoard(ctx context.Context, client kubernetes.Interface, scheduler string, env *sim.Env) (*board, error) {
	b := &board{
		client: client, scheduler: scheduler, env: env, row: rows(env.Snapshot().Nodes), lost: map[string]bool{},
		pods: map[int]bound{}, made: map[int]int{}, plan: env.Plan(),
	}
	if err := b.empty(ctx); err != nil {
		return nil, err
	}
	for i, n := range env.Snapshot().Nodes {
		for k, g := range n.Groups {
			if g.Each.TotalGPUMilli() > 0 {
				return nil, fmt.Errorf("node %s has pods with GPUs from the start, of which nobody knows the devices", n.Name)
			}
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

// rows are those of nodes by name.
func rows(nodes []*cluster.Node) map[string]int32 {
	out := map[string]int32{}
	for i, n := range nodes {
		out[n.Name] = int32(i)
	}
	return out
}

// podWatcher watches the namespace's pods.
type podWatcher struct{ client kubernetes.Interface }

// WatchWithContext implements cache.WatcherWithContext.
func (w *podWatcher) WatchWithContext(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
	return w.client.CoreV1().Pods(namespace).Watch(ctx, o)
}

// pod is a pod for the cluster that asks for what a pod of the simulator does.
func (b *board) pod(name string, p *cluster.Pod) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: namespace, Labels: map[string]string{workload.LabelManagedBy: workload.ManagedBy}, Annotations: kube.GPUAnnotations(p.Requests, p.GPUModels)},
		Spec: corev1.PodSpec{
			SchedulerName: b.scheduler, NodeSelector: p.NodeSelector, Tolerations: kube.Tolerations(p.Tolerations),
			EnableServiceLinks: ptr.To(false), TerminationGracePeriodSeconds: ptr.To[int64](0),
			Containers: []corev1.Container{{Name: "app", Image: "none", Resources: corev1.ResourceRequirements{Requests: kube.ResourceList(p.Requests), Limits: kube.GPUResourceList(p.Requests)}}},
		},
	}
}

func (b *board) create(ctx context.Context, p *corev1.Pod) error {
	if _, err := b.client.CoreV1().Pods(namespace).Create(ctx, p, metav1.CreateOptions{}); err != nil {
		return fmt.Errorf("make pod %s: %w", p.Name, err)
	}
	return nil
}

// place makes the pending pod and returns which of the candidates kube-scheduler bound it to,
// and on which of its devices.
func (b *board) place(ctx context.Context) (choice eval.Choice, err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, 2*patience, fmt.Errorf("kube-scheduler still binds pods to nodes that are gone after %v", 2*patience))
	defer cancel()
	arrival := b.env.Next()
	for {
		p, err := b.schedule(ctx, arrival)
		if err != nil {
			return choice, err
		}
		if b.lost[p.Spec.NodeName] { // it had not heard of it yet; as on any cluster, another pod comes
			if err := b.delete(ctx, p.Name); err != nil {
				return choice, err
			}
			continue
		}
		if p.Spec.NodeName == "" {
			return choice, fmt.Errorf("kube-scheduler finds no node for pod %s, and the simulator %d: %s", p.Name, len(b.env.Candidates()), unschedulable(p).Message)
		}
		b.pods[arrival] = bound{p.Name, p.Spec.NodeName}
		return b.choice(p)
	}
}

// choice is where in the simulator a pod lies that is bound on the cluster.
func (b *board) choice(p *corev1.Pod) (out eval.Choice, err error) {
	row, known := b.row[simulatedName(p.Spec.NodeName)]
	out.Candidate = slices.Index(b.env.Candidates(), row)
	if !known || out.Candidate < 0 {
		return out, fmt.Errorf("kube-scheduler bound pod %s to %s, where it does not fit by the simulator", p.Name, p.Spec.NodeName)
	}
	n, r := b.env.Snapshot().Nodes[row], b.env.Pending().Requests
	if !n.HasDevices() {
		return out, nil
	}
	if out.Devices = kube.Devices(p.Annotations); !n.FitsOn(r, out.Devices) {
		return out, fmt.Errorf("kube-scheduler put pod %s on the GPUs %q of %s, which have no room for it by the simulator", p.Name, p.Annotations[kube.GPUIndexAnnotation], p.Spec.NodeName)
	}
	return out, nil
}

// schedule makes a pod for an arrival and returns what has become of it. Each has a name of its
// own, since the cluster goes on telling of the last one for a while.
func (b *board) schedule(ctx context.Context, arrival int) (*corev1.Pod, error) {
	name := podName(arrival, b.made[arrival])
	b.made[arrival]++
	if err := b.create(ctx, b.pod(name, b.plan[arrival].Pod)); err != nil {
		return nil, err
	}
	return b.decided(ctx, name)
}

func podName(arrival, before int) string {
	name := "pod-" + strconv.Itoa(arrival)
	if before > 0 {
		name += "-again-" + strconv.Itoa(before)
	}
	return name
}

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
	for arrival, p := range b.pods {
		if stays[arrival] || isForever(b.plan[arrival]) {
			continue
		}
		if err := b.delete(ctx, p.name); err != nil {
			return err
		}
		delete(b.pods, arrival)
	}
	return nil
}

func (b *board) delete(ctx context.Context, name string) error {
	if err := b.client.CoreV1().Pods(namespace).Delete(ctx, name, now); err != nil {
		return fmt.Errorf("delete pod %s: %w", name, err)
	}
	return nil
}

// lose deletes the nodes that the simulator has lost, and the pods on them. Those of the episode
// wait in the simulator and come again.
func (b *board) lose(ctx context.Context) error {
	left := rows(b.env.Snapshot().Nodes)
	if len(left) == len(b.row) {
		return nil
	}
	for name := range b.row {
		if _, stays := left[name]; stays {
			continue
		}
		node := nodeName(name)
		b.lost[node] = true
		if err := b.client.CoreV1().Nodes().Delete(ctx, node, now); err != nil {
			return fmt.Errorf("delete node %s: %w", node, err)
		}
		on := metav1.ListOptions{FieldSelector: "spec.nodeName=" + node}
		if err := b.client.CoreV1().Pods(namespace).DeleteCollection(ctx, now, on); err != nil {
			return fmt.Errorf("delete the pods of node %s: %w", node, err)
		}
	}
	b.row = left
	for arrival, p := range b.pods {
		if b.lost[p.node] {
			delete(b.pods, arrival)
		}
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
		if _, err := b.schedule(ctx, arrival); err != nil {
			return sim.Outcome{}, err
		}
	}
	nodes, unbound, err := snapshot(ctx, b.client)
	if err != nil {
		return sim.Outcome{}, err
	}
	o := sim.Measure(nodes)
	o.GPU = devicesInUse(nodes)
	o.Cost, o.Unscheduled, o.Arrived = b.env.Config().Objective.Cost(nodes), unbound, len(b.plan)
	o.Placed = o.Arrived - unbound
	return o, nil
}
