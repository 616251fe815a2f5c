package feature

import (
	"math"

	"gnnsched/internal/cluster"
)

func init() { Register(wishes) }

// WishTerm is a term of the objective whose weight the set wishes reads.
type WishTerm struct {
	Name string // of the term in package scheduler/objective
	// Unit is the weight that makes the term's cost vary as much between policies as that of balance with the weight 1.
	Unit float64
}

// WishTerms lists these terms. The units are measured on the scenario family-power: from the policy that is best for a
// term to one that ignores it, balance rises by 0.19, energy by 0.07 and pack by 0.39.
var WishTerms = [...]WishTerm{{"balance", 1}, {"energy", 2.5}, {"pack", 0.5}}

// Wishes holds the share of each of WishTerms in an objective: its weight / Unit, divided by the sum of these. The
// shares are 0 or more and add up to 1; without an objective all are 0.
type Wishes [len(WishTerms)]float32

// The columns of WishTerms.
const (
	balanceTerm = iota
	energyTerm
	packTerm
)

// wishes describes which objective counts, and what a placement does to its terms.
var wishes = &Set{
	Name:    "wishes",
	Doc:     "The share of each term in the objective, what a placement does to the terms, and what the machines draw.",
	Version: 1,
	Wishes:  true,
	Node:    machineBlocks,
	Cluster: []ClusterBlock{
		One("share_balance", "share of balance in the objective", func(c *Candidates) float32 { return c.Wishes[balanceTerm] }),
		One("share_energy", "share of energy", func(c *Candidates) float32 { return c.Wishes[energyTerm] }),
		One("share_pack", "share of pack", func(c *Candidates) float32 { return c.Wishes[packTerm] }),
		unusedBlock,
	},
	Candidate: []CandidateBlock{{Features: wishFeatures(), Fill: fillWishes}},
}

// The columns of the features of a candidate that are multiplied by each term's share.
const (
	gainColumn = len(WishTerms) // after the gains
	wattsAt    = iota
	loadAt
	overAt
	matchAt
	roomAt
	emptyAt
	sizeAt
	multiplied
)

// multipliedFeatures describe a candidate once the pod is placed there.
var multipliedFeatures = [multiplied]Feature{
	0:       {Name: "gain", Doc: "gain_ of the term"},
	wattsAt: {Name: "watts", Doc: "log2(watts of a core at full load / mean over the available nodes), within ±4"},
	loadAt:  {Name: "load", Doc: "mean of requested / allocatable CPU and memory", In: Fraction},
	overAt:  {Name: "over", Doc: "all_over of the set whole"},
	matchAt: {Name: "match", Doc: "match of the set whole"},
	roomAt:  {Name: "room", Doc: "room of the set base", In: Amount},
	emptyAt: {Name: "empty", Doc: "empty of the set whole", In: Flag},
	sizeAt:  {Name: "size", Doc: "size of the set whole"},
}

// wishFeatures lists the features of a candidate: for each term how much the placement lowers its cost, then watts, then
// for each term multipliedFeatures times its share, then the sum of the gains times the shares.
func wishFeatures() (out []Feature) {
	for _, t := range WishTerms {
		out = append(out, Feature{Name: "gain_" + t.Name,
			Doc: "by how much the placement lowers " + t.Name + ", times available nodes and the term's unit, within ±4"})
	}
	out = append(out, multipliedFeatures[wattsAt])
	for _, t := range WishTerms {
		for _, f := range multipliedFeatures {
			out = append(out, Feature{Name: t.Name + "_" + f.Name, Doc: f.Doc + ", times share_" + t.Name, In: shared(f.In)})
		}
	}
	return append(out, Feature{Name: "gain", Doc: "sum of the gains times their shares"})
}

// shared returns the domain of a feature times a share of the objective.
func shared(d Domain) Domain {
	if d == Flag {
		return Fraction
	}
	return d
}

// fillWishes writes the features of every candidate.
func fillWishes(c *Candidates, out Rows) {
	a := c.all()
	cpu, memory := a.cpu.rise(1), a.memory.rise(1)
	cpuOver, memoryOver := a.cpu.excess(), a.memory.excess()
	full := c.fullPower()
	expected := c.Pod.Expected(cluster.UsedCPU)
	var sizes knownSizes
	for i, v := range c.Rows {
		n, s, row := c.Nodes[v], &c.Shares[i], out.Row(i)
		x, y := s.CPU+s.AddCPU, s.Memory+s.AddMemory
		size, empty := sizes.of(n.Allocatable, a), flag(n.Requested.Pods == 0)
		gains := [len(WishTerms)]float32{
			balanceTerm: -(cpu.by(x, s.AddCPU) + memory.by(y, s.AddMemory)) / 2,
			energyTerm:  -float32(quotient(cluster.PowerRise(n, expected), full.mean)),
			packTerm:    -empty,
		}
		watts := float32(logRatio(cluster.MachinePower(n).Full, full.core*float64(n.Allocatable.MilliCPU)))
		values := [multiplied]float32{
			wattsAt: watts, loadAt: (x + y) / 2,
			overAt:  clamp(cpuOver.by(s.CPU, s.AddCPU) + memoryOver.by(s.Memory, s.AddMemory)),
			matchAt: clamp(float32(a.podSize * size)),
			roomAt:  lessRoom(c.Largest, n.Free(), c.Pod.Requests), emptyAt: empty, sizeAt: float32(size),
		}
		at, sum := gainColumn+1, float32(0)
		for t, share := range c.Wishes {
			values[0] = clamp(gains[t] * float32(WishTerms[t].Unit))
			row[t] = values[0]
			sum += share * values[0]
			for k, f := range values {
				row[at+k] = share * f
			}
			at += multiplied
		}
		row[gainColumn], row[at] = watts, sum
	}
}

// fullPower is the draw of the available nodes at full load, in watts.
type fullPower struct {
	mean float64 // of a node
	core float64 // of a thousandth of a core, over all nodes
}

// fullPower returns what the available nodes draw at full load.
func (c *Candidates) fullPower() fullPower {
	var nodes, watts, machines, milliCPU float64
	for _, n := range c.Nodes {
		if n.Available() {
			nodes++
			watts += cluster.FullPower(n)
			machines += cluster.MachinePower(n).Full
			milliCPU += float64(n.Allocatable.MilliCPU)
		}
	}
	return fullPower{watts / max(nodes, 1), math.Max(quotient(machines, milliCPU), 1e-9)}
}
