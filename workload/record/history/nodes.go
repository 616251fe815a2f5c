package history

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/common/model"
	corev1 "k8s.io/api/core/v1"

	"gnnsched/internal/cluster"
	"gnnsched/internal/cluster/kube"
	"gnnsched/workload/record"
)

// The series of nodes.
const (
	nodeInfo      = "kube_node_info"
	nodeCreated   = "kube_node_created"
	nodeLabels    = "kube_node_labels"
	allocatable   = "kube_node_status_allocatable"
	taint         = "kube_node_spec_taint"
	unschedulable = "kube_node_spec_unschedulable"
)

// readNodes reads the nodes at a time, and notes the nodes that came, changed or left since the last time.
func (r *reader) readNodes(ctx context.Context, at time.Time) error {
	infos, err := r.query(ctx, nodeInfo, "group by ("+widened("node,internal_ip")+") ("+nodeInfo+")", at)
	if err != nil || len(infos) == 0 { // kube-state-metrics was away
		return err
	}
	now := map[string]*record.Node{}
	for _, s := range infos {
		name := string(s.Metric["node"])
		if name == "" {
			r.gaps.stray(nodeInfo, "")
			continue
		}
		r.gaps.now[nodeInfo], r.gaps.nodes[name] = true, true
		if ip := string(s.Metric["internal_ip"]); ip != "" {
			r.addresses[ip] = name
		}
		now[name] = &record.Node{Name: name, From: at.UnixMilli()}
	}
	if err := r.describe(ctx, now, at); err != nil {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(now)) {
		n, old := now[name], r.nodes[name]
		if old == nil {
			r.out.Nodes++
		} else {
			n.From = old.From
			if *n == *old {
				continue
			}
			old.To, n.From = at.UnixMilli(), at.UnixMilli()
			r.rows.nodes = append(r.rows.nodes, *old)
		}
		r.nodes[name] = n
		r.rows.nodes = append(r.rows.nodes, *n)
	}
	for _, name := range slices.Sorted(maps.Keys(r.nodes)) {
		if n := r.nodes[name]; now[name] == nil {
			n.To, n.Gone = at.UnixMilli(), true
			r.rows.nodes = append(r.rows.nodes, *n)
			delete(r.nodes, name)
		}
	}
	return nil
}

// describe fills in the nodes' properties at a time.
func (r *reader) describe(ctx context.Context, nodes map[string]*record.Node, at time.Time) error {
	var err error
	const amounts = "node,resource"
	each := func(series, by string, f func(*record.Node, *model.Sample)) {
		if err != nil {
			return
		}
		query := fmt.Sprintf("max by (%s) (%s)", widened(by), series)
		var all model.Vector
		if all, err = r.query(ctx, series, query, at); err != nil {
			return
		}
		for _, s := range all {
			n := nodes[string(s.Metric["node"])]
			switch {
			case n == nil:
				r.gaps.stray(series, string(s.Metric["node"]))
			case by == amounts && s.Metric["resource"] == "":
				r.gaps.stray(series, n.Name+" without the label resource")
			default:
				r.gaps.now[series] = true
				f(n, s)
			}
		}
	}
	of, taints := map[string]map[string]string{}, map[string][]corev1.Taint{}
	each(allocatable, amounts, func(n *record.Node, s *model.Sample) { offer(n, string(s.Metric["resource"]), float64(s.Value)) })
	each(unschedulable, "node", func(n *record.Node, s *model.Sample) { n.Unschedulable = s.Value == 1 })
	each(nodeCreated, "node", func(n *record.Node, s *model.Sample) {
		if t := millis(s.Value); t > r.From.UnixMilli() && t < n.From {
			n.From = t
		}
	})
	each(taint, "node,key,value,effect", func(n *record.Node, s *model.Sample) {
		taints[n.Name] = append(taints[n.Name], corev1.Taint{
			Key: string(s.Metric["key"]), Value: string(s.Metric["value"]), Effect: corev1.TaintEffect(s.Metric["effect"]),
		})
	})
	if err != nil {
		return err
	}
	all, err := r.query(ctx, nodeLabels, "timestamp("+nodeLabels+")", at)
	newestLast(all)
	for _, s := range all {
		of[string(s.Metric["node"])] = labels(s.Metric)
		r.gaps.now[nodeLabels] = r.gaps.now[nodeLabels] || len(of[string(s.Metric["node"])]) > 0
	}
	for name, n := range nodes {
		if n.MilliCPU == 0 || n.Memory == 0 {
			r.gaps.empty[name] = true
		}
		slices.SortFunc(taints[name], func(a, b corev1.Taint) int { return strings.Compare(a.ToString(), b.ToString()) })
		n.Labels, n.Taints, n.GPUModel = record.Column(of[name]), record.Column(taints[name]), of[name][kube.GPUModelLabel]
	}
	return err
}

// offer notes the amount of a resource that a node offers.
func offer(n *record.Node, resource string, v float64) {
	switch resource {
	case "cpu":
		n.MilliCPU = amount(v*1000, cluster.MaxMilliCPU)
	case "memory":
		n.Memory = amount(v, cluster.MaxMemory)
	case "pods":
		n.Pods = amount(v, 1<<20)
	case "nvidia_com_gpu":
		n.GPU = amount(v, cluster.MaxDevices)
	default:
		if v > 0 {
			n.Extended = withAmount(n.Extended, resource, v)
		}
	}
}
