// Package partition holds the policies that choose the place of a MIG partition: the node, the GPU, and where on the GPU it starts.
//
// What still fits on a GPU depends on its used memory slices only (package mig), so a GPU is in one of 256 states. A policy has a
// loss for each placement on each state, and takes the placement of least loss in the cluster. For all rules but the fits, the loss is what
// the placement adds to a potential of the state.
package partition

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"math"
	"strings"
	"sync"

	"gnnsched/internal/choice"
	"gnnsched/internal/cluster"
	"gnnsched/internal/cluster/mig"
	"gnnsched/internal/each"
	"gnnsched/internal/files"
	"gnnsched/internal/fragmentation"
	"gnnsched/scheduler/policy"
)

// states is the number of states of a GPU.
const states = int(mig.All) + 1

// Mix is the share of each profile in a workload's requests for partitions. The shares add up to 1.
type Mix [mig.Count]float64

// MixOf returns the mix of a workload.
func MixOf(t *fragmentation.Typical) Mix { return t.Partitions() }

// loss is the cost of a placement that takes a GPU from one state to another.
type loss func(before, after mig.Slices) float64

// growth is the loss of a placement that adds to a potential.
func growth(potential func(mig.Slices) float64) loss {
	var of [states]float64
	for s := range states {
		of[s] = potential(mig.Slices(s))
	}
	return func(before, after mig.Slices) float64 { return of[after] - of[before] }
}

// Policy takes the placement of least loss; of equal ones the first node, the first GPU and the first start. A pod
// that requests no single partition is left to another policy. It implements policy.DeviceChooser and policy.StartChooser.
type Policy struct {
	name   string
	others policy.Policy
	best   [mig.Count][states]option
}

// option is the best placement of a partition on a GPU.
type option struct {
	start int8 // -1 if there is none
	loss  float32
}

var (
	_ policy.DeviceChooser = &Policy{}
	_ policy.StartChooser  = &Policy{}
)

func newPolicy(name string, l loss, others policy.Policy) *Policy {
	out := &Policy{name: name, others: others}
	for _, p := range mig.Profiles() {
		for s := range states {
			used, best := mig.Slices(s), option{start: -1, loss: math.MaxFloat32}
			for start := range p.Free(used) {
				if x := float32(l(used, used|p.On(start))); best.start < 0 || x < best.loss {
					best = option{int8(start), x}
				}
			}
			out.best[p][s] = best
		}
	}
	return out
}

// Name implements policy.Policy.
func (p *Policy) Name() string { return p.name }

// Score implements policy.Policy. The score is the loss of the best placement on the node, negated.
func (p *Policy) Score(s *cluster.Snapshot, pod *cluster.Pod, candidates []int32, scores []float32) error {
	if pod.Partition == mig.None {
		return p.others.Score(s, pod, candidates, scores)
	}
	for i, row := range candidates {
		_, best := p.on(s.Nodes[row], pod.Partition)
		scores[i] = -best.loss
	}
	return nil
}

// Devices implements policy.DeviceChooser.
func (p *Policy) Devices(n *cluster.Node, pod *cluster.Pod) cluster.DeviceSet {
	if pod.Partition == mig.None {
		return policy.Devices(p.others, n, pod)
	}
	if i, _ := p.on(n, pod.Partition); i >= 0 {
		return cluster.Device(i)
	}
	return n.ChooseDevices(pod.Requests)
}

// Start implements policy.StartChooser.
func (p *Policy) Start(used mig.Slices, profile mig.Profile) int {
	return int(p.best[profile][used].start)
}

// on returns the device with the best placement on a node, and the placement; -1 if there is none. Devices that are shown as full have
// none.
func (p *Policy) on(n *cluster.Node, profile mig.Profile) (device int, best option) {
	device, best = -1, option{start: -1, loss: math.MaxFloat32}
	for i, used := range n.Slices {
		if i >= len(n.GPUs) || n.GPUs[i] >= cluster.DeviceMilli {
			continue
		}
		if o := p.best[profile][used]; o.start >= 0 && (device < 0 || o.loss < best.loss) {
			device, best = i, o
		}
	}
	return device, best
}

// Values is a learned cost of a GPU's state: Values[p][s] is the part that pods of profile p have in the cost of state s. The cost under
// a mix is the sum over profiles of their shares times their parts, so one table serves all mixes. `gnnsched tune mig` learns it.
type Values [mig.Count][states]float64

// potential returns the cost of states under a mix.
func (v *Values) potential(m Mix) func(mig.Slices) float64 {
	return func(used mig.Slices) float64 {
		return each.Sum(mig.Profiles(), func(p mig.Profile) float64 { return m[p] * v[p][used] })
	}
}

// Weighted returns the values that are a weighted sum of mig.Features.
func Weighted(weights []float64) *Values {
	var v Values
	for _, p := range mig.Profiles() {
		for s := range states {
			for k, f := range mig.Features {
				v[p][s] += weights[k] * f.Of(mig.Slices(s), p)
			}
		}
	}
	return &v
}

// Policy returns the policy of the values under a mix.
func (v *Values) Policy(m Mix) *Policy { return newPolicy("mig:value", growth(v.potential(m)), nil) }

//go:embed values.json
var shipped []byte

// learned returns the values that the program carries.
var learned = sync.OnceValue(func() *Values {
	v, err := parse(shipped)
	if err != nil {
		panic(err) // the file is part of the program
	}
	return v
})

// format names the layout of a file of values.
const format = "gnnsched mig values 1"

type file struct {
	Format  string      `json:"format"`
	Command string      `json:"command"` // that repeats the training
	Values  [][]float64 `json:"values"`  // a row for each profile
}

// parse reads values that Marshal wrote.
func parse(b []byte) (*Values, error) {
	var f file
	if err := json.Unmarshal(b, &f); err != nil {
		return nil, fmt.Errorf("values of MIG states: %w", err)
	}
	if f.Format != format {
		return nil, fmt.Errorf("values of MIG states: format is %q, want %q", f.Format, format)
	}
	var v Values
	if len(f.Values) != len(mig.Profiles()) {
		return nil, fmt.Errorf("values of MIG states: %d rows, want one for each of %d profiles", len(f.Values), len(mig.Profiles()))
	}
	for i, p := range mig.Profiles() {
		if len(f.Values[i]) != states {
			return nil, fmt.Errorf("values of MIG states: row %d has %d values, want %d", i, len(f.Values[i]), states)
		}
		for s, x := range f.Values[i] {
			if math.Abs(x) > 1e6 {
				return nil, fmt.Errorf("values of MIG states: value %d of row %d is %v, want at most 1e6", s, i, x)
			}
			v[p][s] = x
		}
	}
	return &v, nil
}

// Marshal returns the file of the values, rounded to four digits, with the command that repeats the training.
func (v *Values) Marshal(command string) ([]byte, error) {
	f := file{Format: format, Command: command}
	for _, p := range mig.Profiles() {
		row := make([]float64, states)
		for s := range row {
			row[s] = math.Round(v[p][s]*1e4) / 1e4
		}
		f.Values = append(f.Values, row)
	}
	b, err := json.Marshal(f)
	if err != nil {
		return nil, fmt.Errorf("values of MIG states: %w", err)
	}
	return append(b, '\n'), nil
}

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
func ruleNames() []string {
	return each.Map(rules, func(r rule) string { return r.name })
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
func (m Mix) fragmentation(used mig.Slices) float64 {
	return each.Sum(mig.Profiles(), func(p mig.Profile) float64 { return m[p] * float64(mig.Wasted(used, p)) })
}
