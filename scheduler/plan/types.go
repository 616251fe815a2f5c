package plan

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"

	"gnnsched/scheduler/replay"
	"gnnsched/workload/record"
)

// ErrNameTaken is the error of a type whose nodes would have the name of a control-plane node.
var ErrNameTaken = errors.New("its nodes would be named like the control-plane node")

// Type is a kind of node that can be had at a price.
type Type struct {
	Name  string
	Price float64 // of one node, an hour; 0 or more
	Limit int     // nodes that can be had at most
	// Nodes are one node for each zone. Number i of the type is like Nodes[i%len(Nodes)], with a name of its own.
	Nodes []record.Node
}

// node returns number i of the type, which is there from a time on.
func (t *Type) node(i int, from int64) record.Node {
	n := t.Nodes[i%len(t.Nodes)]
	n.Name, n.From, n.To, n.Gone = fmt.Sprintf("%s-%d", t.Name, i), from, 0, false
	labels := record.Labels(n.Labels)
	labels[v1.LabelHostname] = n.Name
	n.Labels = record.JSON(labels)
	return n
}

// RecordedTypes returns the types of the window's workers by the value of a label, by name and without prices. A type has the capacity of
// its first node by name, in all zones in which it has nodes.
func RecordedTypes(s *replay.Source, label string) (out []Type) {
	list, _ := workers(s)
	zones := map[string][]string{}
	for _, n := range list {
		labels := record.Labels(n.Labels)
		name, has := labels[label]
		if !has || name == "" {
			continue
		}
		i := slices.IndexFunc(out, func(t Type) bool { return t.Name == name })
		if i < 0 {
			i = len(out)
			out = append(out, Type{Name: name, Nodes: []record.Node{n}})
		}
		if z := labels[v1.LabelTopologyZone]; z != "" && !slices.Contains(zones[name], z) {
			zones[name] = append(zones[name], z)
		}
	}
	for i := range out {
		t := &out[i]
		first, all := t.Nodes[0], slices.Sorted(slices.Values(zones[t.Name]))
		first.Unschedulable = false
		t.Nodes = []record.Node{first}
		for k, z := range all {
			n, labels := first, record.Labels(first.Labels)
			labels[v1.LabelTopologyZone] = z
			n.Labels = record.JSON(labels)
			t.Nodes = append(t.Nodes[:k], n)
		}
	}
	slices.SortFunc(out, func(a, b Type) int { return strings.Compare(a.Name, b.Name) })
	return out
}

// fleet is the work of a record on nodes that are not the recorded ones.
type fleet struct {
	types   []Type
	source  replay.Source  // of the work, all to be placed, on the control-plane nodes
	control []record.Node  // as workers returns them
	sets    []record.Pod   // a pod of each DaemonSet
	agents  [][]record.Pod // of each node of all types in turn, the DaemonSets' pods that run on it
	first   []int          // of each type, its first place in agents
	top     int32          // the highest priority of the work
}

// newFleet takes the workers out of a source and puts nothing in their place.
func newFleet(s replay.Source, types []Type) (*fleet, error) {
	_, control := workers(&s)
	f := &fleet{types: types, control: control}
	f.sets, _ = daemonSets(&s)
	stays := map[string]bool{}
	for i := range control {
		stays[control[i].Name] = true
		for _, t := range types {
			if number, is := strings.CutPrefix(control[i].Name, t.Name+"-"); is && number != "" && strings.Trim(number, "0123456789") == "" {
				return nil, fmt.Errorf("type %s: %w %s", t.Name, ErrNameTaken, control[i].Name)
			}
		}
	}
	s = anew(s)
	for i := range s.Pods {
		if !s.Pods[i].Daemon {
			f.top = max(f.top, s.Pods[i].Priority)
		}
	}
	for i := range types {
		f.first = append(f.first, len(f.agents))
		f.agents = append(f.agents, make([][]record.Pod, len(types[i].Nodes))...)
	}
	f.source = on(s, func(name string) bool { return stays[name] })
	return f, nil
}

// with returns the source with the given number of nodes of each type. They exist all the time, with the pods of their DaemonSets.
func (f *fleet) with(counts []int) replay.Source {
	s := f.source
	s.Nodes, s.Pods = slices.Clip(s.Nodes), slices.Clip(s.Pods)
	for k := range f.types {
		t := &f.types[k]
		for i := range counts[k] {
			n := t.node(i, s.From)
			s.Nodes = append(s.Nodes, n)
			for _, p := range f.agents[f.first[k]+i%len(t.Nodes)] {
				s.Pods = append(s.Pods, agentOn(p, n.Name, s.From))
			}
		}
	}
	return s
}

// agentOn returns a pod of a DaemonSet on another node.
func agentOn(p record.Pod, node string, from int64) record.Pod {
	p.UID = p.Namespace + "/" + p.OwnerName + "/" + node
	p.Name, p.Node, p.Arrived, p.Bound, p.Ended, p.End = p.OwnerName+"-"+node, node, from, from, 0, ""
	return p
}

// daemonSets returns the newest pod of each DaemonSet that has pods in the window, by name, and the number of static pods of workers.
func daemonSets(s *replay.Source) (out []record.Pod, static int) {
	control := map[string]bool{}
	for i := range s.Nodes {
		control[s.Nodes[i].Name] = isControl(&s.Nodes[i])
	}
	newest := map[string]record.Pod{}
	for _, p := range s.Pods {
		if !p.Daemon || p.Arrived >= s.To || p.Ended != 0 && p.Ended <= s.From {
			continue
		}
		if p.OwnerKind != "DaemonSet" {
			if !control[p.Node] {
				static++
			}
			continue
		}
		newest[p.Namespace+"/"+p.OwnerName] = p // they come by arrival
	}
	for _, name := range slices.Sorted(maps.Keys(newest)) {
		out = append(out, newest[name])
	}
	return out, static
}
