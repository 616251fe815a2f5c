package plugin

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	kyaml "k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/kubernetes/scheme"
	st "k8s.io/kubernetes/pkg/scheduler/testing"

	"gnnsched/internal/each"
	"gnnsched/internal/fatal"
	"gnnsched/scheduler/policy/preference"
)

// A kind is a kind of manifest: a file of testdata/preferences, and measures of how well its
// preferences are satisfied, of which higher is better.
type kind struct {
	name     string
	measures []measure
	declared bool // the manifests declare the preference
}

var kinds = []kind{
	{"deployment", []measure{nodesUsed, zonesUsed}, false},
	{"deployment-large", []measure{nodesUsed, zonesUsed}, false},
	{"statefulset", []measure{nodesUsed, zonesUsed}, false},
	{"replicationcontroller", []measure{nodesUsed, zonesUsed}, false},
	{"service", []measure{nodesUsed, zonesUsed}, false},
	{"node-affinity", []measure{having("disk", "ssd"), lacking("pool", "spot")}, true},
	{"node-affinity-deployment", []measure{having("disk", "ssd"), lacking("pool", "spot")}, true},
	{"node-affinity-weights", []measure{having("disk", "ssd"), having(v1.LabelTopologyZone, "b")}, true},
	{"pod-affinity-node", []measure{having(v1.LabelHostname, "small-2")}, true},
	{"pod-affinity-zone", []measure{having(v1.LabelTopologyZone, "c"), lacking("pool", "spot")}, true},
	{"pod-anti-affinity-node", []measure{nodesUsed}, true},
	{"pod-anti-affinity-zone", []measure{zonesUsed}, true},
	{"pod-anti-affinity-other", []measure{lacking(v1.LabelTopologyZone, "a")}, true},
	{"others-anti-affinity", []measure{lacking(v1.LabelHostname, "large")}, true},
	{"others-affinity", []measure{having(v1.LabelHostname, "small-0")}, true},
	{"prefer-no-schedule", []measure{lacking("pool", "spot")}, true},
	{"toleration", []measure{having("pool", "spot")}, true},
	{"topology-spread-zone", []measure{evenZones, lacking("pool", "spot")}, true},
	{"topology-spread-node", []measure{nodesUsed}, true},
	{"topology-spread-both", []measure{evenZones, nodesUsed}, true},
	{"image", []measure{having(v1.LabelHostname, "large")}, false},
}

// A measure tells how well the nodes of a manifest's pods satisfy a preference.
type measure struct {
	name string
	of   func(nodes []*v1.Node) int
}

var (
	nodesUsed = measure{"nodes used", func(nodes []*v1.Node) int { return len(count(nodes, v1.LabelHostname)) }}
	zonesUsed = measure{"zones used", func(nodes []*v1.Node) int { return len(count(nodes, v1.LabelTopologyZone)) }}
	evenZones = measure{"minus the skew of the zones", func(nodes []*v1.Node) int {
		n := count(nodes, v1.LabelTopologyZone)
		if len(n) < 3 {
			return -len(nodes)
		}
		per := slices.Collect(maps.Values(n))
		return slices.Min(per) - slices.Max(per)
	}}
)

func having(label, value string) measure {
	return measure{"pods with " + label + "=" + value, func(nodes []*v1.Node) int { return count(nodes, label)[value] }}
}

func lacking(label, value string) measure {
	return measure{"minus the pods with " + label + "=" + value, func(nodes []*v1.Node) int { return -count(nodes, label)[value] }}
}

// count counts the values of a label.
func count(nodes []*v1.Node, label string) map[string]int {
	out := map[string]int{}
	for _, n := range nodes {
		out[n.Labels[label]]++
	}
	return out
}

// suite is the cluster and the manifests of testdata/preferences.
type suite struct {
	cluster clusterState
	objects []runtime.Object     // that own or select pods
	pods    map[string][]*v1.Pod // of each kind
}

func readSuite(t *testing.T) *suite {
	t.Helper()
	s := &suite{pods: map[string][]*v1.Pod{}}
	for _, o := range readManifest(t, "cluster") {
		switch o := o.(type) {
		case *v1.Node:
			s.cluster.nodes = append(s.cluster.nodes, o)
		case *v1.Pod:
			s.cluster.pods = append(s.cluster.pods, o)
		}
	}
	for _, k := range kinds {
		for _, o := range readManifest(t, k.name) {
			s.addObject(k.name, o)
		}
		if len(s.pods[k.name]) < 2 {
			t.Fatalf("%s: %d pods", k.name, len(s.pods[k.name]))
		}
	}
	return s
}

func readManifest(t *testing.T, name string) (out []runtime.Object) {
	t.Helper()
	b := fatal.Value(os.ReadFile(filepath.Join("testdata", "preferences", name+".yaml")))(t)
	docs := kyaml.NewYAMLOrJSONDecoder(bytes.NewReader(b), 4096)
	for {
		var raw runtime.RawExtension
		if err := docs.Decode(&raw); errors.Is(err, io.EOF) {
			return out
		} else if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if len(raw.Raw) == 0 || string(raw.Raw) == "null" {
			continue
		}
		o, _, err := scheme.Codecs.UniversalDeserializer().Decode(raw.Raw, nil, nil)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		out = append(out, o)
	}
}

