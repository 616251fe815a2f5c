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

// result is what one scheduler did over its rounds.
type result struct {
	Scheduler string
	Rounds    int
	Bound     int
	Pending   int
	Variance  float64       // of the nodes' CPU fraction at the end of a round, mean over rounds
	Std       float64       // the same of its standard deviation
	Binding   time.Duration // sum over the rounds from the first deployment to the last binding
	P50, P99  time.Duration // of a scheduling attempt
	Fallbacks float64       // decisions that upstream's scoring made for the network
}

// add takes a round in.
func (r *result) add(f driver.FillSummary, std float64) {
	n := float64(r.Rounds)
	r.Variance = (r.Variance*n + std*std) / (n + 1)
	r.Std = (r.Std*n + std) / (n + 1)
	r.Rounds++
	r.Bound += f.Bound
	r.Pending += f.Pods - f.Bound
	r.Binding += f.Binding
}

// rate is pods bound per second; 0 where nothing was bound.
func (r result) rate() float64 {
	if r.Binding <= 0 {
		return 0
	}
	return float64(r.Bound) / r.Binding.Seconds()
}

// writeSummary writes both results side by side.
func writeSummary(w io.Writer, c Config, learned, base result, took time.Duration) error {
	fmt.Fprintf(w, "\ngnnsched demo: %d nodes of 64 CPU, 256Gi and 110 pods; %d workload(s) to %.0f%% load, each through both schedulers; %s\n\n",
		c.Nodes, c.Seeds, 100*c.Load, took.Round(time.Second))
	t := tablewriter.NewTable(w, tablewriter.WithHeaderAutoFormat(tw.Off), tablewriter.WithAlignment(tw.Alignment{tw.AlignLeft, tw.AlignRight, tw.AlignRight}))
	t.Header("", learned.Scheduler, base.Scheduler)
	row := func(name string, f func(result) string) { _ = t.Append(name, f(learned), f(base)) } // appending to memory
	row("pods bound", func(r result) string { return fmt.Sprint(r.Bound) })
	row("pods pending", func(r result) string { return fmt.Sprint(r.Pending) })
	row("CPU fraction, variance over nodes", func(r result) string { return fmt.Sprintf("%.6f", r.Variance) })
	row("CPU fraction, standard deviation", func(r result) string { return fmt.Sprintf("%.4f", r.Std) })
	row("scheduling attempt, p50", func(r result) string { return short(r.P50) })
	row("scheduling attempt, p99", func(r result) string { return short(r.P99) })
	row("pods bound per second", func(r result) string { return fmt.Sprintf("%.0f", r.rate()) })
	if err := t.Render(); err != nil {
		return fmt.Errorf("write the summary: %w", err)
	}
	_, err := fmt.Fprintf(w, "\n%s `gnnsched eval` compares with intervals.\n", verdict(learned, base))
	return err
}

// verdict says in words which of the two spread the load more evenly.
func verdict(learned, base result) string {
	text := fmt.Sprintf("In these workloads %s and %s spread the load alike.", learned.Scheduler, base.Scheduler)
	switch ratio := learned.Std / base.Std; {
	case math.IsNaN(ratio) || math.IsInf(ratio, 0) || learned.Bound != base.Bound:
		text = "The two are not comparable: they did not bind the same pods."
	case ratio < 0.99:
		text = fmt.Sprintf("In these workloads %s spreads the load more evenly: its standard deviation is %.0f%% lower.", learned.Scheduler, 100*(1-ratio))
	case ratio > 1.01:
		text = fmt.Sprintf("In these workloads %s spreads the load less evenly: its standard deviation is %.0f%% higher.", learned.Scheduler, 100*(ratio-1))
	}
	if learned.Fallbacks > 0 {
		text += fmt.Sprintf(" In %.0f decisions upstream's scoring stood in for the network; the log says why.", learned.Fallbacks)
	}
	return text
}

// short is a duration with three digits.
func short(d time.Duration) string {
	switch {
	case d >= time.Second:
		return fmt.Sprintf("%.2f s", d.Seconds())
	case d >= time.Millisecond:
		return fmt.Sprintf("%.2f ms", float64(d)/1e6)
	}
	return fmt.Sprintf("%.0f µs", float64(d)/1e3)
}
