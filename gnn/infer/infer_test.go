package infer

import (
	"errors"
	"math"
	"math/rand/v2"
	"testing"

	"pgregory.net/rapid"

	"gnnsched/gnn/checkpoint"
	"gnnsched/gnn/feature"
	"gnnsched/gnn/graph"
	"gnnsched/internal/each"
	"gnnsched/internal/fatal"
)

func network(t testing.TB, e checkpoint.Encoder, hidden int) (*Network, *checkpoint.Checkpoint) {
	return networkOf(t, checkpoint.Architecture{Encoder: e, Head: checkpoint.DQN, Hidden: hidden})
}

func networkOf(t testing.TB, a checkpoint.Architecture) (*Network, *checkpoint.Checkpoint) {
	c := checkpoint.Random(a, rand.New(rand.NewPCG(3, 4)))
	n, err := New(c)
	fatal.If(t, err)
	return n, c
}

// widths and gpuWidths are those of the usual sets, which most tests use.
var widths, gpuWidths = feature.Default().Widths, feature.DefaultGPU().Widths

// randomGraph draws a graph with n nodes in up to 4 zones.
func randomGraph(r *rand.Rand, n int) *graph.Graph { return randomGraphOf(r, widths, n) }

func randomGraphOf(r *rand.Rand, w feature.Widths, n int) *graph.Graph {
	g := &graph.Graph{Widths: w, Zones: 1 + r.IntN(4), PodX: uniform(r, w.Pod), ClusterX: uniform(r, w.Cluster)}
	g.Resize(n)
	for i := range n {
		redraw(r, g, i)
	}
	choose(r, g)
	return g
}

func redraw(r *rand.Rand, g *graph.Graph, i int) {
	copy(g.NodeRow(i), uniform(r, g.Widths.Node))
	k := r.IntN(4)
	g.Groups[i] = graph.Groups{X: uniform(r, k*g.Widths.Group), Weight: make([]float32, k)}
	for j := range k {
		g.Groups[i].Weight[j] = float32(1 + r.IntN(9))
	}
	g.Zone[i], g.Stamp[i] = int32(r.IntN(g.Zones)), graph.NextStamp()
}

// choose makes some of the nodes candidates, at least one, in random order.
func choose(r *rand.Rand, g *graph.Graph) {
	g.Candidates = g.Candidates[:0]
	for _, v := range r.Perm(g.Nodes())[:1+r.IntN(g.Nodes())] {
		g.Candidates = append(g.Candidates, int32(v))
	}
	g.CandidateX = uniform(r, len(g.Candidates)*g.Widths.Candidate)
}

func uniform(r *rand.Rand, n int) []float32 {
	x := make([]float32, n)
	for i := range x {
		x[i] = r.Float32()*2 - 1
	}
	return x
}

// reference computes the equations of doc.go as they are written there, in float64 and without any
// state.
func reference(c *checkpoint.Checkpoint, g *graph.Graph) (scores []float64) {
	h, gnn := c.Manifest.Architecture.Hidden, c.Manifest.Architecture.Encoder == checkpoint.GNN
	lin := func(name string, x []float64) []float64 {
		w := c.Weights[name+".weight"]
		y := make([]float64, w.Shape[0])
		for o := range y {
			for i, v := range x {
				y[o] += float64(w.Data[o*w.Shape[1]+i]) * v
			}
		}
		return y
	}
	bias := func(name string) []float64 { return wide(c.Weights[name].Data) }
	zeros := func() []float64 { return make([]float64, h) }
	emb, all := make([][]float64, g.Nodes()), zeros()
	zoneSum, zoneN := map[int32][]float64{}, map[int32]float64{}
	for v := range emb {
		x := sum(lin("node", wide(g.NodeRow(v))), bias("node.bias"))
		if gr := g.Groups[v]; gnn && len(gr.Weight) > 0 {
			m, total := zeros(), 0.0
			for k, w := range gr.Weight {
				s := rectified(sum(lin("group", wide(gr.X[k*g.Widths.Group:(k+1)*g.Widths.Group])), bias("group.bias")))
				m, total = sum(m, scaled(s, float64(w))), total+float64(w)
			}
			x = sum(x, lin("node.group", scaled(m, 1/total)))
		}
		emb[v] = rectified(normalised(x, bias("norm.weight"), bias("norm.bias")))
		z := g.Zone[v]
		if zoneSum[z] == nil {
			zoneSum[z] = zeros()
		}
		zoneSum[z], zoneN[z] = sum(zoneSum[z], emb[v]), zoneN[z]+1
		all = sum(all, emb[v])
	}
	p := rectified(sum(lin("pod", wide(g.PodX)), bias("pod.bias")))
	cl := sum(lin("cluster.features", wide(g.ClusterX)), bias("cluster.bias"))
	if gnn {
		cl = sum(cl, lin("cluster.node", scaled(all, 1/float64(g.Nodes()))), lin("cluster.pod", p))
	}
	cl = rectified(cl)
	for i, v := range g.Candidates {
		k := sum(lin("candidate.node", emb[v]), lin("candidate.cluster", cl), lin("candidate.pod", p), bias("candidate.bias"),
			lin("candidate.features", wide(g.CandidateRow(i))))
		if gnn {
			z := g.Zone[v]
			k = sum(k, lin("candidate.zone", rectified(sum(lin("zone.node", scaled(zoneSum[z], 1/zoneN[z])), lin("zone.cluster", cl),
				bias("zone.bias")))))
		}
		scores = append(scores, lin("score", rectified(k))[0])
	}
	return scores
}

