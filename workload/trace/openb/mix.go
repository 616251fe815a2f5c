package openb

import (
	"errors"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"

	"gnnsched/internal/choice"
	"gnnsched/internal/cluster"
)

// mix changes the requests of a trace's pods. The zero value changes nothing.
type mix struct {
	named      float64 // at least this fraction of the pods names GPU models, if enough pods have GPUs
	sharing    float64 // fraction of the pods with whole devices that become pods with a share
	multiple   float64 // factor on the number of pods with several devices; 0 is 1
	withoutGPU float64 // factor on the number of pods without GPUs; 0 is 1
}

// namedModels are the lists of GPU models that pods of the trace's gpuspec10 list name, with the number of pods
// that name them. They are its eight most frequent lists, 702 of 732 pods.
var namedModels = []struct {
	names string
	count int
}{
	{"T4", 355}, {"G2", 120}, {"P100", 100}, {"V100M16|V100M32", 55}, {"P100|V100M16|V100M32", 26},
	{"G2|P100|T4|V100M16|V100M32", 20}, {"G3", 17}, {"A10|G2|T4|V100M16|V100M32", 9},
}

// mostFactor bounds the factors of a mix.
const mostFactor = 100

// Validate reports the first value out of range.
func (m mix) Validate() error {
	for _, x := range []struct {
		name    string
		v, most float64
	}{{"Named", m.named, 1}, {"Sharing", m.sharing, 1}, {"Multiple", m.multiple, mostFactor}, {"WithoutGPU", m.withoutGPU, mostFactor}} {
		if !(x.v >= 0 && x.v <= x.most) {
			return fmt.Errorf("mix: %s %v is outside 0 to %v", x.name, x.v, x.most)
		}
	}
	return nil
}

// errNoShare is Apply's error if pods shall become pods with a share, and no pod has one.
var errNoShare = errors.New("no pod of the trace requests a share of a GPU")

// Apply returns a list in three steps: pods with several devices and pods without GPUs are repeated, at random where a factor is not whole;
// pods with whole devices are replaced by pods with a share, which request the amounts of one of the list's, drawn uniformly; pods get the
// GPU models that gpuspec10's pods name, if they have one device or a share and fit on the models' machines in the trace. Equal arguments
// and random numbers give equal lists.
func (m mix) Apply(rng *rand.Rand, pods []Pod) ([]Pod, error) {
	if err := m.Validate(); err != nil {
		return nil, err
	}
	out := m.repeat(rng, pods)
	var shares []Pod
	named, single := 0, 0
	for _, p := range out {
		if p.GPUs == 1 && p.GPUMilli < cluster.DeviceMilli {
			shares = append(shares, p)
		}
	}
	if m.sharing > 0 && len(shares) == 0 {
		return nil, errNoShare
	}
	for i, p := range out {
		if p.GPUs > 0 && p.GPUMilli == cluster.DeviceMilli && m.sharing > 0 && rng.Float64() < m.sharing {
			s := shares[rng.IntN(len(shares))]
			p.MilliCPU, p.MemoryMiB, p.GPUs, p.GPUMilli = s.MilliCPU, s.MemoryMiB, s.GPUs, s.GPUMilli
			out[i] = p
		}
		if len(p.Models) > 0 {
			named++
		} else if p.GPUs == 1 {
			single++
		}
	}
	if missing := m.named*float64(len(out)) - float64(named); missing > 0 && single > 0 {
		name(rng, out, missing/float64(single))
	}
	return out, nil
}

// repeat returns the pods, each as often as the factor on its kind says.
func (m mix) repeat(rng *rand.Rand, pods []Pod) []Pod {
	out := make([]Pod, 0, len(pods))
	for _, p := range pods {
		times := 1.0
		switch {
		case p.GPUs > 1 && m.multiple > 0:
			times = m.multiple
		case p.GPUs == 0 && m.withoutGPU > 0:
			times = m.withoutGPU
		}
		copies := int(times)
		if rest := times - float64(copies); rest > 0 && rng.Float64() < rest {
			copies++
		}
		for range copies {
			out = append(out, p)
		}
	}
	return out
}

// name gives models to a fraction of the pods with one device or a share that name none.
func name(rng *rand.Rand, pods []Pod, fraction float64) {
	total := 0
	for _, m := range namedModels {
		total += m.count
	}
	for i := range pods {
		if p := &pods[i]; p.GPUs == 1 && len(p.Models) == 0 && rng.Float64() < fraction {
			at := rng.IntN(total)
			for _, m := range namedModels {
				if at -= m.count; at < 0 {
					p.Models = strings.Split(m.names, "|")
					break
				}
			}
		}
	}
}

// variant is a change of a pod list to another mix. The workload LIST+VARIANT is that list in that mix, for example default+models40.
type variant struct {
	name   string
	about  string
	mix    mix
	taints Taints
}

