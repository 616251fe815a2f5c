package fragmentation

import (
	"math/bits"

	"gnnsched/internal/cluster"
	"gnnsched/internal/cluster/mig"
)

// Access is the set of kinds of tolerations that let a pod on a node. Pods of one kind have equal
// tolerations.
type Access uint64

// anywhere is the access to a node without taints: all kinds.
const anywhere = ^Access(0)

// maxKinds is the number of kinds that an Access can hold.
const maxKinds = 64

// kinds numbers tolerations from 0, the number of none. Those beyond maxKinds count as none.
type kinds struct {
	numbers map[string]int
	list    [][]cluster.Toleration
}

func newKinds() *kinds {
	return &kinds{numbers: map[string]int{"": 0}, list: [][]cluster.Toleration{nil}}
}

func (k *kinds) of(tolerations []cluster.Toleration) int {
	key := cluster.TolerationsKey(tolerations)
	number, known := k.numbers[key]
	if !known && len(k.list) < maxKinds {
		number = len(k.list)
		k.numbers[key] = number
		k.list = append(k.list, tolerations)
	}
	return number
}

// add counts pods of a kind.
func (p *Pod) add(kind int, count float64) {
	if !(count > 0) {
		return
	}
	for len(p.shares) <= kind {
		p.shares = append(p.shares, 0)
	}
	p.shares[kind] += count
	p.kinds |= 1 << kind
}

// On returns the frequency of the pods that tolerate the taints of a node with the given access.
func (p *Pod) On(a Access) float64 {
	if p.kinds&^a == 0 {
		return p.Frequency
	}
	share := 0.0
	for rest := p.kinds & a; rest != 0; rest &= rest - 1 {
		share += p.shares[bits.TrailingZeros64(uint64(rest))]
	}
	return p.Frequency * share
}

// Kinds returns the kinds of tolerations that pods of the shape have.
func (p *Pod) Kinds() Access { return p.kinds }

// Access returns the kinds of tolerations with which a pod with GPUs may go to the node, cordoned or not.
// It has all kinds if all such pods of the workload may.
func (t *Typical) Access(n *cluster.Node) (a Access) {
	if t == nil || len(n.Taints) == 0 {
		return anywhere
	}
	for i, tolerations := range t.kinds {
		if n.Tolerated(tolerations) {
			a |= 1 << i
		}
	}
	if t.gpuKinds&^a == 0 {
		return anywhere
	}
	return a & t.gpuKinds
}

// Open reports whether pods with GPUs of the workload may use the node: it is not cordoned, and some
// of them tolerate its taints. If no such pods are known, it reports whether pods without tolerations
// may.
func (t *Typical) Open(n *cluster.Node) bool {
	if t == nil || t.gpuKinds == 0 {
		return n.Available()
	}
	return !n.Unschedulable && t.Access(n)&t.gpuKinds != 0
}

// Partitions returns each profile's share of the workload's requests for MIG partitions, by the index of the profile. A pod's profile
// follows from its requested thousandths of a GPU. The shares add up to 1. All profiles have equal shares if no pod requests a partition,
// or t is nil.
func (t *Typical) Partitions() (shares [mig.Count]float64) {
	sum := 0.0
	for _, s := range t.Shapes() {
		if p := mig.OfMilli(s.Milli); p != mig.None && s.Devices == 1 {
			shares[p] += s.Frequency
			sum += s.Frequency
		}
	}
	for _, p := range mig.Profiles() {
		if sum == 0 {
			shares[p] = 1 / float64(len(mig.Profiles()))
		} else {
			shares[p] /= sum
		}
	}
	return shares
}
