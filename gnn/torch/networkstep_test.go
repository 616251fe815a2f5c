//go:build torch

package torch

import (
	"math/rand/v2"
	"strings"
	"syscall"
	"testing"

	"gnnsched/gnn/checkpoint"
	"gnnsched/gnn/graph"
	"gnnsched/internal/fatal"
)

// BenchmarkNetworkStep measures a training step on 64 graphs with 50 nodes, with the features base alone and with the set whole: the
// batch's tensors, both passes and the optimiser. CPU time says more than wall time on a machine that does other things too.
// networkstep.py does the same as the second in Python.
func BenchmarkNetworkStep(b *testing.B) {
	for _, features := range [][]string{{"base"}, {"base", "whole"}} {
		b.Run(strings.Join(features, "+"), func(b *testing.B) { networkSteps(b, features) })
	}
}

func networkSteps(b *testing.B, features []string) {
	r := rand.New(rand.NewPCG(64, 50))
	c := checkpoint.Random(checkpoint.Architecture{Encoder: checkpoint.GNN, Head: checkpoint.DQN, Hidden: 32, Features: features}, r)
	layout, err := c.Manifest.Architecture.Layout()
	fatal.If(b, err)
	var graphs []*graph.Graph
	for range 64 {
		graphs = append(graphs, randomGraph(r, layout.Widths, 50))
	}
	net, err := networkOf(c)
	fatal.If(b, err)
	defer net.Drop()
	adam, err := newAdam(&net.Parameters, usualAdam())
	fatal.If(b, err)
	before := cpuSeconds(b)
	for b.Loop() {
		var s Scope
		batch := graph.Concat(graphs)
		loss := s.Mean(s.Square(dueling(&s, net.Forward(&s, batch), batch)))
		fatal.If(b, net.zeroGrad())
		s.Backward(loss)
		fatal.If(b, s.Err())
		if _, err := net.clipGrad(10); err != nil {
			b.Fatal(err)
		}
		fatal.If(b, adam.Step())
		s.Drop()
	}
	b.ReportMetric(1000*(cpuSeconds(b)-before)/float64(b.N), "CPU-ms/op")
}

// dueling returns the value of every action, [ΣC, 1] (Wang et al. 2016): V + a_i - mean a over the graph's candidates.
func dueling(s *Scope, o Outputs, b *graph.Batch) *Tensor {
	of := s.Int64(b.CandidateGraph, len(b.CandidateGraph))
	state := s.Sub(o.Value, segmentMean(s, o.Scores, of, b.CandidateGraph, b.Size))
	return s.Add(o.Scores, s.Rows(state, of))
}

// cpuSeconds returns the CPU time of this process, in user and system.
func cpuSeconds(b *testing.B) float64 {
	var u syscall.Rusage
	fatal.If(b, syscall.Getrusage(syscall.RUSAGE_SELF, &u))
	return float64(u.Utime.Nano()+u.Stime.Nano()) / 1e9
}
