package cluster

import (
	"fmt"
	"hash/fnv"
	"maps"
	"slices"
	"strings"
)

// Kind is the pods that are alike: they request the same and may run on the same nodes.
type Kind struct {
	Pod     Pod     // one of them
	Arrived float64 // pods that have arrived, of which older ones count less
	Waiting float64 // pods without a node
	key     string
}

// Text names the kind, as "4 CPU, 16 GiB, disk=ssd".
func (k *Kind) Text() string { return KindText(k.Pod.Requests, k.Pod.Where()) }

// Hash is the same for the same kind in each process, and almost surely another one for another kind.
func (k *Kind) Hash() uint64 {
	h := fnv.New64a()
	_, _ = h.Write([]byte(k.key)) // never fails
	return h.Sum64()
}

// Demand counts the pods that arrive and wait, by kind. The zero value has seen none. It is not safe for concurrent use.
type Demand struct {
	Kinds []*Kind // at most maxKinds, in the order in which they came
	// Epoch identifies the list of kinds. Demands with the same Epoch, such as a copy and its original, have the same kinds in the same order.
	Epoch Version

	byKey map[string]*Kind
}

const (
	// maxKinds is the largest number of kinds that a Demand tells apart: those of which most pods arrive and wait.
	maxKinds = 64
	// remembered is the number of further arrivals after which an arrival counts 1/e.
	remembered = 500
	// forgotten is the count below which a kind without waiting pods is dropped.
	forgotten = 0.01
)

// kind returns the kind of a pod with a KindKey, a new one if none of its kind has been counted.
func (d *Demand) kind(key string, p *Pod) *Kind {
	if k := d.byKey[key]; k != nil {
		return k
	}
	if d.byKey == nil {
		d.byKey = map[string]*Kind{}
	}
	if len(d.Kinds) >= maxKinds {
		i := 0
		for j, k := range d.Kinds {
			if k.Arrived+k.Waiting < d.Kinds[i].Arrived+d.Kinds[i].Waiting {
				i = j
			}
		}
		d.drop(i)
	}
	k := &Kind{Pod: *p, key: key}
	k.Pod.Name, k.Pod.Owner = "", ""
	d.byKey[key] = k
	d.Kinds = append(d.Kinds, k)
	d.Epoch = NextVersion()
	return k
}

// Arrive counts a pod, of which key is the KindKey, that has arrived.
func (d *Demand) Arrive(key string, p *Pod) {
	for i := len(d.Kinds) - 1; i >= 0; i-- {
		k := d.Kinds[i]
		if k.Arrived *= 1 - 1./remembered; k.Arrived < forgotten && k.Waiting <= 0 {
			d.drop(i)
		}
	}
	d.kind(key, p).Arrived++
}

func (d *Demand) drop(i int) {
	delete(d.byKey, d.Kinds[i].key)
	d.Kinds = slices.Delete(d.Kinds, i, i+1)
	d.Epoch = NextVersion()
}

// KindKey returns a text that is the same for pods of one kind, and another for others.
func KindKey(p *Pod) string {
	var b strings.Builder
	fmt.Fprint(&b, p.Requests, p.Partition)
	for _, k := range slices.Sorted(maps.Keys(p.NodeSelector)) {
		fmt.Fprintf(&b, "|%q=%q", k, p.NodeSelector[k])
	}
	for _, m := range p.GPUModels {
		fmt.Fprintf(&b, "|%q", m)
	}
	for _, terms := range p.NodeAffinity {
		fmt.Fprintf(&b, "|%q", terms)
	}
	return b.String() + "|" + TolerationsKey(p.Tolerations)
}

// Wait counts n more pods of a kind, of which p with the KindKey key is one, that have no node; n may be negative. A kind that was dropped
// does not come back when its pods wait no longer.
func (d *Demand) Wait(key string, p *Pod, n float64) {
	if n < 0 && d.byKey[key] == nil {
		return
	}
	k := d.kind(key, p)
	k.Waiting = max(k.Waiting+n, 0)
}

// NoneWait sets the counts of waiting pods to 0.
func (d *Demand) NoneWait() {
	for _, k := range d.Kinds {
		k.Waiting = 0
	}
}

// CopyTo makes dst a copy of d, in the memory of an older copy.
func (d *Demand) CopyTo(dst *Demand) {
	if dst.Epoch != d.Epoch {
		*dst = Demand{Epoch: d.Epoch, byKey: make(map[string]*Kind, len(d.Kinds))}
		for _, k := range d.Kinds {
			dst.Kinds = append(dst.Kinds, &Kind{})
			dst.byKey[k.key] = dst.Kinds[len(dst.Kinds)-1]
		}
	}
	for i, k := range d.Kinds {
		*dst.Kinds[i] = *k
	}
}
