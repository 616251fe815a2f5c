package partition

import (
	"fmt"
	"strings"

	"gnnsched/internal/choice"
	"gnnsched/internal/cluster/mig"
	"gnnsched/internal/files"
	"gnnsched/scheduler/policy"
)

// rule is a way to rate placements.
type rule struct {
	name, about string
	loss        func(Mix) loss
	mix         bool // the loss depends on the mix
}

var rules = []rule{
	{"first-fit", "the first GPU with room, as low as possible", func(Mix) loss { return func(_, _ mig.Slices) float64 { return 0 } }, false},
	{"best-fit", "the GPU with least room, where most placements stay free", func(Mix) loss { return leastRoom }, false},
	{"placements", "the placement that leaves most placements free", func(Mix) loss { return growth(taken) }, false},
	{"blocked", "the placement that blocks least, counted without knowledge of the workload", func(Mix) loss { return growth(blocked) },
		false},
	{"fgd", "the placement after which typical pods can use most", func(m Mix) loss { return growth(m.fragmentation) }, true},
	{"value", "the placement of least learned cost", func(m Mix) loss { return growth(learned().potential(m)) }, true},
}

// ruleNames returns the names of the rules.
func ruleNames() (names []string) {
	for _, r := range rules {
		names = append(names, r.name)
	}
	return names
}

// Find returns a constructor of the policy with a rule, or with the values in a .json file, and whether it goes by the mix. The policy's
// name is given; others decides about pods that request no partition.
func Find(name string) (make func(name string, m Mix, others policy.Policy) *Policy, mix bool, err error) {
	if strings.HasSuffix(name, ".json") {
		b, err := files.Read(name, files.Data)
		if err != nil {
			return nil, false, fmt.Errorf("values of MIG states: %w", err)
		}
		v, err := parse(b)
		if err != nil {
			return nil, false, fmt.Errorf("%s: %w", name, err)
		}
		return func(as string, m Mix, others policy.Policy) *Policy {
			return newPolicy(as, growth(v.potential(m)), others)
		}, true, nil
	}
	for _, r := range rules {
		if r.name == name {
			return func(as string, m Mix, others policy.Policy) *Policy { return newPolicy(as, r.loss(m), others) }, r.mix, nil
		}
	}
	return nil, false, choice.Unknown("rule for partitions", name, append(ruleNames(), "FILE.json"))
}

// leastRoom prefers the GPU with the least memory slices left, and on it the start that leaves most placements.
func leastRoom(_, after mig.Slices) float64 {
	const more = 100 // than there are placements
	return float64(more*(mig.Memory-after.Len()) - mig.Placements(after))
}

// taken is the number of placements that are not free. To leave the most free is the rule MCC of Siavashi and Momtazpour (2025), by the
// change and not by what the GPU has afterwards, which would prefer idle GPUs.
func taken(used mig.Slices) float64 { return -float64(mig.Placements(used)) }

// blocked counts, for the profiles for which enough slices are free, the memory slices of the placements that are not free. The rule of
// least growth follows the minimum fragmentation increment of Zambianco et al., "An Online Fragmentation-Aware GPU Scheduler for
// Multi-Tenant MIG-based Clouds", 2025.
func blocked(used mig.Slices) (sum float64) {
	free := mig.Memory - used.Len()
	for _, p := range mig.Profiles() {
		if p.Memory() > free {
			continue
		}
		for _, s := range p.Starts() {
			if used&p.On(s) != 0 {
				sum += float64(p.Memory())
			}
		}
	}
	return sum
}

// fragmentation is the part of the free memory slices that the pods of the mix cannot use, as FGD counts it (Weng et al., USENIX ATC 2023).
func (m Mix) fragmentation(used mig.Slices) (sum float64) {
	for _, p := range mig.Profiles() {
		sum += m[p] * float64(mig.Wasted(used, p))
	}
	return sum
}
