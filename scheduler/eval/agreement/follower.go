package agreement

import (
	"context"
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/ptr"

	"gnnsched/internal/cluster"
	"gnnsched/internal/cluster/kube"
	"gnnsched/scheduler/eval"
	"gnnsched/scheduler/eval/testbed"
	"gnnsched/scheduler/sim"
	"gnnsched/workload"
)

// namespace is the namespace of the pods. The cluster has no other user.
const namespace = "default"

// follower keeps the cluster in step with one episode of the simulator.
type follower struct {
	client    kubernetes.Interface
	scheduler string // name of the profile under test
	env       *sim.Env
	plan      []sim.Arrival
	rows      map[string]int32 // index of the simulator's nodes, by their names
	lost      map[string]bool  // lost nodes, by their names on the cluster
	running   map[int]string   // names of pods, by arrival
	pods      *testbed.Pods
	usage     *player // nil without usage
}

// newFollower empties the cluster and creates the pods that run from the start of the episode.
func newFollower(
	ctx context.Context, client kubernetes.Interface, pods *testbed.Pods, scheduler string, env *sim.Env,
) (*follower, error) {
	f := &follower{
		client: client, pods: pods, scheduler: scheduler, env: env, plan: env.Plan(),
		rows: rowsByName(env.Snapshot().Nodes), lost: map[string]bool{}, running: map[int]string{},
	}
	if err := pods.Clear(ctx); err != nil {
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
	return f, nil
}

// rowsByName returns the index of each node by its name.
func rowsByName(nodes []*cluster.Node) map[string]int32 {
	out := map[string]int32{}
	for i, n := range nodes {
		out[n.Name] = int32(i)
	}
	return out
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
			EnableServiceLinks: ptr.To(false),
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
	ctx, cancel := context.WithTimeoutCause(ctx, 2*testbed.Patience,
		fmt.Errorf("after %v kube-scheduler still binds pods to deleted nodes", 2*testbed.Patience))
	defer cancel()
	arrival := f.env.Next()
	for {
		p, err := f.schedule(ctx, arrival)
		if err != nil {
			return choice, err
		}
		if f.lost[p.Spec.NodeName] { // the scheduler had not seen the deletion yet: create another pod, as a controller would
			if err := f.pods.Delete(ctx, p.Name); err != nil {
				return choice, err
			}
			continue
		}
		if p.Spec.NodeName == "" {
			return choice, fmt.Errorf("kube-scheduler finds no node for pod %s, but the simulator finds %d: %s", p.Name,
				len(f.env.Candidates()), p.Refused.Message)
		}
		f.running[arrival] = p.Name
		return f.choice(p.Pod)
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
func (f *follower) schedule(ctx context.Context, arrival int) (decided *testbed.SeenPod, err error) {
	name := fmt.Sprintf("pod-%d", arrival)
	for n := 1; f.pods.Seen(name) != nil; n++ {
		name = fmt.Sprintf("pod-%d-again-%d", arrival, n)
	}
	p := f.pod(name, f.plan[arrival].Pod)
	if err := f.usage.describe(p, f.plan[arrival].Usage); err != nil {
		return nil, err
	}
	if err := f.create(ctx, p); err != nil {
		return nil, err
	}
	err = f.pods.Wait(ctx, "kube-scheduler did not decide about pod "+name, func() (bool, int) {
		decided = f.pods.Seen(name)
		return decided != nil && (decided.Spec.NodeName != "" || decided.Refused != nil), 0
	})
	return decided, err
}

// remove deletes the pods that have left the simulator, because their lifetime is over or their work is done.
func (f *follower) remove(ctx context.Context) error {
	for arrival, name := range f.running {
		if f.env.Runs(arrival) {
			continue
		}
		if err := f.pods.Delete(ctx, name); err != nil {
			return err
		}
		delete(f.running, arrival)
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
		if err := f.client.CoreV1().Nodes().Delete(ctx, node, metav1.DeleteOptions{}); err != nil {
			return fmt.Errorf("delete node %s: %w", node, err)
		}
		if err := f.pods.DeleteAll(ctx, "spec.nodeName="+node); err != nil {
			return err
		}
	}
	f.rows = left
	maps.DeleteFunc(f.running, func(_ int, name string) bool { return f.lost[f.pods.Seen(name).Spec.NodeName] })
	return nil
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
