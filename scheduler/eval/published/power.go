package published

import (
	"context"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"

	"gnnsched/scheduler/eval"
	"gnnsched/scheduler/sim"
)

// PowerFactor is the amount of arrivals, over the cluster's GPUs, of the published comparison of power
// (Lettich et al., CCGrid 2025).
const PowerFactor = 1.2

// PowerLoads are the loads at which power is reported.
var PowerLoads = []float64{0.2, 0.4, 0.6, 0.8, 1, PowerFactor}

// PowerPolicies are the usual policies of a Power: FGD, the published power-saving ones, and the network with several prices on power.
var PowerPolicies = []string{
	"fgd", "pwr+fgd:0.05", "pwr+fgd:0.1", "pwr+fgd:0.2", "pwr",
	"gpu-gnn", "power+gpu-gnn:0.5", "power+gpu-gnn:1", "power+gpu-gnn:2", "power+gpu-gnn:4", "power+gpu-gnn:16", "power+gpu-gnn:64",
	"power+gpu-gnn:256", "power+gpu-gnn:1e9",
}

// publishedSavings holds the published savings of the mixes of PWR and FGD, by the list of pods: the range of the means over ten
// repetitions, in % of FGD's power. They were read off slides and are whole numbers. For multigpu20 and gpuspec10 they cover all lists of
// the kind.
var publishedSavings = map[string][2]float64{"default": {13, 16}, "multigpu20": {8, 15}, "gpuspec10": {10, 24}}

// Power is the result of RunPower: the policies' allocations, and the power that they need.
type Power struct{ Curve }

// RunPower plays every workload with every contender and seed, and measures the power at each of c.Loads. progress may be nil.
func RunPower(ctx context.Context, c Config, progress eval.Progress) (Power, error) {
	curve, err := RunCurve(ctx, c, progress)
	return Power{curve}, err
}

// kilowatts is the power at a load.
func kilowatts(load int) eval.Metric {
	return eval.Metric{Name: "kilowatts", Title: "kW", Digits: 1, Of: func(o sim.Outcome) float64 { return o.GPU.Loads[load].Watts / 1000 }}
}

// meanKilowatts is the mean power until a load.
func meanKilowatts(load int) eval.Metric {
	return eval.Metric{
		Name: "meanKilowatts", Title: "mean kW", Digits: 2, Of: func(o sim.Outcome) float64 { return o.GPU.Loads[load].MeanWatts / 1000 },
	}
}

func (p Power) last() int { return len(p.loads) - 1 }

// Write writes three tables for each workload: allocation and mean power, the power at each load, and a comparison of the other policies
// with each published one.
func (p Power) Write(w io.Writer, markdown bool) error {
	page := eval.Page{Markdown: markdown}
	for i, x := range p.curves {
		if i > 0 {
			page.Printf("\n")
		}
		page.Title(x.Scenario.Name, x.Scenario.About)
		page.Printf("\n\nGPU allocation at the end in %%, and mean power over the arrivals in kW, by the GPUs that were requested, over %s.\n"+
			"The differences from %s have 95%% intervals; a saving is in %% of its power:\n\n", x.SeedsText(), x.Results[0].Name)
		page.Table(p.trade(x))
		page.Printf("\nSaving in %% of the power at the time when so much was requested:\n\n")
		page.Table(x.ByLoad(p.loads, func(i, k int) string {
			if i == 0 {
				return fmt.Sprintf("%.1f kW", x.Results[0].Mean(kilowatts(k)))
			}
			return fmt.Sprintf("%.1f", saved(x.Results[i], x.Results[0], kilowatts(k)).Mean)
		}))
		page.Printf("%s", p.reproduced(x))
		if rows := p.verdicts(x); len(rows) > 1 {
			page.Printf("\nFor each published policy, of the others that need no more power the one that allocates most:\n\n")
			page.Table(rows)
		}
	}
	return page.Write(w)
}

// saved returns the reduction of a metric of r from base's, in per cent of base's.
func saved(r, base eval.Result, m eval.Metric) eval.Interval {
	mine, theirs := r.Values(m), base.Values(m)
	out := make([]float64, len(mine))
	for i := range mine {
		out[i] = 100 * (1 - mine[i]/theirs[i])
	}
	return eval.MeanInterval(out)
}

