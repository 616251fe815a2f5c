package sim

import (
	"fmt"
	"math"
	"math/bits"
	"math/rand/v2"
	"slices"
	"strings"

	"gnnsched/internal/choice"
	"gnnsched/internal/cluster"
	"gnnsched/internal/cluster/mig"
	"gnnsched/internal/each"
	"gnnsched/internal/exit"
	"gnnsched/internal/fragmentation"
)

// MIG makes machines whose GPUs have MIG, and pods that request a partition each: a profile of one model, all models equally often.
type MIG struct {
	Models   []string `json:"models,omitempty"` // of GPUs, A100 and H100; default: A100
	Machines int      `json:"machines"`         // of each model
	GPUs     int      `json:"gpus"`             // of each machine
	Mix      string   `json:"mix"`              // how often pods request each profile; a name of MIGMixes
	// Loads are the amounts of arrivals, over the compute slices, at which the outcome also tells the state. They ascend, and pods
	// arrive up to the last. No pod leaves.
	Loads []float64 `json:"loads,omitempty"`
	// Load is the offered load, over the compute slices. Pods come and go, and wait if they fit nowhere. It takes the place of Loads.
	// Lifetimes do not depend on the profile, so what arrives is also what runs. Times are in mean lifetimes.
	Load float64 `json:"load,omitempty"`

	Weights [mig.Count]float64 `json:"-"` // of the profiles, by a program instead of Mix
}

// migModels are the GPUs that machines can have.
var migModels = []string{"A100", "H100"}

// migMix is how often pods request each profile.
type migMix struct {
	Name    string
	Weights [mig.Count]float64 // need not add up to 1
}

// MIGMixes are the mixes by which MIG schedulers were compared in publications.
//
// The first four have the names and shapes of Zambianco et al., "An Online Fragmentation-Aware GPU Scheduler for Multi-Tenant MIG-based
// Clouds", 2025. Their probabilities are ours. The last has the pods of one GPU or a part of it in the list default of the openb trace,
// each with the smallest profile that has its part of the compute slices, as Siavashi and Momtazpour (2025) turn the GPU shares of
// Alibaba's trace into profiles.
var MIGMixes = []migMix{
	{"uniform", migWeights(1, 1, 1, 1, 1, 1)}, {"skew-small", migWeights(30, 25, 20, 10, 10, 5)},
	{"skew-big", migWeights(5, 10, 10, 20, 25, 30)}, {"bimodal", migWeights(30, 15, 5, 5, 15, 30)},
	{"openb", migWeights(32, 0, 280, 389, 971, 5317)},
}

// migWeights returns the weights of the profiles, the smallest first.
func migWeights(weights ...float64) (out [mig.Count]float64) {
	for i, p := range mig.Profiles() {
		out[p] = weights[i]
	}
	return out
}

// Limits of MIG.
const (
	maxMIGMachines = 1000
	maxMIGGPUs     = 16 // whose pods a node has room for
)

func (m *MIG) validate(bad *exit.Faults) {
	for i, name := range m.Models {
		if _, err := choice.Find("GPU model", name, migModels, func(x string) string { return x }); err != nil {
			bad.Add("mig.models: %w", err)
		} else if slices.Contains(m.Models[:i], name) {
			bad.Add("mig.models: %s is there twice", name)
		}
	}
	if _, err := m.weights(); err != nil {
		bad.Add("mig.mix: %w", err)
	}
	bad.If(m.Machines < 1 || m.Machines > maxMIGMachines, "mig.machines: %d is outside 1 to %d", m.Machines, maxMIGMachines)
	bad.If(m.GPUs < 1 || m.GPUs > maxMIGGPUs, "mig.gpus: %d is outside 1 to %d", m.GPUs, maxMIGGPUs)
	bad.If((m.Load != 0) == (len(m.Loads) > 0), "mig: needs either loads, for pods that stay, or load, for pods that come and go")
	for i, l := range append(slices.Clone(m.Loads), m.Load) {
		bad.If(l < 0 || l > 10 || l != l || i < len(m.Loads) && (l == 0 || i > 0 && l < m.Loads[i-1]),
			"mig: load %v must be over 0 and at most 10, and loads ascend; 0.95 requests 95%% of the compute slices", l)
	}
}

