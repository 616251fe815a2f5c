package tracerun

import (
	"bytes"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"gnnsched/internal/cluster"
	"gnnsched/internal/cluster/kube"
	"gnnsched/internal/golden"
	"gnnsched/internal/runfolder"
	"gnnsched/scheduler/eval"
	"gnnsched/scheduler/eval/agreement"
	"gnnsched/scheduler/policy/heuristic"
	"gnnsched/scheduler/server"
	"gnnsched/scheduler/sim"
	"gnnsched/workload/driver"
	"gnnsched/workload/trace/openb"
)

func report(fallbacks int) *Report {
	trial := func(policy string, seed uint64, allocated int64) Trial {
		return Trial{
			Policy: policy, Seed: seed, Pods: 100, Bound: 90, Same: 80, SameDevices: 70, Binding: 3 * time.Second, Fallbacks: fallbacks,
			GPU: driver.GPUSummary{
				Capacity: 10_000, Asked: 13_000, Allocated: allocated, AllocatedAtFull: allocated - 100, UnscheduledCPU: 1, UnscheduledShare: 4,
				UnscheduledWhole: 5,
			},
			Simulated: &sim.GPUOutcome{Allocation: 0.95},
		}
	}
	return &Report{
		PodsFile: "/data/openb_pod_list_default.csv", Factor: 1.3, Nodes: 20, GPUs: 10, Policies: []string{"fgd", "kube-scheduler"},
		Seeds:  []uint64{42, 43},
		Trials: []Trial{trial("fgd", 42, 9500), trial("kube-scheduler", 42, 9200), trial("kube-scheduler", 43, 9100), trial("fgd", 43, 9600)},
	}
}

func TestReport(t *testing.T) {
	for name, markdown := range map[string]bool{"report.txt": false, "report.md": true} {
		var b bytes.Buffer
		if err := report(0).Write(&b, markdown); err != nil {
			t.Fatal(err)
		}
		golden.Check(t, name, b.String())
	}
	r := report(3)
	for i := range r.Trials {
		r.Trials[i].Choices = server.ClaimChoices{Taken: 40, Other: 2, None: i % 2}
	}
	var b bytes.Buffer
	if err := r.Write(&b, false); err != nil || !strings.Contains(b.String(), "In 6 decisions upstream's scoring stood in for fgd") ||
		!strings.Contains(b.String(), "Devices for claims, kube-scheduler: 80 pods got those that the policy chose, 4 others, "+
			"and for 1 it chose none.") {
		t.Errorf("%v: %s", err, b.String())
	}
}

// A run folder has the cluster's figures for the seeds that were played with every policy.
func TestReportFolder(t *testing.T) {
	r := report(0)
	for trials, seeds := range map[int]int{4: 2, 3: 1, 1: 0} {
		part := *r
		part.Trials = r.Trials[:trials]
		var episodes []runfolder.Episode
		var differences []runfolder.Difference
		for _, row := range part.Folder() {
			switch x := row.(type) {
			case runfolder.Episode:
				episodes = append(episodes, x)
			case runfolder.Difference:
				differences = append(differences, x)
			}
		}
		if len(episodes) != 2*seeds {
			t.Errorf("%d episodes of %d seeds", len(episodes), seeds)
		}
		if seeds == 2 && (len(differences) != 3 || math.Abs(differences[0].Mean+4) > 1e-9 || episodes[1].Values["gpuAllocation"] != 96 ||
			episodes[1].Seed != 43) {
			t.Errorf("%+v, %+v", episodes[1], differences)
		}
	}
	if rows := (*Report)(nil).Folder(); rows != nil {
		t.Errorf("%v", rows)
	}
}