func (p Power) trade(x curve) [][]string {
	rows := [][]string{{"policy", "kW", "saving", "allocation", "difference", "on the front"}}
	base := x.Results[0]
	for i, r := range x.Results {
		row := []string{
			r.Name, fmt.Sprintf("%.1f", r.Mean(meanKilowatts(p.last()))), "", fmt.Sprintf("%.2f", r.Mean(allocationAt(p.last()))), "", "no",
		}
		if i > 0 {
			s, d := saved(r, base, meanKilowatts(p.last())), x.Difference(r, allocationAt(p.last()))
			row[2] = fmt.Sprintf("%.1f (%.1f to %.1f)", s.Mean, s.Low, s.High)
			row[4] = d.Text(2)
		}
		if p.onFront(x, r) {
			row[5] = "yes"
		}
		rows = append(rows, row)
	}
	return rows
}

// onFront reports whether no policy needs at most as much power for more GPUs, or less power for at least as many.
func (p Power) onFront(x curve, r eval.Result) bool {
	watts, gpus := r.Mean(meanKilowatts(p.last())), r.Mean(allocationAt(p.last()))
	return !slices.ContainsFunc(x.Results, func(o eval.Result) bool {
		w, g := o.Mean(meanKilowatts(p.last())), o.Mean(allocationAt(p.last()))
		return w <= watts && g >= gpus && (w < watts || g > gpus)
	})
}

// reproduced compares the savings of the mixes, means of the loads under 1, with the published ones. It is empty if there
// is nothing to compare.
func (p Power) reproduced(x curve) string {
	published, known := publishedSavings[x.Scenario.Name]
	low, high := math.Inf(1), math.Inf(-1)
	for _, r := range x.Results {
		sum, loads := 0.0, 0.0
		for k, load := range p.loads {
			if load < 1 {
				sum += saved(r, x.Results[0], kilowatts(k)).Mean
				loads++
			}
		}
		if strings.HasPrefix(r.Name, "pwr+fgd:") && loads > 0 {
			low, high = min(low, sum/loads), max(high, sum/loads)
		}
	}
	if !known || high < low || x.Results[0].Name != baseline {
		return ""
	}
	return fmt.Sprintf("\nSaving of the mixes of pwr and fgd, means of the loads under 100%%: %.1f to %.1f%%. Published, "+
		"as read off slides: %.0f to %.0f%%.\n", low, high, published[0], published[1])
}

// powerPublished reports whether a policy is one of the publication on power.
func powerPublished(name string) bool {
	return name == baseline || name == "pwr" || strings.HasPrefix(name, "pwr+fgd:")
}

// verdicts returns the rows of the third table.
func (p Power) verdicts(x curve) [][]string {
	rows := [][]string{{"published", "kW", "allocation", "beside it", "kW less", "points more"}}
	for _, r := range x.Results {
		if !powerPublished(r.Name) {
			continue
		}
		var best *eval.Result
		for i := range x.Results {
			o := &x.Results[i]
			if !powerPublished(o.Name) && o.Mean(meanKilowatts(p.last())) <= r.Mean(meanKilowatts(p.last())) &&
				(best == nil || o.Mean(allocationAt(p.last())) > best.Mean(allocationAt(p.last()))) {
				best = o
			}
		}
		row := []string{
			r.Name, fmt.Sprintf("%.1f", r.Mean(meanKilowatts(p.last()))), fmt.Sprintf("%.2f", r.Mean(allocationAt(p.last()))), "none", "", "",
		}
		if best != nil {
			less, more := minus(r, *best, meanKilowatts(p.last())), minus(*best, r, allocationAt(p.last()))
			row[3], row[4], row[5] = best.Name, fmt.Sprintf("%.1f (%.1f to %.1f)", less.Mean, less.Low, less.High),
				more.Text(2)
		}
		rows = append(rows, row)
	}
	return rows
}

// minus returns the paired difference of a metric.
func minus(a, b eval.Result, m eval.Metric) eval.Interval {
	out := a.Values(m)
	for i, v := range b.Values(m) {
		out[i] -= v
	}
	return eval.MeanInterval(out)
}
