package state

import (
	"cmp"
	"slices"
	"strings"

	"gnnsched/internal/cluster"
)

// Card is a GPU of a node with those who have it.
type Card struct {
	Name       string // in its ResourceSlice; empty for one that only the node's capacity counts
	Partitions bool   // partitions share it, as with MIG
	Milli      int64  // thousandths that are requested
	Unnamed    int64  // of these, what pods request that name no device
	Parts      []Part // by pod and device
}

// Part is the share of a card that one pod or claim has.
type Part struct {
	Pod    string // NAMESPACE/NAME; empty for a claim that no pod on the node has
	Claim  string // empty for a pod whose annotation names the card
	Device string // that the claim got: the card, or a partition of it
	Milli  int64  // thousandths of the card; each pod with a shared claim has all of it
}

// CardsOf returns the GPUs of a node in their order; nil if there are none.
func (c *Cluster) CardsOf(node string) []Card {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := c.nodes[node]
	if s == nil || !s.known {
		return nil
	}
	c.devices.count()
	n, set, used := s.Node, c.devices.cards[node], c.devices.used[node]
	c.devices.show(&n, s.named, s.unnamed)
	var out []Card
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
		out = append(out, x)
	}
	c.addParts(out, node)
	for i := range out {
		slices.SortFunc(out[i].Parts, func(a, b Part) int {
			return cmp.Or(CompareNatural(a.Pod, b.Pod), CompareNatural(a.Device, b.Device), strings.Compare(a.Claim, b.Claim))
		})
	}
	return out
}

// addParts adds what pods have of a node's cards by annotations and by claims.
func (c *Cluster) addParts(of []Card, node string) {
	add := func(card int, p Part) {
		if card < len(of) {
			of[card].Parts = append(of[card].Parts, p)
		}
	}
	holders := map[podKey][]string{} // of each claim, the pods on the node
	for k, p := range c.pods {
		if p.node == nil || p.node.Name != node {
			continue
		}
		name := k.namespace.Value() + "/" + k.name
		for i := range cluster.MaxDevices {
			if p.devices.Has(i) {
				add(i, Part{Pod: name, Milli: p.gpu / int64(p.devices.Len())})
			}
		}
		for _, claim := range p.claims {
			key := podKey{k.namespace, claim}
			holders[key] = append(holders[key], name)
		}
	}
	for k, x := range c.devices.claims {
		for i := range x.Results {
			on, card, milli := c.devices.taken(&x.Results[i])
			if on != node || milli == 0 {
				continue
			}
			pods := holders[k]
			if len(pods) == 0 {
				pods = []string{""}
			}
			for _, pod := range pods {
				add(card, Part{Pod: pod, Claim: Printable(k.namespace.Value() + "/" + k.name), Device: Printable(x.Results[i].Device), Milli: milli})
			}
		}
	}
}
