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
	"gnnsched/scheduler/eval/testbed"
	"gnnsched/scheduler/sim"
	"gnnsched/workload"
)

const (
	namespace = "default" // the cluster has no other user
	// patience limits kube-scheduler's time for one pod. It decides within milliseconds unless the machine stands still.
	patience = time.Minute
)

// follower keeps the cluster in step with one episode of the simulator.
type follower struct {
	client    kubernetes.Interface
	scheduler string // name of the profile under test
	env       *sim.Env
	plan      []sim.Arrival
	rows      map[string]int32   // index of the simulator's nodes, by their names
	lost      map[string]bool    // lost nodes, by their names on the cluster
	running   map[int]runningPod // by arrival
	attempts  map[int]int        // pods created so far, by arrival
	events    *toolswatch.RetryWatcher
	usage     *player // nil without usage
}

type runningPod struct{ name, node string } // both as on the cluster

// newFollower empties the cluster and creates the pods that run from the start of the episode.
func newFollower(ctx context.Context, client kubernetes.Interface, scheduler string, env *sim.Env) (*follower, error) {
	f := &follower{
		client: client, scheduler: scheduler, env: env, plan: env.Plan(),
		rows: rowsByName(env.Snapshot().Nodes), lost: map[string]bool{}, running: map[int]runningPod{}, attempts: map[int]int{},
	}
	if err := f.empty(ctx); err != nil {
		return nil, err
	}
	var err error
	if f.usage, err = newPlayer(ctx, client, env); err != nil {
		return nil, err
	}
	for i, n := range env.Snapshot().Nodes {
		for k, g := range n.Groups {
			if g.Each.TotalGPUMilli() > 0 {
				return nil, fmt.Errorf("node %s has pods with GPUs from the start, and the scenario does not say on which devices", n.Name)
			}
			for c := range g.Count {
				p := f.pod(fmt.Sprintf("initial-%d-%d-%d", i, k, c), &cluster.Pod{Requests: g.Each})
				p.Spec.NodeName = testbed.NodeName(n.Name)
				if err := f.create(ctx, p); err != nil {
					return nil, err
				}
			}
		}
	}
	list, err := client.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{Limit: 1})
	if err != nil {
		return nil, fmt.Errorf("list the pods: %w", err)
	}
	f.events, err = toolswatch.NewRetryWatcherWithContext(ctx, list.ResourceVersion, &podWatcher{client})
	if err != nil {
		return nil, fmt.Errorf("watch the pods: %w", err)
	}
	return f, nil
}

func (f *follower) close() { f.events.Stop() }

// rowsByName returns the index of each node by its name.
func rowsByName(nodes []*cluster.Node) map[string]int32 {
	out := map[string]int32{}
	for i, n := range nodes {
		out[n.Name] = int32(i)
	}
	return out
}

// podWatcher implements cache.WatcherWithContext for the pods of the namespace.
type podWatcher struct{ client kubernetes.Interface }

// WatchWithContext implements cache.WatcherWithContext.
func (w *podWatcher) WatchWithContext(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
	return w.client.CoreV1().Pods(namespace).Watch(ctx, o)
}

// pod returns a Kubernetes pod with the requests and constraints of a pod of the simulator.
func (f *follower) pod(name string, p *cluster.Pod) *corev1.Pod {
	labels := map[string]string{workload.LabelManagedBy: workload.ManagedBy}
	if p.Owner != "" {
		labels[workload.LabelName] = p.Owner
	}
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name: name, Namespace: namespace, Labels: labels, Annotations: kube.GPUAnnotations(p.Requests, p.GPUModels),
		},
		Spec: corev1.PodSpec{
			SchedulerName: f.scheduler, NodeSelector: p.NodeSelector, Tolerations: kube.Tolerations(p.Tolerations),
			EnableServiceLinks: ptr.To(false), TerminationGracePeriodSeconds: ptr.To[int64](0),
			Containers: []corev1.Container{{
				Name: "app", Image: "none",
				Resources: corev1.ResourceRequirements{Requests: kube.NonzeroResourceList(p.Requests), Limits: kube.GPUResourceList(p.Requests)},
			}},
		},
	}
}

func (f *follower) create(ctx context.Context, p *corev1.Pod) error {
	if _, err := f.client.CoreV1().Pods(namespace).Create(ctx, p, metav1.CreateOptions{}); err != nil {
		return fmt.Errorf("create pod %s: %w", p.Name, err)
	}
	return nil
}

// place creates the pending pod and returns the candidate and the devices that kube-scheduler chose
// for it.
func (f *follower) place(ctx context.Context) (choice eval.Choice, err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, 2*patience,
		fmt.Errorf("after %v kube-scheduler still binds pods to deleted nodes", 2*patience))
	defer cancel()
	arrival := f.env.Next()
	for {
		p, err := f.schedule(ctx, arrival)
		if err != nil {
			return choice, err
		}
		if f.lost[p.Spec.NodeName] { // the scheduler had not seen the deletion yet: create another pod, as a controller would
			if err := f.delete(ctx, p.Name); err != nil {
				return choice, err
			}
			continue
		}
		if p.Spec.NodeName == "" {
			return choice, fmt.Errorf("kube-scheduler finds no node for pod %s, but the simulator finds %d: %s", p.Name, len(f.env.Candidates()),
				unschedulable(p).Message)
		}
		f.running[arrival] = runningPod{p.Name, p.Spec.NodeName}
		return f.choice(p)
	}
}

