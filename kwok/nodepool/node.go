package nodepool

import (
	"encoding/json"
	"fmt"
	"maps"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const (
	// LabelManagedBy has the value ManagedBy on the nodes that this package made. It changes and
	// deletes only those.
	LabelManagedBy = "app.kubernetes.io/managed-by"
	ManagedBy      = "kwokcluster"
	// labelPool is the name of a node's pool.
	labelPool = "gnnsched.io/node-pool"
	// AnnotationFake, with the value "fake", makes kwok's controllers stand in for the node's
	// kubelet.
	AnnotationFake = "kwok.x-k8s.io/node"
	// annotationSpec is the node's last spec as JSON. With it, Reconcile knows which fields to remove if the pool changes, and leaves foreign
	// additions.
	annotationSpec = "gnnsched.io/node-pool-spec"
)

// reserved are labels that every node gets and a pool may not set. Every node also gets the operating system linux
// and the architecture amd64, unless its pool sets others.
var reserved = map[string]bool{
	LabelManagedBy: true, labelPool: true, "type": true, corev1.LabelHostname: true,
	labelOSBeta: true, labelArchBeta: true,
}

// The old labels of the operating system and architecture. The node controller would add missing
// ones, with a write for each.
const (
	labelOSBeta   = "beta.kubernetes.io/os"
	labelArchBeta = "beta.kubernetes.io/arch"
)

// spec is the part of a node that its pool determines.
type spec struct {
	Labels   map[string]string   `json:"labels"`
	Taints   []corev1.Taint      `json:"taints,omitempty"`
	Capacity corev1.ResourceList `json:"capacity"`
}

func (s spec) json() string {
	b, err := json.Marshal(s)
	if err != nil {
		panic(fmt.Sprintf("a node's spec of strings and quantities does not marshal: %v", err)) // cannot happen
	}
	return string(b)
}

// spec returns the spec of the pool's node number i, from 0.
func (p *Pool) spec(i int) spec {
	name := p.NodeName(i)
	labels := map[string]string{corev1.LabelOSStable: "linux", corev1.LabelArchStable: "amd64"}
	maps.Copy(labels, p.Labels)
	labels[LabelManagedBy], labels[labelPool] = ManagedBy, p.Name
	labels["type"] = "kwok"
	labels[corev1.LabelHostname] = name
	labels[labelOSBeta], labels[labelArchBeta] = labels[corev1.LabelOSStable], labels[corev1.LabelArchStable]
	if len(p.Zones) > 0 {
		labels[corev1.LabelTopologyZone] = p.Zones[i%len(p.Zones)]
	}
	capacity := p.Capacity.DeepCopy()
	if _, ok := capacity[corev1.ResourcePods]; !ok {
		capacity[corev1.ResourcePods] = resource.MustParse(defaultPods)
	}
	return spec{Labels: labels, Taints: p.Taints, Capacity: capacity}
}

// NodeName returns the name of the pool's node number i, from 0.
func (p *Pool) NodeName(i int) string { return p.Name + "-" + strconv.Itoa(i) }

// Node returns node number i, from 0, for its creation. kwok sets its conditions, IP address and versions.
func (p *Pool) Node(i int) *corev1.Node {
	s := p.spec(i)
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{
			Name: p.NodeName(i), Labels: s.Labels,
			Annotations: map[string]string{AnnotationFake: "fake", annotationSpec: s.json()},
		},
		Spec: corev1.NodeSpec{Taints: s.Taints},
		Status: corev1.NodeStatus{
			Capacity: s.Capacity, Allocatable: s.Capacity.DeepCopy(), Phase: corev1.NodePending,
			Addresses: []corev1.NodeAddress{{Type: corev1.NodeHostName, Address: p.NodeName(i)}},
		},
	}
}
