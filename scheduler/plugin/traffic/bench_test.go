package traffic

import (
	"fmt"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"

	"gnnsched/internal/cluster"
)

// BenchmarkAttach measures what the traffic adds to a decision: 1,000 nodes with 30 pods each, of 300 workloads that each
// talk to two others.
func BenchmarkAttach(b *testing.B) {
	w := newWorld(b, klog.Logger{}, 1000)
	infos := make([]fwk.NodeInfo, len(w.nodes))
	for i, n := range w.nodes {
		infos[i] = framework.NewNodeInfo()
		for range 30 {
			k := w.made % 300
			p := w.pod("shop", fmt.Sprint("w", k), fmt.Sprintf("w%d=3e6,w%d=1e6", (k+1)%300, (k+7)%300))
			p.Spec.NodeName = n.Name
			w.view.sizes.change(nil, p, false)
			infos[i].AddPodInfo(&framework.PodInfo{Pod: p})
		}
	}
	s := cluster.Snapshot{Nodes: w.nodes}
	quiet, talking := w.pod("shop", "quiet", ""), w.pod("shop", "w5", "w6=3e6,w12=1e6")
	w.view.Attach(&s, infos, quiet)
	b.Run("pod without traffic", func(b *testing.B) {
		for range b.N {
			w.view.Attach(&s, infos, quiet)
		}
	})
	b.Run("pod with traffic", func(b *testing.B) {
		for range b.N {
			w.view.Attach(&s, infos, talking)
		}
	})
	b.Run("pod with traffic, after one was bound", func(b *testing.B) {
		with := infos[7].Snapshot()
		with.AddPodInfo(&framework.PodInfo{Pod: talking})
		w.view.sizes.change(nil, talking, false)
		states := []fwk.NodeInfo{with, infos[7]}
		for i := range b.N {
			w.touch(w.nodes[7].Name)
			infos[7] = states[i%2]
			w.view.Attach(&s, infos, talking)
		}
	})
}

// BenchmarkWorkload measures what a decision pays for two workloads of so many pods, each on as many nodes, that talk to each other: after
// a pod has come or gone on a node, after one was created or deleted, after another rate was measured, and with a list of nodes that is
// new. times/100-pods compares with 100 pods.
func BenchmarkWorkload(b *testing.B) {
	sizes := []int{100, 5000}
	events := []struct {
		name string
		do   func(w *world, infos []fwk.NodeInfo, i int)
	}{
		{"pod", func(w *world, infos []fwk.NodeInfo, i int) {
			w.touch(w.nodes[7].Name)
			infos[7] = infos[8+i%2] // with the pods of row 8 or of row 9
		}},
		{"replicas", func(w *world, _ []fwk.NodeInfo, i int) {
			if more := w.pods[0]; i%2 == 0 {
				w.view.sizes.change(nil, more, false)
			} else {
				w.view.sizes.change(more, nil, false)
			}
		}},
		{"measured", func(w *world, _ []fwk.NodeInfo, i int) {
			w.view.measure(map[pair]float64{{key{"shop", "api"}, key{"shop", "web"}}: float64(1e9 * (1 + i%2))})
		}},
		{"nodes", func(w *world, _ []fwk.NodeInfo, i int) {
			w.touch(w.nodes[7].Name)
			w.nodes[7].Labels = map[string]string{defaultRackLabel: fmt.Sprint("rack-", i%2)}
		}},
	}
	for _, e := range events {
		var first float64
		for _, size := range sizes {
			b.Run(fmt.Sprintf("%s/%d-pods", e.name, size), func(b *testing.B) {
				w := newWorld(b, klog.Logger{}, size)
				infos := make([]fwk.NodeInfo, size)
				for i, n := range w.nodes {
					infos[i] = framework.NewNodeInfo()
					for _, x := range [][2]string{{"web", "api=3e6"}, {"api", ""}} {
						p := w.pod("shop", x[0], x[1])
						p.Spec.NodeName = n.Name
						w.view.sizes.change(nil, p, false)
						infos[i].AddPodInfo(&framework.PodInfo{Pod: p})
					}
				}
				infos[9] = framework.NewNodeInfo() // see the event pod
				s := cluster.Snapshot{Nodes: w.nodes}
				pending := w.pod("shop", "web", "api=3e6")
				w.pods = []*v1.Pod{w.pod("shop", "api", "")} // see the event replicas
				w.view.Attach(&s, infos, pending)
				for i := 0; b.Loop(); i++ {
					e.do(w, infos, i)
					w.view.Attach(&s, infos, pending)
				}
				took := float64(b.Elapsed()) / float64(b.N)
				if size == sizes[0] {
					first = took
				} else if first > 0 {
					b.ReportMetric(took/first, "times/100-pods")
				}
			})
		}
	}
}
