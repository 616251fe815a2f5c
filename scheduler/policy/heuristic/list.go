// Package heuristic holds the policies that follow a fixed rule instead of learned weights: a file
// for each family, and the list of all of them in list.go. Add a heuristic by writing it beside its
// like and naming it in that list.
package heuristic

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"

	"gnnsched/gnn/checkpoint"
	"gnnsched/internal/choice"
	"gnnsched/internal/cluster"
	"gnnsched/internal/each"
	"gnnsched/scheduler/policy"
	"gnnsched/scheduler/policy/linear"
	"gnnsched/scheduler/policy/neural"
	"gnnsched/scheduler/policy/partition"
	"gnnsched/scheduler/policy/supply"
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
	borg,
	greedyBalance,
	linearBalance,
	linearPack,
	linearUsage,
	linearEnergy,
	linearZones,
	rule,
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
	gpuFill,
	gpuBestFit,
	gpuPacking,
	gpuClustering,
	gpuDotProduct,
	pwr,
}

// families holds the heuristics that have a parameter in their names.
var families = []family{greedyFamily, aheadFamily, linearFamily, affinityFamily, pwrFGDFamily, powerNetworkFamily,
	balanceFamily, partitionFamily}

// Form is how the names of a family of policies are written.
type Form struct{ Name, About string }

