package migrun

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strings"

	"gnnsched/internal/choice"
	"gnnsched/internal/cluster"
	"gnnsched/internal/cluster/mig"
	"gnnsched/internal/fragmentation"
	"gnnsched/scheduler/eval"
	"gnnsched/scheduler/policy/preference"
	"gnnsched/scheduler/sim"
)

// Model is a kind of GPU.
type Model struct {
	Name      string
	gigabytes int // of memory, which is in the names of profiles
}

// Models are the GPUs that machines can have.
var Models = []Model{{"A100", 40}, {"H100", 80}}

// FindModel returns a model by its name.
func FindModel(name string) (Model, error) {
	return choice.Find("GPU model", name, Models, func(x Model) string { return x.Name })
}

// Machines describes a cluster: so many machines of each model. A pod requests a profile of one model, all equally often.
type Machines struct {
	Models []Model
	Each   int // machines of each model
	GPUs   int // of each machine
}

// compute returns the number of compute slices of the cluster.
func (m Machines) compute() int { return len(m.Models) * m.Each * m.GPUs * mig.Compute }

// What a machine has for each compute slice of its GPUs, and a pod requests for each of its partition. So GPUs run out first.
const (
	sliceMilliCPU = 2000
	sliceMemory   = 16 << 30
)

// nodes returns the idle machines.
func (m Machines) nodes() (out []*cluster.Node) {
	slices := int64(m.GPUs * mig.Compute)
	for _, model := range m.Models {
		for i := range m.Each {
			out = append(out, &cluster.Node{
				Name: fmt.Sprintf("%s-%d", strings.ToLower(model.Name), i), GPUModel: model.Name, Version: cluster.NextVersion(),
				Allocatable: cluster.Resources{MilliCPU: slices * sliceMilliCPU, Memory: slices * sliceMemory, GPU: int64(m.GPUs), Pods: slices},
				GPUs:        make([]int64, m.GPUs), Slices: make([]mig.Slices, m.GPUs),
			})
		}
	}
	return out
}

// arrival is a pod of a workload. Times are in mean lifetimes.
type arrival struct {
	model    int // in Machines.Models
	profile  mig.Profile
	at, life float64
}

// pod returns the pod of an arrival.
func (m Machines) pod(a arrival) cluster.Pod {
	out := cluster.Pod{Requests: requests(a.profile), Partition: a.profile}
	if len(m.Models) > 1 {
		out.GPUModels = []string{m.Models[a.model].Name}
	}
	return out
}

// MilliCPU returns the thousandths of a core that a pod with a partition requests.
func MilliCPU(p mig.Profile) int64 { return int64(p.Compute()) * sliceMilliCPU }

// requests returns what a pod with a partition requests.
func requests(p mig.Profile) cluster.Resources {
	r := cluster.Resources{MilliCPU: MilliCPU(p), Memory: int64(p.Compute()) * sliceMemory, Pods: 1}
	if milli := p.Milli(); milli < cluster.DeviceMilli {
		r.GPUMilli = milli
	} else {
		r.GPU = 1
	}
	return r
}

// Times of flow, in mean lifetimes of pods.
const (
	warmUp  = 5.0
	measure = 20.0
)

// Usual loads, over the compute slices: the amounts of arrivals of a fill, and the offered loads where pods come and go.
var (
	Loads       = []float64{0.6, 0.7, 0.8, 0.9, 0.95, 1, 1.1, 1.3}
	SteadyLoads = []float64{0.8, 0.9, 0.95, 1.05}
)

// Filling returns the scenario in which pods arrive up to the last of the ascending loads. No pod leaves.
func (m Machines) Filling(x Mix, loads []float64) eval.Scenario {
	return m.scenario(x, sim.Given{Loads: loads}, func(seed uint64) []arrival { return m.arriving(x, loads[len(loads)-1], seed) })
}

// flow returns the scenario in which pods come and go. A pod that fits nowhere waits, and is tried again whenever a pod has left, in the
// order of arrival, as by kube-scheduler. Lifetimes do not depend on the profile, so what arrives is also what runs.
func (m Machines) flow(x Mix, load float64) eval.Scenario {
	return m.scenario(x, sim.Given{WarmUp: warmUp, End: warmUp + measure, Leave: true},
		func(seed uint64) []arrival { return m.steady(x, load, warmUp+measure, seed) })
}

// scenario returns the scenario in which the drawn pods of a mix arrive. of has the other fields.
func (m Machines) scenario(x Mix, of sim.Given, draw func(seed uint64) []arrival) eval.Scenario {
	of.Nodes, of.Typical = m.nodes(), m.demand(x)
	of.Pods = func(seed uint64) (out []sim.Arrival) {
		type kind struct {
			model   int
			profile mig.Profile
		}
		pods := map[kind]*cluster.Pod{}
		for _, a := range draw(seed) {
			k := kind{a.model, a.profile}
			if pods[k] == nil {
				pods[k] = new(m.pod(a))
			}
			out = append(out, sim.Arrival{Pod: pods[k], At: a.at, Lifetime: a.life})
		}
		return out
	}
	return eval.Scenario{Name: x.Name, About: x.About, Config: sim.Config{Given: &of, Preferences: preference.Off}}
}

// demand returns what the pods of a mix request.
func (m Machines) demand(x Mix) (all []fragmentation.Demand) {
	for model := range m.Models {
		for _, p := range mig.Profiles() {
			if x.Weights[p] > 0 {
				pod := m.pod(arrival{model: model, profile: p})
				all = append(all, fragmentation.Demand{Requests: pod.Requests, Models: pod.GPUModels, Count: x.Weights[p]})
			}
		}
	}
	return all
}

// Streams of random numbers that are drawn from a seed.
const (
	fillStream   = 0x66696c6c
	steadyStream = 0x73746479
)

// draw draws the model and the profile of a pod.
func (m Machines) draw(x Mix, rng *rand.Rand) arrival {
	a := arrival{model: rng.IntN(len(m.Models))}
	u := rng.Float64()
	for p, share := range x.Shares() {
		if share == 0 {
			continue
		}
		a.profile = mig.Profile(p) // the last one, should u be lost to rounding
		if u -= share; u < 0 {
			break
		}
	}
	return a
}

// arriving returns the arrivals until they have requested a multiple of the compute slices.
func (m Machines) arriving(x Mix, load float64, seed uint64) (out []arrival) {
	rng := rand.New(rand.NewPCG(seed, fillStream))
	for asked := 0; float64(asked) < load*float64(m.compute()); {
		a := m.draw(x, rng)
		a.life = math.Inf(1)
		asked += a.profile.Compute()
		out = append(out, a)
	}
	return out
}

// steady returns the arrivals until a time: a Poisson process of pods with exponential lifetimes, which hold a multiple of the compute
// slices on average if none waits.
func (m Machines) steady(x Mix, load, until float64, seed uint64) (out []arrival) {
	rng := rand.New(rand.NewPCG(seed, steadyStream))
	rate := load * float64(m.compute()) / x.compute()
	for at := rng.ExpFloat64() / rate; at < until; at += rng.ExpFloat64() / rate {
		a := m.draw(x, rng)
		a.at, a.life = at, rng.ExpFloat64()
		out = append(out, a)
	}
	return out
}
