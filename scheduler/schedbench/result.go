package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"runtime/pprof"
	"slices"
	"strings"
	"time"

	"gnnsched/scheduler/plugin"
)

const defaultProfile = "default-scheduler"

// result holds pairs of runs, baseline[i] and ours[i].
type result struct {
	what           string
	learned        string // name of the learned profile
	baseline, ours []run
}

// runner runs a profile once.
type runner func(ctx context.Context, profile string) (run, error)

// compare makes the pairs of runs in alternating order.
func (o *options) compare(ctx context.Context, what string, runProfile runner) (result, error) {
	r := result{what: what, learned: o.variant}
	for pair := range o.pairs {
		order := []string{defaultProfile, o.variant}
		if pair%2 == 1 {
			slices.Reverse(order)
		}
		for _, profile := range order {
			got, err := runProfile(ctx, profile)
			if err != nil {
				return r, fmt.Errorf("%s with %s: %w", what, profile, err)
			}
			fmt.Fprintf(o.progress, "%s  %s, pair %d of %d: %s %.0f pods/s\n", time.Now().Format(time.TimeOnly),
				what, pair+1, o.pairs, profile, got.rate)
			if profile == defaultProfile {
				r.baseline = append(r.baseline, got)
			} else {
				r.ours = append(r.ours, got)
			}
		}
	}
	return r, nil
}

// inProcess returns a runner for runs in this process. It writes a CPU profile of each run if --profile-dir is
// set, and counts the decisions that the network left to upstream's scoring.
func (o *options) inProcess(what string, runProfile runner) runner {
	runs := map[string]int{}
	return func(ctx context.Context, profile string) (got run, err error) {
		fallbacks, err := plugin.FallbacksIn(o.variant, func() (err error) {
			runs[profile]++
			got, err = o.profiled(fmt.Sprintf("%s, %s, run %d", what, profile, runs[profile]),
				func() (run, error) { return runProfile(ctx, profile) })
			return err
		})
		got.fallbacks = fallbacks
		return got, err
	}
}

// profiled runs f, and writes a CPU profile if --profile-dir is set. It collects the garbage of earlier
// runs first.
func (o *options) profiled(name string, f func() (run, error)) (run, error) {
	runtime.GC()
	if o.profileDir == "" {
		return f()
	}
	file, err := os.Create(filepath.Join(o.profileDir, strings.NewReplacer(", ", "-", " ", "-", "%", "").Replace(name)+".pprof"))
	if err != nil {
		return run{}, err
	}
	defer file.Close()
	if err := pprof.StartCPUProfile(file); err != nil {
		return run{}, err
	}
	defer pprof.StopCPUProfile()
	return f()
}

// ratio returns the median, over the pairs, of the learned profile's rate divided by the default's.
func (r result) ratio() float64 {
	ratios := make([]float64, len(r.baseline))
	for i := range ratios {
		ratios[i] = r.ours[i].rate / r.baseline[i].rate
	}
	return median(ratios)
}

// line returns the result in one line.
func (r result) line() string {
	return fmt.Sprintf("%s: %s %s, %s %s (medians of %d), ratio %.2f",
		r.what, r.learned, summary(r.ours), defaultProfile, summary(r.baseline), len(r.baseline), r.ratio())
}

// summary returns the medians of rate and CPU time as text.
func summary(runs []run) string {
	var rate, cpu []float64
	for _, x := range runs {
		rate = append(rate, x.rate)
		cpu = append(cpu, x.cpu)
	}
	return fmt.Sprintf("%.0f pods/s with %.2f ms CPU a pod", median(rate), median(cpu))
}

// print writes every pair.
func (r result) print(w io.Writer) {
	fmt.Fprintf(w, "\n%s\n", r.what)
	for i := range r.baseline {
		ours, base := r.ours[i], r.baseline[i]
		fmt.Fprintf(w, "  pair %d   %s %6.0f pods/s %6.2f ms CPU   %s %6.0f pods/s %6.2f ms CPU   %.2f",
			i+1, r.learned, ours.rate, ours.cpu, defaultProfile, base.rate, base.cpu, ours.rate/base.rate)
		if ours.fallbacks > 0 {
			fmt.Fprintf(w, "   (%d decisions by upstream's scoring)", ours.fallbacks)
		}
		fmt.Fprintln(w)
	}
}

func median(x []float64) float64 {
	x = slices.Sorted(slices.Values(x))
	if len(x) == 0 {
		return 0
	}
	return (x[(len(x)-1)/2] + x[len(x)/2]) / 2
}
