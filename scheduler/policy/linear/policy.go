package linear

import (
	"bytes"
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"

	"gnnsched/internal/choice"
	"gnnsched/internal/cluster"
	"gnnsched/internal/files"
	"gnnsched/scheduler/policy"
)

// Features names the features of a candidate node, in the order of the weights.
var Features = slices.Concat(loadFeatures, []string{
	"zones", // decrease of objective.Zones by the placement, times nodes
}, UsageFeatures, machineFeatures)

// RequestFeatures names those of Features that need neither measured usage nor what machines draw.
var RequestFeatures = Features[:firstUsageFeature]

// The places of features that take time to compute, and are computed only if they have a weight.
const (
	zonesFeature      = 9
	firstUsageFeature = 10
	energyFeature     = 14
)

// UsageFeatures names those of Features that are about measured usage, or about requests where nothing was measured.
// A fraction is used / capacity of a node.
var UsageFeatures = []string{"usage-balance", "usage-full", "usage-peak", "usage-deviation"}

// machineFeatures names those of Features that are about what machines draw. A machine draws most at full load.
var machineFeatures = []string{"energy", "watts", "watts-load", "watts-use", "wakes", "hot"}

// Docs describes Features.
var Docs = slices.Concat(loadDocs, []string{
	"decrease of the objective zones by the placement, times nodes",
	"decrease of the sum over the dimensions of the fractions' standard deviations by what the pod is expected to use, times nodes",
	"largest fraction of CPU, network and disk after placement",
	"the same for the maxima of the last hour",
	"sum of the standard deviations over five minutes of CPU, network and disk, as fractions",
	"decrease of the objective energy by the placement, times nodes, without GPUs",
	"log2(watts of a core at full load / mean over the available nodes), within ±4",
	"watts · 5 (used / allocatable CPU of the available nodes - 0.4)",
	"watts · log2(CPU that the pod is expected to use / requested), the logarithm within ±2",
	"1 if the placement wakes the machine, else 0",
	"10 times what is over 0.8 of the used fraction of CPU after placement",
})

// positive names the features that are 0 or more, with the most that they can be on a node that the pod fits on.
var positive = map[string]float64{"used": 1, "share": 1, "empty": 1, "usage-full": math.Inf(1), "usage-peak": math.Inf(1),
	"usage-deviation": math.Inf(1), "wakes": 1, "hot": math.Inf(1)}

// Reached returns the value nearest to the one that a feature needs, on the way from one that it has, and whether it can have it and
// it is enough. A feature that is 0 or 1 has nothing between.
func Reached(feature int, from, needed float64) (to float64, can bool) {
	name := Features[feature]
	if name == "empty" || name == "wakes" {
		to = 1 - from
		return to, (needed > from) == (to > from) && math.Abs(needed-from) <= 1
	}
	most, bounded := positive[name]
	return needed, !bounded || needed >= 0 && needed <= most
}

// Policy scores a candidate by the weighted sum of Features. The cross-entropy method tunes its
// weights. It is the baseline that a network must beat to be worth its cost.
type Policy struct {
	name    string
	weights []float64
	changes *changes // of the weights, by the state of the cluster; nil for none
	Tuning  *Tuning  // how the weights were tuned; nil if unknown
	last    view     // of the last Score
}

// mostWeight bounds the weights, so that no score overflows. Only their ratios matter.
const mostWeight = 1e12

// New returns a policy with the given weights, in the order of Features. It fails if their number is
// wrong, or one is not finite or beyond mostWeight.
func New(name string, weights []float64) (*Policy, error) {
	if len(weights) != len(Features) {
		return nil, fmt.Errorf("linear policy %s: got %d weights, want one for each of %d features", name, len(weights), len(Features))
	}
	for i, w := range weights {
		if !(math.Abs(w) <= mostWeight) {
			return nil, fmt.Errorf("linear policy %s: the weight of %s is %v; give numbers from %v to %v",
				name, Features[i], w, -mostWeight, mostWeight)
		}
	}
	return &Policy{name: name, weights: weights}, nil
}

// Named returns another policy with the same weights.
func (l *Policy) Named(name string) *Policy {
	return &Policy{name: name, weights: l.weights, changes: l.changes, Tuning: l.Tuning}
}

// Fixed reports whether the weights are the same in every decision.
func (l *Policy) Fixed() bool { return l.changes == nil }

// Weights returns a copy of the weights, in the order of Features, without their changes.
func (l *Policy) Weights() []float64 { return slices.Clone(l.weights) }

