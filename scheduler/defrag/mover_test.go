package defrag

import (
	"bytes"
	"context"
	"errors"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	v1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"

	"gnnsched/internal/cluster"
	"gnnsched/internal/cluster/kube"
	"gnnsched/internal/fatal"
	"gnnsched/internal/logging"
	"gnnsched/scheduler/eval/testbed"
	"gnnsched/scheduler/eval/testbed/inprocess"
	"gnnsched/scheduler/moves"
	"gnnsched/scheduler/plan"
	"gnnsched/scheduler/server"
)

func TestMain(m *testing.M) {
	logging.DropKlog()
	os.Exit(m.Run())
}

const pools = `
pools:
- {name: web, count: 4, capacity: {cpu: "4", memory: 16Gi, pods: 50}, labels: {pool: web}}
- {name: room, count: 2, capacity: {cpu: "4", memory: 16Gi, pods: 50}, labels: {pool: room}}
- {name: held, count: 5, capacity: {cpu: "4", memory: 16Gi, pods: 50}, labels: {pool: held}}
- {name: gpu, count: 3, capacity: {cpu: "4", memory: 16Gi, pods: 50, alibabacloud.com/gpu-count: 2, alibabacloud.com/gpu-milli: 2000}, labels: {pool: gpu}}
- {name: claims, count: 3, capacity: {cpu: "4", memory: 16Gi, pods: 50}, labels: {pool: claims}, devices: [{product: T4, count: 2, memory: 16Gi, shares: 1000}]}
- {name: mig, count: 3, capacity: {cpu: "4", memory: 16Gi, pods: 50}, labels: {pool: mig}, devices: [{product: A100, count: 1, memory: 40Gi, mig: [1g.5gb, 3g.20gb]}]}
`

// One cluster with upstream's scheduler, in which every run leaves the pods of its own pool.
func TestMovesOnACluster(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 4*time.Minute)
	defer cancel()
	profiles := []server.Profile{
		{SchedulerName: server.DefaultProfile, Args: server.Args{Variant: server.DefaultProfile}},
		{SchedulerName: "ours", Args: server.Args{Policy: "greedy-balance"}},
	}
	bed := testbed.Config{
		Name: "defrag", Launcher: inprocess.Launcher{}, Nodes: testbed.Nodes{Pools: []byte(pools)}, Scheduler: server.Config{Profiles: profiles},
	}
	fatal.If(t, testbed.Run(ctx, bed, func(ctx context.Context, b *testbed.Bed) error {
		l := &lab{t, b.Client}
		t.Run("room", func(t *testing.T) { (&lab{t, b.Client}).room(ctx) })
		t.Run("held", func(t *testing.T) { (&lab{t, b.Client}).held(ctx) })
		t.Run("shares", func(t *testing.T) { (&lab{t, b.Client}).shares(ctx) })
		t.Run("claims", func(t *testing.T) { (&lab{t, b.Client}).claims(ctx) })
		l.deploy(ctx, "web", "web", 4, "500m")
		l.budget(ctx, "web", 1)
		t.Run("interrupted", func(t *testing.T) { (&lab{t, b.Client}).interrupted(ctx) })
		t.Run("nodes", func(t *testing.T) { (&lab{t, b.Client}).nodes(ctx) })
		t.Run("killed", func(t *testing.T) { (&lab{t, b.Client}).killed(ctx) })
		t.Run("lost", func(t *testing.T) { (&lab{t, b.Client}).lost(ctx) })
		t.Run("alone", func(t *testing.T) { (&lab{t, b.Client}).alone(ctx) })
		return nil
	}))
}

// lab is a cluster under test.
type lab struct {
	*testing.T
	c kubernetes.Interface
}

func (l *lab) must(err error) {
	l.Helper()
	fatal.If(l, err)
}

func podOf(app, pool, cpu string) v1.PodTemplateSpec {
	return v1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": app}},
		Spec: v1.PodSpec{NodeSelector: map[string]string{"pool": pool}, Containers: []v1.Container{{
			Name: "c", Image: "c", // ends a while after its successor runs, as within the usual grace period
			Lifecycle: &v1.Lifecycle{PreStop: &v1.LifecycleHandler{Sleep: &v1.SleepAction{Seconds: 2}}},
			Resources: v1.ResourceRequirements{Requests: v1.ResourceList{"cpu": resource.MustParse(cpu), "memory": resource.MustParse("100Mi")}},
		}}},
	}
}