// normalised is the layer norm of x.
func normalised(x, weight, bias []float64) []float64 {
	y := make([]float64, len(x))
	var mean, variance float64
	for _, a := range x {
		mean += a / float64(len(x))
	}
	for _, a := range x {
		variance += (a - mean) * (a - mean) / float64(len(x))
	}
	for j, a := range x {
		y[j] = (a-mean)/math.Sqrt(variance+1e-5)*weight[j] + bias[j]
	}
	return y
}

func wide(x []float32) []float64 {
	return each.Map(x, func(v float32) float64 { return float64(v) })
}

func sum(xs ...[]float64) []float64 {
	y := make([]float64, len(xs[0]))
	for _, x := range xs {
		for i, v := range x {
			y[i] += v
		}
	}
	return y
}

func scaled(x []float64, f float64) []float64 {
	return each.Map(x, func(v float64) float64 { return v * f })
}

func rectified(x []float64) []float64 {
	for i, v := range x {
		x[i] = max(v, 0)
	}
	return x
}

func sameAsReference(t rapid.TB, c *checkpoint.Checkpoint, g *graph.Graph, out []float32) {
	scores := reference(c, g)
	for i, want := range scores {
		if math.Abs(float64(out[i])-want) > 1e-5 {
			t.Fatalf("score %d of %d: %v, want %v", i, len(scores), out[i], want)
		}
	}
}

// A session that follows a changing cluster, in which nodes change, join, leave and move between zones,
// gives the results of the equations for each graph.
func TestSessionFollowsChanges(t *testing.T) {
	for hidden, e := range map[int]checkpoint.Encoder{9: checkpoint.GNN, 11: checkpoint.MLP, 40: checkpoint.GNN, 8: checkpoint.MLP} {
		net, c := network(t, e, hidden) // multiples of eight run in assembly
		rapid.Check(t, func(t *rapid.T) {
			r := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0))
			g, s := randomGraph(r, 1+r.IntN(20)), net.NewSession()
			for range 6 {
				out, err := s.Score(g, nil)
				fatal.If(t, err)
				sameAsReference(t, c, g, out)
				old := g.Nodes()
				if r.IntN(3) == 0 {
					g.Resize(1 + r.IntN(25))
				}
				for i := range g.Nodes() {
					if i >= old || r.IntN(4) == 0 {
						redraw(r, g, i)
					}
				}
				choose(r, g)
				copy(g.PodX, uniform(r, g.Widths.Pod))
			}
		})
	}
}

// Permuting the nodes permutes the scores: the network does not see a node's index.
func TestEquivariance(t *testing.T) {
	net, _ := network(t, checkpoint.GNN, 16)
	rapid.Check(t, func(t *rapid.T) {
		r := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 1))
		g := randomGraph(r, 2+r.IntN(30))
		a, err := net.NewSession().Score(g, nil)
		fatal.If(t, err)
		to := r.Perm(g.Nodes())
		q := g.Clone()
		for from, i := range to {
			copy(q.NodeRow(i), g.NodeRow(from))
			q.Zone[i], q.Groups[i] = g.Zone[from], g.Groups[from]
		}
		for c, v := range g.Candidates {
			q.Candidates[c] = int32(to[v])
		}
		b, err := net.NewSession().Score(q, nil)
		fatal.If(t, err)
		for i := range a {
			if math.Abs(float64(a[i]-b[i])) > 1e-5 {
				t.Fatalf("candidate %d: %v, permuted %v", i, a[i], b[i])
			}
		}
	})
}

func TestDeadlineThenRecovery(t *testing.T) {
	net, c := network(t, checkpoint.GNN, 8)
	g, s := randomGraph(rand.New(rand.NewPCG(5, 6)), 3*checkEvery), net.NewSession()
	g.Candidates = g.Candidates[:0]
	for v := range g.Nodes() {
		g.Candidates = append(g.Candidates, int32(v))
	}
	g.CandidateX = uniform(rand.New(rand.NewPCG(5, 7)), g.Nodes()*widths.Candidate)
	for after := range 4 { // gives up at ever later points
		calls := 0
		_, err := s.Score(g, func() bool { calls++; return calls > after })
		if !errors.Is(err, ErrDeadline) {
			t.Fatalf("after %d looks: %v", after, err)
		}
		redraw(rand.New(rand.NewPCG(7, uint64(after))), g, after)
	}
	out, err := s.Score(g, nil)
	fatal.If(t, err)
	want := reference(c, g)
	for i := range want {
		if math.Abs(float64(out[i])-want[i]) > 1e-5 {
			t.Fatalf("score %d after deadlines: %v, want %v", i, out[i], want[i])
		}
	}
}

func TestNotFinite(t *testing.T) {
	net, _ := network(t, checkpoint.MLP, 8)
	for _, bad := range []float32{float32(math.NaN()), float32(math.Inf(1)), float32(math.Inf(-1))} {
		g := randomGraph(rand.New(rand.NewPCG(8, 9)), 4)
		for i := range g.CandidateX {
			g.CandidateX[i] = bad
		}
		if _, err := net.NewSession().Score(g, nil); !errors.Is(err, ErrNaN) {
			t.Errorf("%v: got %v", bad, err)
		}
	}
}

func TestNoCandidates(t *testing.T) {
	net, _ := network(t, checkpoint.GNN, 8)
	g := randomGraph(rand.New(rand.NewPCG(8, 9)), 4)
	g.Candidates, g.CandidateX = nil, nil
	if out, err := net.NewSession().Score(g, nil); err != nil || len(out) != 0 {
		t.Errorf("%v, %v", out, err)
	}
}
