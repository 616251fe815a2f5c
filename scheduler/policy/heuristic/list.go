package heuristic

import (
	"fmt"
	"slices"
	"strings"

	"gnnsched/internal/choice"
)

// list holds the heuristics in the order of tables and help texts. The first heuristic for any
// cluster and the first for GPUs are the baselines that others are compared with. As published,
// those for GPUs take the first of tied nodes. Choosing at random would cost some of them five points
// of GPU allocation.
var list = []Heuristic{
	kubernetes,
	mostAllocated,
	requestedToCapacityRatio,
	bestFit,
	dotProduct,
	greedyBalance,
	linearBalance,
	linearPack,
	linearUsage,
	linearEnergy,
	linearZones,
	price,
	reserve,
	targetLoadPacking,
	loadVariation,
	koordinatorLoadAware,
	craneDynamic,
	peaks,
	roundRobin,
	random,

	fgd,
	gpuBestFit,
	gpuPacking,
	gpuClustering,
	gpuDotProduct,
	pwr,
}

// families holds the heuristics that have a parameter in their names.
var families = []family{greedyFamily, aheadFamily, linearFamily, affinityFamily, pwrFGDFamily, powerNetworkFamily, partitionFamily}

// Form is how the names of a family of policies are written.
type Form struct{ Name, About string }

// Forms returns the forms of the heuristics with a parameter in their names.
func Forms() (out []Form) {
	for _, f := range families {
		out = append(out, Form{f.prefix + f.parameter, f.about})
	}
	return out
}

// List returns the heuristics without a parameter: first those for any cluster, then those for
// clusters with GPUs.
func List() []Heuristic { return slices.Clone(list) }

// Names returns the names of the heuristics for any cluster that score by requests, in the order of List.
func Names() []string { return namesOf(func(h Heuristic) bool { return !h.GPU && !h.Usage }) }

// UsageNames returns the names of the heuristics that score by measured usage, in the order of List.
func UsageNames() []string { return namesOf(func(h Heuristic) bool { return h.Usage }) }

// GPUNames returns the names of the heuristics for clusters with GPUs, in the order of List.
func GPUNames() []string { return namesOf(func(h Heuristic) bool { return h.GPU }) }

func namesOf(which func(Heuristic) bool) (names []string) {
	for _, h := range list {
		if which(h) {
			names = append(names, h.Name)
		}
	}
	return names
}

// Find returns the heuristic of a name: one of List, "affinity:TOPOLOGY" for kube-scheduler with podAffinity,
// "greedy:OBJECTIVE" for the one that is greedy for an objective, "ahead:OBJECTIVE" for the one that also thinks of partners
// that are still to come, "linear:FILE" for the one with the weights in a file, "pwr+fgd:WEIGHT" for a mix of
// pwr and fgd, "power+NETWORK:WEIGHT" for a shipped network with a price on power, or "mig:RULE" for MIG partitions. The error of an
// unknown name lists the known ones.
func Find(name string) (Heuristic, error) {
	for _, f := range families {
		if parameter, ok := strings.CutPrefix(name, f.prefix); ok {
			return f.make(parameter)
		}
	}
	for _, h := range list {
		if h.Name == name {
			return h, nil
		}
	}
	known := namesOf(func(Heuristic) bool { return true })
	for _, f := range families {
		known = append(known, f.prefix+f.parameter)
	}
	return Heuristic{}, choice.Unknown("heuristic", name, known)
}

// Help lists the heuristics and the forms of names, a line each, for the help of a command.
func Help() string {
	var b strings.Builder
	for _, h := range list {
		fmt.Fprintf(&b, "   %-27s %s\n", h.Name, h.About)
	}
	for _, f := range Forms() {
		fmt.Fprintf(&b, "   %-27s %s\n", f.Name, f.About)
	}
	return b.String()
}
