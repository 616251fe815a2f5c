package published

import (
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"slices"
	"strings"

	"gnnsched/internal/choice"
	"gnnsched/workload/trace/openb"
)

// variant is a change of a pod list to another mix. The workload LIST+VARIANT is that list in that mix, for example default+models40.
type variant struct {
	name   string
	about  string
	mix    openb.Mix
	taints openb.Taints
}

// variants are the mixes and taints. In training, networks meet other draws of them.
var variants = []variant{
	{name: "models20", about: "20 % of the pods name GPU models", mix: openb.Mix{Named: 0.2}},
	{name: "models40", about: "40 % of the pods name GPU models", mix: openb.Mix{Named: 0.4}},
	{name: "shares50", about: "half of the whole devices are requested as shares", mix: openb.Mix{Sharing: 0.5}},
	{name: "shares", about: "all GPU pods share a device", mix: openb.Mix{Sharing: 1}},
	{name: "multi2", about: "twice the pods with several devices", mix: openb.Mix{Multiple: 2}},
	{name: "multi4", about: "four times the pods with several devices", mix: openb.Mix{Multiple: 4}},
	{name: "cpu3", about: "three times the pods without GPUs", mix: openb.Mix{WithoutGPU: 3}},
	{name: "all", about: "models40, multi4 and cpu3 together", mix: openb.Mix{Named: 0.4, Multiple: 4, WithoutGPU: 3}},
	{name: "tainted", about: "all nodes are tainted and all pods tolerate it", taints: openb.Taints{Pools: 1, Tolerating: 1, CPU: true}},
	{name: "pools", about: "the nodes of half of the GPU models are tainted, and half of the GPU pods tolerate it",
		taints: openb.Taints{Pools: 0.5, Tolerating: 0.5}},
}

// VariantNames returns the names of the variants.
func VariantNames() []string { return choice.Names(variants, variant.title) }

func (v variant) title() string { return v.name }

// CheckWorkload returns an error unless the workload is one of the known lists, alone or with a variant.
func CheckWorkload(workload string, known []string) error {
	list, _, err := split(workload)
	if err == nil && !slices.Contains(known, list) {
		err = choice.Unknown("pod list", list, known)
	}
	return err
}

// split returns the pod list of a workload, and its variant; nil for the unchanged list.
func split(workload string) (list string, v *variant, err error) {
	list, name, mixed := strings.Cut(workload, "+")
	if !mixed {
		return list, nil, nil
	}
	found, err := choice.Find("variant", name, variants, variant.title)
	return list, &found, err
}

// read reads the pods of a workload and puts its taints on the nodes. The name of the workload is the seed of its variant, so that all
// policies and seeds have the same variant.
func read(dir, workload string, nodes []openb.Node) ([]openb.Node, []openb.Pod, error) {
	list, v, err := split(workload)
	if err != nil {
		return nil, nil, err
	}
	pods, err := openb.LoadPods(openb.PodsFile(dir, list))
	if err != nil || v == nil {
		return nodes, pods, err
	}
	h := fnv.New64a()
	h.Write([]byte(workload))
	rng := rand.New(rand.NewPCG(h.Sum64(), 0x6d6978))
	if pods, err = v.mix.Apply(rng, pods); err != nil {
		return nil, nil, fmt.Errorf("workload %s: %w", workload, err)
	}
	if nodes, pods, err = v.taints.Apply(rng, nodes, pods); err != nil {
		return nil, nil, fmt.Errorf("workload %s: %w", workload, err)
	}
	return nodes, pods, nil
}