// weights returns the weights of the mix.
func (m *MIG) weights() ([mig.Count]float64, error) {
	if m.Weights != [mig.Count]float64{} {
		return m.Weights, nil
	}
	mix, err := choice.Find("mix", m.Mix, MIGMixes, func(x migMix) string { return x.Name })
	return mix.Weights, err
}

// models returns the names of the models.
func (m *MIG) models() []string {
	if len(m.Models) == 0 {
		return migModels[:1]
	}
	return m.Models
}

// slices returns the number of compute slices of the cluster.
func (m *MIG) slices() int { return len(m.models()) * m.Machines * m.GPUs * mig.Compute }

// What a machine has for each compute slice of its GPUs, and a pod requests for each of its partition. So GPUs run out first.
const (
	sliceMilliCPU = 2000
	sliceMemory   = 16 << 30
)

// Times of pods that come and go, in mean lifetimes.
const (
	migWarmUp = 5.0
	migEnd    = 25.0
)

// given returns the nodes and the pods.
func (m *MIG) given() *Given {
	out := &Given{Loads: m.Loads, Pods: m.Arrivals}
	if m.Load > 0 {
		out.WarmUp, out.End, out.Leave = migWarmUp, migEnd, true
	}
	weights, _ := m.weights() // validated
	all := int64(m.GPUs * mig.Compute)
	for k, model := range m.models() {
		for i := range m.Machines {
			out.Nodes = append(out.Nodes, &cluster.Node{
				Name: fmt.Sprintf("%s-%d", strings.ToLower(model), i), GPUModel: model, Version: cluster.NextVersion(),
				Allocatable: cluster.Resources{MilliCPU: all * sliceMilliCPU, Memory: all * sliceMemory, GPU: int64(m.GPUs), Pods: all},
				GPUs:        make([]int64, m.GPUs), Slices: make([]mig.Slices, m.GPUs),
			})
		}
		for _, p := range mig.Profiles() {
			if weights[p] > 0 {
				pod := m.pod(k, p)
				out.Typical = append(out.Typical, fragmentation.Demand{Requests: pod.Requests, Models: pod.GPUModels, Count: weights[p]})
			}
		}
	}
	return out
}

// pod returns a pod that requests a profile of a model.
func (m *MIG) pod(model int, p mig.Profile) cluster.Pod {
	out := cluster.Pod{Partition: p, Requests: cluster.Resources{
		MilliCPU: int64(p.Compute()) * sliceMilliCPU, Memory: int64(p.Compute()) * sliceMemory, Pods: 1,
	}}
	if milli := p.Milli(); milli < cluster.DeviceMilli {
		out.Requests.GPUMilli = milli
	} else {
		out.Requests.GPU = 1
	}
	if len(m.models()) > 1 {
		out.GPUModels = []string{m.Models[model]}
	}
	return out
}

// Streams of random numbers that are drawn from a seed.
const (
	migFillStream   = 0x66696c6c
	migSteadyStream = 0x73746479
)

// Arrivals returns the pods of a seed. They stay until they have requested the last of Loads. With Load they are a Poisson process of pods
// with exponential lifetimes, which hold that part of the compute slices on average if none waits.
func (m *MIG) Arrivals(seed uint64) (out []Arrival) {
	shares, _ := m.weights() // validated
	sum, mean := 0.0, 0.0
	for _, w := range shares {
		sum += w
	}
	for p := range shares {
		shares[p] /= sum
		mean += shares[p] * float64(mig.Profile(p).Compute())
	}
	type kind struct {
		model   int
		profile mig.Profile
	}
	pods := map[kind]*cluster.Pod{}
	add := func(rng *rand.Rand, at float64) *Arrival {
		k := kind{model: rng.IntN(len(m.models()))}
		k.profile = drawProfile(shares, rng)
		if pods[k] == nil {
			pods[k] = new(m.pod(k.model, k.profile))
		}
		out = append(out, Arrival{Pod: pods[k], At: at, Lifetime: math.Inf(1)})
		return &out[len(out)-1]
	}
	if m.Load == 0 {
		rng := rand.New(rand.NewPCG(seed, migFillStream))
		for asked := 0; float64(asked) < m.Loads[len(m.Loads)-1]*float64(m.slices()); {
			asked += add(rng, 0).Pod.Partition.Compute()
		}
		return out
	}
	rng := rand.New(rand.NewPCG(seed, migSteadyStream))
	rate := m.Load * float64(m.slices()) / mean
	for at := rng.ExpFloat64() / rate; at < migEnd; at += rng.ExpFloat64() / rate {
		add(rng, at).Lifetime = rng.ExpFloat64()
	}
	return out
}

