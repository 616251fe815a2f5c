package memcluster

import (
	"slices"

	v1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"

	values "gnnsched/internal/cluster"
	"gnnsched/internal/cluster/kube"
	"gnnsched/scheduler/objective"
)

// ledger keeps the nodes of a snapshot as plain values, for the objective.
type ledger struct {
	term        objective.Term
	nodes       []*values.Node
	generations []int64 // of upstream's node that each was converted from
	row         map[string]int
	cost        float64
	known       bool // whether cost is up to date
}

// follow converts the nodes that changed.
func (l *ledger) follow(infos []fwk.NodeInfo) {
	if len(infos) != len(l.nodes) {
		l.begin(infos)
	}
	for i, info := range infos {
		if l.nodes[i] != nil && l.nodes[i].Name != info.Node().Name {
			l.begin(infos)
			l.follow(infos)
			return
		}
		if info.GetGeneration() != l.generations[i] {
			l.nodes[i], l.generations[i], l.known = convert(info), info.GetGeneration(), false
		}
	}
}

// begin forgets the nodes and gives the new ones their rows.
func (l *ledger) begin(infos []fwk.NodeInfo) {
	l.nodes, l.generations = make([]*values.Node, len(infos)), make([]int64, len(infos))
	l.row, l.known = make(map[string]int, len(infos)), false
	for i, info := range infos {
		l.row[info.Node().Name] = i
	}
}

func convert(info fwk.NodeInfo) *values.Node {
	n := kube.Node(info.Node())
	n.Power, _ = kube.Power(info.Node()) // the default counts where the annotation is faulty
	var running []kube.RunningPod
	for _, p := range info.GetPods() {
		r, _ := kube.Running(p.GetPod()) // the trustworthy part of a contradictory GPU request counts
		running = append(running, r)
	}
	kube.Place(n, running)
	kube.CloseLost(n, 0)
	return n
}

// now returns the cost of the nodes.
func (l *ledger) now() float64 {
	if !l.known {
		l.cost, l.known = l.term.Cost(l.nodes), true
	}
	return l.cost
}

// after returns the cost if the pod ran on a node; known is false if there is no such node.
func (l *ledger) after(pod *v1.Pod, node string) (cost float64, known bool) {
	i, known := l.row[node]
	if !known {
		return 0, false
	}
	old, with := l.nodes[i], *l.nodes[i]
	with.Groups, with.GPUs = slices.Clone(old.Groups), slices.Clone(old.GPUs)
	asks, _ := kube.Pod(pod)
	with.Add(asks.Requests)
	l.nodes[i] = &with
	cost = l.term.Cost(l.nodes)
	l.nodes[i] = old
	return cost, true
}

// alike reports whether two nodes have the same capacity, zone and requests. The choice between them makes no difference to any objective.
func (l *ledger) alike(a, b string) bool {
	i, known := l.row[a]
	j, too := l.row[b]
	if !known || !too {
		return false
	}
	x, y := l.nodes[i], l.nodes[j]
	return x.Zone == y.Zone && x.Allocatable == y.Allocatable && x.Requested == y.Requested && x.GPUModel == y.GPUModel &&
		slices.Equal(x.GPUs, y.GPUs) && slices.Equal(x.Groups, y.Groups) && slices.Equal(x.Taints, y.Taints)
}
