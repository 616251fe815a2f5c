//go:build !service && !k136

package compare

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	kwokapis "sigs.k8s.io/karpenter/kwok/apis"
	"sigs.k8s.io/karpenter/pkg/apis"
	"sigs.k8s.io/yaml"

	"gnnsched/cmd/internal/recording"
	"gnnsched/internal/fatal"
	"gnnsched/internal/logging"
	"gnnsched/scheduler/autoscale"
	"gnnsched/scheduler/eval/testbed"
	"gnnsched/scheduler/eval/testbed/inprocess"
	"gnnsched/scheduler/objective"
	"gnnsched/scheduler/replay"
	"gnnsched/scheduler/server"
)

var karpenterDir = flag.String("karpenter", "",
	"`folder`, named for a run, for records of workloads under Karpenter's controller and for figures.csv; those that it has are only replayed")

// TestKarpenter plays workloads on a simulated cluster under Karpenter's controller with its KWOK provider, in real time, and records them.
// Replays of each record with --autoscaler karpenter then pay about the same.
func TestKarpenter(t *testing.T) {
	if *karpenterDir == "" {
		t.Skip("takes half an hour in real time: docs/results.sh karpenter")
	}
	logging.DropKlog()
	module := goList(t, "-m", "-f", "{{.Dir}}", "sigs.k8s.io/karpenter")
	controller := filepath.Join(t.TempDir(), "karpenter")
	if out, err := exec.CommandContext(t.Context(), "go", "build", "-o", controller, "sigs.k8s.io/karpenter/kwok").CombinedOutput(); err != nil {
		t.Fatalf("build Karpenter: %v: %s", err, out)
	}
	catalog := typesThatBoot(t, filepath.Join(module, "kwok/cloudprovider/instance_types.json"))
	for _, w := range workloads {
		t.Run(w.name, func(t *testing.T) { w.judge(t, controller, catalog) })
	}
}

func goList(t *testing.T, args ...string) string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "go", append([]string{"list"}, args...)...).Output()
	fatal.If(t, err)
	return strings.TrimSpace(string(out))
}

// The provider's nodes register after a delay; a second later they take pods.
const (
	registers = "9s"
	boots     = "10s"
)

// typesThatBoot returns the KWOK provider's types with the time that its machines take.
func typesThatBoot(t *testing.T, path string) []byte {
	t.Helper()
	text, err := os.ReadFile(path)
	fatal.If(t, err)
	var all []map[string]any
	fatal.If(t, json.Unmarshal(text, &all))
	for _, x := range all {
		x["boot"] = boots
	}
	text, err = json.Marshal(all)
	fatal.If(t, err)
	return text
}

// workload is what happens on a cluster.
type workload struct {
	name  string
	pools string // NodePools
	sets  []set
	steps []step
	lasts time.Duration
}

// set is a Deployment, or a DaemonSet if it has no steps.
type set struct {
	name, cpu, memory string
	daemon            bool
	change            func(*corev1.PodTemplateSpec)
}

// step gives a Deployment a number of replicas.
type step struct {
	at       time.Duration
	name     string
	replicas int
}

// nodePool returns a NodePool in YAML.
func nodePool(name, capacity, disruption, more string) string {
	return fmt.Sprintf(`---
apiVersion: karpenter.sh/v1
kind: NodePool
metadata: {name: %s}
spec:
  %s
  disruption: %s
  template:
    spec:
      expireAfter: Never
      nodeClassRef: {group: karpenter.kwok.sh, kind: KWOKNodeClass, name: default}
      requirements:
      - {key: kubernetes.io/arch, operator: In, values: [amd64]}
      - {key: kubernetes.io/os, operator: In, values: [linux]}
      - {key: karpenter.sh/capacity-type, operator: In, values: [%s]}
      - {key: node.kubernetes.io/instance-type, operator: In, values: [%s]}
`, name, more, disruption, capacity, strings.Join(small, ", "))
}