// addObject adds what Kubernetes' controllers would make of an object.
func (s *suite) addObject(kind string, o runtime.Object) {
	switch o := o.(type) {
	case *appsv1.Deployment:
		set := &appsv1.ReplicaSet{ObjectMeta: metav1.ObjectMeta{Name: kind, Namespace: o.Namespace},
			Spec: appsv1.ReplicaSetSpec{Selector: o.Spec.Selector}}
		s.objects = append(s.objects, set)
		s.addPods(kind, owner("apps/v1", "ReplicaSet", kind), o.Spec.Template, *o.Spec.Replicas)
	case *appsv1.StatefulSet:
		s.objects = append(s.objects, o)
		s.addPods(kind, owner("apps/v1", "StatefulSet", o.Name), o.Spec.Template, *o.Spec.Replicas)
	case *v1.ReplicationController:
		s.objects = append(s.objects, o)
		s.addPods(kind, owner("v1", "ReplicationController", o.Name), *o.Spec.Template, *o.Spec.Replicas)
	case *batchv1.Job:
		s.addPods(kind, owner("batch/v1", "Job", o.Name), o.Spec.Template, *o.Spec.Parallelism)
	default:
		s.objects = append(s.objects, o)
	}
}

func owner(version, kind, name string) metav1.OwnerReference {
	return metav1.OwnerReference{APIVersion: version, Kind: kind, Name: name, Controller: new(true)}
}

func (s *suite) addPods(kind string, by metav1.OwnerReference, template v1.PodTemplateSpec, replicas int32) {
	for i := range replicas {
		name := fmt.Sprint(kind, "-", i)
		s.pods[kind] = append(s.pods[kind], &v1.Pod{
			ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default", UID: types.UID(name), Labels: template.Labels,
				OwnerReferences: []metav1.OwnerReference{by}},
			Spec: template.Spec,
		})
	}
}

// deploy schedules pods one after another and takes them away again. It returns their nodes.
func (b *bed) deploy(t *testing.T, profile string, pods []*v1.Pod) (names []string) {
	t.Helper()
	var bound []*v1.Pod
	for _, p := range pods {
		p = p.DeepCopy()
		r, err := b.decide(profile, p)
		if err != nil {
			t.Fatalf("%s: %v", p.Name, err)
		}
		p.Spec.NodeName = r.SuggestedHost
		fatal.If(t, b.sched.Cache.AddPod(b.log, p))
		bound, names = append(bound, p), append(names, r.SuggestedHost)
	}
	for _, p := range bound {
		fatal.If(t, b.sched.Cache.RemovePod(b.log, p))
	}
	return names
}

// play deploys a kind once and returns its measures.
func (s *suite) play(t *testing.T, b *bed, profile string, k kind) []int {
	t.Helper()
	var nodes []*v1.Node
	for _, name := range b.deploy(t, profile, s.pods[k.name]) {
		nodes = append(nodes, s.cluster.nodes[slices.IndexFunc(s.cluster.nodes, func(n *v1.Node) bool { return n.Name == name })])
	}
	return each.Map(k.measures, func(m measure) int { return m.of(nodes) })
}

// suiteProfiles are the profiles that must satisfy preferences: networks and heuristics, for GPUs
// too. random and gpu-clustering would break most preferences.
var suiteProfiles = []Args{
	{Variant: "gnn"}, {Variant: "dqn"}, {Variant: "acgnn"}, {Variant: "gpu-gnn"},
	{Policy: "linear-pack"}, {Policy: "best-fit"}, {Policy: "kube-scheduler"}, {Policy: "random"}, {Policy: "fgd"}, {Policy: "gpu-clustering"},
}

// shortfalls plays every kind with a profile and returns by how much it falls short of the default
// profile, as lines by kind. Of a few attempts of the default profile, which draws among equal
// nodes, each measure's best one counts. Kinds that declare nothing may fall short by undeclared.
func (s *suite) shortfalls(t *testing.T, args Args, undeclared int) map[string][]string {
	t.Helper()
	profile := args.Variant + args.Policy
	b := newBed(t, profile, args, s.objects...)
	b.load(t, s.cluster)
	out := map[string][]string{}
	for _, k := range kinds {
		ours, best := s.play(t, b, profile, k), s.play(t, b, defaultProfile, k)
		for range 4 {
			for i, v := range s.play(t, b, defaultProfile, k) {
				best[i] = max(best[i], v)
			}
		}
		may := undeclared
		if k.declared {
			may = 0
		}
		for i, m := range k.measures {
			if ours[i] < best[i]-may {
				out[k.name] = append(out[k.name], fmt.Sprintf("%s: %s is %d, with the default profile %d", k.name, m.name, ours[i], best[i]))
			}
		}
	}
	if n, err := Fallbacks(profile); n != 0 || err != nil {
		t.Errorf("%s: %d fallbacks, %v", profile, n, err)
	}
	return out
}