// deploy waits until the replicas run.
func (l *lab) deploy(ctx context.Context, app, pool string, replicas int32, cpu string) {
	l.Helper()
	template := podOf(app, pool, cpu)
	if pool != "web" && pool != "room" {
		template.Spec.SchedulerName = "ours"
	}
	if pool == "claims" || pool == "mig" {
		template.Spec.ResourceClaims = []v1.PodResourceClaim{{Name: "gpu", ResourceClaimTemplateName: &pool}}
		template.Spec.Containers[0].Resources.Claims = []v1.ResourceClaim{{Name: "gpu"}}
	}
	if pool == "gpu" {
		template.Annotations = kube.GPUAnnotations(cluster.Resources{GPUMilli: 600}, nil)
	}
	_, err := l.c.AppsV1().Deployments("default").Create(ctx, &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: app},
		Spec: appsv1.DeploymentSpec{
			Replicas: &replicas, Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": app}}, Template: template,
		},
	}, metav1.CreateOptions{})
	l.must(err)
	l.runs(ctx, app, int(replicas))
}

// runs waits until an app has so many ready pods.
func (l *lab) runs(ctx context.Context, app string, n int) {
	l.Helper()
	l.must(wait.PollUntilContextTimeout(ctx, 100*time.Millisecond, time.Minute, true, func(ctx context.Context) (bool, error) {
		return len(l.ready(ctx, app)) == n, nil
	}))
}

// ready returns the nodes of an app's ready pods.
func (l *lab) ready(ctx context.Context, app string) (nodes []string) {
	pods, err := l.c.CoreV1().Pods("default").List(ctx, metav1.ListOptions{LabelSelector: "app=" + app})
	l.must(err)
	for i := range pods.Items {
		if (&due{pod: &pods.Items[i]}).back() && pods.Items[i].DeletionTimestamp == nil {
			nodes = append(nodes, pods.Items[i].Spec.NodeName)
		}
	}
	return nodes
}

func (l *lab) budget(ctx context.Context, app string, unavailable int) {
	l.Helper()
	_, err := l.c.PolicyV1().PodDisruptionBudgets("default").Create(ctx, &policyv1.PodDisruptionBudget{
		ObjectMeta: metav1.ObjectMeta{Name: app},
		Spec: policyv1.PodDisruptionBudgetSpec{
			MaxUnavailable: ptr.To(intstr.FromInt(unavailable)), Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": app}},
		},
	}, metav1.CreateOptions{})
	l.must(err)
	l.allows(ctx, app, unavailable)
}

// allows waits until the disruption controller has seen that all pods of an app are ready.
func (l *lab) allows(ctx context.Context, app string, unavailable int) {
	l.Helper()
	l.must(wait.PollUntilContextTimeout(ctx, 100*time.Millisecond, time.Minute, true, func(ctx context.Context) (bool, error) {
		b, err := l.c.PolicyV1().PodDisruptionBudgets("default").Get(ctx, app, metav1.GetOptions{})
		return err == nil && b.Status.DisruptionsAllowed == int32(unavailable) && b.Status.CurrentHealthy == b.Status.ExpectedPods, nil
	}))
}

// find plans for the cluster; "" as the pod means nodes.
func (l *lab) find(ctx context.Context, pod string) plan.Moves {
	l.Helper()
	source, err := Look(ctx, l.c, time.Now())
	l.must(err)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	state, err := plan.At(ctx, source, l.mover().Profile)
	l.must(err)
	find := func() (plan.Moves, error) {
		return plan.Find(ctx, state, l.mover().Limits, plan.Search{By: moves.Local{}, Progress: func(float64) {}})
	}
	if pod != "" {
		find = func() (plan.Moves, error) { return plan.MakeRoom(ctx, state, pod, l.mover().Limits, func(float64) {}) }
	}
	m, err := find()
	l.must(err)
	return m
}

func (l *lab) mover() *Mover {
	l.Helper()
	upstreams := server.Profile{SchedulerName: server.DefaultProfile, Args: server.Args{Variant: server.DefaultProfile}}
	decoded, err := server.Config{Profiles: []server.Profile{upstreams}, QPS: 1}.Decode()
	l.must(err)
	return &Mover{Client: l.c, Profile: decoded.Profiles[0], Wait: 30 * time.Second, Clock: clock.RealClock{},
		Limits: plan.Limits{Also: []string{"ours", "ConfigMap"}}}
}