// Forms returns the forms of the heuristics with a parameter in their names.
func Forms() []Form {
	return each.Map(families, func(f family) Form { return Form{f.prefix + f.parameter, f.about} })
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
// pwr and fgd, "power+NETWORK:WEIGHT" for a shipped network with a price on power, "balance+POLICY:WEIGHT" for prices of room with a
// weight on balance, or "mig:RULE" for MIG partitions. The error of an unknown name lists the known ones.
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
	known = append(known, each.Map(families, func(f family) string { return f.prefix + f.parameter })...)
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

// The linear policies whose weights the program carries.
var (
	linearBalance = tuned("linear", "balance")
	linearEnergy  = byUsage(tuned("linear-energy", "little energy and little throttled work, by measured usage"))
	linearPack    = tuned("linear-pack", "packing")
	linearUsage   = byUsage(tuned("linear-usage", "evenly used nodes, by measured usage"))
	linearZones   = tuned("linear-zones", "packing with even zones")
)

// rule is linear with weights that change with the state.
var rule = Heuristic{
	Name: "rule", About: "linear, with weights that change with how full the cluster is and how many nodes preferences leave, for balance",
	New: func(policy.Setting) policy.Policy { return linear.Rule() },
}

// tuned returns the linear policy of a name, whose weights were tuned for a purpose.
func tuned(name, purpose string) Heuristic {
	about := "a weighted sum of hand-made features, tuned by the cross-entropy method for " + purpose
	if linear.Tuned(name).Tuning == nil {
		about += " (the command was not recorded)"
	}
	return Heuristic{
		Name: name, About: about,
		New: func(policy.Setting) policy.Policy { return linear.Tuned(name) },
	}
}

// byUsage marks a policy as one that looks at measured usage.
func byUsage(h Heuristic) Heuristic {
	h.Usage = true
	return h
}

// linearFamily is the linear policies with the weights in a file, such as "linear:mine.json".
var linearFamily = family{prefix: linearPrefix, parameter: "FILE",
	about: "a weighted sum of features, with weights from a file of gnnsched tune", make: linearFrom}

const linearPrefix = "linear:"

func linearFrom(file string) (Heuristic, error) {
	loaded, err := linear.Load(file)
	if err != nil {
		return Heuristic{}, err
	}
	p := loaded.Named(FromWeights(file))
	return Heuristic{Name: p.Name(), About: "a weighted sum of hand-made features, with the weights of a file",
		New: func(policy.Setting) policy.Policy { return p.Named(p.Name()) }}, nil
}

// FromWeights returns the name for Find of the linear policy with the weights in a file.
func FromWeights(file string) string { return linearPrefix + file }

// partitionFamily places MIG partitions. Pods that request none are placed as by gpu-best-fit.
var partitionFamily = family{"mig:", "RULE", "for MIG partitions: the node, the GPU and the start by a rule",
	func(name string) (Heuristic, error) {
		build, mix, err := partition.Find(name)
		if err != nil {
			return Heuristic{}, err
		}
		name = "mig:" + name
		return Heuristic{
			Name:  name,
			About: "for MIG partitions: the node, the GPU and the start by a rule",
			New: func(s policy.Setting) policy.Policy {
				return build(name, partition.MixOf(s.Typical), gpuBestFit.New(s))
			},
			GPU: true, TypicalPods: mix,
		}, nil
	}}

var random = Heuristic{
	Name:  "random",
	About: "any node, with equal probability",
	New:   func(s policy.Setting) policy.Policy { return NewRandom(rand.New(rand.NewPCG(s.Seed, randomStream))) },
}

// randomStream separates the random numbers of this policy from others of the same seed.
const randomStream = 0x72616e64

// uniform scores at random, so that every candidate is equally likely to win.
type uniform struct{ rng *rand.Rand }

// NewRandom returns the policy that chooses nodes, and devices with room for a share, with equal
// probability. It draws from rng, which must not be used elsewhere at the same time.
func NewRandom(rng *rand.Rand) policy.DeviceChooser { return &uniform{rng} }

// Name implements policy.Policy.
func (*uniform) Name() string { return "random" }

// Score implements policy.Policy.
func (r *uniform) Score(_ *cluster.Snapshot, _ *cluster.Pod, _ []int32, scores []float32) error {
	for i := range scores {
		scores[i] = r.rng.Float32()
	}
	return nil
}

// Devices implements policy.DeviceChooser.
func (r *uniform) Devices(n *cluster.Node, pod *cluster.Pod) cluster.DeviceSet {
	on := n.ChooseDevices(pod.Requests)
	if pod.Requests.GPUMilli == 0 || on == 0 {
		return on
	}
	fitting := 0
	for i, used := range n.GPUs {
		if used+pod.Requests.GPUMilli > cluster.DeviceMilli {
			continue
		}
		if fitting++; r.rng.IntN(fitting) == 0 {
			on = cluster.Device(i)
		}
	}
	return on
}

var roundRobin = Heuristic{
	Name:  "round-robin",
	About: "the nodes in turn",
	New:   func(policy.Setting) policy.Policy { return &inTurn{} },
}

// inTurn takes the nodes in turn, in the snapshot's order: the first candidate after the node that
// scored best last time, which it assumes was chosen. When nodes join or leave, it continues at the
// same place in the list, so it may skip a node or repeat one.
type inTurn struct{ next int }

// Name implements policy.Policy.
func (*inTurn) Name() string { return "round-robin" }

// Score implements policy.Policy. The score is minus the number of nodes until the candidate's
// turn.
func (r *inTurn) Score(s *cluster.Snapshot, _ *cluster.Pod, candidates []int32, scores []float32) error {
	nodes := len(s.Nodes)
	for i, v := range candidates {
		away := int(v) - r.next
		if away < 0 {
			away += nodes
		}
		scores[i] = float32(-away)
	}
	if best := policy.Best(scores); best >= 0 {
		r.next = (int(candidates[best]) + 1) % nodes
	}
	return nil
}

// Heuristic describes a policy that needs no checkpoint file: how users call it, how it is made, and the
// traits that simulator, trainer and plugin must know.
type Heuristic struct {
	Name  string                             // in flags, configuration files and tables; also its Policy's Name
	About string                             // a few words for help texts
	New   func(policy.Setting) policy.Policy // makes a policy for one episode or one scheduler profile

	// GPU marks heuristics for clusters with GPUs.
	GPU bool
	// Usage marks heuristics that score by measured usage, and by requests where nothing is measured.
	Usage bool
	// TypicalPods marks heuristics that need Setting.Typical. A scheduler must count the arriving
	// pods for them.
	TypicalPods bool
	// Kinds marks heuristics that need cluster.Snapshot.Demand. A scheduler must count its pods for them.
	Kinds bool
	// Network names the shipped network for GPUs that the policy runs; empty for none. A scheduler begins with the
	// typical pods of its training.
	Network string
	// RandomTies marks heuristics that choose at random among tied best nodes, as kube-scheduler
	// does. The others take the first of them.
	RandomTies bool
}

// family is a group of heuristics whose names end in a parameter, such as "greedy:balance".
type family struct {
	prefix    string                                    // of the names
	parameter string                                    // the parameter's placeholder in messages
	about     string                                    // a few words for help texts
	make      func(parameter string) (Heuristic, error) // makes the heuristic of a parameter
}

// fixed returns a constructor of a policy without state, which all episodes may share.
func fixed(p policy.Policy) func(policy.Setting) policy.Policy {
	return func(policy.Setting) policy.Policy { return p }
}

// The rules that keep room for pods which few nodes serve. They know the kinds of pods that have arrived (cluster.Demand); where nobody
// counts them they are linear.
var (
	price = Heuristic{
		Name: "price", About: "a node whose room the pods that arrive need least, by how many they are and how little room is left for them",
		New:   func(policy.Setting) policy.Policy { return supply.New("price", &byArrivals{}) },
		Kinds: true,
	}
	reserve = Heuristic{
		Name: "reserve", About: "a node that serves the fewest of those kinds of pods which not every node serves; of equal ones, linear's",
		New:   func(policy.Setting) policy.Policy { return &reserved{linear: linear.Tuned("linear")} },
		Kinds: true,
	}
)

// balanceFamily is the policies that price room, with a weight on balance, such as "balance+gnn:0.5".
var balanceFamily = family{prefix: balancePrefix, parameter: "POLICY:WEIGHT",
	about: "POLICY (price, gnn, dqn, acgnn or acdqn) with more weight on balance: among placements whose costs differ by less than WEIGHT " +
		"percent of a node, linear chooses; usual is 0.015, and more is more even and lets more pods wait, such as balance+gnn:0.5",
	make: balanced}

const balancePrefix = "balance+"

func balanced(parameter string) (Heuristic, error) {
	name, weight, err := weighted(balancePrefix, parameter, "a percentage of a node over 0")
	if err == nil && weight == 0 {
		err = fmt.Errorf("%s%s: the weight is 0; without a weight it is 0.015", balancePrefix, parameter)
	}
	if err != nil {
		return Heuristic{}, err
	}
	full := balancePrefix + parameter
	priced := func(policy.Setting) policy.Policy { return supply.New(full, &byArrivals{}) }
	if known := append(checkpoint.ShippedFor(checkpoint.KindsGraph), price.Name); !slices.Contains(known, name) {
		return Heuristic{}, fmt.Errorf("%s%s: %w", balancePrefix, parameter, choice.Unknown("policy", name, known))
	}
	if name != price.Name {
		net, err := shippedOn(checkpoint.KindsGraph, name)
		if err != nil {
			return Heuristic{}, fmt.Errorf("%s%s: %w", balancePrefix, parameter, err)
		}
		priced = func(policy.Setting) policy.Policy { return neural.New(full, net, nil) }
	}
	return Heuristic{
		Name: full, About: name + " with a weight on evenly loaded nodes", Kinds: true,
		New: func(s policy.Setting) policy.Policy {
			p := priced(s)
			p.(interface{ SetBalance(percent float64) }).SetBalance(weight)
			return p
		},
	}, nil
}

// byArrivals is the prices of the rule price. A place for pods of a kind costs
//
//	π = nodes / 5 · arrived / (1 + free places)²
//
// with arrivals as a share of all: about what it adds to the sum over the kinds of arrived / (1 + free places) if the place is lost. The
// factor makes prices about as large as the networks' on clusters of all sizes.
type byArrivals struct{ prices []float64 }

// Prices implements supply.Pricer.
func (p *byArrivals) Prices(_ *cluster.Snapshot, t *supply.Table) ([]float64, error) {
	p.prices = p.prices[:0]
	arrived := each.Sum(t.Kinds, func(k *cluster.Kind) float64 { return k.Arrived })
	for i, k := range t.Kinds {
		free := 1 + t.Totals[i].Free
		p.prices = append(p.prices, t.Nodes/5*k.Arrived/max(arrived, 1)/(free*free))
	}
	return p.prices, nil
}

// reserved is the rule reserve.
type reserved struct {
	linear policy.Policy
	supply supply.Table
}

// Name implements policy.Policy.
func (*reserved) Name() string { return reserve.Name }

// Score implements policy.Policy.
func (p *reserved) Score(s *cluster.Snapshot, pod *cluster.Pod, candidates []int32, scores []float32) error {
	if err := p.linear.Score(s, pod, candidates, scores); err != nil || s.Demand == nil {
		return err
	}
	p.supply.Sync(s)
	low, high := float32(math.Inf(1)), float32(math.Inf(-1))
	for _, v := range scores {
		low, high = min(low, v), max(high, v)
	}
	for i, v := range candidates {
		scores[i] -= (high - low + 1) * float32(p.supply.Special(v))
	}
	return nil
}