// small are the types with at most eight cores.
var small = func() (out []string) {
	for _, family := range []string{"c", "s", "m"} {
		for _, cores := range []int{1, 2, 4, 8} {
			out = append(out, fmt.Sprintf("%s-%dx-amd64-linux", family, cores))
		}
	}
	return out
}()

const nodeClass = `---
apiVersion: karpenter.kwok.sh/v1alpha1
kind: KWOKNodeClass
metadata: {name: default}
spec: {nodeRegistrationDelay: ` + registers + "}\n"

func in(zone string) func(*corev1.PodTemplateSpec) {
	return func(p *corev1.PodTemplateSpec) {
		p.Spec.NodeSelector = map[string]string{corev1.LabelTopologyZone: zone}
	}
}

func onDemand(p *corev1.PodTemplateSpec) {
	p.Spec.NodeSelector = map[string]string{"karpenter.sh/capacity-type": "on-demand"}
}

func apart(p *corev1.PodTemplateSpec) {
	p.Spec.Affinity = &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{{
		TopologyKey: corev1.LabelHostname, LabelSelector: &metav1.LabelSelector{MatchLabels: p.Labels}}}}}
}

const eager = `{consolidateAfter: 20s, budgets: [{nodes: "100%"}]}`

// drip is a Deployment that grows step by step.
func drip(name string, from, every time.Duration, by, times int) (out []step) {
	for i := range times {
		out = append(out, step{from + time.Duration(i)*every, name, by * (i + 1)})
	}
	return out
}

var workloads = []workload{{
	name: "burst", pools: nodePool("default", "on-demand", eager, ""), lasts: 150 * time.Second,
	sets:  []set{{name: "small", cpu: "500m", memory: "1Gi"}, {name: "even", cpu: "1", memory: "4Gi"}, {name: "large", cpu: "3", memory: "6Gi"}},
	steps: []step{{5 * time.Second, "small", 30}, {5 * time.Second, "even", 20}, {5 * time.Second, "large", 8}},
}, {
	name: "drip", pools: nodePool("default", "on-demand", eager, ""), lasts: 240 * time.Second,
	sets:  []set{{name: "web", cpu: "800m", memory: "1500Mi"}},
	steps: drip("web", 5*time.Second, 12*time.Second, 3, 12),
}, {
	name: "up-and-down", pools: nodePool("default", "on-demand", eager, ""), lasts: 300 * time.Second,
	sets: []set{{name: "web", cpu: "900m", memory: "2Gi"}, {name: "cache", cpu: "500m", memory: "6Gi"}},
	steps: []step{{5 * time.Second, "web", 40}, {5 * time.Second, "cache", 15}, {80 * time.Second, "web", 14}, {80 * time.Second, "cache", 5},
		{190 * time.Second, "web", 24}},
}, {
	name: "two-pools", lasts: 270 * time.Second,
	pools: nodePool("spot", "spot", eager, "weight: 10") + nodePool("reserve", "on-demand", `{consolidateAfter: 20s, budgets: [{nodes: "1"}]}`, ""),
	sets: []set{{name: "any", cpu: "700m", memory: "1Gi"}, {name: "paid", cpu: "1200m", memory: "2Gi", change: onDemand},
		{name: "zonal", cpu: "600m", memory: "3Gi", change: in("test-zone-b")}},
	steps: []step{{5 * time.Second, "any", 25}, {5 * time.Second, "paid", 12}, {20 * time.Second, "zonal", 10}, {90 * time.Second, "any", 10},
		{110 * time.Second, "paid", 5}, {180 * time.Second, "zonal", 4}},
}, {
	name: "daemons", pools: nodePool("default", "on-demand", `{consolidateAfter: 20s, budgets: [{nodes: "2"}]}`, ""), lasts: 270 * time.Second,
	sets: []set{{name: "agent", cpu: "250m", memory: "256Mi", daemon: true}, {name: "apart", cpu: "600m", memory: "1Gi", change: apart},
		{name: "web", cpu: "400m", memory: "700Mi"}},
	steps: []step{{5 * time.Second, "apart", 6}, {5 * time.Second, "web", 30}, {70 * time.Second, "web", 12}, {150 * time.Second, "apart", 3}},
}}