// cordoned returns the nodes that take no pods, and those with a mark.
func (l *lab) cordoned(ctx context.Context) (closed []string, marks map[string]string) {
	list, err := l.c.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	l.must(err)
	marks = map[string]string{}
	for _, n := range list.Items {
		if n.Spec.Unschedulable {
			closed = append(closed, n.Name)
		}
		if m := n.Annotations[kube.DefragAnnotation]; m != "" {
			marks[n.Name] = m
		}
	}
	return closed, marks
}

// Two nodes are half full, and a pod of three quarters of a node waits: one pod has to move.
func (l *lab) room(ctx context.Context) {
	l.deploy(ctx, "half", "room", 2, "2")
	template := podOf("train", "room", "3")
	_, err := l.c.CoreV1().Pods("default").Create(ctx, &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "train-0", Labels: template.Labels}, Spec: template.Spec,
	}, metav1.CreateOptions{})
	l.must(err)
	m := l.find(ctx, "default/train-0")
	if len(m.Moves) != 1 || m.Room == nil || m.Moves[0].From != m.Room.Node {
		l.Fatalf("%+v", m)
	}
	out, err := l.mover().Run(ctx, m)
	if err != nil || len(out.Moved) != 1 || out.Room == nil || out.Room.Node != m.Room.Node {
		l.Fatalf("%+v, %v", out, err)
	}
	l.runs(ctx, "half", 2)
	l.runs(ctx, "train", 1)
}

// Our scheduler would spread the pods, but puts each on the node that is held for it, and no node stays held.
func (l *lab) held(ctx context.Context) {
	for _, app := range []string{"one", "two"} {
		l.deploy(ctx, app, "held", 3, "1")
	}
	m := l.find(ctx, "")
	out, err := l.mover().Run(ctx, m)
	l.must(err)
	if len(m.Moves) < 3 || len(out.Moved) != len(m.Moves) || out.elsewhere() > 0 || !slices.Equal(out.Emptied, m.Freed) {
		l.Errorf("%+v\n%+v", m, out)
	}
	told, err := l.c.CoreV1().Events(metav1.NamespaceAll).List(ctx, metav1.ListOptions{})
	l.must(err)
	for _, m := range out.Moved {
		if !slices.ContainsFunc(told.Items, func(e v1.Event) bool {
			return e.Reason == "Moved" && e.Namespace+"/"+e.InvolvedObject.Name == m.New &&
				strings.Contains(e.Message, m.Pod+" was evicted from "+m.From+" so that the node becomes empty")
		}) {
			l.Errorf("no event on %s", m.New)
		}
	}
	list, err := l.c.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	l.must(err)
	for _, n := range list.Items {
		if h := n.Annotations[kube.HoldsAnnotation]; h != "" {
			l.Errorf("%s is still held: %s", n.Name, h)
		}
	}
	l.remove(ctx, "one", "two")
}

// Three nodes have a pod each with the larger part of a GPU. One pod moves, to the other GPU of a node.
func (l *lab) shares(ctx context.Context) {
	l.deploy(ctx, "shares", "gpu", 3, "1")
	m := l.find(ctx, "")
	out, err := l.mover().Run(ctx, m)
	l.must(err)
	if len(m.Moves) != 1 || m.Moves[0].GPUs != "1" || len(out.Moved) != 1 || out.Moved[0].NewGPUs != "1" || out.elsewhere() > 0 {
		l.Errorf("%+v\n%+v", m, out)
	}
	l.remove(ctx, "shares")
}

// Each of three nodes has a pod with a GPU, or with the half of one, by a claim of its own. One pod of each kind moves, and gets devices of
// another node.
func (l *lab) claims(ctx context.Context) {
	part := kube.Claim(cluster.Resources{GPU: 1}, nil)
	part.Devices.Requests[0].Exactly.DeviceClassName = "mig." + strings.TrimPrefix(kube.GPUDriver, "gpu.")
	part.Devices.Requests[0].Exactly.Selectors = []resourceapi.DeviceSelector{{CEL: &resourceapi.CELDeviceSelector{
		Expression: `device.attributes["gpu.nvidia.com"].profile == "3g.20gb"`,
	}}}
	for name, spec := range map[string]resourceapi.ResourceClaimSpec{"claims": kube.Claim(cluster.Resources{GPU: 1}, nil), "mig": part} {
		_, err := l.c.ResourceV1().ResourceClaimTemplates("default").Create(ctx, &resourceapi.ResourceClaimTemplate{
			ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: resourceapi.ResourceClaimTemplateSpec{Spec: spec},
		}, metav1.CreateOptions{})
		l.must(err)
		l.deploy(ctx, name, name, 3, "1")
	}
	m := l.find(ctx, "")
	out, err := l.mover().Run(ctx, m)
	l.must(err)
	if len(m.Moves) != 2 || len(out.Moved) != 2 || out.elsewhere() > 0 || len(out.Emptied) != 2 {
		l.Errorf("%+v\n%+v", m, out)
	}
	for _, x := range m.Moves {
		if len(x.Devices) != 1 {
			l.Errorf("the devices of %+v", x)
		}
	}
	all, err := l.c.ResourceV1().ResourceClaims("default").List(ctx, metav1.ListOptions{})
	l.must(err)
	has := map[string]string{}
	for _, c := range all.Items {
		if c.DeletionTimestamp != nil || c.Status.Allocation == nil {
			continue
		}
		for _, r := range c.Status.Allocation.Devices.Results {
			if other := has[r.Pool+"/"+r.Device]; other != "" {
				l.Errorf("%s and %s have %s of %s", other, c.Name, r.Device, r.Pool)
			}
			has[r.Pool+"/"+r.Device] = c.Name
		}
	}
	l.remove(ctx, "claims", "mig")
}