// choice translates the node and the devices of a bound pod into a choice in the simulator.
func (f *follower) choice(p *corev1.Pod) (out eval.Choice, err error) {
	row, known := f.rows[testbed.PoolName(p.Spec.NodeName)]
	out.Candidate = slices.Index(f.env.Candidates(), row)
	if !known || out.Candidate < 0 {
		return out, fmt.Errorf("kube-scheduler bound pod %s to %s, where it does not fit according to the simulator", p.Name, p.Spec.NodeName)
	}
	n := f.env.Snapshot().Nodes[row]
	if !n.HasDevices() {
		return out, nil
	}
	if out.Devices = kube.Devices(p.Annotations); !n.FitsOn(f.env.Pending().Requests, out.Devices) {
		return out, fmt.Errorf("kube-scheduler put pod %s on the GPUs %q of %s, which have no room for it according to the simulator",
			p.Name, p.Annotations[kube.GPUIndexAnnotation], p.Spec.NodeName)
	}
	return out, nil
}

// schedule creates a pod for an arrival and returns it once kube-scheduler has decided. Each attempt
// has a new name, since events of the previous pod may still come.
func (f *follower) schedule(ctx context.Context, arrival int) (*corev1.Pod, error) {
	name := podName(arrival, f.attempts[arrival])
	f.attempts[arrival]++
	p := f.pod(name, f.plan[arrival].Pod)
	if err := f.usage.describe(p, f.plan[arrival].Usage); err != nil {
		return nil, err
	}
	if err := f.create(ctx, p); err != nil {
		return nil, err
	}
	return f.waitDecision(ctx, name)
}

// podName returns the name of the pod of an arrival after some earlier attempts.
func podName(arrival, before int) string {
	name := "pod-" + strconv.Itoa(arrival)
	if before > 0 {
		name += "-again-" + strconv.Itoa(before)
	}
	return name
}

// waitDecision waits until kube-scheduler has bound the pod or marked it unschedulable, and returns it.
func (f *follower) waitDecision(ctx context.Context, name string) (*corev1.Pod, error) {
	timeout := time.NewTimer(patience)
	defer timeout.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-timeout.C:
			return nil, fmt.Errorf("kube-scheduler did not decide about pod %s within %v", name, patience)
		case e, open := <-f.events.ResultChan():
			if !open {
				return nil, errors.Join(context.Cause(ctx), errors.New("the watch of the pods ended"))
			}
			if p, is := e.Object.(*corev1.Pod); is && p.Name == name && e.Type != watch.Deleted && (p.Spec.NodeName != "" || unschedulable(p) != nil) {
				return p, nil
			}
		}
	}
}

// unschedulable returns the condition with the reason why a pod has no node, or nil.
func unschedulable(p *corev1.Pod) *corev1.PodCondition {
	for i, c := range p.Status.Conditions {
		if c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse {
			return &p.Status.Conditions[i]
		}
	}
	return nil
}

// immediately deletes without a grace period.
var immediately = metav1.DeleteOptions{GracePeriodSeconds: ptr.To[int64](0)}

// remove deletes the pods that have left the simulator, because their lifetime is over or their work is done.
func (f *follower) remove(ctx context.Context) error {
	for arrival, p := range f.running {
		if f.env.Runs(arrival) {
			continue
		}
		if err := f.delete(ctx, p.name); err != nil {
			return err
		}
		delete(f.running, arrival)
	}
	return nil
}

func (f *follower) delete(ctx context.Context, name string) error {
	if err := f.client.CoreV1().Pods(namespace).Delete(ctx, name, immediately); err != nil {
		return fmt.Errorf("delete pod %s: %w", name, err)
	}
	return nil
}

// lose deletes the nodes that the simulator has lost, and the pods on them. In the simulator these
// pods wait and arrive again.
func (f *follower) lose(ctx context.Context) error {
	left := rowsByName(f.env.Snapshot().Nodes)
	if len(left) == len(f.rows) {
		return nil
	}
	for name := range f.rows {
		if _, stays := left[name]; stays {
			continue
		}
		node := testbed.NodeName(name)
		f.lost[node] = true
		if err := f.client.CoreV1().Nodes().Delete(ctx, node, immediately); err != nil {
			return fmt.Errorf("delete node %s: %w", node, err)
		}
		on := metav1.ListOptions{FieldSelector: "spec.nodeName=" + node}
		if err := f.client.CoreV1().Pods(namespace).DeleteCollection(ctx, immediately, on); err != nil {
			return fmt.Errorf("delete the pods of node %s: %w", node, err)
		}
	}
	f.rows = left
	for arrival, p := range f.running {
		if f.lost[p.node] {
			delete(f.running, arrival)
		}
	}
	return nil
}

// empty deletes every pod and waits until none is left.
func (f *follower) empty(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, patience, fmt.Errorf("the pods of the last episode were not deleted within %v", patience))
	defer cancel()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		if err := f.client.CoreV1().Pods(namespace).DeleteCollection(ctx, immediately, metav1.ListOptions{}); err != nil {
			return fmt.Errorf("delete the pods: %w", err)
		}
		list, err := f.client.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{Limit: 1})
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

// outcome lets kube-scheduler try the pods that still wait, and measures the cluster.
func (f *follower) outcome(ctx context.Context) (sim.Outcome, error) {
	for _, arrival := range f.env.Waiting() {
		if _, err := f.schedule(ctx, arrival); err != nil {
			return sim.Outcome{}, err
		}
	}
	nodes, unbound, err := snapshot(ctx, f.client)
	if err != nil {
		return sim.Outcome{}, err
	}
	o := sim.Measure(nodes)
	o.GPU = devicesInUse(nodes)
	o.Cost = f.env.Config().Objective.Cost(nodes)
	o.Usage = f.usage.outcome()
	o.Arrived, o.Unscheduled = len(f.plan), unbound
	o.Placed = o.Arrived - unbound
	return o, nil
}