// ByName returns the weights by the names of their features.
func (l *Policy) ByName() map[string]float64 {
	out := map[string]float64{}
	for i, w := range l.weights {
		out[Features[i]] = w
	}
	return out
}

// Name implements policy.Policy.
func (l *Policy) Name() string { return l.name }

// Score implements policy.Policy.
func (l *Policy) Score(s *cluster.Snapshot, pod *cluster.Pod, candidates []int32, scores []float32) error {
	f := &l.last
	f.loads.look(s.Nodes, pod)
	f.weights, f.zones, f.usage, f.machines = l.weights, nil, nil, nil
	if l.weights[zonesFeature] != 0 {
		f.zones = newZoneView(s, pod.Requests.Counted())
	}
	if slices.ContainsFunc(l.weights[firstUsageFeature:energyFeature], func(w float64) bool { return w != 0 }) {
		f.usage = newUsageView(s, pod)
	}
	if slices.ContainsFunc(l.weights[energyFeature:], func(w float64) bool { return w != 0 }) {
		f.machines = newMachineView(s, pod)
	}
	if l.changes != nil {
		f.weights = l.changes.of(l.weights, f.state(s, len(candidates)))
	}
	x, weights := make([]float64, len(Features)), f.weights
	for len(weights) > 0 && weights[len(weights)-1] == 0 {
		weights = weights[:len(weights)-1]
	}
	for i, v := range candidates {
		f.features(s, v, x)
		var sum float64
		for j, w := range weights {
			sum += w * x[j]
		}
		scores[i] = float32(sum)
	}
	return nil
}

// Reading implements policy.Reader.
func (l *Policy) Reading(s *cluster.Snapshot, _ *cluster.Pod, candidates []int32, i int) *policy.Reading {
	last := &l.last
	if int(candidates[i]) >= len(last.rows) {
		return nil
	}
	x := make([]float64, len(Features))
	last.features(s, candidates[i], x)
	r := &policy.Reading{Kind: policy.LinearReading, Features: make([]float32, len(x)), Weights: make([]float32, len(x))}
	for j := range x {
		r.Features[j], r.Weights[j] = float32(x[j]), float32(last.weights[j])
	}
	return r
}

// view holds what the features of all candidates have in common.
type view struct {
	loads
	weights  []float64    // in this decision
	zones    *zoneView    // nil if the feature zones has no weight
	usage    *usageView   // nil if no feature of usage has a weight
	machines *machineView // nil if no feature of machines has a weight
}

// features writes the features of the node of a row to x, which is 0, in the order of Features.
func (f *view) features(s *cluster.Snapshot, v int32, x []float64) {
	f.loads.features(v, x)
	if f.zones != nil {
		x[zonesFeature] = f.zones.gainOf(s.Nodes[v].Zone)
	}
	if f.usage != nil {
		f.usage.features(s.Nodes[v], x[firstUsageFeature:energyFeature])
	}
	if f.machines != nil {
		f.machines.features(s.Nodes[v], x[energyFeature:])
	}
}

// usageView holds what the available nodes use, by dimension, and what the pod is expected to use.
type usageView struct {
	nodes    float64
	expected [cluster.Dimensions]float64      // in the dimension's unit
	used     [cluster.Dimensions]cluster.Sums // of the nodes' used fractions
	std      [cluster.Dimensions]float64      // their standard deviations
}

// newUsageView returns the view of the available nodes for a pod.
func newUsageView(s *cluster.Snapshot, pod *cluster.Pod) *usageView {
	v := &usageView{expected: pod.ExpectedAll()}
	for _, n := range s.Nodes {
		if !n.Available() {
			continue
		}
		v.nodes++
		for d := range v.used {
			if capacity := n.Capacity(cluster.Dimension(d)); capacity > 0 {
				v.used[d].Add(n.Used(cluster.Dimension(d)).Mean / capacity)
			}
		}
	}
	for d := range v.used {
		v.std[d] = v.used[d].Std()
	}
	return v
}

// features writes the features of a candidate that are about usage, in the order of UsageFeatures.
func (v *usageView) features(n *cluster.Node, x []float64) {
	clear(x)
	for d := range v.used {
		capacity := n.Capacity(cluster.Dimension(d))
		if capacity <= 0 {
			continue
		}
		s, add := n.Used(cluster.Dimension(d)), v.expected[d]/capacity
		used := s.Mean / capacity
		x[0] += v.nodes * (v.std[d] - v.used[d].Moved(used, add).Std())
		if cluster.Dimension(d) == cluster.UsedMemory { // it is not shared: a pod loses nothing to others
			continue
		}
		x[1] = max(x[1], used+add)
		x[2] = max(x[2], s.HourMax/capacity+add)
		x[3] += s.Deviation / capacity
	}
}

