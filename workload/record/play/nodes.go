package play

import (
	"errors"
	"fmt"
	"maps"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"gnnsched/internal/cluster"
	"gnnsched/workload"
	"gnnsched/workload/record"
)

// Machine is a node of a record, without pods. Its name is a DNS label of 60 characters at most.
type Machine struct {
	*cluster.Node
	Extended corev1.ResourceList // its capacity besides CPU, memory, pods and GPUs
}

// conditions begins the keys of the taints with which Kubernetes marks nodes that are cordoned or have a fault.
const conditions = "node.kubernetes.io/"

// Machines returns the nodes of a record at a time, and notes about omissions. Nodes that took no pods then, because they were cordoned,
// not ready or offered nothing, are left out.
func Machines(m record.Moment) ([]Machine, []string, error) {
	r, err := record.Open(m.Dir)
	if err != nil {
		return nil, nil, err
	}
	rows, err := r.NodesAt(m.At)
	if err != nil {
		return nil, nil, fmt.Errorf("%s: %w", m.Dir, err)
	}
	var out []Machine
	taken, closed := map[string]bool{}, 0
	for i := range rows {
		one, open, err := machine(&rows[i])
		if err != nil {
			return nil, nil, fmt.Errorf("%s: node %q: %w", m.Dir, rows[i].Name, err)
		}
		if !open {
			closed++
			continue
		}
		one.Name = workload.FreeName(label(rows[i].Name, "node"), taken)
		taken[one.Name] = true
		out = append(out, one)
	}
	notes := damage(r)
	if closed > 0 {
		notes = append(notes, fmt.Sprintf("%d nodes that took no pods at that time are left out", closed))
	}
	if len(out) == 0 {
		return nil, nil, fmt.Errorf("%s: none of the %d nodes took pods at that time", m.Dir, len(rows))
	}
	return out, notes, nil
}

// SimulatedName returns the name that a node of a record has in a cluster of `kwokcluster up --pools RECORD`, if no other
// node's name becomes the same label.
func SimulatedName(node string) string {
	if node == "" {
		return ""
	}
	return label(node, "node") + "-0" // a pool of one node
}

// machine translates a node. open tells whether it took pods.
func machine(row *record.Node) (out Machine, open bool, err error) {
	var taints []corev1.Taint
	var labels, extended map[string]string
	if err := errors.Join(decode("labels", row.Labels, &labels), decode("taints", row.Taints, &taints),
		decode("extended", row.Extended, &extended)); err != nil {
		return Machine{}, false, err
	}
	n := &cluster.Node{
		Version: cluster.NextVersion(), Labels: labels, Zone: labels[corev1.LabelTopologyZone], GPUModel: row.GPUModel,
		Allocatable: cluster.Resources{MilliCPU: row.MilliCPU, Memory: row.Memory, Pods: row.Pods, GPU: row.GPU},
	}
	open = !row.Unschedulable && row.MilliCPU > 0 && row.Memory > 0 && row.Pods > 0
	for _, t := range taints {
		if strings.HasPrefix(t.Key, conditions) {
			open = open && t.Effect == corev1.TaintEffectPreferNoSchedule
			continue
		}
		n.Taints = append(n.Taints, cluster.Taint{Key: t.Key, Value: t.Value, Effect: cluster.Effect(t.Effect)})
	}
	out = Machine{Node: n, Extended: make(corev1.ResourceList, len(extended))}
	for name, amount := range maps.All(extended) {
		q, err := resource.ParseQuantity(amount)
		if err != nil {
			return Machine{}, false, fmt.Errorf("extended: %s: %q is no amount", name, amount)
		}
		if !strings.HasPrefix(name, corev1.ResourceAttachableVolumesPrefix) { // the scheduler counts volumes by CSINodes now
			out.Extended[corev1.ResourceName(name)] = q
		}
	}
	return out, open, nil
}

// damage describes the parts of a record that were left out.
func damage(r *record.Record) (notes []string) {
	for _, d := range r.Damaged() {
		notes = append(notes, "a part of the record is damaged and left out: "+d)
	}
	return notes
}