// judge plays the workload under the controller, and replays its record.
func (w *workload) judge(t *testing.T, controller string, catalog []byte) {
	text := []byte(nodeClass + w.pools)
	seen := &kubeconfigOf{Launcher: inprocess.Launcher{}}
	cfg := testbed.Config{Name: "karpenter", Launcher: seen, Nodes: testbed.Nodes{Pools: []byte(ownNode)},
		Scheduler: server.Config{Profiles: []server.Profile{{SchedulerName: server.DefaultProfile,
			Args: server.Args{Variant: server.DefaultProfile}}}}}
	l := &karpenterLive{chain: &chain{T: t, ctx: t.Context(), dir: filepath.Join(*karpenterDir, w.name+".record")}, workload: w, bought: map[string]*bought{}}
	machines := filepath.Join(*karpenterDir, w.name+".json")
	if saved, err := os.ReadFile(machines); err == nil {
		fatal.If(t, json.Unmarshal(saved, &l.bought))
		l.replay(text, catalog)
		return
	}
	fatal.If(t, testbed.Run(t.Context(), cfg, func(ctx context.Context, b *testbed.Bed) error {
		l.Bed, l.ctx = b, ctx
		if err := l.install(text); err != nil {
			return err
		}
		t.Setenv("KUBECONFIG", seen.path)
		log := filepath.Join(t.TempDir(), "karpenter.log")
		p, err := testbed.Start("Karpenter", log, controller,
			"--disable-leader-election", "--metrics-port=0", "--health-probe-port=0", "--disable-cluster-state-observability")
		if err != nil {
			return err
		}
		defer func() {
			if err := p.Stop(); err != nil {
				t.Error(err)
			}
			if text, err := os.ReadFile(log); err == nil && t.Failed() {
				t.Logf("Karpenter's log:\n%s", text)
			}
		}()
		l.play(seen.path)
		return nil
	}))
	saved, err := json.Marshal(l.bought)
	fatal.If(t, err)
	fatal.If(t, os.WriteFile(machines, saved, 0o600))
	l.replay(text, catalog)
}

// ownNode is a node that pods do not go to. A cluster cannot be without any.
const ownNode = `pools: [{name: own, count: 1, capacity: {cpu: 3, memory: 5Gi}, taints: [{key: own, effect: NoSchedule}]}]`

// karpenterLive is a workload on a cluster.
type karpenterLive struct {
	*chain
	workload *workload
	objects  dynamic.Interface

	bought map[string]*bought // by NodeClaim
}

// bought is a machine.
type bought struct {
	autoscale.Launch
	From, To, Ready time.Time
}

// install makes Karpenter's kinds of objects, the NodePools and the owners of pods.
func (l *karpenterLive) install(pools []byte) error {
	var err error
	if l.objects, err = dynamic.NewForConfig(l.REST); err != nil {
		return err
	}
	for _, text := range [][]byte{apis.NodePoolCRD, apis.NodeClaimCRD, apis.NodeOverlayCRD, apis.CapacityBufferCRD} {
		if err := l.object(text); err != nil {
			return err
		}
	}
	for _, crd := range kwokapis.CRDs {
		text, err := json.Marshal(crd)
		if err != nil {
			return err
		}
		if err := l.object(text); err != nil {
			return err
		}
	}
	for text := range bytes.SplitSeq(pools, []byte("---\n")) {
		if len(text) == 0 {
			continue
		}
		if err := l.object(text); err != nil {
			return err
		}
	}
	for _, s := range l.workload.sets {
		if err := l.owner(s); err != nil {
			return err
		}
	}
	return nil
}

