package live

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	watchtools "k8s.io/client-go/tools/watch"
	"k8s.io/utils/ptr"

	"gnnsched/internal/cluster"
	"gnnsched/internal/cluster/kube"
	"gnnsched/internal/cluster/mig"
	"gnnsched/kwok/nodepool"
	"gnnsched/scheduler/eval"
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
	rows      map[string]int32    // index of the simulator's nodes, by their names
	lost      map[string]bool     // lost nodes, by their names on the cluster
	running   map[int]*corev1.Pod // by arrival
	tries     int                 // names of pods given so far
	trial     string              // begins them
}

// newFollower empties the cluster and creates the pods that run from the start of the episode.
func newFollower(ctx context.Context, client kubernetes.Interface, trial, scheduler string, env *sim.Env) (*follower, error) {
	f := &follower{
		client: client, trial: trial, scheduler: scheduler, env: env, plan: env.Plan(),
		rows: rowsByName(env.Snapshot().Nodes), lost: map[string]bool{}, running: map[int]*corev1.Pod{},
	}
	if err := f.clear(ctx); err != nil {
		return nil, err
	}
	for i, n := range env.Snapshot().Nodes {
		for k, g := range n.Groups {
			if g.Each.TotalGPUMilli() > 0 {
				return nil, fmt.Errorf("node %s has pods with GPUs from the start, and the scenario does not say on which devices", n.Name)
			}
			for c := range g.Count {
				p := Pod(fmt.Sprintf("%s-initial-%d-%d-%d", trial, i, k, c), scheduler, &cluster.Pod{Requests: g.Each})
				p.Spec.NodeName = nodeName(n.Name)
				if _, err := f.create(ctx, p); err != nil {
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

// Pod returns a Kubernetes pod for a scheduler with the requests and constraints of a pod of the simulator.
func Pod(name, scheduler string, p *cluster.Pod) *corev1.Pod {
	labels, requests := map[string]string{workload.LabelManagedBy: workload.ManagedBy}, p.Requests
	if p.Partition != mig.None { // a claim asks for it
		requests.GPU, requests.GPUMilli = 0, 0
	}
	if p.Owner != "" {
		labels[workload.LabelName] = p.Owner
	}
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name: name, Namespace: namespace, Labels: labels, Annotations: kube.GPUAnnotations(requests, p.GPUModels),
		},
		Spec: corev1.PodSpec{
			SchedulerName: scheduler, NodeSelector: p.NodeSelector, Affinity: kube.Affinity(p.NodeAffinity),
			Tolerations: kube.Tolerations(p.Tolerations), EnableServiceLinks: ptr.To(false),
			Containers: []corev1.Container{{
				Name: "app", Image: "none",
				Resources: corev1.ResourceRequirements{Requests: kube.NonzeroResourceList(requests), Limits: kube.GPUResourceList(requests)},
			}},
		},
	}
}

func (f *follower) create(ctx context.Context, p *corev1.Pod) (*corev1.Pod, error) {
	created, err := f.client.CoreV1().Pods(namespace).Create(ctx, p, metav1.CreateOptions{})
	if err != nil {
		return nil, fmt.Errorf("create pod %s: %w", p.Name, err)
	}
	return created, nil
}

// place creates the pending pod and returns the candidate and the devices that kube-scheduler chose
// for it.
func (f *follower) place(ctx context.Context) (choice eval.Choice, err error) {
	arrival := f.env.Next()
	for {
		p, refused, err := f.schedule(ctx, arrival)
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
			return choice, fmt.Errorf("kube-scheduler finds no node for pod %s, but the simulator finds %d: %s", p.Name,
				len(f.env.Candidates()), refused)
		}
		f.running[arrival] = p
		return f.choice(ctx, p)
	}
}

// choice translates the node and the devices of a bound pod into a choice in the simulator.
func (f *follower) choice(ctx context.Context, p *corev1.Pod) (out eval.Choice, err error) {
	row, known := f.rows[poolName(p.Spec.NodeName)]
	out.Candidate = slices.Index(f.env.Candidates(), row)
	if !known || out.Candidate < 0 {
		return out, fmt.Errorf("kube-scheduler bound pod %s to %s, where it does not fit according to the simulator", p.Name, p.Spec.NodeName)
	}
	n := f.env.Snapshot().Nodes[row]
	switch {
	case f.env.Pending().Partition != mig.None:
		err = f.partition(ctx, &out, p, n)
		return out, err
	case !n.HasDevices():
		return out, nil
	}
	if out.Devices = kube.Devices(p.Annotations); !n.FitsOn(f.env.Pending().Requests, out.Devices) {
		return out, fmt.Errorf("kube-scheduler put pod %s on the GPUs %q of %s, which have no room for it according to the simulator",
			p.Name, p.Annotations[kube.GPUIndexAnnotation], p.Spec.NodeName)
	}
	return out, nil
}

// schedule creates a pod for an arrival and returns it once kube-scheduler has decided, and why kube-scheduler refused it. Each attempt
// has a new name, since events of an earlier pod may still come.
func (f *follower) schedule(ctx context.Context, arrival int) (decided *corev1.Pod, refused string, err error) {
	f.tries++
	of := f.plan[arrival].Pod
	p := Pod(fmt.Sprintf("%s-%d-%d", f.trial, arrival, f.tries), f.scheduler, of)
	if of.Partition != mig.None {
		err = f.claimPartition(ctx, p, of)
	}
	if err == nil {
		p, err = f.create(ctx, p)
	}
	if err != nil {
		return nil, "", err
	}
	return f.decided(ctx, p)
}

// remove deletes the pods that have left the simulator, because their lifetime is over or their work is done.
func (f *follower) remove(ctx context.Context) error {
	for arrival, p := range f.running {
		if f.env.Runs(arrival) {
			continue
		}
		if err := f.delete(ctx, p.Name); err != nil {
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
		node := nodeName(name)
		f.lost[node] = true
		if err := f.client.CoreV1().Nodes().Delete(ctx, node, metav1.DeleteOptions{}); err != nil {
			return fmt.Errorf("delete node %s: %w", node, err)
		}
		if err := f.deleteAll(ctx, "spec.nodeName="+node); err != nil {
			return err
		}
	}
	f.rows = left
	maps.DeleteFunc(f.running, func(_ int, p *corev1.Pod) bool { return f.lost[p.Spec.NodeName] })
	return nil
}

// outcome lets kube-scheduler try the pods that still wait, measures the cluster, and says which pods have no node.
func (f *follower) outcome(ctx context.Context) (sim.Outcome, []Waiter, error) {
	var left []int
	for _, arrival := range f.env.Waiting() {
		pod, _, err := f.schedule(ctx, arrival)
		if err != nil {
			return sim.Outcome{}, nil, err
		}
		if pod.Spec.NodeName == "" {
			left = append(left, arrival)
		}
	}
	nodes, unbound, err := snapshot(ctx, f.client)
	if err != nil {
		return sim.Outcome{}, nil, err
	}
	o := measured(nodes, f.env.Config())
	o.Cost = f.env.Config().Objective.Cost(nodes) + f.env.WaitingCost(left)
	o.Arrived, o.Unscheduled = len(f.plan), unbound
	o.Placed = o.Arrived - unbound
	return o, f.waiters(left), nil
}

// patience limits a scheduler's time for one pod. It decides within milliseconds; a machine that is busy may stand still for minutes.
const patience = 10 * time.Minute

// decided returns a new pod once a scheduler has given it a node or refused it, and why it was refused. It asks the API server, and no
// scheduler. It fails if the pod is deleted before.
func (f *follower) decided(ctx context.Context, p *corev1.Pod) (pod *corev1.Pod, refused string, err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, patience, fmt.Errorf("kube-scheduler did not decide about pod %s for %v", p.Name, patience))
	defer cancel()
	named := fields.OneTermEqualSelector(metav1.ObjectNameField, p.Name)
	source := cache.NewListWatchFromClient(f.client.CoreV1().RESTClient(), "pods", namespace, named)
	_, err = watchtools.Until(ctx, p.ResourceVersion, source, func(e watch.Event) (bool, error) {
		pod, _ = e.Object.(*corev1.Pod)
		if pod == nil || e.Type == watch.Deleted {
			return false, fmt.Errorf("pod %s was deleted before kube-scheduler decided about it, and not by this program", p.Name)
		}
		for _, c := range pod.Status.Conditions {
			if c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse && c.Reason == corev1.PodReasonUnschedulable {
				refused = c.Message
				return true, nil
			}
		}
		return pod.Spec.NodeName != "", nil
	})
	if err != nil && ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	return pod, refused, err
}

// immediately deletes without a grace period.
var immediately = metav1.DeleteOptions{GracePeriodSeconds: ptr.To[int64](0)}

// delete deletes a pod without grace period.
func (f *follower) delete(ctx context.Context, name string) error {
	if err := f.client.CoreV1().Pods(namespace).Delete(ctx, name, immediately); err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("delete pod %s: %w", name, err)
	}
	return nil
}

// deleteAll deletes the pods with these fields without grace period.
func (f *follower) deleteAll(ctx context.Context, fields string) error {
	err := f.client.CoreV1().Pods(namespace).DeleteCollection(ctx, immediately, metav1.ListOptions{FieldSelector: fields})
	if err != nil {
		return fmt.Errorf("delete the pods: %w", err)
	}
	return nil
}

// clear deletes all pods, waiting pods first: otherwise they would get the others' room. It returns when they have left.
func (f *follower) clear(ctx context.Context) error {
	for _, fields := range []string{"spec.nodeName=", ""} {
		if err := f.deleteAll(ctx, fields); err != nil {
			return err
		}
	}
	return wait.PollUntilContextTimeout(ctx, 20*time.Millisecond, patience, true, func(ctx context.Context) (bool, error) {
		list, err := f.client.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{Limit: 1})
		return err == nil && len(list.Items) == 0, err
	})
}