// zoneView holds the use of each zone, and what one more pod in it would change.
type zoneView struct {
	rows          map[string]int      // row of each zone, by name
	used, offered []cluster.Resources // by row
	gain          []float64           // by row: how much the pod would lower objective.Zones, times nodes
}

// newZoneView returns the view of the available nodes that have a zone, for a pod that requests r.
func newZoneView(s *cluster.Snapshot, r cluster.Resources) *zoneView {
	z := &zoneView{rows: map[string]int{}}
	nodes := 0.0
	for _, n := range s.Nodes {
		if !n.Available() {
			continue
		}
		nodes++
		if n.Zone == "" {
			continue
		}
		row, known := z.rows[n.Zone]
		if !known {
			row = len(z.rows)
			z.rows[n.Zone] = row
			z.used, z.offered = append(z.used, cluster.Resources{}), append(z.offered, cluster.Resources{})
		}
		z.used[row], z.offered[row] = z.used[row].Plus(n.Counted()), z.offered[row].Plus(n.Allocatable)
	}
	z.computeGains(r, nodes)
	return z
}

// computeGains computes the gain of each zone.
func (z *zoneView) computeGains(r cluster.Resources, nodes float64) {
	var cpu, mem cluster.Sums
	for i, offered := range z.offered {
		cpu.Add(cluster.Fraction(z.used[i].MilliCPU, offered.MilliCPU))
		mem.Add(cluster.Fraction(z.used[i].Memory, offered.Memory))
	}
	for i, offered := range z.offered {
		c := cpu.Moved(cluster.Fraction(z.used[i].MilliCPU, offered.MilliCPU), cluster.Fraction(r.MilliCPU, offered.MilliCPU))
		m := mem.Moved(cluster.Fraction(z.used[i].Memory, offered.Memory), cluster.Fraction(r.Memory, offered.Memory))
		z.gain = append(z.gain, nodes*(cpu.Std()+mem.Std()-c.Std()-m.Std())/2)
	}
}

// gainOf returns the gain of the zone of a name; 0 for nodes without a zone.
func (z *zoneView) gainOf(name string) float64 {
	if row, known := z.rows[name]; known {
		return z.gain[row]
	}
	return 0
}

// machineView holds what the features of machines have in common. Watts are those at full load.
type machineView struct {
	meanFull float64 // what an available node draws, in watts
	core     float64 // what a thousandth of a core draws, over the available machines
	load     float64 // used / allocatable CPU of the available nodes
	milliCPU float64 // that the pod is expected to use
	over     float64 // log2(expected / requested CPU), within ±2
}

// newMachineView returns the view of the available nodes for a pod.
func newMachineView(s *cluster.Snapshot, pod *cluster.Pod) *machineView {
	var nodes, full, machines, milliCPU, used float64
	for _, n := range s.Nodes {
		if n.Available() {
			nodes, full = nodes+1, full+cluster.FullPower(n)
			machines, milliCPU = machines+cluster.MachinePower(n).Full, milliCPU+float64(n.Allocatable.MilliCPU)
			used += n.Used(cluster.UsedCPU).Mean
		}
	}
	expected := pod.Expected(cluster.UsedCPU)
	return &machineView{
		meanFull: full / max(nodes, 1), core: machines / max(milliCPU, 1), load: used / max(milliCPU, 1), milliCPU: expected,
		over: max(min(math.Log2(max(expected, 1)/max(float64(pod.Requests.MilliCPU), 1)), 2), -2),
	}
}

// features writes the features of a candidate, in the order of machineFeatures.
func (v *machineView) features(n *cluster.Node, x []float64) {
	clear(x)
	if v.meanFull == 0 {
		return
	}
	m, milliCPU := cluster.MachinePower(n), float64(n.Allocatable.MilliCPU)
	x[0] = -cluster.PowerRise(n, v.milliCPU) / v.meanFull
	x[1] = logSize(m.Full, v.core*milliCPU)
	x[2] = x[1] * 5 * (v.load - 0.4)
	x[3] = x[1] * v.over
	if m.Sleep != nil && n.Requested.Pods == 0 {
		x[4] = 1
	}
	x[5] = 10 * max((n.Used(cluster.UsedCPU).Mean+v.milliCPU)/max(milliCPU, 1)-0.8, 0)
}

