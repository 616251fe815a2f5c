package openb

import (
	"math"
	"math/rand/v2"
	"testing"

	"gnnsched/internal/cluster"
)

func TestTaints(t *testing.T) {
	nodes := []Node{{Name: "a", GPUs: 2, Model: "T4"}, {Name: "b", GPUs: 2, Model: "T4"}, {Name: "c", GPUs: 4, Model: "G2"}, {Name: "d"}}
	for _, x := range []struct {
		taints                    Taints
		least, most               int // tainted nodes
		tolerating, withoutGPUToo float64
	}{
		{Taints{}, 0, 0, 0, 0},
		{Taints{Pools: 1, Tolerating: 1, CPU: true}, 3, 3, 1, 1},
		{Taints{Pools: 1, Tolerating: 0.5}, 3, 3, 0.5, 0},
		{Taints{Pools: 0.5, Tolerating: 1}, 1, 2, 1, 0}, // one of the two models
	} {
		n, pods, err := x.taints.Apply(rand.New(rand.NewPCG(1, 2)), nodes, mixed())
		if err != nil {
			t.Fatal(err)
		}
		tainted := 0
		for _, n := range n {
			if len(n.Cluster().Taints) > 0 {
				tainted++
			}
		}
		var with, without float64
		for _, p := range pods {
			pod := cluster.Pod{Requests: p.Requests(), Tolerations: p.Shape().Tolerations}
			if tolerates := (&cluster.Node{Taints: []cluster.Taint{gpuTaint}}).Admits(pod.Tolerations); tolerates && p.GPUs > 0 {
				with++
			} else if tolerates {
				without++
			}
		}
		if tainted < x.least || tainted > x.most || math.Abs(with/3000-x.tolerating) > 0.05 || without/1000 != x.withoutGPUToo {
			t.Errorf("%+v: %d nodes, %v and %v pods", x.taints, tainted, with, without)
		}
	}
	for _, bad := range []Taints{{Pools: 1.1}, {Pools: 1, Tolerating: math.NaN()}} {
		if _, _, err := bad.Apply(rand.New(rand.NewPCG(1, 2)), nodes, nil); err == nil {
			t.Errorf("%+v is accepted", bad)
		}
	}
	if len(nodes[0].Taints) > 0 {
		t.Error("the nodes given have changed")
	}
}