// Every profile satisfies the preferences that manifests declare at least as well as the default profile,
// and where they declare nothing, weighs the spreading of replicas: it uses one node or zone less at most.
func TestPreferencesComeFirst(t *testing.T) {
	s := readSuite(t)
	for _, args := range suiteProfiles {
		t.Run(args.Variant+args.Policy, func(t *testing.T) {
			for _, lines := range s.shortfalls(t, args, 1) {
				t.Error(strings.Join(lines, "\n"))
			}
		})
	}
}

// With preferences: declared, what manifests declare counts as well as with the default profile.
// Replicas that declare nothing may share a node.
func TestDeclaredPreferencesComeFirst(t *testing.T) {
	s := readSuite(t)
	for _, args := range suiteProfiles {
		args.Preferences = preference.Declared
		t.Run(args.Variant+args.Policy, func(t *testing.T) {
			short := s.shortfalls(t, args, 0)
			for _, k := range kinds {
				if k.declared && len(short[k.name]) > 0 {
					t.Error(strings.Join(short[k.name], "\n"))
				}
			}
			if args.Policy == "best-fit" && len(short["deployment"]) == 0 {
				t.Error("best-fit does not pack replicas that declare nothing")
			}
		})
	}
}

// Without preferences the suite fails for every profile, so it can tell.
func TestPreferencesOffFail(t *testing.T) {
	s := readSuite(t)
	missed := map[string]bool{}
	for _, args := range suiteProfiles {
		args.Preferences = preference.Off
		short := s.shortfalls(t, args, 0)
		if len(short) < 5 {
			t.Errorf("%s%s falls short of %d kinds only", args.Variant, args.Policy, len(short))
		}
		for k := range short {
			missed[k] = true
		}
	}
	for _, k := range kinds {
		if !missed[k.name] {
			t.Errorf("every profile satisfies %s without looking at preferences", k.name)
		}
	}
}

// The case that a manifest without preferences used to lose: one large empty node, and four small
// ones that are partly used. The default profile takes three nodes for three replicas.
func TestReplicasTakeSeveralNodes(t *testing.T) {
	s := readSuite(t)
	for _, args := range suiteProfiles {
		profile := args.Variant + args.Policy
		b := newBed(t, profile, args, s.objects...)
		b.load(t, mixedNodes(t))
		for _, p := range []string{profile, defaultProfile} {
			used := map[string]bool{}
			for _, name := range b.deploy(t, p, s.pods["deployment"]) {
				used[name] = true
			}
			if len(used) != 3 {
				t.Errorf("%s puts three replicas on %v", p, slices.Collect(maps.Keys(used)))
			}
		}
	}
}

// mixedNodes returns an empty node of 64 CPUs and four of 16 of which 6 are used, without zones.
func mixedNodes(t *testing.T) (state clusterState) {
	t.Helper()
	size := func(cpu, memory string) map[v1.ResourceName]string {
		return map[v1.ResourceName]string{v1.ResourceCPU: cpu, v1.ResourceMemory: memory, v1.ResourcePods: "110"}
	}
	state.nodes = append(state.nodes, st.MakeNode().Name("large").Capacity(size("64", "256Gi")).Label(v1.LabelHostname, "large").Obj())
	for i := range 4 {
		name := fmt.Sprint("small-", i)
		state.nodes = append(state.nodes, st.MakeNode().Name(name).Capacity(size("16", "64Gi")).Label(v1.LabelHostname, name).Obj())
		state.pods = append(state.pods, st.MakePod().Namespace("default").Name("on-"+name).UID("on-"+
			name).Node(name).Req(size("6", "24Gi")).Obj())
	}
	return state
}

// Images attract no more pods than in the default profile: once the node that has the image is
// fuller than the others, the decider may choose another one.
func TestImagesDoNotFillANode(t *testing.T) {
	const profile, image, pods = "kube-scheduler", "example.com/large:1", 30
	b := newBed(t, profile, Args{Policy: profile})
	var state clusterState
	size := map[v1.ResourceName]string{v1.ResourceCPU: "64", v1.ResourceMemory: "64Gi", v1.ResourcePods: "110"}
	for i := range 6 {
		n := st.MakeNode().Name(fmt.Sprint("n", i)).Capacity(size)
		if i == 3 {
			n.Images(map[string]int64{image: 900 << 20})
		}
		state.nodes = append(state.nodes, n.Obj())
	}
	b.load(t, state)
	var all []*v1.Pod
	for i := range pods {
		p := benchPod(i, 1, "")
		p.Spec.Containers[0].Image = image
		all = append(all, p)
	}
	on := map[string]int{}
	names := b.deploy(t, profile, all)
	for _, name := range names {
		on[name]++
	}
	if names[0] != "n3" {
		t.Errorf("the first pod is on %s, its image on n3", names[0])
	}
	if len(on) != 6 || on["n3"] < pods/6 || on["n3"] > pods/2 {
		t.Errorf("pods by node: %v", on)
	}
}
