package demo

import (
	"fmt"
	"io"
	"math"
	"time"

	"github.com/olekukonko/tablewriter"
	"github.com/olekukonko/tablewriter/tw"

	"gnnsched/workload/driver"
)

// result holds the figures of one scheduler over its rounds.
type result struct {
	scheduler string
	rounds    int
	bound     int
	pending   int
	variance  float64       // of the nodes' CPU fractions at the end of a round; mean over the rounds
	std       float64       // standard deviation of the same; mean over the rounds
	binding   time.Duration // time from the first Deployment to the last binding; sum over the rounds
	p50, p99  time.Duration // of a scheduling attempt
	fallbacks float64       // decisions that upstream's scoring made because the network failed
}

// add adds the figures of a round.
func (r *result) add(f driver.FillSummary, std float64) {
	n := float64(r.rounds)
	r.variance = (r.variance*n + std*std) / (n + 1)
	r.std = (r.std*n + std) / (n + 1)
	r.rounds++
	r.bound += f.Bound
	r.pending += f.Pods - f.Bound
	r.binding += f.Binding
}

// rate is the number of pods bound per second; 0 if none was bound.
func (r result) rate() float64 {
	if r.binding <= 0 {
		return 0
	}
	return float64(r.bound) / r.binding.Seconds()
}

// writeSummary writes both results side by side.
func writeSummary(w io.Writer, c Config, learned, base result, took time.Duration) error {
	fmt.Fprintf(w, "\ngnnsched demo: %d nodes of 64 CPU, 256Gi and 110 pods; %d workload(s) to %.0f%% load, each through both schedulers; %s\n\n",
		c.Nodes, c.Seeds, 100*c.Load, took.Round(time.Second))
	t := tablewriter.NewTable(w, tablewriter.WithHeaderAutoFormat(tw.Off), tablewriter.WithAlignment(tw.Alignment{tw.AlignLeft, tw.AlignRight, tw.AlignRight}))
	t.Header("", learned.scheduler, base.scheduler)
	row := func(name string, f func(result) string) { _ = t.Append(name, f(learned), f(base)) } // appending to memory
	row("pods bound", func(r result) string { return fmt.Sprint(r.bound) })
	row("pods pending", func(r result) string { return fmt.Sprint(r.pending) })
	row("CPU fraction, variance over nodes", func(r result) string { return fmt.Sprintf("%.6f", r.variance) })
	row("CPU fraction, standard deviation", func(r result) string { return fmt.Sprintf("%.4f", r.std) })
	row("scheduling attempt, p50", func(r result) string { return short(r.p50) })
	row("scheduling attempt, p99", func(r result) string { return short(r.p99) })
	row("pods bound per second", func(r result) string { return fmt.Sprintf("%.0f", r.rate()) })
	if err := t.Render(); err != nil {
		return fmt.Errorf("write the summary: %w", err)
	}
	_, err := fmt.Fprintf(w, "\n%s `gnnsched eval` compares with intervals.\n", verdict(learned, base))
	return err
}

// verdict says which of the two schedulers spread the load more evenly.
func verdict(learned, base result) string {
	text := fmt.Sprintf("In these workloads %s and %s spread the load alike.", learned.scheduler, base.scheduler)
	switch ratio := learned.std / base.std; {
	case math.IsNaN(ratio) || math.IsInf(ratio, 0) || learned.bound != base.bound:
		text = "The two cannot be compared: they did not bind the same number of pods."
	case ratio < 0.99:
		text = fmt.Sprintf("In these workloads %s spreads the load more evenly: its standard deviation is %.0f%% lower.", learned.scheduler, 100*(1-ratio))
	case ratio > 1.01:
		text = fmt.Sprintf("In these workloads %s spreads the load less evenly: its standard deviation is %.0f%% higher.", learned.scheduler, 100*(ratio-1))
	}
	if learned.fallbacks > 0 {
		text += fmt.Sprintf(" In %.0f decisions the network failed and upstream's scoring decided; the log says why.", learned.fallbacks)
	}
	return text
}

// short writes a duration with three digits.
func short(d time.Duration) string {
	switch {
	case d >= time.Second:
		return fmt.Sprintf("%.2f s", d.Seconds())
	case d >= time.Millisecond:
		return fmt.Sprintf("%.2f ms", float64(d)/1e6)
	}
	return fmt.Sprintf("%.0f µs", float64(d)/1e3)
}
