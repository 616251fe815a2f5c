package compare

import (
	"bytes"
	"context"
	"encoding/json"
	"math"
	"path/filepath"
	"slices"
	"testing"
	"time"

	ucli "github.com/urfave/cli/v2"
	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"gnnsched/cmd/internal/convert"
	"gnnsched/internal/cli"
	"gnnsched/internal/exit"
	"gnnsched/internal/logging"
	"gnnsched/scheduler/eval/testbed"
	"gnnsched/scheduler/eval/testbed/inprocess"
	"gnnsched/scheduler/server"
	"gnnsched/workload/record"
)

// A cluster's default scheduler places pods with constraints while `gnnsched record` follows. `gnnsched compare` then agrees with the API
// server about the real outcome, and the simulated default scheduler comes close to it.
func TestChain(t *testing.T) {
	logging.DropKlog()
	seen := &kubeconfigOf{Launcher: inprocess.Launcher{}}
	cfg := testbed.Config{Name: "chain", Launcher: seen, Nodes: testbed.Nodes{Pools: []byte(chainPools)},
		Scheduler: server.Config{Profiles: []server.Profile{{SchedulerName: server.DefaultProfile,
			Args: server.Args{Variant: server.DefaultProfile}}}}}
	dir := filepath.Join(t.TempDir(), "chain.record")
	err := testbed.Run(context.Background(), cfg, func(ctx context.Context, b *testbed.Bed) error {
		c := &chain{T: t, Bed: b, ctx: ctx, dir: dir}
		stop := c.follow(seen.path)
		c.until("the recorder has the nodes", func() bool { return len(c.nodes()) == 6 })
		c.deploy()
		counts := c.hold()
		stop()
		c.checkHold(counts)
		c.checkWhole(counts)
		c.checkOwners(seen.path)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// kubeconfigOf remembers the kubeconfig of its launched cluster.
type kubeconfigOf struct {
	testbed.Launcher
	path string
}

func (k *kubeconfigOf) Launch(ctx context.Context, n testbed.Nodes, folder, log string) (testbed.Cluster, error) {
	c, err := k.Launcher.Launch(ctx, n, folder, log)
	if err == nil {
		k.path = c.Kubeconfig()
	}
	return c, err
}

const chainPools = `pools:
  - {name: web, count: 4, capacity: {cpu: 4, memory: 16Gi}, labels: {tier: web}, zones: [a, b]}
  - {name: big, count: 1, capacity: {cpu: 8, memory: 32Gi}, labels: {tier: big}, zone: a}
  - {name: gpu, count: 1, capacity: {cpu: 8, memory: 32Gi}, labels: {tier: gpu}, zone: b, taints: [{key: gpu, value: "yes", effect: NoSchedule}]}
`

// chain is a cluster that is recorded.
type chain struct {
	*testing.T
	*testbed.Bed
	ctx context.Context
	dir string // of the record
}

// follow runs `gnnsched record` until stop is called.
func (c *chain) follow(kubeconfig string) (stop func()) {
	ctx, cancel := context.WithCancel(c.ctx)
	var errs bytes.Buffer
	app := &ucli.App{Name: "gnnsched", Writer: &errs, ErrWriter: &errs, Commands: []*ucli.Command{convert.RecordCommand()}}
	ended := make(chan int, 1)
	go func() {
		ended <- cli.RunContext(ctx, app, []string{
			"gnnsched", "record", "--log-dir", "", "--log-level", "warn", "--kubeconfig", kubeconfig, "--out", c.dir, "--flush", "1s", "--usage", "0",
		})
	}()
	return func() {
		cancel()
		if code := <-ended; code != exit.OK {
			c.Errorf("record ended with code %d: %s", code, errs.String())
		}
	}
}

func (c *chain) until(what string, ok func() bool) {
	c.Helper()
	for !ok() {
		select {
		case <-c.ctx.Done():
			c.Fatalf("%s: %v", what, context.Cause(c.ctx))
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// nodes returns the nodes recorded so far.
func (c *chain) nodes() []record.Node {
	r, err := record.Open(c.dir)
	if err != nil {
		return nil
	}
	out, err := r.Nodes()
	if err != nil {
		c.Fatal(err)
	}
	return out
}

// recorded returns the number of recorded pods that have ended, and the end of the record.
func (c *chain) recorded() (ended int, to int64) {
	r, err := record.Open(c.dir)
	if err != nil {
		c.Fatal(err)
	}
	pods, err := r.Pods()
	if err != nil {
		c.Fatal(err)
	}
	runs, err := r.Runs()
	if err != nil {
		c.Fatal(err)
	}
	for _, p := range pods {
		if p.Ended != 0 {
			ended++
		}
	}
	return ended, runs[len(runs)-1].To
}

// chainPod returns a pod for the nodes of a tier.
func chainPod(name, tier, cpu string, change func(*corev1.Pod)) *corev1.Pod {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default", Labels: map[string]string{"app": tier}},
		Spec: corev1.PodSpec{
			TerminationGracePeriodSeconds: ptr.To[int64](0), NodeSelector: map[string]string{"tier": tier},
			Containers: []corev1.Container{{Name: "c", Image: "i", Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{
				"cpu": resource.MustParse(cpu), "memory": resource.MustParse("1Gi"),
			}}}},
		}}
	if change != nil {
		change(p)
	}
	return p
}

func (c *chain) create(pods ...*corev1.Pod) {
	c.Helper()
	for _, p := range pods {
		if _, err := c.Client.CoreV1().Pods("default").Create(c.ctx, p, metav1.CreateOptions{}); err != nil {
			c.Fatal(err)
		}
	}
}

func (c *chain) remove(name string) {
	c.Helper()
	if err := c.Client.CoreV1().Pods("default").Delete(c.ctx, name, metav1.DeleteOptions{}); err != nil {
		c.Fatal(err)
	}
}

// pods returns the pods that are there, and whether each has a node.
func (c *chain) pods() map[string]corev1.Pod {
	list, err := c.Client.CoreV1().Pods("default").List(c.ctx, metav1.ListOptions{})
	if err != nil {
		c.Fatal(err)
	}
	out := map[string]corev1.Pod{}
	for _, p := range list.Items {
		out[p.Name] = p
	}
	return out
}

// bound waits until pods have nodes.
func (c *chain) bound(names ...string) {
	c.Helper()
	c.until("pods get nodes", func() bool {
		have := c.pods()
		return !slices.ContainsFunc(names, func(n string) bool { return have[n].Spec.NodeName == "" })
	})
}

// deploy creates pods with a constraint of each kind. In the end, chainAlive have nodes and one waits; chainEnded have gone.
func (c *chain) deploy() {
	c.Helper()
	for name, value := range map[string]int32{"low": -10, "high": 1000} {
		if _, err := c.Client.SchedulingV1().PriorityClasses().Create(c.ctx,
			&schedulingv1.PriorityClass{ObjectMeta: metav1.ObjectMeta{Name: name}, Value: value}, metav1.CreateOptions{}); err != nil {
			c.Fatal(err)
		}
	}
	web := &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}}
	spread := func(p *corev1.Pod) {
		p.Spec.TopologySpreadConstraints = []corev1.TopologySpreadConstraint{{
			MaxSkew: 1, TopologyKey: corev1.LabelHostname, WhenUnsatisfiable: corev1.DoNotSchedule, LabelSelector: web,
		}}
	}
	alone := func(p *corev1.Pod) {
		p.Labels["app"] = "alone"
		p.Spec.Affinity = &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{{
			TopologyKey: corev1.LabelTopologyZone, LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "alone"}}}}}}
	}
	port := func(p *corev1.Pod) {
		p.Spec.Containers[0].Ports = []corev1.ContainerPort{{ContainerPort: 80, HostPort: 8080}}
	}
	class := func(name string) func(*corev1.Pod) {
		return func(p *corev1.Pod) { p.Spec.PriorityClassName = name }
	}
	c.create(chainPod("web-0", "web", "1", spread), chainPod("web-1", "web", "1", spread), chainPod("web-2", "web", "1", spread),
		chainPod("web-3", "web", "1", spread))
	c.create(chainPod("alone-0", "web", "1", alone), chainPod("alone-1", "web", "1", alone), chainPod("gpu", "gpu", "1", func(p *corev1.Pod) {
		p.Spec.Tolerations = []corev1.Toleration{{Key: "gpu", Operator: corev1.TolerationOpExists}}
	}))
	c.create(chainPod("filler", "big", "5", class("low")), chainPod("port-0", "big", "1", port))
	c.bound("web-0", "web-1", "web-2", "web-3", "alone-0", "alone-1", "gpu", "filler", "port-0")
	c.create(chainPod("refused", "gpu", "1", nil), chainPod("huge", "web", "5", nil), chainPod("port-1", "big", "1", port))
	c.until("pods find no node", func() bool {
		have := c.pods()
		return !slices.ContainsFunc([]string{"refused", "huge", "port-1"}, func(n string) bool { return len(have[n].Status.Conditions) == 0 })
	})
	c.remove("port-0")
	c.bound("port-1")
	c.create(chainPod("urgent", "big", "6", class("high"))) // preempts filler
	c.bound("urgent")
	c.remove("refused")
	c.remove("gpu") // its node is empty then, even if the other pods were placed differently
}