// object creates an object, as eager as the API server knows its kind.
func (l *karpenterLive) object(text []byte) error {
	u := &unstructured.Unstructured{}
	if err := yaml.Unmarshal(text, &u.Object); err != nil {
		return err
	}
	kind := u.GroupVersionKind()
	plural := kind.GroupVersion().WithResource(strings.ToLower(kind.Kind) + map[bool]string{true: "es", false: "s"}[strings.HasSuffix(kind.Kind, "s")])
	unstructured.RemoveNestedField(u.Object, "status")
	var err error
	l.until(kind.Kind+" "+u.GetName(), func() bool {
		_, err = l.objects.Resource(plural).Create(l.ctx, u, metav1.CreateOptions{})
		return err == nil || !strings.Contains(err.Error(), "could not find the requested resource")
	})
	return err
}

// owner creates a DaemonSet, or a Deployment without pods.
func (l *karpenterLive) owner(s set) error {
	labels := map[string]string{"app": s.name}
	pod := corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: chainPod("", "", s.cpu, nil).Spec}
	pod.Spec.NodeSelector = nil
	requests := pod.Spec.Containers[0].Resources.Requests
	requests[corev1.ResourceMemory] = resource.MustParse(s.memory)
	if s.change != nil {
		s.change(&pod)
	}
	meta, selector := metav1.ObjectMeta{Name: s.name, Namespace: "default"}, &metav1.LabelSelector{MatchLabels: labels}
	var err error
	if s.daemon {
		_, err = l.Client.AppsV1().DaemonSets("default").Create(l.ctx,
			&appsv1.DaemonSet{ObjectMeta: meta, Spec: appsv1.DaemonSetSpec{Selector: selector, Template: pod}}, metav1.CreateOptions{})
	} else {
		_, err = l.Client.AppsV1().Deployments("default").Create(l.ctx, &appsv1.Deployment{ObjectMeta: meta,
			Spec: appsv1.DeploymentSpec{Replicas: new(int32(0)), Selector: selector, Template: pod}}, metav1.CreateOptions{})
	}
	return err
}

var nodeClaims = schema.GroupVersionResource{Group: apis.Group, Version: "v1", Resource: "nodeclaims"}

// play records the workload while its steps are taken.
func (l *karpenterLive) play(kubeconfig string) {
	l.Helper()
	l.until("Karpenter is ready", func() bool {
		list, err := l.objects.Resource(nodeClaims.GroupVersion().WithResource("nodepools")).List(l.ctx, metav1.ListOptions{})
		return err == nil && !slices.ContainsFunc(list.Items, func(u unstructured.Unstructured) bool { return !isTrue(&u, "Ready") })
	})
	stop := l.follow(kubeconfig)
	l.until("the recorder has the node", func() bool { return len(l.nodes()) == 1 })
	watching, end := context.WithCancel(l.ctx)
	var watch sync.WaitGroup
	watch.Go(func() { l.watch(watching) })
	start := time.Now()
	for _, s := range l.workload.steps {
		l.sleep(time.Until(start.Add(s.at)))
		patch := fmt.Sprintf(`{"spec":{"replicas":%d}}`, s.replicas)
		_, err := l.Client.AppsV1().Deployments("default").Patch(l.ctx, s.name, types.MergePatchType, []byte(patch), metav1.PatchOptions{})
		fatal.If(l.T, err)
	}
	l.sleep(time.Until(start.Add(l.workload.lasts)))
	stop()
	end()
	watch.Wait()
}

func (l *karpenterLive) sleep(d time.Duration) {
	select {
	case <-l.ctx.Done():
	case <-time.After(d):
	}
}

