package autoscale

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"gnnsched/internal/fatal"
)

const machineTypes = `
- {name: small, resources: {cpu: 2, memory: 4Gi}, overhead: {}, offerings: [{zone: a, price: 0.1}, {zone: b, price: 0.1}, {zone: a, spot: true, price: 0.03}], boot: 40s}
- {name: large, resources: {cpu: 8, memory: 16Gi, example.com/gpu: 1}, overhead: {}, offerings: [{zone: a, price: 0.4}], labels: {disk: ssd}}
`

const pools = `
apiVersion: karpenter.sh/v1
kind: NodePool
metadata: {name: general}
spec:
  weight: 5
  limits: {cpu: 20}
  template:
    metadata: {labels: {team: web}}
    spec: {requirements: [{key: karpenter.sh/capacity-type, operator: In, values: [on-demand]}]}
---
apiVersion: karpenter.sh/v1
kind: NodePool
metadata: {name: spot}
spec:
  limits: {nodes: 3}
  template:
    spec:
      requirements: [{key: karpenter.sh/capacity-type, operator: In, values: [spot], minValues: 1}]
      taints: [{key: spot, effect: NoSchedule}]
      nodeClassRef: {kind: EC2NodeClass, name: lost}
---
kind: EC2NodeClass
metadata: {name: default}
spec: {amiFamily: AL2023, blockDeviceMappings: []}
---
kind: Service
`

func catalog(t testing.TB) *Catalog {
	t.Helper()
	c, err := Read([]byte(machineTypes), []byte(pools))
	fatal.If(t, err)
	return c
}

func TestRead(t *testing.T) {
	c := catalog(t)
	if len(c.Types) != 2 || len(c.Pools) != 2 || c.Pools[0].Name != "general" || c.Types[0].Boot != 40*time.Second ||
		c.Types[1].Boot != defaultBoot {
		t.Fatalf("%+v", c)
	}
	if notes := strings.Join(c.Notes, "; "); !strings.Contains(notes, "amiFamily, blockDeviceMappings of EC2NodeClass default") || !strings.Contains(notes, "minValues") {
		t.Error(notes)
	}
	l := Launch{Name: "n", Pool: "spot", Type: "small", Zone: "a", Spot: true}
	n := c.Node(l)
	if n.Labels[capacityLabel] != spot || n.Labels[v1.LabelTopologyZone] != "a" || len(n.Spec.Taints) != 1 || c.Price(l) != 0.03 {
		t.Errorf("%+v for %v", n, c.Price(l))
	}
	if got, ok := c.Match(n); !ok || got != l {
		t.Errorf("%+v is %+v", n, got)
	}
	other := n.DeepCopy()
	other.Labels = map[string]string{v1.LabelTopologyZone: "nowhere"}
	other.Spec.Taints = nil
	if got, ok := c.Match(other); !ok || got.Type != "small" || got.Spot || got.Pool != "general" {
		t.Errorf("by its capacity it is %+v", got)
	}
	other.Status.Capacity[v1.ResourceCPU], other.Status.Allocatable[v1.ResourceCPU] = resource.MustParse("3"), resource.MustParse("3")
	if got, ok := c.Match(other); ok {
		t.Errorf("a node of no type is %+v", got)
	}
	if all := c.Offers(&c.Pools[0]); len(all) != 3 {
		t.Errorf("%+v", all)
	}
	example, err := Read(ExampleTypes, nil)
	if err != nil || len(example.Pools) != 1 || len(example.Offers(&example.Pools[0])) == 0 {
		t.Errorf("%+v, %v", example, err)
	}
}