// remove deletes apps, and uncordons the nodes.
func (l *lab) remove(ctx context.Context, apps ...string) {
	closed, _ := l.cordoned(ctx)
	for _, n := range closed {
		l.must((&nodes{client: l.c}).cordon(ctx, n, nil, nil))
	}
	for _, app := range apps {
		l.must(l.c.AppsV1().Deployments("default").Delete(ctx, app,
			metav1.DeleteOptions{PropagationPolicy: ptr.To(metav1.DeletePropagationForeground)}))
		l.runs(ctx, app, 0)
	}
}

// After an interruption nothing is evicted any more, and no node stays cordoned that has pods.
func (l *lab) interrupted(ctx context.Context) {
	m := l.find(ctx, "")
	if len(m.Moves) != 3 || m.Rounds != 3 {
		l.Fatalf("%+v", m)
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	mover := l.mover()
	evicted := 0
	mover.Progress = func(_ int, what string) {
		if strings.HasPrefix(what, "evicted") {
			evicted++
			cancel()
		}
	}
	out, err := mover.Run(ctx, m)
	if !errors.Is(err, context.Canceled) || evicted != 1 {
		l.Errorf("%+v, %v; %d pods evicted", out, err, evicted)
	}
	ctx = l.Context()
	l.runs(ctx, "web", 4)
	closed, marks := l.cordoned(ctx)
	if len(closed) > 1 || len(marks) > 1 || len(closed) != len(out.Emptied) {
		l.Errorf("cordoned: %v, marked: %v, emptied: %v", closed, marks, out.Emptied)
	}
	for _, n := range closed {
		l.must((&nodes{client: l.c}).cordon(ctx, n, nil, nil))
	}
	l.spread(ctx)
}

// spread makes the scheduler spread the pods of web again.
func (l *lab) spread(ctx context.Context) {
	l.must(l.c.CoreV1().Pods("default").DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{LabelSelector: "app=web"}))
	l.must(wait.PollUntilContextTimeout(ctx, 100*time.Millisecond, time.Minute, true, func(ctx context.Context) (bool, error) {
		on := l.ready(ctx, "web")
		slices.Sort(on)
		there, err := l.c.CoreV1().Pods("default").List(ctx, metav1.ListOptions{LabelSelector: "app=web"})
		return len(on) == 4 && len(slices.Compact(on)) == 4 && err == nil && len(there.Items) == 4, nil
	}))
	l.allows(ctx, "web", 1)
}

