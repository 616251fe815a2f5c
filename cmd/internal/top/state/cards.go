package state

import (
	"cmp"
	"slices"
	"strings"

	"gnnsched/internal/cluster"
)

// Card is a GPU of a node with those who have it.
type Card struct {
	Name       string // in its ResourceSlice; empty for a device that only the node's capacity counts
	Partitions bool   // partitions share it, as with MIG
	Milli      int64  // thousandths that are requested
	Unnamed    int64  // of these, what pods request that name no device
	Parts      []Part // by pod and device
}

// Part is the share of a card that one pod or claim has.
type Part struct {
	Pod    string `json:"pod,omitempty"`    // NAMESPACE/NAME; empty for a claim that no pod on the node has
	Claim  string `json:"claim,omitempty"`  // empty for a pod whose annotation names the card
	Device string `json:"device,omitempty"` // allocated to the claim: the card, or a partition of it
	Milli  int64  `json:"gpu"`              // thousandths of the card; pods that share a claim all have its whole amount
}

// cardsOf returns the GPUs of a node in their order; nil if there are none.
func (c *Cluster) cardsOf(node string) []Card {
	c.mu.Lock()
	defer c.mu.Unlock()
	if s := c.nodes[node]; s != nil {
		return c.cards(map[string]*nodeSum{node: s})[node]
	}
	return nil
}

// cards returns the GPUs of some nodes.
func (c *Cluster) cards(nodes map[string]*nodeSum) map[string][]Card {
	c.devices.count()
	out := map[string][]Card{}
	for name, s := range nodes {
		if !s.known {
			continue
		}
		n, set, used := s.Node, c.devices.cards[name], c.devices.used[name]
		c.devices.show(&n, s.named, s.unnamed)
		for i, milli := range n.Devices {
			x := Card{Milli: milli, Unnamed: milli}
			if set != nil && i < len(set.Cards) {
				x.Name, x.Partitions = Printable(set.Cards[i].Name), set.Cards[i].Counters != nil
			}
			if i < len(s.named) {
				x.Unnamed -= s.named[i]
			}
			if i < len(used) {
				x.Unnamed -= used[i]
			}
			out[name] = append(out[name], x)
		}
	}
	c.addParts(out)
	for _, list := range out {
		for i := range list {
			slices.SortFunc(list[i].Parts, func(a, b Part) int {
				return cmp.Or(CompareNatural(a.Pod, b.Pod), CompareNatural(a.Device, b.Device), strings.Compare(a.Claim, b.Claim))
			})
		}
	}
	return out
}

// addParts adds what pods have of the nodes' cards by annotations and by claims.
func (c *Cluster) addParts(of map[string][]Card) {
	add := func(node string, card int, p Part) {
		if card < len(of[node]) {
			of[node][card].Parts = append(of[node][card].Parts, p)
		}
	}
	type claimed struct {
		claim podKey
		node  string
	}
	holders := map[claimed][]string{} // of each claim, the pods on the node
	for k, p := range c.pods {
		if p.node == nil || of[p.node.Name] == nil {
			continue
		}
		name := k.namespace.Value() + "/" + k.name
		for i := range cluster.MaxDevices {
			if p.devices.Has(i) {
				add(p.node.Name, i, Part{Pod: name, Milli: p.gpu / int64(p.devices.Len())})
			}
		}
		for _, claim := range p.claims {
			key := claimed{podKey{k.namespace, claim}, p.node.Name}
			holders[key] = append(holders[key], name)
		}
	}
	for k, x := range c.devices.claims {
		for i := range x.Results {
			node, card, milli := c.devices.taken(&x.Results[i])
			if of[node] == nil || milli == 0 {
				continue
			}
			pods := holders[claimed{k, node}]
			if len(pods) == 0 {
				pods = []string{""}
			}
			for _, pod := range pods {
				add(node, card, Part{
					Pod: pod, Claim: Printable(k.namespace.Value() + "/" + k.name), Device: Printable(x.Results[i].Device), Milli: milli,
				})
			}
		}
	}
}
