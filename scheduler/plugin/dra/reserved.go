package dra

import (
	"slices"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	fwk "k8s.io/kube-scheduler/framework"

	"gnnsched/internal/cluster"
	"gnnsched/scheduler/decision"
)

const reservedKey = CycleKey[*reserved]("gnnsched/" + Name + "/reserved")

// reserved holds what a pod got by claims in its scheduling cycle. It never changes.
type reserved struct {
	node   *Node // nil if a policy knows no cards there
	cards  cluster.DeviceSet
	claims []*resourceapi.ResourceClaim // all of the pod's, with their allocations
	given  []*resourceapi.ResourceClaim // those that were allocated in the cycle
}

// gave reports whether a claim was allocated in the cycle.
func (r *reserved) gave(c *resourceapi.ResourceClaim) bool {
	return slices.ContainsFunc(r.given, func(g *resourceapi.ResourceClaim) bool { return g.UID == c.UID })
}

func reservedIn(state fwk.CycleState) *reserved {
	if r, has := reservedKey.Find(state); has {
		return r
	}
	return &reserved{}
}

// Reserved returns the cards that the claims of a cycle's pod got on its node; none if it has no claims, or if a policy
// cannot choose for them.
func Reserved(state fwk.CycleState) cluster.DeviceSet { return reservedIn(state).cards }

// ReservedDevices returns the devices that a cycle's pod got by all of its claims, those that were allocated before
// included, in the order of the claims.
func ReservedDevices(state fwk.CycleState) (out []decision.ClaimedDevice) {
	r := reservedIn(state)
	for _, c := range r.claims {
		name := c.Name
		if c.ResourceVersion == "" { // the API server does not have it yet
			name = ""
		}
		for i := range c.Status.Allocation.Devices.Results {
			g := &c.Status.Allocation.Devices.Results[i]
			d := decision.ClaimedDevice{Claim: name, Request: g.Request, Driver: g.Driver, Pool: g.Pool, Name: g.Device}
			if r.node != nil {
				_, d.Milli = r.node.shape.Taken(g)
			}
			out = append(out, d)
		}
	}
	return out
}

// allClaims returns the allocated claims of a pod, given those of them that are being reserved.
func (l *Ledger) allClaims(pod *v1.Pod, given []*resourceapi.ResourceClaim) (out []*resourceapi.ResourceClaim) {
	for _, c := range l.claims(pod) {
		if c.Status.Allocation != nil {
			out = append(out, c)
		}
	}
	for _, g := range given { // the one for extended resources, which the pod does not name yet
		if !slices.ContainsFunc(out, func(c *resourceapi.ResourceClaim) bool { return c.UID == g.UID }) {
			out = append(out, g)
		}
	}
	return out
}

// node returns what claims use on a node in the last view; nil if it has no cards.
func (l *Ledger) node(name string) *Node {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.last.Node(name)
}

// CardNames names cards of the node as DRIVER/POOL/NAME. n may be nil.
func (n *Node) CardNames(on cluster.DeviceSet) (names []string) {
	if n == nil {
		return nil
	}
	for i, c := range n.shape.Cards {
		if on.Has(i) {
			names = append(names, c.Driver+"/"+c.Pool+"/"+c.Name)
		}
	}
	return names
}
