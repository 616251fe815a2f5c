package openb

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"

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
