package main

import (
	"fmt"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

var zones = []string{"a", "b", "c"}

// pools are the nodes of the simulated cluster, as `kwokcluster up --pools` reads them.
func pools(nodes int) []byte {
	return fmt.Appendf(nil, "pools: [{name: node, count: %d, capacity: {cpu: 64, memory: 256Gi, pods: 110}, zones: [%s]}]\n",
		nodes, strings.Join(zones, ", "))
}

// nodeCapacity returns the capacity of kwokcluster's default node.
func nodeCapacity() v1.ResourceList {
	return v1.ResourceList{
		v1.ResourceCPU: resource.MustParse("64"), v1.ResourceMemory: resource.MustParse("256Gi"), v1.ResourcePods: resource.MustParse("110"),
	}
}

// node returns node number i of the loop's cluster.
func node(i int) *v1.Node {
	name := fmt.Sprintf("node-%d", i)
	return &v1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{v1.LabelHostname: name, v1.LabelTopologyZone: zones[i%len(zones)]}},
		Status:     v1.NodeStatus{Capacity: nodeCapacity(), Allocatable: nodeCapacity()},
	}
}

// shapes are the requests of the pods, in turn.
var shapes = [...]struct{ cpu, memory string }{{"250m", "512Mi"}, {"500m", "2Gi"}, {"1", "2Gi"}, {"1", "8Gi"}, {"4", "4Gi"}}

// pod returns pod number i of a run for a scheduler. It has no service, no owner and no preferences,
// so the default profile's score plugins have as little work as possible.
func pod(schedulerName string, i int) *v1.Pod {
	name := fmt.Sprintf("%s-%d", schedulerName, i)
	s := shapes[i%len(shapes)]
	return &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name: name, Namespace: metav1.NamespaceDefault, UID: types.UID(name), Labels: map[string]string{"app": "bench"},
		},
		Spec: v1.PodSpec{SchedulerName: schedulerName, Containers: []v1.Container{{
			Name: "main", Image: "registry.k8s.io/pause:3.10",
			Resources: v1.ResourceRequirements{Requests: v1.ResourceList{
				v1.ResourceCPU: resource.MustParse(s.cpu), v1.ResourceMemory: resource.MustParse(s.memory),
			}},
		}}},
	}
}

// share is a percentageOfNodesToScore, 0 for upstream's adaptive share, and the number of pods of a
// run with it.
type share struct{ percentage, pods int }

// shares returns the shares to measure.
func (o *options) shares() []share {
	var out []share
	for _, p := range o.percentages {
		s := share{p, o.fixed}
		if p == 0 {
			s.pods = o.pods
		}
		out = append(out, s)
	}
	return out
}

// String describes the share in the name of a result.
func (s share) String() string {
	adaptive := ""
	if s.percentage == 0 {
		adaptive = " (adaptive)"
	}
	return fmt.Sprintf("%d pods, percentageOfNodesToScore %d%s", s.pods, s.percentage, adaptive)
}
