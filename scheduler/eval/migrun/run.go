package migrun

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"gnnsched/internal/cluster/mig"
	"gnnsched/scheduler/eval"
	"gnnsched/scheduler/sim"
)

// Config describes a comparison.
type Config struct {
	Machines   Machines
	Mixes      []Mix
	Contenders []eval.Contender // the others are compared with the first
	Seeds      []uint64
	Loads      []float64     // ascending
	Steady     bool          // pods come and go
	Progress   eval.Progress // may be nil
}

// Report is the result of a comparison.
type Report struct {
	Machines Machines
	Seeds    []uint64
	Loads    []float64
	Profiles []string // names on the first model, by the index of a profile; the first is no profile
	Mixes    []Comparison
}

// Comparison holds the results on one mix.
type Comparison struct {
	Mix
	At     []*eval.Comparison // by load
	steady bool
	// Bounds and Optimum are the most that any policy can allocate, 0 to 1, when no pod leaves: by the relaxed and by the integer
	// program. They are by seed and then by load. Optimum is empty if that is too large.
	Bounds, Optimum [][]float64
}

// Run plays every mix with every contender and seed, as many seeds at a time as there are processors. After an error, the report has the
// mixes that were played to the end.
func Run(ctx context.Context, c Config) (*Report, error) {
	if len(c.Contenders) == 0 || len(c.Seeds) == 0 || len(c.Loads) == 0 || len(c.Mixes) == 0 {
		return &Report{}, errors.New("nothing to compare: no policy, no seed, no load or no mix")
	}
	out := &Report{Machines: c.Machines, Seeds: c.Seeds, Loads: c.Loads, Profiles: make([]string, mig.Count)}
	for _, p := range mig.Profiles() {
		out.Profiles[p] = p.Name(c.Machines.Models[0].gigabytes)
	}
	for i, x := range c.Mixes {
		r := Comparison{Mix: x, steady: c.Steady}
		scenarios := c.scenarios(x)
		for k, s := range scenarios {
			of, err := eval.Compare(ctx, s, c.Contenders, c.Seeds, c.Progress.Part(i*len(scenarios)+k, len(c.Mixes)*len(scenarios), s.Name))
			if err != nil {
				return out, err
			}
			r.At = append(r.At, of)
		}
		if !c.Steady {
			r.At = byLoad(r.At[0], len(c.Loads))
			if err := c.bound(&r); err != nil {
				return out, fmt.Errorf("mix %s: %w", x.Name, err)
			}
		}
		out.Mixes = append(out.Mixes, r)
	}
	return out, nil
}

// scenarios returns what is played of a mix: the fill, or pods that come and go at each load.
func (c Config) scenarios(x Mix) (out []eval.Scenario) {
	if !c.Steady {
		return []eval.Scenario{c.Machines.Filling(x, c.Loads)}
	}
	for _, load := range c.Loads {
		out = append(out, c.Machines.flow(x, load))
	}
	return out
}

// byLoad divides a fill into a comparison for each load.
func byLoad(c *eval.Comparison, loads int) (out []*eval.Comparison) {
	for k := range loads {
		at := *c
		at.Results = nil
		for _, r := range c.Results {
			x := eval.Result{Name: r.Name, Kind: r.Kind}
			for _, o := range r.Outcomes {
				x.Outcomes = append(x.Outcomes, sim.Outcome{Partitions: &o.Partitions.Loads[k]})
			}
			at.Results = append(at.Results, x)
		}
		out = append(out, &at)
	}
	return out
}

// smallest is the number of GPUs of one model up to which the optimum is tried.
const smallest = 8

// bound sets the bounds and, on few GPUs, the optimum.
func (c Config) bound(r *Comparison) error {
	exact := c.Machines.Each*c.Machines.GPUs <= smallest
	for _, seed := range c.Seeds {
		b, err := c.Machines.bound(r.Mix, c.Loads, seed, relaxed)
		if err != nil {
			return fmt.Errorf("seed %d: %w", seed, err)
		}
		r.Bounds = append(r.Bounds, b)
		if !exact {
			continue
		}
		b, err = c.Machines.bound(r.Mix, c.Loads, seed, func(pods [mig.Count]int, gpus int) (float64, error) {
			most, err := optimum(pods, gpus)
			return float64(most), err
		})
		if exact = err == nil; err != nil && !errors.Is(err, errTooLarge) {
			return fmt.Errorf("seed %d: %w", seed, err)
		}
		r.Optimum = append(r.Optimum, b)
	}
	if !exact {
		r.Optimum = nil
	}
	return nil
}

// Filled is the state when the arrivals have requested a multiple of the compute slices.
type Filled struct {
	Load       float64        `json:"load"`
	Allocation float64        `json:"allocation"` // of the compute slices, 0 to 1
	Arrived    [mig.Count]int `json:"arrived"`    // by profile
	Left       [mig.Count]int `json:"left"`       // pods without a node, by profile
}

// Fill plays the arrivals of a seed with a policy, up to the last of the ascending loads.
func (m Machines) Fill(ctx context.Context, x Mix, c eval.Contender, loads []float64, seed uint64) (out []Filled, err error) {
	env, err := sim.New(m.Filling(x, loads).Config)
	if err != nil {
		return nil, err
	}
	o, err := c.Episode(ctx, env, seed)
	if err != nil {
		return nil, err
	}
	for k, p := range o.Partitions.Loads {
		out = append(out, Filled{loads[k], p.Allocation, p.Arrived, p.Left})
	}
	return out, nil
}

// MarshalJSON implements json.Marshaler: the outcomes of each policy are by seed and then by load.
func (r *Report) MarshalJSON() ([]byte, error) {
	type queued struct {
		Load float64 `json:"load"`
		*sim.PartitionOutcome
	}
	type policy struct {
		Name   string     `json:"name"`
		Filled [][]Filled `json:"filled,omitempty"`
		Queued [][]queued `json:"queued,omitempty"` // after the warm-up, where pods come and go; times are in mean lifetimes
	}
	type mix struct {
		Mix      string      `json:"mix"`
		About    string      `json:"about"`
		Policies []policy    `json:"policies"`
		Bounds   [][]float64 `json:"bounds,omitempty"`
		Optimum  [][]float64 `json:"optimum,omitempty"`
	}
	out := struct {
		Machines Machines  `json:"machines"`
		Seeds    []uint64  `json:"seeds"`
		Loads    []float64 `json:"loads"`
		Profiles []string  `json:"profiles"`
		Mixes    []mix     `json:"mixes"`
	}{Machines: r.Machines, Seeds: r.Seeds, Loads: r.Loads, Profiles: r.Profiles}
	for _, c := range r.Mixes {
		m := mix{Mix: c.Name, About: c.About, Bounds: c.Bounds, Optimum: c.Optimum}
		for i, x := range c.At[0].Results {
			p := policy{Name: x.Name}
			for s := range r.Seeds {
				var filled []Filled
				var all []queued
				for k, load := range r.Loads {
					o := c.At[k].Results[i].Outcomes[s].Partitions
					filled, all = append(filled, Filled{load, o.Allocation, o.Arrived, o.Left}), append(all, queued{load, o})
				}
				if c.steady {
					p.Queued = append(p.Queued, all)
				} else {
					p.Filled = append(p.Filled, filled)
				}
			}
			m.Policies = append(m.Policies, p)
		}
		out.Mixes = append(out.Mixes, m)
	}
	return json.Marshal(out)
}