// drawProfile draws a profile by its share.
func drawProfile(shares [mig.Count]float64, rng *rand.Rand) (p mig.Profile) {
	u := rng.Float64()
	for i, share := range shares {
		if share == 0 {
			continue
		}
		p = mig.Profile(i) // the last one, should u be lost to rounding
		if u -= share; u < 0 {
			break
		}
	}
	return p
}

// PartitionOutcome describes the MIG partitions of an episode, from Given.WarmUp on. Times are in the episode's unit.
type PartitionOutcome struct {
	Allocation float64            `json:"allocation"` // of the compute slices, 0 to 1, mean over the time
	Waiting    float64            `json:"waiting"`    // pods, mean over the time
	Arrived    [mig.Count]int     `json:"arrived"`    // by profile
	Waited     [mig.Count]float64 `json:"waited"`     // sum over the pods; those that wait at the end waited until then
	Left       [mig.Count]int     `json:"left"`       // pods without a node at the end

	Load  float64            `json:"load,omitempty"`  // of an element of Loads
	Loads []PartitionOutcome `json:"loads,omitempty"` // when the arrivals had requested each of Given.Loads; no pod leaves, and nobody counts the waits
}

// partitions plays the MIG partitions of pods on nodes whose GPUs have memory slices.
type partitions struct {
	quiet
	from    float64          // end of the warm-up
	starts  []int8           // by arrival: the first memory slice of its partition; -1 until it is placed
	compute [][]int          // used compute slices, by row and device
	used    int              // their sum
	shown   cluster.Snapshot // to policies
	sums    PartitionOutcome // over the time until now
}

func newPartitions(e *Env) *partitions {
	p := &partitions{from: float64(e.arrivals.fill), starts: slices.Repeat([]int8{-1}, len(e.arrivals.pods))}
	if e.cfg.Given != nil {
		p.from += e.cfg.Given.WarmUp
	}
	return p
}

func (p *partitions) track(e *Env) {
	p.used, p.compute = 0, make([][]int, len(e.snapshot.Nodes))
	for row, n := range e.snapshot.Nodes {
		p.compute[row] = make([]int, len(n.Slices))
	}
	for pod, row := range e.on {
		if row >= 0 {
			p.count(e, int32(pod), row, 1)
		}
	}
}

func (p *partitions) copyFor(e *Env, old []part) part {
	c := reused[partitions](old)
	starts := append(c.starts[:0], p.starts...)
	*c = partitions{from: p.from, starts: starts, sums: p.sums, shown: c.shown}
	c.track(e)
	return c
}

// pends shows those GPUs of the candidates as full that have room by their thousandths, but no place for the pod's profile, as the
// scheduler's plugin does.
func (p *partitions) pends(e *Env) {
	profile := e.Pending().Partition
	if profile == mig.None {
		return
	}
	p.shown.Nodes = append(p.shown.Nodes[:0], e.snapshot.Nodes...)
	e.seen = &p.shown
	for _, row := range e.Candidates() {
		n := e.snapshot.Nodes[row]
		for i, used := range n.Slices {
			if n.GPUs[i]+profile.Milli() > cluster.DeviceMilli || profile.Fits(used) {
				continue
			}
			if p.shown.Nodes[row] == n {
				seen := *n
				seen.GPUs, seen.Version = slices.Clone(n.GPUs), cluster.NextVersion()
				p.shown.Nodes[row] = &seen
			}
			p.shown.Nodes[row].GPUs[i] = cluster.DeviceMilli
		}
	}
}