// tunedFiles holds tuned weights, one file for each objective. `gnnsched tune` writes such files.
//
//go:embed linear.json linear-energy.json linear-pack.json linear-usage.json linear-zones.json
var tunedFiles embed.FS

// file is the JSON form of a policy, with its weights by the names of their features.
type file struct {
	Name    string             `json:"name"`
	Weights map[string]float64 `json:"weights"`
	// Changes says by how much weights change with the state of the cluster, by the names of features and of State.
	Changes map[string]map[string]float64 `json:"changes,omitempty"`
	Tuning  *Tuning                       `json:"tuning,omitempty"`
}

// Tuning describes how weights were tuned, so that one command reproduces them.
type Tuning struct {
	Command     string   `json:"command"` // with all flags that have an effect
	Version     string   `json:"version"` // of the program
	Scenario    string   `json:"scenario"`
	Seed        uint64   `json:"seed"`        // of the drawn weights
	Generations int      `json:"generations"` // completed; fewer than requested if tuning was interrupted
	HeldOut     *HeldOut `json:"heldOut,omitempty"`
}

// HeldOut is the result of the weights on episodes of the scenario that tuning did not use.
type HeldOut struct {
	FirstSeed uint64 `json:"firstSeed"`
	Episodes  int    `json:"episodes"`
	// Means holds the means of the evaluation's metrics, by policy and metric. Less is better.
	Means map[string]map[string]float64 `json:"means"`
	// Worse holds, by metric, the p, adjusted for their number, of each difference in which the weights did worse than the baseline.
	Worse map[string]float64 `json:"worse,omitempty"`
	// Samples is the number of different workloads. If it is 1, a trace was played as recorded, and the
	// episodes are the one that the weights were tuned on.
	Samples int `json:"samples"`
}

// parse reads the JSON form of a policy. Weights of features that are not named are 0.
func parse(text []byte) (*Policy, error) {
	var f file
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	if err := d.Decode(&f); err != nil {
		return nil, fmt.Errorf("linear policy: %w", err)
	}
	if err := d.Decode(new(any)); err != io.EOF {
		return nil, errors.New("linear policy: something follows the object of the policy")
	}
	if len(f.Weights) == 0 {
		return nil, errors.New("linear policy: it has no weights; `gnnsched tune` writes such a file")
	}
	weights := make([]float64, len(Features))
	for name, w := range f.Weights {
		i := slices.Index(Features, name)
		if i < 0 {
			return nil, fmt.Errorf("linear policy %s: %w", f.Name, choice.Unknown("feature", name, Features))
		}
		weights[i] = w
	}
	l, err := New(f.Name, weights)
	if err != nil {
		return nil, err
	}
	if l.changes, err = parseChanges(f.Changes); err != nil {
		return nil, fmt.Errorf("linear policy %s: %w", f.Name, err)
	}
	l.Tuning = f.Tuning
	return l, nil
}

// Load reads a policy from its JSON file.
func Load(path string) (*Policy, error) {
	b, err := files.Read(path, files.Text)
	if err != nil {
		return nil, err
	}
	l, err := parse(b)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return l, nil
}

// MarshalJSON implements json.Marshaler. Load reads the result.
func (l *Policy) MarshalJSON() ([]byte, error) {
	return json.Marshal(file{l.name, l.ByName(), l.changes.byName(), l.Tuning})
}

// TunedNames returns the names that Tuned knows, in alphabetical order.
func TunedNames() []string {
	entries, err := tunedFiles.ReadDir(".")
	if err != nil {
		panic(err) // the files are part of the program
	}
	names := make([]string, len(entries))
	for i, e := range entries {
		names[i] = strings.TrimSuffix(e.Name(), ".json")
	}
	slices.Sort(names)
	return names
}

// Tuned returns one of the policies that the program carries: "linear" for balance, "linear-pack" for
// packing, "linear-zones" for packing with even zones, "linear-usage" for evenly used nodes, "linear-energy" for little energy
// and little throttled work. It panics for other names.
func Tuned(name string) *Policy {
	text, err := tunedFiles.ReadFile(name + ".json")
	if err != nil {
		panic(err) // callers know the names
	}
	return carried(text)
}

// ruleFile holds the weights of Rule.
//
//go:embed rule.json
var ruleFile []byte

// Rule returns the policy "rule" for balance: the weights of "linear", with changes that were learned by evolution strategies on whole
// episodes.
func Rule() *Policy { return carried(ruleFile) }

// carried reads a file that is part of the program.
func carried(text []byte) *Policy {
	l, err := parse(text)
	if err != nil {
		panic(err) // the file is part of the program
	}
	return l
}
