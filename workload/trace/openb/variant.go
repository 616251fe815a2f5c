package openb

import (
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"path/filepath"
	"strings"

	"gnnsched/internal/choice"
)

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
