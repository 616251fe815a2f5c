// Command signal measures what a learner has to hear: how often a few rollouts of two choices, or a few episodes of two policies, come
// out in the right order. docs/results.sh signal writes its tables into docs/results/data.
package main

import (
	"flag"
	"fmt"
	"io"
	"log"
	"math"
	"os"

	"gonum.org/v1/gonum/stat"

	"gnnsched/scheduler/eval"
	"gnnsched/scheduler/sim"
)

func main() {
	log.SetFlags(0)
	var s settings
	flag.IntVar(&s.decisions, "decisions", 40, "decisions on each size of cluster")
	flag.IntVar(&s.pairs, "pairs", 16, "pairs of policies on each size of cluster")
	flag.Uint64Var(&s.seed, "seed", 1, "seed of all random numbers")
	flag.Parse()
	if err := s.report(os.Stdout, []int{16, 100, 500}); err != nil {
		log.Fatal(err)
	}
}

// mostNodes is the largest cluster on which whole episodes are played: one takes seconds beyond.
const mostNodes = 100

// settings say how much is measured.
type settings struct {
	decisions, pairs int
	seed             uint64
}

// report writes tables for clusters like those of hetero80, of some sizes in nodes.
func (s settings) report(w io.Writer, sizes []int) error {
	scenario, err := eval.Find("hetero80")
	if err != nil {
		return err
	}
	for _, nodes := range sizes {
		scenario.Config.Nodes = sim.Exactly(nodes)
		near, far, err := s.choices(scenario.Config)
		if err != nil {
			return err
		}
		var tried []sample
		if nodes <= mostNodes {
			if tried, err = s.policies(scenario.Config); err != nil {
				return err
			}
		}
		fmt.Fprintf(w, "# %d nodes\n\n| policy | load | right | certain |\n|---|--:|--:|--:|\n", nodes)
		write(w, "first or second choice", near, futures)
		write(w, "first or middle choice", far, futures)
		write(w, "two policies", tried, episodes)
		fmt.Fprintln(w)
	}
	return nil
}

// sample holds how much more the second of two costs than the first, in one future after another.
type sample struct {
	truth []float64         // whose mean is taken for the truth
	by    map[int][]float64 // estimates, by horizon in placements; 0 for whole episodes
}

// write writes how often means of a number of estimates in a row have the sign of the truth, in %, and of how many samples the truth is
// certain: its mean is two standard errors from 0. Only these count.
func write(w io.Writer, what string, samples []sample, numbers []int) {
	for _, number := range numbers {
		for _, h := range horizons {
			var right, of, certain int
			for _, s := range samples {
				mean, spread := stat.MeanStdDev(s.truth, nil)
				if s.by[h] == nil || math.Abs(mean) < 2*stat.StdErr(spread, float64(len(s.truth))) {
					continue
				}
				certain++
				for i := 0; i+number <= len(s.by[h]); i += number {
					of++
					if stat.Mean(s.by[h][i:i+number], nil)*mean > 0 {
						right++
					}
				}
			}
			if of > 0 {
				fmt.Fprintf(w, "| %s: %d | %d | %.0f | %d |\n", what, number, h, 100*float64(right)/float64(of), certain)
			}
		}
	}
}