// The folder of a steady run has the cluster and the simulator.
func TestSteadyFolder(t *testing.T) {
	var names []string
	episodes := 0
	for _, row := range madeSteadyReport().Folder() {
		switch x := row.(type) {
		case runfolder.Scenario:
			names = append(names, x.Name)
		case runfolder.Episode:
			episodes++
		}
	}
	if want := []string{"openb_pod_list_default.csv on a simulated cluster at 95%",
		"openb_pod_list_default.csv in the simulator at 95%"}; !slices.Equal(names, want) || episodes != 12 {
		t.Errorf("%q, %d episodes", names, episodes)
	}
	if rows := (&SteadyReport{}).Folder(); rows != nil {
		t.Errorf("%v", rows)
	}
}

// Devices allocated twice and pods with a wrong device annotation are errors.
func TestCheckAllocation(t *testing.T) {
	node := corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}, Status: corev1.NodeStatus{Allocatable: corev1.ResourceList{}}}
	kube.AddGPUs(node.Status.Allocatable, 2)
	pod := func(name string, r cluster.Resources, index string) corev1.Pod {
		annotations, list := kube.GPUAnnotations(r, nil), kube.GPUResourceList(r)
		p := corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: annotations},
			Spec:       corev1.PodSpec{NodeName: "n", Containers: []corev1.Container{{Resources: corev1.ResourceRequirements{Requests: list}}}},
		}
		if index != "" {
			p.Annotations[kube.GPUIndexAnnotation] = index
		}
		return p
	}
	share, whole := cluster.Resources{GPUMilli: 600}, cluster.Resources{GPU: 1}
	claims := map[string]*resourceapi.ResourceClaim{}
	claim := func(name string, r cluster.Resources, pool string, device, shares string) {
		c := &resourceapi.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: kube.Claim(r, nil)}
		c.Status.Allocation = &resourceapi.AllocationResult{Devices: resourceapi.DeviceAllocationResult{Results: []resourceapi.DeviceRequestAllocationResult{{
			Driver: kube.GPUDriver, Pool: pool, Device: device,
			ConsumedCapacity: map[resourceapi.QualifiedName]resource.Quantity{kube.GPUSharesCapacity: resource.MustParse(shares)},
		}}}}
		claims[name] = c
	}
	claim("share", share, "n", "gpu-0", "600")
	claim("whole", whole, "n", "gpu-1", "1000")
	claim("elsewhere", whole, "m", "gpu-0", "1000")
	claim("few", cluster.Resources{GPU: 2}, "n", "gpu-0", "1000")
	claims["none"] = &resourceapi.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Name: "none"}}
	claiming := func(name, claim string) corev1.Pod {
		p := pod(name, cluster.Resources{}, "")
		p.Spec.ResourceClaims = []corev1.PodResourceClaim{{Name: "gpu", ResourceClaimName: &claim}}
		return p
	}
	waiting := pod("waiting", whole, "")
	waiting.Spec.NodeName = ""
	for _, c := range []struct {
		name string
		pods []corev1.Pod
		want string
	}{
		{"sound", []corev1.Pod{pod("a", share, "0"), pod("b", whole, "1"), pod("c", cluster.Resources{}, ""), waiting}, ""},
		{"twice", []corev1.Pod{pod("a", share, "0"), pod("b", share, "0")}, "1200 thousandths of GPU 0 of n are allocated"},
		{"beside a whole one", []corev1.Pod{pod("a", share, "1"), pod("b", whole, "1")}, "1600 thousandths of GPU 1 of n"},
		{"not told", []corev1.Pod{pod("a", share, "")}, `pod a on n: it asks for 1 GPUs and is on ""`},
		{"too few", []corev1.Pod{pod("a", cluster.Resources{GPU: 2}, "1")}, `pod a on n: it asks for 2 GPUs and is on "1"`},
		{"no such device", []corev1.Pod{pod("a", share, "2")}, `is on "2"`},
		{"claims", []corev1.Pod{claiming("a", "share"), claiming("b", "whole")}, ""},
		{"claim beside an annotation", []corev1.Pod{pod("a", whole, "0"), claiming("b", "share")}, "1600 thousandths of GPU 0 of n"},
		{"claim without an allocation", []corev1.Pod{claiming("a", "none")}, "claim none has no allocation"},
		{"claim of another node", []corev1.Pod{claiming("a", "elsewhere")}, "has 1 of m"},
		{"claim with too few devices", []corev1.Pod{claiming("a", "few")}, "claim few for 2 devices has 1 of n"},
		{"no claim", []corev1.Pod{claiming("a", "gone")}, "claim gone does not exist"},
	} {
		err := ledger{
			nodes: map[string]*cluster.Node{node.Name: kube.Node(&node)}, claims: claims, at: map[string]place{},
		}.checkAllocation(c.pods)
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", c.name, err, c.want)
		}
	}
}