// The form of Karpenter's KWOK provider is read too.
func TestKarpentersForm(t *testing.T) {
	c, err := Read([]byte(`[{"name": "c-1x", "architecture": "x86_64", "operatingSystems": ["linux"], "new": 1,
		"resources": {"cpu": "1", "memory": "2Gi", "pods": "16"}, "offerings": [
		{"Price": 0.02, "Available": true, "Requirements": [{"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["spot"]},
			{"key": "topology.kubernetes.io/zone", "operator": "In", "values": ["z"]}]},
		{"Price": 0.01, "Available": false, "Requirements": []},
		{"Price": 0.05, "Available": true, "Requirements": []}]},
		{"name": "w", "operatingSystems": ["windows"], "resources": {}, "offerings": []}]`), nil)
	fatal.If(t, err)
	x := c.Types[0]
	if len(c.Types) != 1 || !slices.Equal(x.Offerings, []Offering{{Zone: "z", Spot: true, Price: 0.02}, {Price: 0.05}}) ||
		x.Labels[v1.LabelArchStable] != "amd64" {
		t.Errorf("%+v", c.Types)
	}
	if cpu := x.Allocatable[v1.ResourceCPU]; cpu.MilliValue() != 900 || len(c.Notes) != 3 {
		t.Errorf("%v allocatable; %q", &cpu, c.Notes)
	}
}

// classed returns a pool with a class of nodes.
func classed(kubelet string) string {
	return "{kind: NodePool, metadata: {name: p}, spec: {template: {spec: {nodeClassRef: {name: c}}}}}\n---\n" +
		"{kind: EC2NodeClass, metadata: {name: c}, spec: {subnetSelectorTerms: [], kubelet: {" + kubelet + "}}, status: {subnets: [{zone: b}]}}"
}

// The class of a pool says what its kubelets keep, and where its machines can be.
func TestClass(t *testing.T) {
	text := classed("maxPods: 20, podsPerCore: 4, systemReserved: {cpu: 100m, memory: 1Gi}, kubeReserved: {cpu: 100m}, evictionHard: {memory.available: 25%}")
	c, err := Read([]byte(machineTypes), []byte(text))
	fatal.If(t, err)
	offers := c.Offers(&c.Pools[0])
	if len(offers) != 1 || offers[0].Zone != "b" || strings.Contains(strings.Join(c.Notes, ";"), "subnetSelectorTerms") {
		t.Fatalf("%+v, %q", offers, c.Notes)
	}
	n := c.Node(offers[0]).Status.Allocatable
	if n.Cpu().MilliValue() != 1800 || n.Memory().Value() != 2<<30 || n.Pods().Value() != 8 {
		t.Errorf("%v", n)
	}
	if c, err = Read([]byte(machineTypes+"- {name: gone, resources: {cpu: 2, memory: 4Gi}, offerings: [{price: 1, available: false}]}"), nil); err != nil ||
		!strings.Contains(strings.Join(c.Notes, ";"), "1 types without an offering") {
		t.Errorf("%q, %v", c.Notes, err)
	}
}

func TestBadFiles(t *testing.T) {
	one := func(change string) string { return "[{name: x, resources: {cpu: 2, memory: 4Gi}, " + change + "}]" }
	for _, c := range []struct{ types, pools, say string }{
		{"", "", "there are 0"},
		{"{", "", "types: "},
		{one("offerings: [{zone: a}]"), "", "x: an offering has no price"},
		{one("offerings: [{price: -1}]"), "", "price of an offering is -1"},
		{one("offerings: []"), "", "none can be bought"},
		{one("overhead: {cpu: 2}, offerings: [{price: 1}]"), "", "cpu, less overhead"},
		{one("boot: -1s, offerings: [{price: 1}]"), "", "boot is -1s"},
		{one("failures: 1, offerings: [{price: 1}]"), "", "failures is 1"},
		{one("interruptionsPerDay: -2, offerings: [{price: 1}]"), "", "interruptionsPerDay is -2"},
		{"[{name: x}, {name: x}]", "", "resources"},
		{one("offerings: [{price: 1}]"), "kind: Deployment", "there are 0 NodePools"},
		{one("offerings: [{price: 1}]"), "kind: NodePool", "has no name"},
		{one("offerings: [{price: 1}]"), "{kind: NodePool, metadata: {name: p}, spec: {limits: {cpu: -1}}}", "p: its limit of cpu is -1"},
		{one("offerings: [{price: 1}]"), classed("maxPods: 0"), "EC2NodeClass c: kubelet: maxPods is 0"},
		{one("offerings: [{price: 1}]"), classed("evictionHard: {memory.available: 200%}"), "no share of 0 to 100"},
		{one("offerings: [{price: 1}]"), classed("kubeReserved: {cpu: -1}"), "the reserved cpu is -1"},
		{one("offerings: [{price: 1}]"), classed("kubeReserved: {cpu: 3}"), "none of the 1 types"},
		{one("offerings: [{price: 1}]"), "{kind: NodePool, metadata: {name: p}, spec: {template: {spec: {requirements: " +
			"[{key: kubernetes.io/arch, operator: In, values: [arm64]}]}}}}", "none of the 1 types satisfies"},
	} {
		if _, err := Read([]byte(c.types), []byte(c.pools)); err == nil || !strings.Contains(err.Error(), c.say) {
			t.Errorf("%s, %s: %v, want %q", c.types, c.pools, err, c.say)
		}
	}
}

