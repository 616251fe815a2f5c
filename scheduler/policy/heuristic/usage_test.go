package heuristic_test

import (
	"fmt"
	"testing"

	"gnnsched/internal/cluster"
	"gnnsched/scheduler/policy"
	"gnnsched/scheduler/policy/heuristic"
	"gnnsched/scheduler/policy/policytest"
)

const now = 10_000

// node offers four cores and 10,000 bytes, of which pods request a core and 1,000 bytes.
func node(cpu, memory cluster.Statistics, recent ...cluster.RecentPod) *cluster.Node {
	n := unmeasured(4000)
	n.Usage = &cluster.NodeUsage{At: now - 20, Recent: recent}
	n.Usage.Known[cluster.UsedCPU], n.Usage.Known[cluster.UsedMemory] = true, true
	n.Usage.Measured[cluster.UsedCPU], n.Usage.Measured[cluster.UsedMemory] = cpu, memory
	return n
}

func unmeasured(milliCPU int64) *cluster.Node {
	return &cluster.Node{
		Allocatable: cluster.Resources{MilliCPU: milliCPU, Memory: 10_000, Pods: 110},
		Requested:   cluster.Resources{MilliCPU: 1000, Memory: 1000, Pods: 1},
	}
}

func mean(x float64) cluster.Statistics { return cluster.Statistics{Mean: x} }

// bound is a pod that was bound so many seconds ago.
func bound(ago float64, limit int64) cluster.RecentPod {
	return cluster.RecentPod{At: now - ago, Requests: cluster.Resources{MilliCPU: 100, Memory: 1000},
		Limits: cluster.Resources{MilliCPU: limit}}
}

func pod(requests, limits cluster.Resources) *cluster.Pod {
	return &cluster.Pod{Requests: requests, Limits: limits}
}

// The scores are computed by hand from the formulas in the docs of the policies.
func TestFormulas(t *testing.T) {
	tlp, lvrb, koordinator, crane := heuristic.TargetLoadPacking{}, heuristic.LoadVariationRiskBalancing{}, heuristic.KoordinatorLoadAware{},
		heuristic.CraneDynamic{}
	limit200 := pod(cluster.Resources{MilliCPU: 100}, cluster.Resources{MilliCPU: 200})
	request400 := pod(cluster.Resources{MilliCPU: 400}, cluster.Resources{})
	nothing := pod(cluster.Resources{}, cluster.Resources{})
	half := pod(cluster.Resources{MilliCPU: 500, Memory: 2000}, cluster.Resources{})
	estimated := pod(cluster.Resources{MilliCPU: 1000, Memory: 1000}, cluster.Resources{MilliCPU: 2000})
	craneCPU := cluster.Statistics{Mean: 1000, HourMax: 2000, DayMax: 3000}
	craneMemory := cluster.Statistics{Mean: 1000, HourMax: 2000, DayMax: 4000}
	for _, c := range []struct {
		name string
		p    policy.Policy
		pod  *cluster.Pod
		node *cluster.Node
		want float32
	}{
		{"25 % is below the target: 60·25/40 + 40", tlp, limit200, node(mean(800), mean(0)), 78},
		{"65 % is above it: 40·35/60, with 1.5 times the request", tlp, request400, node(mean(2000), mean(0)), 23},
		{"over 100 %", tlp, request400, node(mean(3500), mean(0)), 0},
		{"a pod without request or limit needs a core: 45 %", tlp, nothing, node(mean(800), mean(0)), 37},
		{"a pod that the measurement lacks: 35 %", tlp, limit200, node(mean(800), mean(0), bound(79, 400)), 93},
		{"one bound over a minute before it is in it", tlp, limit200, node(mean(800), mean(0), bound(80, 400)), 78},
		{"by requests: 30 %", tlp, limit200, unmeasured(4000), 85},
		{"no CPU", tlp, limit200, unmeasured(0), 0},

		{"CPU risk (0.375 + 0.1)/2, memory (0.6 + 0.05)/2", lvrb, half,
			node(cluster.Statistics{Mean: 1000, Deviation: 400}, cluster.Statistics{Mean: 4000, Deviation: 500}), 68},
		{"CPU is the greater risk: (0.875 + 0.5)/2", lvrb, half, node(cluster.Statistics{Mean: 3000, Deviation: 2000}, mean(0)), 31},
		{"bounded by 1", lvrb, half, node(cluster.Statistics{Mean: 9000, Deviation: 9000}, mean(0)), 0},
		{"by requests: CPU 0.375/2, memory 0.3/2", lvrb, half, unmeasured(4000), 81},

		{"CPU 45 with 1,700 more, memory 73 with 700 more", koordinator, estimated, node(mean(500), mean(2000)), 59},
		{"without request: 250 thousandths, and 200 MiB do not fit: (81 + 0)/2", koordinator, nothing, node(mean(500), mean(2000)), 40},
		{"a pod that the measurement lacks: CPU 42 with 85 more, memory 66 with 700 more", koordinator, estimated,
			node(mean(500), mean(2000), bound(10, 100)), 54},
		{"over 65 % of CPU: filtered, CPU 0, memory 73", koordinator, estimated, node(mean(2640), mean(2000)), 36 - 1000},
		{"over 95 % of memory: filtered", koordinator, estimated, node(mean(500), mean(9600)), 22 - 1000},
		{"by requests: CPU 32, memory 83", koordinator, estimated, unmeasured(4000), 57},

		{"CPU 0.15 + 0.15 + 0.125, memory 0.18 + 0.24 + 0.3, over 2", crane, nothing, node(craneCPU, craneMemory), 57},
		{"six pods in five minutes, three in one: 20 less", crane, nothing,
			node(craneCPU, craneMemory, bound(299, 0), bound(200, 0), bound(100, 0), bound(60, 0), bound(9, 0), bound(1, 0)), 37},
		{"a share above 1 counts against the others", crane, nothing, node(cluster.Statistics{DayMax: 9000}, mean(0)), 43},
		{"65 % in the mean is filtered above", crane, nothing, node(cluster.Statistics{Mean: 2640}, mean(0)), 93 - 1000},
		{"75 % in the hour is filtered above", crane, nothing, node(cluster.Statistics{HourMax: 3040}, mean(0)), 88 - 1000},
		{"by requests: 0.75 and 0.9", crane, nothing, unmeasured(4000), 82},
	} {
		t.Run(c.p.Name()+": "+c.name, func(t *testing.T) {
			s := &cluster.Snapshot{Nodes: []*cluster.Node{c.node}, Now: now}
			if got := policytest.Scores(t, c.p, s, c.pod, []int32{0})[0]; got != c.want {
				t.Errorf("%v, want %v", got, c.want)
			}
		})
	}
}

