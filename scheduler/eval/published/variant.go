package published

import (
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"slices"
	"strings"

	"gnnsched/workload/trace/openb"
)

// variant is a mix that a pod list can be changed to. A workload called LIST+VARIANT is that list in that
// mix, for example default+models40.
type variant struct {
	name  string
	about string
	mix   openb.Mix
}

// variants are the mixes, of which networks meet other draws in training.
var variants = []variant{
	{"models20", "20 % of the pods name GPU models", openb.Mix{Named: 0.2}},
	{"models40", "40 % of the pods name GPU models", openb.Mix{Named: 0.4}},
	{"shares50", "half of the whole devices are requested as shares", openb.Mix{Sharing: 0.5}},
	{"shares", "all GPU pods share a device", openb.Mix{Sharing: 1}},
	{"multi2", "twice the pods with several devices", openb.Mix{Multiple: 2}},
	{"multi4", "four times the pods with several devices", openb.Mix{Multiple: 4}},
	{"cpu3", "three times the pods without GPUs", openb.Mix{WithoutGPU: 3}},
	{"all", "models40, multi4 and cpu3 together", openb.Mix{Named: 0.4, Multiple: 4, WithoutGPU: 3}},
}

// VariantNames returns the names of the variants.
func VariantNames() (names []string) {
	for _, v := range variants {
		names = append(names, v.name)
	}
	return names
}

// CheckWorkload returns an error unless the workload is one of the known lists, alone or with a variant.
func CheckWorkload(workload string, known []string) error {
	list, _, err := split(workload)
	if err == nil && !slices.Contains(known, list) {
		err = fmt.Errorf("there is no pod list %q; there are %s", list, strings.Join(known, ", "))
	}
	return err
}

// split returns the pod list of a workload, and the variant it is in; nil for the list as it is.
func split(workload string) (list string, v *variant, err error) {
	list, name, mixed := strings.Cut(workload, "+")
	if !mixed {
		return list, nil, nil
	}
	i := slices.IndexFunc(variants, func(v variant) bool { return v.name == name })
	if i < 0 {
		return list, nil, fmt.Errorf("no variant is called %q; there are %s", name, strings.Join(VariantNames(), ", "))
	}
	return list, &variants[i], nil
}

// podsOf reads the pods of a workload. The name of the workload is the seed of its variant, so that it is the
// same list for all policies and seeds.
func podsOf(dir, workload string) ([]openb.Pod, error) {
	list, v, err := split(workload)
	if err != nil {
		return nil, err
	}
	all, err := openb.LoadPods(openb.PodsFile(dir, list))
	if err != nil || v == nil {
		return all, err
	}
	h := fnv.New64a()
	h.Write([]byte(workload))
	if all, err = v.mix.Apply(rand.New(rand.NewPCG(h.Sum64(), 0x6d6978)), all); err != nil {
		return nil, fmt.Errorf("workload %s: %w", workload, err)
	}
	return all, nil
}