func FuzzRead(f *testing.F) {
	f.Add(machineTypes, pools)
	f.Add(machineTypes, classed("maxPods: 9"))
	f.Add("[]", "null")
	f.Fuzz(func(t *testing.T, machines, pools string) {
		c, err := Read([]byte(machines), []byte(pools))
		if err != nil {
			return
		}
		for i := range c.Pools {
			for _, l := range c.Offers(&c.Pools[i]) {
				if got, ok := c.Match(c.Node(l)); !ok || !(c.Price(got) >= 0) {
					t.Errorf("%+v is not found again", l)
				}
			}
		}
	})
}

var began = time.Unix(1_000_000, 0)

func pod(name string, cpu string, change ...func(*v1.Pod)) *v1.Pod {
	p := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name, Labels: map[string]string{"app": "web"},
		OwnerReferences: []metav1.OwnerReference{{Kind: "ReplicaSet", Name: "web", Controller: new(true)}}}}
	p.Spec.Containers = []v1.Container{{Resources: v1.ResourceRequirements{Requests: v1.ResourceList{
		v1.ResourceCPU: resource.MustParse(cpu), v1.ResourceMemory: resource.MustParse("1Gi")}}}}
	for _, c := range change {
		c(p)
	}
	return p
}

func owner(kind string) func(*v1.Pod) {
	return func(p *v1.Pod) {
		p.OwnerReferences = []metav1.OwnerReference{{Kind: kind, Name: "x", Controller: new(true)}}
	}
}

func several(n int, cpu string, change ...func(*v1.Pod)) (out []*v1.Pod) {
	first := pod("0", cpu, change...)
	for i := range n {
		p := *first
		p.Name = fmt.Sprint(i)
		out = append(out, &p)
	}
	return out
}

// step lets Cluster Autoscaler see waiting pods once.
func step(t *testing.T, expander string, c *Cluster) []string {
	t.Helper()
	s, err := NewClusterAutoscaler(catalog(t), expander, Utilised, 1)
	fatal.If(t, err)
	plan, err := s.Step(t.Context(), c)
	fatal.If(t, err)
	var out []string
	for _, l := range plan.Start {
		out = append(out, l.Pool+" "+l.Type+" "+l.Zone)
	}
	return out
}