// Three of four nodes become empty, one pod at a time as the budget says, and never more than one pod is away.
func (l *lab) nodes(ctx context.Context) {
	m := l.find(ctx, "")
	watch, stop := context.WithCancel(ctx)
	var watching sync.WaitGroup
	least := 4
	watching.Go(func() {
		for watch.Err() == nil {
			pods, err := l.c.CoreV1().Pods("default").List(watch, metav1.ListOptions{LabelSelector: "app=web"})
			if err != nil {
				return
			}
			n := 0
			for i := range pods.Items {
				if (&due{pod: &pods.Items[i]}).back() && pods.Items[i].DeletionTimestamp == nil {
					n++
				}
			}
			least = min(least, n)
		}
	})
	out, err := l.mover().Run(ctx, m)
	stop()
	watching.Wait()
	l.must(err)
	on := l.ready(ctx, "web")
	closed, marks := l.cordoned(ctx)
	var text bytes.Buffer
	l.must(out.WriteText(&text))
	if len(out.Moved) != 3 || len(out.Stayed)+out.elsewhere() > 0 || !slices.Equal(out.Emptied, m.Freed) || len(m.Freed) != 3 ||
		len(on) != 4 ||
		len(slices.Compact(on)) != 1 || !slices.Equal(closed, m.Freed) || len(marks) != 3 ||
		!strings.Contains(text.String(), "3 pods moved, 0 of them") {
		l.Errorf("%+v\non %v, cordoned %v, %v\n%s", out, on, closed, marks, &text)
	}
	if least < 3 {
		l.Errorf("%d pods were ready for some time; the budget wants 3", least)
	}
	// Nothing is left to do, and moves of before are not possible any more.
	if again := l.find(ctx, ""); len(again.Moves) > 0 {
		l.Errorf("again: %+v", again.Moves)
	}
	stale, err := l.mover().Run(ctx, m)
	if err != nil || len(stale.Moved) > 0 || len(stale.Stayed) != 3 || !strings.Contains(stale.Stayed[0].Why, "it has ended") {
		l.Errorf("stale moves: %+v, %v", stale, err)
	}
}

// Nodes that a killed run had cordoned are given back; those that a run emptied stay.
func (l *lab) killed(ctx context.Context) {
	closed, _ := l.cordoned(ctx)
	list := l.ready(ctx, "web")
	l.must((&nodes{client: l.c, clock: clock.RealClock{}}).close(ctx, list[:1]))
	if source, err := Look(ctx, l.c, time.Now()); err != nil || !strings.Contains(strings.Join(source.Notes, "\n"), "is at work: "+list[0]) {
		l.Errorf("a look notes %q, %v", source.Notes, err)
	}
	got, err := Release(ctx, l.c)
	after, _ := l.cordoned(ctx)
	if err != nil || !slices.Equal(got, list[:1]) || !slices.Equal(after, closed) {
		l.Errorf("released %v, %v; cordoned %v, before %v", got, err, after, closed)
	}
	for _, n := range closed {
		l.must((&nodes{client: l.c}).cordon(ctx, n, nil, nil))
	}
}

// A pod whose owner makes no new one stops the moves.
func (l *lab) lost(ctx context.Context) {
	owner, err := l.c.CoreV1().ConfigMaps("default").Create(ctx, &v1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "owner"}},
		metav1.CreateOptions{})
	l.must(err)
	template := podOf("single", "web", "1")
	template.Spec.NodeName = l.ready(ctx, "web")[0]
	kind := v1.SchemeGroupVersion.WithKind("ConfigMap")
	_, err = l.c.CoreV1().Pods("default").Create(ctx, &v1.Pod{ObjectMeta: metav1.ObjectMeta{
		Name: "single", Labels: template.Labels, OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(owner, kind)},
	}, Spec: template.Spec}, metav1.CreateOptions{})
	l.must(err)
	l.runs(ctx, "single", 1)
	pod, err := l.c.CoreV1().Pods("default").Get(ctx, "single", metav1.GetOptions{})
	l.must(err)
	to := "web-0"
	if to == pod.Spec.NodeName {
		to = "web-1"
	}
	m := plan.Moves{Rounds: 1, Moves: []plan.Move{{Round: 1, Pod: "default/single", UID: string(pod.UID), From: pod.Spec.NodeName, To: to}}}
	mover := l.mover()
	mover.Wait = 3 * time.Second
	out, err := mover.Run(ctx, m)
	if !errors.Is(err, ErrStopped) || !strings.Contains(err.Error(), "default/single: its owner made no new pod") {
		l.Errorf("%+v, %v", out, err)
	}
}

// Two processes move one after the other.
func (l *lab) alone(ctx context.Context) {
	var at sync.Mutex
	var all sync.WaitGroup
	errs := make(chan error, 2)
	for range 2 {
		all.Go(func() {
			errs <- Alone(ctx, l.c, "default", func(string) {}, func(context.Context) error {
				if !at.TryLock() {
					return errors.New("two work at a time")
				}
				defer at.Unlock()
				time.Sleep(time.Second)
				return nil
			})
		})
	}
	all.Wait()
	l.must(errors.Join(<-errs, <-errs))
	ended, cancel := context.WithCancelCause(ctx)
	cancel(errors.New("over"))
	if err := Alone(ended, l.c, "default", func(string) {}, func(context.Context) error { return nil }); err == nil || err.Error() != "over" {
		l.Errorf("an ended context: %v", err)
	}
}