// watch sees machines come and go.
func (l *karpenterLive) watch(ctx context.Context) {
	for ctx.Err() == nil {
		list, err := l.objects.Resource(nodeClaims).List(ctx, metav1.ListOptions{})
		now, there := time.Now(), map[string]bool{}
		for i := 0; err == nil && i < len(list.Items); i++ {
			u := &list.Items[i]
			there[u.GetName()] = true
			m := l.bought[u.GetName()]
			if m == nil {
				m = &bought{From: now}
				l.bought[u.GetName()] = m
			}
			labels := u.GetLabels()
			m.Launch = autoscale.Launch{Name: u.GetName(), Pool: labels["karpenter.sh/nodepool"], Type: labels[corev1.LabelInstanceTypeStable],
				Zone: labels[corev1.LabelTopologyZone], Spot: labels["karpenter.sh/capacity-type"] == "spot"}
			if m.Ready.IsZero() && isTrue(u, "Initialized") {
				m.Ready = now
			}
		}
		for name, m := range l.bought {
			if err == nil && !there[name] && m.To.IsZero() {
				m.To = now
			}
		}
		l.sleep(200 * time.Millisecond)
	}
}

// isTrue reports whether a condition of an object is true.
func isTrue(u *unstructured.Unstructured, condition string) bool {
	all, _, _ := unstructured.NestedSlice(u.Object, "status", "conditions")
	return slices.ContainsFunc(all, func(x any) bool {
		c, is := x.(map[string]any)
		return is && c["type"] == condition && c["status"] == "True"
	})
}

// spy is a scaler that notes the machines that it starts.
type spy struct {
	autoscale.Scaler
	bought map[string]*bought
}

// Step implements autoscale.Scaler.
func (s *spy) Step(ctx context.Context, c *autoscale.Cluster) (autoscale.Plan, error) {
	plan, err := s.Scaler.Step(ctx, c)
	there := map[string]bool{}
	for i := range c.Nodes {
		n := &c.Nodes[i]
		there[n.Object.Name] = true
		if m := s.bought[n.Object.Name]; m != nil && m.Ready.IsZero() && n.Ready {
			m.Ready = c.Now
		}
	}
	for name, m := range s.bought {
		if !there[name] && m.To.IsZero() {
			m.To = c.Now
		}
	}
	for _, l := range plan.Start {
		s.bought[l.Name] = &bought{Launch: l, From: c.Now}
	}
	return plan, err
}

// replay plays the record again, and compares.
func (l *karpenterLive) replay(pools, catalog []byte) {
	s, err := recording.Open(l.dir, replay.Window{Nodeless: true}, io.Discard)
	fatal.If(l.T, err)
	scaling, err := setting{Scaler: "karpenter", Types: catalog, Pools: pools}.scaling()
	fatal.If(l.T, err)
	decoded, err := server.Config{Profiles: []server.Profile{{SchedulerName: server.DefaultProfile,
		Args: server.Args{Variant: server.DefaultProfile}}}, QPS: 1}.Decode()
	fatal.If(l.T, err)
	term, err := objective.Parse("balance")
	fatal.If(l.T, err)
	from, to := time.UnixMilli(s.From), time.UnixMilli(s.To)
	really := sum(scaling.Catalog, l.bought, to)
	l.Logf("really: %.4f hours, %.4f paid\n%s", really.hours, really.paid, timeline(l.bought, from))
	start, seeds := scaling.New, uint64(5)
	var replayed bill
	off := 0.0
	for seed := range seeds {
		all := map[string]*bought{}
		scaling.New = func(c *autoscale.Catalog, seed uint64) (autoscale.Scaler, error) {
			x, err := start(c, seed)
			return &spy{x, all}, err
		}
		_, err := replay.Run(l.Context(), s, replay.Config{Profile: decoded.Profiles[0], Objective: term, Scaling: scaling, Blocks: 1, Seed: seed})
		fatal.If(l.T, err)
		got := sum(scaling.Catalog, all, to)
		replayed.hours += got.hours / float64(seeds)
		replayed.paid += got.paid / float64(seeds)
		off += 100 * apartBy(got.order, really.order) / float64(seeds)
		l.Logf("replayed with seed %d: %.4f hours, %.4f paid\n%s", seed, got.hours, got.paid, timeline(all, from))
	}
	l.write(really, replayed, off)
	if d := 100 * math.Abs(replayed.paid/really.paid-1); d > mostOff {
		l.Errorf("the replays pay %.1f %% more or less, at most %d %% are expected", d, mostOff)
	}
}