// The expected counts of pods after deploy, by the test's own actions.
const (
	chainPods      = 13
	chainEnded     = 4 // port-0, filler, refused, gpu
	chainNeverRan  = 1 // refused
	chainPreempted = 1 // filler
)

// held has the API server's figures for a stretch of time in which nothing changed, and when it ended.
type held struct {
	from, to            time.Time
	waiting, nodesInUse int
	imbalance           float64
}

// hold waits for a time without changes, and counts by the API server.
func (c *chain) hold() (h held) {
	c.Helper()
	c.until("the record has what ended", func() bool { ended, _ := c.recorded(); return ended == chainEnded })
	h.from = time.Now().Truncate(time.Second).Add(2 * time.Second) // the API's times are whole seconds
	h.to = h.from.Add(2 * time.Second)
	c.until("the record has the time", func() bool { _, to := c.recorded(); return to > h.to.UnixMilli() })
	nodes, err := c.Client.CoreV1().Nodes().List(c.ctx, metav1.ListOptions{})
	if err != nil {
		c.Fatal(err)
	}
	used := map[string]float64{}
	for _, p := range c.pods() {
		if p.Spec.NodeName == "" {
			h.waiting++
			continue
		}
		used[p.Spec.NodeName] += p.Spec.Containers[0].Resources.Requests.Cpu().AsApproximateFloat64()
	}
	h.nodesInUse = len(used)
	var sum, squares float64
	for _, n := range nodes.Items {
		f := used[n.Name] / n.Status.Allocatable.Cpu().AsApproximateFloat64()
		sum, squares = sum+f, squares+f*f
	}
	mean := sum / float64(len(nodes.Items))
	h.imbalance = math.Sqrt(squares/float64(len(nodes.Items)) - mean*mean)
	return h
}