// variants are the mixes and taints. In training, networks meet other draws of them.
var variants = []variant{
	{name: "models20", about: "20 % of the pods name GPU models", mix: mix{named: 0.2}},
	{name: "models40", about: "40 % of the pods name GPU models", mix: mix{named: 0.4}},
	{name: "shares50", about: "half of the whole devices are requested as shares", mix: mix{sharing: 0.5}},
	{name: "shares", about: "all GPU pods share a device", mix: mix{sharing: 1}},
	{name: "multi2", about: "twice the pods with several devices", mix: mix{multiple: 2}},
	{name: "multi4", about: "four times the pods with several devices", mix: mix{multiple: 4}},
	{name: "cpu3", about: "three times the pods without GPUs", mix: mix{withoutGPU: 3}},
	{name: "all", about: "models40, multi4 and cpu3 together", mix: mix{named: 0.4, multiple: 4, withoutGPU: 3}},
	{name: "tainted", about: "all nodes are tainted and all pods tolerate it", taints: Taints{Pools: 1, Tolerating: 1, CPU: true}},
	{name: "pools", about: "the nodes of half of the GPU models are tainted, and half of the GPU pods tolerate it",
		taints: Taints{Pools: 0.5, Tolerating: 0.5}},
}

// VariantNames returns the names of the variants.
func VariantNames() []string { return choice.Names(variants, variant.title) }

func (v variant) title() string { return v.name }

// ReadWorkload reads the nodes of the trace in a folder and the pods of a workload, which is a list or LIST+VARIANT, and says what they
// are. The name of the workload is the seed of its variant, so that all policies and seeds have the same variant.
func ReadWorkload(dir, workload string) (nodes []Node, pods []Pod, about string, err error) {
	if nodes, err = LoadNodes(filepath.Join(dir, NodesFile)); err != nil {
		return nil, nil, "", err
	}
	list, name, mixed := strings.Cut(workload, "+")
	if pods, err = LoadPods(PodsFile(dir, list)); err != nil || !mixed {
		return nodes, pods, "pods of the openb trace", err
	}
	v, err := choice.Find("variant", name, variants, variant.title)
	if err != nil {
		return nil, nil, "", err
	}
	h := fnv.New64a()
	h.Write([]byte(workload))
	rng := rand.New(rand.NewPCG(h.Sum64(), 0x6d6978))
	pods, err = v.mix.Apply(rng, pods)
	if err == nil {
		nodes, pods, err = v.taints.Apply(rng, nodes, pods)
	}
	if err != nil {
		return nil, nil, "", fmt.Errorf("workload %s: %w", workload, err)
	}
	return nodes, pods, "pods of the openb trace, " + v.about, nil
}

// Taints taints nodes with GPUs and lets pods tolerate it, as administrators do to keep other pods off these
// nodes. The zero value changes nothing.
type Taints struct {
	Pools      float64 // fraction of the GPU models whose nodes are tainted
	Tolerating float64 // fraction of the pods with GPUs that tolerate the taint
	CPU        bool    // whether the pods without GPUs tolerate it too
}

// gpuTaint is the usual taint of nodes with GPUs.
var gpuTaint = cluster.Taint{Key: "nvidia.com/gpu", Value: "present", Effect: cluster.NoSchedule}

// Validate reports the first value out of range.
func (t Taints) Validate() error {
	if !(t.Pools >= 0 && t.Pools <= 1) || !(t.Tolerating >= 0 && t.Tolerating <= 1) {
		return fmt.Errorf("taints: pools %v and tolerating %v must be 0 to 1", t.Pools, t.Tolerating)
	}
	return nil
}

// Apply returns new lists with taints and tolerations; the given ones do not change. The random numbers draw the models and the pods. Equal
// arguments and random numbers give equal lists.
func (t Taints) Apply(rng *rand.Rand, nodes []Node, pods []Pod) ([]Node, []Pod, error) {
	if err := t.Validate(); err != nil {
		return nil, nil, err
	}
	if t.Pools == 0 {
		return nodes, pods, nil
	}
	var models []string
	for _, n := range nodes {
		if n.GPUs > 0 && !slices.Contains(models, n.Model) {
			models = append(models, n.Model)
		}
	}
	slices.Sort(models)
	rng.Shuffle(len(models), func(i, j int) { models[i], models[j] = models[j], models[i] })
	models = models[:int(t.Pools*float64(len(models))+0.5)]
	nodes, pods = slices.Clone(nodes), slices.Clone(pods)
	for i := range nodes {
		if n := &nodes[i]; n.GPUs > 0 && slices.Contains(models, n.Model) {
			n.Taints = append(slices.Clip(n.Taints), gpuTaint)
		}
	}
	toleration := cluster.Toleration{Key: gpuTaint.Key, Exists: true}
	for i := range pods {
		if p := &pods[i]; p.GPUs > 0 && rng.Float64() < t.Tolerating || p.GPUs == 0 && t.CPU {
			p.Tolerations = append(slices.Clip(p.Tolerations), toleration)
		}
	}
	return nodes, pods, nil
}
