package migrun

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"

	"golang.org/x/sync/errgroup"

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
	Loads      []float64 // ascending
	Steady     bool      // pods come and go
	// Progress, if not nil, is called after each seed of a mix with the seeds of all mixes that are done. Calls do not overlap.
	Progress func(done, total int)
}

// Report is the result of a comparison.
type Report struct {
	Machines Machines     `json:"machines"`
	Seeds    []uint64     `json:"seeds"`
	Loads    []float64    `json:"loads"`
	Profiles []string     `json:"profiles"` // names on the first model, by the index of a profile; the first is no profile
	Mixes    []Comparison `json:"mixes"`
}

// Comparison holds the results on one mix. Lists are by seed and then by load.
type Comparison struct {
	Mix      string   `json:"mix"`
	About    string   `json:"about"`
	Policies []Result `json:"policies"`
	// Bounds and Optimum are the most that any policy can allocate, 0 to 1, when no pod leaves: by the relaxed and by the integer
	// program. Optimum is empty if that is too large.
	Bounds  [][]float64 `json:"bounds,omitempty"`
	Optimum [][]float64 `json:"optimum,omitempty"`
}

// Result holds the outcomes of one policy, either Filled or Queued.
type Result struct {
	Name   string     `json:"name"`
	Filled [][]Filled `json:"filled,omitempty"`
	Queued [][]Queued `json:"queued,omitempty"`
}

// at returns the outcome of seed number i at a load. It waits for nothing if no pod leaves.
func (r Result) at(i, load int) Queued {
	if r.Queued != nil {
		return r.Queued[i][load]
	}
	f := r.Filled[i][load]
	return Queued{f.Load, sim.PartitionOutcome{Allocation: f.Allocation, Arrived: f.Arrived, Left: f.Left}}
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
	var told sync.Mutex
	done := 0
	played := func() {
		told.Lock()
		defer told.Unlock()
		if done++; c.Progress != nil {
			c.Progress(done, len(c.Mixes)*len(c.Seeds))
		}
	}
	for _, x := range c.Mixes {
		r, err := c.compare(ctx, x, played)
		if err != nil {
			return out, fmt.Errorf("mix %s: %w", x.Name, err)
		}
		out.Mixes = append(out.Mixes, r)
	}
	return out, nil
}

// compare plays a mix. It calls played after each seed.
func (c Config) compare(ctx context.Context, x Mix, played func()) (Comparison, error) {
	out := Comparison{Mix: x.Name, About: x.About, Policies: make([]Result, len(c.Contenders))}
	for i, p := range c.Contenders {
		out.Policies[i] = Result{Name: p.Name}
		if c.Steady {
			out.Policies[i].Queued = make([][]Queued, len(c.Seeds))
		} else {
			out.Policies[i].Filled = make([][]Filled, len(c.Seeds))
		}
	}
	if !c.Steady {
		out.Bounds, out.Optimum = make([][]float64, len(c.Seeds)), make([][]float64, len(c.Seeds))
	}
	work, ctx := errgroup.WithContext(ctx)
	work.SetLimit(runtime.GOMAXPROCS(0))
	for i, seed := range c.Seeds {
		work.Go(func() error {
			defer played()
			return c.seed(ctx, x, &out, i, seed)
		})
	}
	err := work.Wait()
	for _, o := range out.Optimum {
		if o == nil {
			out.Optimum = nil
		}
	}
	return out, err
}

// seed sets the results of seed number i.
func (c Config) seed(ctx context.Context, x Mix, out *Comparison, i int, seed uint64) (err error) {
	for k, p := range c.Contenders {
		r := &out.Policies[k]
		if !c.Steady {
			if r.Filled[i], err = c.Machines.Fill(ctx, x, p, c.Loads, seed); err != nil {
				return fmt.Errorf("%s, seed %d: %w", p.Name, seed, err)
			}
			continue
		}
		for _, load := range c.Loads {
			q, err := c.Machines.Steady(ctx, x, p, load, seed)
			if err != nil {
				return fmt.Errorf("%s, seed %d: %w", p.Name, seed, err)
			}
			r.Queued[i] = append(r.Queued[i], q)
		}
	}
	if c.Steady {
		return nil
	}
	if out.Bounds[i], err = c.Machines.bound(x, c.Loads, seed, relaxed); err != nil {
		return fmt.Errorf("seed %d: %w", seed, err)
	}
	if c.Machines.Each*c.Machines.GPUs > smallest {
		return nil
	}
	out.Optimum[i], err = c.Machines.bound(x, c.Loads, seed, func(pods [mig.Count]int, gpus int) (float64, error) {
		most, err := optimum(pods, gpus)
		return float64(most), err
	})
	if errors.Is(err, errTooLarge) {
		out.Optimum[i], err = nil, nil
	}
	return err
}

// smallest is the number of GPUs of one model up to which the optimum is tried.
const smallest = 8