// The simulator gets the same arrivals as the cluster.
func TestSimulate(t *testing.T) {
	r := &comparison{Config: Config{Factor: 1.3}}
	for _, n := range []string{"a", "b"} {
		r.nodes = append(r.nodes, openb.Node{Name: n, MilliCPU: 8000, MemoryMiB: 1024, GPUs: 2, Model: "T4"})
	}
	for _, n := range []string{"p", "q", "s"} {
		r.pods = append(r.pods, openb.Pod{
			Name: n, MilliCPU: 1000, MemoryMiB: 1, GPUs: 1, GPUMilli: 500, Created: openb.NoTime, Deleted: openb.NoTime,
		})
	}
	h, err := heuristic.Find("fgd")
	if err != nil {
		t.Fatal(err)
	}
	x := agreement.Contender{Contender: eval.Contender{Name: h.Name, New: h.New},
		Profile: server.Profile{SchedulerName: h.Name, Args: server.Args{Policy: h.Name}}}
	all, nodes, err := r.simulate(x, 42, sim.OpenB{Factor: r.Factor})
	if err != nil {
		t.Fatal(err)
	}
	o := all.GPU
	arrivals, err := openb.Inflate(r.pods, r.Factor, openb.GPUMilli(r.nodes), 42)
	if err != nil {
		t.Fatal(err)
	}
	if o.Allocation != 1 || o.UnscheduledShare != len(arrivals)-8 || len(nodes) != 8 {
		t.Errorf("%+v with %d pods on nodes of %d", o, len(nodes), len(arrivals))
	}
}

func TestNewComparisonRefuses(t *testing.T) {
	for _, c := range []Config{{NodesFile: "nowhere.csv"},
		{NodesFile: "../../../workload/trace/openb/testdata/nodes.csv", PodsFile: "nowhere.csv"}} {
		if _, err := newComparison(c); err == nil || !strings.Contains(err.Error(), "nowhere.csv") {
			t.Errorf("got %v", err)
		}
	}
	c := Config{
		NodesFile: "../../../workload/trace/openb/testdata/nodes.csv", PodsFile: "../../../workload/trace/openb/testdata/pods.csv", Nodes: 4,
	}
	if _, err := newComparison(c); err == nil || !strings.Contains(err.Error(), "4 nodes of the 3 in") {
		t.Errorf("got %v", err)
	}
	c.Nodes = 3
	c.Contenders = []agreement.Contender{{Contender: eval.Contender{Name: "fgd"},
		Profile: server.Profile{SchedulerName: "fgd", Args: server.Args{Policy: "fgd"}}},
		{Profile: server.Profile{SchedulerName: "d", Args: server.Args{Variant: server.DefaultProfile}}}}
	r, err := newComparison(c)
	if err != nil || r.report.Nodes != 3 || r.report.GPUs != 10 {
		t.Fatalf("%+v, %v", r, err)
	}
	profiles := c.scheduler().Profiles
	if profiles[0].Workload != c.PodsFile || profiles[1].Workload != "" {
		t.Errorf("profiles %+v", profiles)
	}
}