// gigabytes are the memory of the GPU models of scenarios with MIG, which is in the names of profiles.
var gigabytes = map[string]int{"A100": 40, "H100": 80}

// poolsOf returns a node pool of kwokcluster for each node of an episode. GPUs that MIG can partition are in ResourceSlices.
func poolsOf(nodes []*cluster.Node) []nodepool.Pool {
	out := nodepool.Single(nodes, nodepool.InCapacity)
	for i, n := range nodes {
		if n.Slices == nil {
			continue
		}
		memory := gigabytes[n.GPUModel]
		d := nodepool.Devices{Product: n.GPUModel, Count: len(n.Slices), Memory: *resource.NewQuantity(int64(memory)<<30, resource.BinarySI)}
		for _, p := range mig.Profiles() {
			d.MIG = append(d.MIG, p.Name(memory))
		}
		delete(out[i].Capacity, kube.GPUResource)
		out[i].Devices = []nodepool.Devices{d}
	}
	return out
}

// claimPartition creates a claim for the partition that an arrival requests, and lets its pod ask by the claim.
func (f *follower) claimPartition(ctx context.Context, p *corev1.Pod, of *cluster.Pod) error {
	model := f.env.Snapshot().Nodes[0].GPUModel
	if len(of.GPUModels) > 0 {
		model = of.GPUModels[0]
	}
	attribute := fmt.Sprintf("device.attributes[%q].", kube.GPUDriver)
	expression := fmt.Sprintf("%sprofile == %q && %sproductName == %q", attribute, of.Partition.Name(gigabytes[model]), attribute, model)
	c := &resourceapi.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Name: p.Name}}
	c.Spec.Devices.Requests = []resourceapi.DeviceRequest{{Name: "gpu", Exactly: &resourceapi.ExactDeviceRequest{
		DeviceClassName: "mig.nvidia.com", Selectors: []resourceapi.DeviceSelector{{CEL: &resourceapi.CELDeviceSelector{Expression: expression}}},
	}}}
	p.Spec.ResourceClaims = []corev1.PodResourceClaim{{Name: "gpu", ResourceClaimName: &p.Name}}
	p.Spec.Containers[0].Resources.Claims = []corev1.ResourceClaim{{Name: "gpu"}}
	if _, err := f.client.ResourceV1().ResourceClaims(namespace).Create(ctx, c, metav1.CreateOptions{}); err != nil {
		return fmt.Errorf("create claim %s: %w", c.Name, err)
	}
	return nil
}

// partition sets on which device of its node the partition of a bound pod lies, and at which memory slice it begins.
func (f *follower) partition(ctx context.Context, out *eval.Choice, p *corev1.Pod, n *cluster.Node) error {
	c, err := f.client.ResourceV1().ResourceClaims(namespace).Get(ctx, p.Name, metav1.GetOptions{})
	if err != nil {
		return fmt.Errorf("read claim %s: %w", p.Name, err)
	}
	if c.Status.Allocation == nil || len(c.Status.Allocation.Devices.Results) != 1 {
		return fmt.Errorf("claim %s has no single device", c.Name)
	}
	of := f.env.Pending().Partition
	device, gpu := c.Status.Allocation.Devices.Results[0].Device, 0
	format := "gpu-%d-mig-" + strings.Replace(of.Name(gigabytes[n.GPUModel]), ".", "", 1) + "-%d"
	if _, err := fmt.Sscanf(device, format, &gpu, &out.Start); err != nil || gpu >= len(n.Slices) || n.Slices[gpu]&of.On(out.Start) != 0 {
		return fmt.Errorf("claim %s has device %s of %s, where the simulator has no room (%w)", c.Name, device, p.Spec.NodeName, err)
	}
	out.Devices = cluster.Device(gpu)
	return nil
}