func (p *partitions) arrives(e *Env, pod int32) {
	if e.arrivals.at[pod] >= p.from {
		p.sums.Arrived[e.deployment(pod).pod.Partition]++
	}
}

func (p *partitions) placed(e *Env, pod, row int32) {
	if p.starts[pod] < 0 {
		p.sums.wait(e, p.from, pod)
	}
	p.starts[pod] = int8(e.start)
	p.change(e, pod, row, 1)
}

func (p *partitions) left(e *Env, pod, row int32) { p.change(e, pod, row, -1) }

// change adds the partition of a pod to the node of a row or, with sign -1, removes it.
func (p *partitions) change(e *Env, pod, row int32, sign int) {
	profile := e.deployment(pod).pod.Partition
	if profile == mig.None {
		return
	}
	n, gpu := e.snapshot.Nodes[row], p.count(e, pod, row, sign)
	n.Slices[gpu] ^= profile.On(int(p.starts[pod]))
	n.GPUs[gpu] = mig.Used(p.compute[row][gpu], n.Slices[gpu].Len()) // thousandths of several partitions are rounded together
}

// count counts the compute slices of a pod on the node of a row, and returns its device.
func (p *partitions) count(e *Env, pod, row int32, sign int) (gpu int) {
	compute := e.deployment(pod).pod.Partition.Compute()
	if compute == 0 {
		return 0
	}
	gpu = bits.TrailingZeros64(uint64(e.devices[pod]))
	p.compute[row][gpu] += sign * compute
	p.used += sign * compute
	return gpu
}

// wait adds the wait until now of a pod that arrived after the warm-up.
func (o *PartitionOutcome) wait(e *Env, from float64, pod int32) {
	if e.arrivals.at[pod] >= from {
		o.Waited[e.deployment(pod).pod.Partition] += e.now - e.arrivals.at[pod]
	}
}

func (p *partitions) pass(e *Env, until float64) {
	if span := until - max(e.now, p.from); span > 0 {
		p.sums.Allocation += span * p.allocation()
		p.sums.Waiting += span * float64(len(e.waiting))
	}
}

// allocation returns which part of the compute slices is in use.
func (p *partitions) allocation() float64 { return float64(p.used) / float64(p.all()) }

// all returns the number of compute slices.
func (p *partitions) all() int {
	return each.Sum(p.compute, func(gpus []int) int { return len(gpus) * mig.Compute })
}

// loads returns the state at each of the ascending loads. No pod leaves, so one that runs has run since it arrived.
func (p *partitions) loads(e *Env, loads []float64) (out []PartitionOutcome) {
	var now PartitionOutcome
	asked, used, all := 0, 0, float64(p.all())
	for i := range e.arrivals.pods {
		profile := e.deployment(int32(i)).pod.Partition
		now.Arrived[profile]++
		if asked += profile.Compute(); e.on[i] >= 0 {
			used += profile.Compute()
		} else {
			now.Left[profile]++
		}
		for ; len(out) < len(loads) && float64(asked) >= loads[len(out)]*all; out = append(out, now) {
			now.Load, now.Allocation = loads[len(out)], float64(used)/all
		}
	}
	return out
}

func (p *partitions) report(e *Env, out *Outcome) {
	o := p.sums
	for _, pod := range e.waiting {
		o.Left[e.deployment(pod).pod.Partition]++
		o.wait(e, p.from, pod)
	}
	if time := e.now - p.from; time > 0 {
		o.Allocation, o.Waiting = o.Allocation/time, o.Waiting/time
	} else {
		o.Allocation, o.Waiting = p.allocation(), float64(len(e.waiting))
	}
	if g := e.cfg.Given; g != nil && len(g.Loads) > 0 {
		o.Loads = p.loads(e, g.Loads)
	}
	out.Partitions = &o
}
