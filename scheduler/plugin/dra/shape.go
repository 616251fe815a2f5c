package dra

import (
	"fmt"
	"slices"
	"strconv"
	"sync"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/dynamic-resource-allocation/deviceattribute"
	"k8s.io/dynamic-resource-allocation/structured"

	"gnnsched/internal/cluster"
	"gnnsched/internal/cluster/cards"
)

// shape holds the cards of a node. It is immutable but for what it remembers of wants.
type shape struct {
	*cards.Set
	ids      []structured.DeviceID // of Devices
	topology *cluster.Topology     // nil if the driver does not say where its devices are; see places

	mu      sync.Mutex
	matched map[string][]bool    // which devices an expression selects; see selects
	sizes   map[string]partSizes // by the capacity that is asked for; see partsOf
}

// newShape reads the slices of one node; nil if there are no cards that a policy can know.
func newShape(in []*resourceapi.ResourceSlice) *shape {
	set := cards.Read(in)
	if set == nil {
		return nil
	}
	s := &shape{Set: set, matched: map[string][]bool{}, sizes: map[string]partSizes{}}
	for _, d := range set.Devices {
		s.ids = append(s.ids, structured.MakeDeviceID(d.Driver, set.Cards[d.Card].Pool, d.Name))
	}
	s.topology = topologyOf(set)
	return s
}

// topologyOf returns where the cards are. Of NVIDIA's partitionN (NVLink domains of its fabric manager) it takes the numbers that its GPUs
// have.
func topologyOf(set *cards.Set) *cluster.Topology {
	known := func(names ...string) []string {
		for _, name := range names {
			values := set.Values(name)
			if slices.ContainsFunc(values, func(v string) bool { return v != "" }) {
				return values
			}
		}
		return nil
	}
	t := cluster.Topology{
		NUMA:   known(deviceattribute.StandardDeviceAttributePrefix+"numaNode", "numaNode"),
		Roots:  known(string(deviceattribute.StandardDeviceAttributePCIeRoot)),
		Linked: map[int][]string{},
	}
	for k := 2; k <= len(set.Cards); k++ {
		if values := known("partition" + strconv.Itoa(k)); values != nil {
			t.Linked[k] = values
		}
	}
	if t.NUMA == nil && t.Roots == nil && len(t.Linked) == 0 {
		return nil
	}
	return &t
}

// places lets nodes whose devices are at the same places have one topology: networks take its pointer for what they know of a node, and so
// know two such nodes as one.
type places struct {
	known map[string]*shape            // those of before, by node
	by    map[string]*cluster.Topology // by what they hold; nil until it is needed
}

// intern replaces the topology of a new shape by an equal one that there is already.
func (p *places) intern(s *shape) {
	if s.topology == nil {
		return
	}
	if p.by == nil {
		p.by = make(map[string]*cluster.Topology, len(p.known))
		for _, k := range p.known {
			if k.topology != nil {
				p.by[placesKey(k.topology)] = k.topology
			}
		}
	}
	key := placesKey(s.topology)
	if equal := p.by[key]; equal != nil {
		s.topology = equal
		return
	}
	p.by[key] = s.topology
}

// placesKey returns a text that is equal for equal topologies only: it quotes the values, which are a driver's.
func placesKey(t *cluster.Topology) string {
	return fmt.Sprintf("%#v", *t)
}