func TestUp(t *testing.T) {
	in := func(zone string) func(*v1.Pod) {
		return func(p *v1.Pod) { p.Spec.NodeSelector = map[string]string{v1.LabelTopologyZone: zone} }
	}
	tolerant := func(p *v1.Pod) { p.Spec.Tolerations = []v1.Toleration{{Key: "spot", Operator: v1.TolerationOpExists}} }
	apart := func(p *v1.Pod) {
		p.Spec.Affinity = &v1.Affinity{PodAntiAffinity: &v1.PodAntiAffinity{RequiredDuringSchedulingIgnoredDuringExecution: []v1.PodAffinityTerm{
			{TopologyKey: v1.LabelHostname, LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}}}}}}
	}
	boots := Node{Object: catalog(t).Node(Launch{Name: "b", Pool: "general", Type: "small", Zone: "a"}),
		Launch: Launch{Name: "b", Pool: "general", Type: "small", Zone: "a"}}
	for _, c := range []struct {
		name     string
		cluster  Cluster
		expander string
		want     []string
	}{
		{"nothing waits", Cluster{}, "price", nil},
		{"the cheapest", Cluster{Waiting: several(1, "1")}, "price", []string{"general small a"}},
		{"two share a node", Cluster{Waiting: several(2, "1")}, "price", []string{"general small a"}},
		{"a zone", Cluster{Waiting: several(1, "1", in("b"))}, "price", []string{"general small b"}},
		{"a taint is tolerated, and spot is cheaper", Cluster{Waiting: several(1, "1", tolerant)}, "price", []string{"spot small a"}},
		{"apart", Cluster{Waiting: several(2, "500m", apart)}, "price", []string{"general small a", "general small a"}},
		{"too large for all", Cluster{Waiting: several(1, "9")}, "price", nil},
		{"a limit of 20 cores", Cluster{Waiting: several(5, "7")}, "price", []string{"general large a", "general large a"}},
		{"a limit of 3 machines", Cluster{Waiting: several(9, "2", tolerant, in("a"), func(p *v1.Pod) {
			p.Spec.NodeSelector[capacityLabel] = spot
		})}, "price", []string{"spot small a", "spot small a", "spot small a"}},
		{"a machine boots for it", Cluster{Waiting: several(1, "1"), Nodes: []Node{boots}}, "price", nil},
		{"with a DaemonSet's pod there is room for one", Cluster{Waiting: several(2, "1"), Daemons: several(1, "500m", owner("DaemonSet"))},
			"price", []string{"general small a", "general small a"}},
		{"least waste", Cluster{Waiting: several(1, "1900m")}, "least-waste", []string{"general small a"}},
	} {
		c.cluster.Now = began
		if got := step(t, c.expander, &c.cluster); !slices.Equal(got, c.want) {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
	if got := step(t, "random", &Cluster{Now: began, Waiting: several(1, "1")}); len(got) != 1 {
		t.Errorf("random: %q", got)
	}
	if _, err := NewClusterAutoscaler(catalog(t), "cheap", Utilised, 1); err == nil {
		t.Error("an expander that does not exist")
	}
}

// A node that is used by less than half goes after ten minutes, if its pods may and fit elsewhere.
func TestDown(t *testing.T) {
	node := func(name string, pods ...*v1.Pod) Node {
		l := Launch{Name: name, Pool: "general", Type: "small", Zone: "a"}
		return Node{Object: catalog(t).Node(l), Launch: l, Ready: true, Pods: pods}
	}
	none := &policyv1.PodDisruptionBudget{ObjectMeta: metav1.ObjectMeta{Namespace: "shop"},
		Spec: policyv1.PodDisruptionBudgetSpec{Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}}}}
	some := none.DeepCopy()
	some.Status.DisruptionsAllowed = 1
	bare := func(p *v1.Pod) { p.OwnerReferences = nil }
	system := func(p *v1.Pod) { p.Namespace = metav1.NamespaceSystem }
	note := func(key, value string) func(*v1.Pod) {
		return func(p *v1.Pod) { p.Annotations = map[string]string{key: value} }
	}
	data := func(p *v1.Pod) {
		p.Spec.Volumes = []v1.Volume{{VolumeSource: v1.VolumeSource{EmptyDir: &v1.EmptyDirVolumeSource{}}}}
	}
	foreign := node("f")
	foreign.Launch.Pool = ""
	for _, c := range []struct {
		name    string
		nodes   []Node
		budgets []*policyv1.PodDisruptionBudget
		want    []string
	}{
		{"empty", []Node{node("a")}, nil, []string{"a"}},
		{"only a DaemonSet's pod", []Node{node("a", pod("d", "100m", owner("DaemonSet")))}, nil, []string{"a"}},
		{"of no pool", []Node{foreign}, nil, nil},
		{"used by half", []Node{node("a", pod("x", "1")), node("b", pod("y", "1"))}, nil, nil},
		{"fits elsewhere", []Node{node("a", pod("x", "500m")), node("b", pod("y", "1"))}, nil, []string{"a"}},
		{"fits nowhere", []Node{node("a", pod("x", "500m")), node("b", pod("y", "1600m"))}, nil, nil},
		{"one at a time", []Node{node("a", pod("x", "200m")), node("b", pod("y", "300m")), node("c", pod("z", "1"))}, nil, []string{"a"}},
		{"nobody makes it anew", []Node{node("a", pod("x", "500m", bare)), node("b", pod("y", "1"))}, nil, nil},
		{"its owner allows it", []Node{node("a", pod("x", "500m", bare, note(safeToEvict, "true"))), node("b", pod("y", "1"))}, nil, []string{"a"}},
		{"its owner forbids it", []Node{node("a", pod("x", "500m", note(safeToEvict, "false"))), node("b", pod("y", "1"))}, nil, nil},
		{"local data", []Node{node("a", pod("x", "500m", data)), node("b", pod("y", "1"))}, nil, nil},
		{"local data that may go", []Node{node("a", pod("x", "500m", data, note(localStorage, "v"))), node("b", pod("y", "1"))}, nil,
			[]string{"a"}},
		{"of the system", []Node{node("a", pod("x", "500m", system)), node("b", pod("y", "1"))}, nil, nil},
		{"a budget that allows none", []Node{node("a", pod("x", "500m")), node("b", pod("y", "1"))},
			[]*policyv1.PodDisruptionBudget{none}, nil},
		{"a budget that allows one", []Node{node("a", pod("x", "500m")), node("b", pod("y", "1"))},
			[]*policyv1.PodDisruptionBudget{some}, []string{"a"}},
	} {
		s, err := NewClusterAutoscaler(catalog(t), "price", Utilised, 1)
		fatal.If(t, err)
		look := func(after time.Duration) Plan {
			plan, err := s.Step(t.Context(), &Cluster{Now: began.Add(after), Nodes: c.nodes, Budgets: c.budgets})
			fatal.If(t, err)
			return plan
		}
		if first := look(0); len(first.Remove) > 0 || len(c.want) > 0 && !first.Next.Equal(began.Add(unneededTime)) {
			t.Errorf("%s: at once %+v", c.name, first)
		}
		if got := look(unneededTime); !slices.Equal(got.Remove, c.want) {
			t.Errorf("%s: %q, want %q", c.name, got.Remove, c.want)
		}
	}
}

// After a start, nothing is removed for ten minutes.
func TestDelayAfterAdd(t *testing.T) {
	s, err := NewClusterAutoscaler(catalog(t), "price", Utilised, 1)
	fatal.If(t, err)
	c := catalog(t)
	empty := Node{Object: c.Node(Launch{Name: "e", Pool: "general", Type: "small", Zone: "b"}), Ready: true,
		Launch: Launch{Name: "e", Pool: "general", Type: "small", Zone: "b"}}
	plan, err := s.Step(t.Context(), &Cluster{Now: began, Nodes: []Node{empty}, Waiting: several(1, "7")})
	if err != nil || len(plan.Start) != 1 {
		t.Fatalf("%+v, %v", plan, err)
	}
	var removed time.Duration
	for at := scanInterval; removed == 0 && at < time.Hour; at += scanInterval {
		plan, err := s.Step(t.Context(), &Cluster{Now: began.Add(at), Nodes: []Node{empty}})
		fatal.If(t, err)
		if len(plan.Remove) > 0 {
			removed = at
		}
	}
	if removed != delayAfterAdd+unneededTime {
		t.Errorf("it went after %v", removed)
	}
}