// mostOff is by how many percent replays may pay more or less than the controller did. Two runs of the controller differ by as much.
const mostOff = 15

// write adds the figures to a file, as rows of docs/results/data.
func (l *karpenterLive) write(really, replayed bill, off float64) {
	f, err := os.OpenFile(filepath.Join(*karpenterDir, "figures.csv"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	fatal.If(l.T, err)
	defer f.Close()
	scenario := l.workload.name + "-" + filepath.Base(*karpenterDir)
	for _, x := range []struct {
		metric     string
		real, here float64
	}{{"node hours", really.hours, replayed.hours}, {"price", really.paid, replayed.paid}} {
		row := func(policy, than string, value float64, percent string) {
			fmt.Fprintf(f, "karpenter,%s,%s,%s,%s,,%.4f,,,%s,\n", scenario, policy, than, x.metric, value, percent)
		}
		row("controller", "", x.real, "")
		row("replay", "", x.here, "")
		row("replay", "controller", x.here-x.real, fmt.Sprintf("%.1f", 100*(x.here/x.real-1)))
	}
	fmt.Fprintf(f, "karpenter,%s,replay,controller,types or order off,,%.0f,,,%.0f,\n", scenario, off, off)
}

// bill is what machines cost.
type bill struct {
	hours, paid float64
	order       []string // types in the order of their starts; of those that start together, by name
}

// together is the time within which the machines of one decision start.
const together = 2 * time.Second

func sum(c *autoscale.Catalog, all map[string]*bought, end time.Time) (out bill) {
	list := byStart(all)
	for i, m := range list {
		to := end
		if !m.To.IsZero() {
			to = m.To
		}
		hours := to.Sub(m.From).Hours()
		out.hours += hours
		out.paid += hours * c.Price(m.Launch)
		out.order = append(out.order, kindOf(m))
		first := i
		for first > 0 && m.From.Sub(list[first-1].From) < together {
			first--
		}
		slices.Sort(out.order[first:])
	}
	return out
}

func kindOf(m *bought) string {
	if m.Spot {
		return m.Type + " spot"
	}
	return m.Type
}

func byStart(all map[string]*bought) (out []*bought) {
	for _, m := range all {
		out = append(out, m)
	}
	slices.SortFunc(out, func(a, b *bought) int { return cmp.Or(a.From.Compare(b.From), cmp.Compare(a.Name, b.Name)) })
	return out
}

// timeline says when machines came and went.
func timeline(all map[string]*bought, start time.Time) string {
	var out strings.Builder
	at := func(t time.Time) string {
		if t.IsZero() {
			return "-"
		}
		return fmt.Sprintf("%.1f", t.Sub(start).Seconds())
	}
	for _, m := range byStart(all) {
		fmt.Fprintf(&out, "   %-30s %-10s %-12s from %s, ready %s, until %s\n", kindOf(m), m.Pool, m.Zone, at(m.From), at(m.Ready), at(m.To))
	}
	return out.String()
}

// apartBy returns how many machines have to be put in, left out or changed to make one order the other, as a share of the longer one.
func apartBy(a, b []string) float64 {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i, x := range a {
		before := row[0]
		row[0] = i + 1
		for j, y := range b {
			same := before
			if x != y {
				same++
			}
			before, row[j+1] = row[j+1], min(same, row[j]+1, row[j+1]+1)
		}
	}
	return float64(row[len(b)]) / math.Max(1, float64(max(len(a), len(b))))
}