// compare runs `gnnsched compare` on the record.
func (c *chain) compare(args ...string) result {
	c.Helper()
	code, out, errs := execute(c.T, append(args, "--profile", "most-allocated", "-o", "json", c.dir)...)
	var r result
	if err := json.Unmarshal([]byte(out), &r); code != exit.OK || err != nil {
		c.Fatalf("code %d, %v: %s", code, err, errs)
	}
	return r
}

// checkHold compares the time without changes with the API server's counts.
func (c *chain) checkHold(h held) {
	c.Helper()
	r := c.compare("--from", h.from.UTC().Format(time.RFC3339), "--to", h.to.UTC().Format(time.RFC3339))
	for _, row := range r.Rows { // in a time without arrivals, all profiles have the real state
		f := row.Figures
		if math.Abs(f["waiting_pods"]-float64(h.waiting)) > 1e-6 || math.Abs(f["nodes_in_use"]-float64(h.nodesInUse)) > 1e-6 ||
			math.Abs(f["imbalance"]-h.imbalance) > 1e-6 || row.Unscheduled != float64(h.waiting) {
			c.Errorf("%s says %+v, the API server %+v", row.Name, row, h)
		}
	}
	if h.waiting != 1 {
		c.Errorf("%d pods wait, want huge", h.waiting)
	}
}

// checkWhole compares the whole record with the test's actions, and the simulated default scheduler with the real one.
func (c *chain) checkWhole(h held) {
	c.Helper()
	r := c.compare()
	real, present, other := r.Rows[0], r.Rows[1], r.Rows[2]
	if real.Name != reality || real.Pods != chainPods || real.NeverRan != chainNeverRan || real.Preempted != chainPreempted ||
		real.Unscheduled != float64(h.waiting) {
		c.Errorf("really: %+v", real)
	}
	for _, x := range []row{present, other} { // the constraints leave no choice about these
		if x.Pods != real.Pods || x.NeverRan != real.NeverRan || x.Preempted != real.Preempted || x.Unscheduled != real.Unscheduled ||
			x.Refused+x.Fallbacks != 0 {
			c.Errorf("%s: %+v, really %+v", x.Name, x, real)
		}
	}
	late := real.Figures["waiting_pods"] - present.Figures["waiting_pods"] // pods that waited for the scheduler's answer, on average
	if late < -0.1 || present.Figures["wait_s"] > real.Figures["wait_s"]+0.1 {
		c.Errorf("simulated pods wait longer: %v and %v, really %v and %v",
			present.Figures["waiting_pods"], present.Figures["wait_s"], real.Figures["waiting_pods"], real.Figures["wait_s"])
	}
	if d := math.Abs(present.Figures["nodes_in_use"] - real.Figures["nodes_in_use"]); d > math.Abs(late)+0.5 {
		c.Errorf("%v nodes in use, really %v, with %v fewer pods that wait", present.Figures["nodes_in_use"], real.Figures["nodes_in_use"], late)
	}
}