// A measurement older than three minutes is as none for Koordinator.
func TestKoordinatorExpires(t *testing.T) {
	old, fresh := node(mean(0), mean(0)), unmeasured(4000)
	old.Usage.At = now - 181
	s := &cluster.Snapshot{Nodes: []*cluster.Node{old, fresh}, Now: now}
	got := policytest.Scores(t, heuristic.KoordinatorLoadAware{}, s, pod(cluster.Resources{MilliCPU: 1000, Memory: 1000}, cluster.Resources{}),
		[]int32{0, 1})
	if got[0] != got[1] {
		t.Errorf("scores %v, want equal ones", got)
	}
}

// Three equal machines at 10, 30 and 50 % of their CPU get a pod of 10 %. Power rises by K1·(1 - e^(10·K2)) times
// e^(K2·u): 0.4874, 0.1158 and 0.0275. (0.1158 - 0.0275)/(0.4874 - 0.0275) is 19 %.
func TestPeaks(t *testing.T) {
	var nodes []*cluster.Node
	for _, used := range []float64{3200, 9600, 16_000, 30_000} {
		n := node(mean(used), mean(0))
		n.Allocatable.MilliCPU = 32_000
		nodes = append(nodes, n)
	}
	nodes = append(nodes, unmeasured(0))
	s := &cluster.Snapshot{Nodes: nodes, Now: now}
	want := []float32{0, 81, 100, 0, 0} // the fourth would be more than full, the last has no CPU
	got := policytest.Scores(t, heuristic.Peaks{}, s, pod(cluster.Resources{MilliCPU: 3200}, cluster.Resources{}), policytest.Rows(5))
	for i := range want {
		if got[i] != want[i] {
			t.Errorf("node %d: %v, want %v", i, got[i], want[i])
		}
	}
	for i, p := range []*cluster.Pod{pod(cluster.Resources{}, cluster.Resources{MilliCPU: 3200}),
		pod(cluster.Resources{}, cluster.Resources{})} {
		if got := policytest.Scores(t, heuristic.Peaks{}, s, p, []int32{0, 2}); got[0] != 0 || got[1] != 100 {
			t.Errorf("pod %d without request: %v", i, got)
		}
	}
	if got := policytest.Scores(t, heuristic.Peaks{}, s, pod(cluster.Resources{MilliCPU: 100}, cluster.Resources{}), []int32{1}); got[0] != 100 {
		t.Errorf("the only candidate has %v", got[0])
	}
}

// Heuristics are found by the names that flags and configuration files use.
func ExampleFind() {
	small := &cluster.Node{Name: "small", Allocatable: cluster.Resources{MilliCPU: 4000, Memory: 16 << 30, Pods: 110}}
	large := &cluster.Node{Name: "large", Allocatable: cluster.Resources{MilliCPU: 64_000, Memory: 256 << 30, Pods: 110}}
	snapshot := &cluster.Snapshot{Nodes: []*cluster.Node{small, large}}
	pod := &cluster.Pod{Requests: cluster.Resources{MilliCPU: 1000, Memory: 4 << 30, Pods: 1}}
	for _, name := range []string{"kube-scheduler", "best-fit", "greedy:pack"} {
		h, err := heuristic.Find(name)
		if err != nil {
			fmt.Println(err)
			return
		}
		p := h.New(policy.Setting{Seed: 1})
		scores := make([]float32, 2)
		if err := p.Score(snapshot, pod, []int32{0, 1}, scores); err != nil {
			fmt.Println(err)
			return
		}
		fmt.Printf("%-15s %-6s ties at random: %v\n", name, snapshot.Nodes[policy.Best(scores)].Name, h.RandomTies)
	}
	// Output:
	// kube-scheduler  large  ties at random: true
	// best-fit        small  ties at random: true
	// greedy:pack     small  ties at random: true
}
