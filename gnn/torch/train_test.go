//go:build torch

package torch

import (
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"runtime/debug"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"gnnsched/internal/fatal"
)

// network is a small network. It gives each vertex a value, from its features and the sum over its graph.
type network struct {
	params         Parameters
	in, out, whole Linear
}

func newNetwork(t testing.TB, seed uint64, in, width int) *network {
	t.Helper()
	rng := rand.New(rand.NewPCG(seed, 0))
	n := &network{}
	n.in = NewLinear(&n.params, rng, "in", in, width)
	n.whole = NewLinear(&n.params, rng, "whole", width, 1)
	n.out = NewLinear(&n.params, rng, "out", width, 1)
	fatal.If(t, n.params.Err())
	t.Cleanup(n.params.Drop)
	return n
}

func (n *network) forward(s *Scope, x, graph *Tensor, graphs int) *Tensor {
	h := s.Log(s.Add(s.Exp(n.in.Forward(s, x)), s.Float32([]float32{1}, 1))) // smooth, unlike a relu
	return s.Add(n.out.Forward(s, h), s.Rows(n.whole.Forward(s, s.segmentSum(h, graph, graphs)), graph))
}

// batch draws vertices, their targets and their graphs from a seed.
func batch(seed uint64, graphs, vertices, in int) (x, y []float32, graph []int64) {
	rng := rand.New(rand.NewPCG(seed, 1))
	x, y = make([]float32, graphs*vertices*in), make([]float32, graphs*vertices)
	graph = make([]int64, graphs*vertices)
	for i := range x {
		x[i] = float32(rng.NormFloat64())
	}
	for i := range y {
		y[i], graph[i] = x[i*in]-0.5*x[i*in+1], int64(i/vertices)
	}
	return x, y, graph
}

func (n *network) loss(s *Scope, seed uint64, graphs, vertices, in int) *Tensor {
	x, y, graph := batch(seed, graphs, vertices, in)
	rows := graphs * vertices
	out := n.forward(s, s.Float32(x, rows, in), s.Int64(graph, rows), graphs)
	return s.Mean(s.Square(s.Sub(out, s.Float32(y, rows, 1))))
}

func TestTrainingLearnsAndRepeats(t *testing.T) {
	run := func() (first, last float64, weights []Array) {
		n := newNetwork(t, 7, 4, 16)
		adam, err := newAdam(&n.params, adamConfig{LearningRate: 1e-2, beta1: 0.9, beta2: 0.999})
		fatal.If(t, err)
		for i := range 200 {
			loss := step(t, n, adam, uint64(i))
			if i == 0 {
				first = loss
			}
			last = loss
		}
		weights, err = n.params.Export()
		fatal.If(t, err)
		return first, last, weights
	}
	first, last, weights := run()
	if last > first/10 {
		t.Errorf("the loss went from %.4f to %.4f, want less than a tenth", first, last)
	}
	if _, _, again := run(); !cmp.Equal(weights, again) {
		t.Error("a second run with the same seed ended with other weights")
	}
}

// step makes one step of training and returns the loss before it.
func step(t testing.TB, n *network, adam *adam, seed uint64) float64 {
	t.Helper()
	var s Scope
	defer s.Drop()
	loss := n.loss(&s, seed, 4, 25, 4)
	value := s.Float(loss)
	fatal.If(t, n.params.zeroGrad())
	s.Backward(loss)
	fatal.If(t, s.Err())
	if _, err := n.params.clipGrad(10); err != nil {
		t.Fatal(err)
	}
	fatal.If(t, adam.Step())
	return value
}

func residentMB(t *testing.T) float64 {
	t.Helper()
	status, err := os.ReadFile("/proc/self/status")
	fatal.If(t, err)
	for line := range strings.Lines(string(status)) {
		var kb float64
		if n, _ := fmt.Sscanf(line, "VmRSS: %f kB", &kb); n == 1 {
			return kb / 1024
		}
	}
	t.Fatal("no VmRSS in /proc/self/status")
	return 0
}

func TestTrainingKeepsNoMemory(t *testing.T) {
	n := newNetwork(t, 1, 4, 16)
	adam, err := newAdam(&n.params, usualAdam())
	fatal.If(t, err)
	for i := range 500 {
		step(t, n, adam, uint64(i))
	}
	debug.FreeOSMemory()
	live, resident := TensorCount(), residentMB(t)
	const steps = 5000 // some 200,000 operations: 32 bytes lost in each would be 6 MB
	for i := range steps {
		step(t, n, adam, uint64(i))
	}
	debug.FreeOSMemory()
	if now := TensorCount(); now != live {
		t.Errorf("%d tensors after %d steps, %d before", now, steps, live)
	}
	if grown := residentMB(t) - resident; grown > 4 {
		t.Errorf("the process grew by %.1f MB in %d steps, from %.1f", grown, steps, resident)
	}
}

// The gradient agrees with finite differences.
func TestBackwardAgainstFiniteDifferences(t *testing.T) {
	n := newNetwork(t, 3, 3, 4)
	eval := func() float64 {
		var s Scope
		defer s.Drop()
		v := s.Float(n.loss(&s, 5, 2, 6, 3))
		if s.Err() != nil {
			t.Fatal(s.Err())
		}
		return v
	}
	var s Scope
	defer s.Drop()
	s.Backward(n.loss(&s, 5, 2, 6, 3))
	if s.Err() != nil {
		t.Fatal(s.Err())
	}
	gradients, err := gradientsOf(&n.params)
	fatal.If(t, err)
	weights, err := n.params.Export()
	fatal.If(t, err)
	const h = 1e-2
	checked := 0
	for a := range weights {
		for i, w := range weights[a].Data {
			at := func(v float32) float64 {
				weights[a].Data[i] = v
				fatal.If(t, n.params.Import(weights))
				return eval()
			}
			want := (at(w+h) - at(w-h)) / (2 * h)
			weights[a].Data[i] = w
			if got := float64(gradients[a].Data[i]); math.Abs(got-want) > 5e-3+0.02*math.Abs(want) {
				t.Errorf("%s[%d]: gradient %.5f, finite difference %.5f", weights[a].Name, i, got, want)
			}
			checked++
		}
	}
	if checked != countOf(&n.params) {
		t.Errorf("checked %d of %d numbers", checked, countOf(&n.params))
	}
}

func norm(arrays []Array) float64 {
	sum := 0.0
	for _, a := range arrays {
		for _, v := range a.Data {
			sum += float64(v) * float64(v)
		}
	}
	return math.Sqrt(sum)
}

func TestClipGrad(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		limit := rapid.Float64Range(1e-3, 20).Draw(r, "limit")
		scale := rapid.Float64Range(1e-3, 100).Draw(r, "scale")
		n := newNetwork(t, rapid.Uint64().Draw(r, "seed"), 3, 8)
		var s Scope
		defer s.Drop()
		s.Backward(s.Scale(n.loss(&s, 2, 2, 5, 3), scale))
		before, err := gradientsOf(&n.params)
		if s.Err() != nil || err != nil {
			r.Fatal(s.Err(), err)
		}
		got, err := n.params.clipGrad(limit)
		fatal.If(r, err)
		want := norm(before)
		if math.Abs(got-want) > 1e-4*want {
			r.Errorf("norm %v, want %v", got, want)
		}
		after, err := gradientsOf(&n.params)
		fatal.If(r, err)
		if v, most := norm(after), math.Min(want, limit); math.Abs(v-most) > 1e-4*most {
			r.Errorf("norm after clipping %v to %v: %v, want %v", want, limit, v, most)
		}
		for a := range after { // the direction stays
			for i, v := range after[a].Data {
				if w := float64(before[a].Data[i]) * math.Min(1, limit/want); math.Abs(float64(v)-w) > 1e-4*math.Abs(w)+1e-7 {
					r.Fatalf("%s[%d] is %v, want %v", after[a].Name, i, v, w)
				}
			}
		}
	})
}

func TestClipGradRefusesNaN(t *testing.T) {
	n := newNetwork(t, 1, 3, 4)
	var s Scope
	defer s.Drop()
	s.Backward(s.Scale(n.loss(&s, 1, 1, 4, 3), math.NaN()))
	if s.Err() != nil {
		t.Fatal(s.Err())
	}
	if _, err := n.params.clipGrad(1); err == nil || !strings.Contains(err.Error(), "diverged") {
		t.Errorf("error %v, want one that says diverged", err)
	}
}

// Some steps of Adam on one number agree with its formula.
func TestAdamFollowsItsFormula(t *testing.T) {
	var p Parameters
	defer p.Drop()
	w := p.constant("w", 1, 1)
	adam, err := newAdam(&p, adamConfig{LearningRate: 0.1, beta1: 0.9, beta2: 0.999})
	fatal.If(t, err)
	var m, v float64 // moments
	want, rate := 1.0, 0.1
	for i := 1; i <= 5; i++ {
		if i == 4 {
			rate = 0.02
			fatal.If(t, adam.setLearningRate(rate))
		}
		var s Scope
		fatal.If(t, p.zeroGrad())
		s.Backward(s.Sum(s.Square(w)))
		if err := adam.Step(); err != nil || s.Err() != nil {
			t.Fatal(err, s.Err())
		}
		g := 2 * want
		m, v = 0.9*m+0.1*g, 0.999*v+0.001*g*g
		want -= rate * m / (1 - math.Pow(0.9, float64(i))) / (math.Sqrt(v/(1-math.Pow(0.999, float64(i)))) + 1e-8)
		if got := float64(s.Float32s(w)[0]); math.Abs(got-want) > 1e-5 {
			t.Errorf("after step %d: %v, want %v", i, got, want)
		}
		s.Drop()
	}
	if err := adam.setLearningRate(0); err == nil {
		t.Error("the optimiser took a learning rate of 0")
	}
}

func TestAdamConfigValidate(t *testing.T) {
	for want, change := range map[string]func(*adamConfig){
		"learning rate": func(c *adamConfig) { c.LearningRate = 0 },
		"beta1":         func(c *adamConfig) { c.beta1 = 1 },
		"beta2":         func(c *adamConfig) { c.beta2 = math.NaN() },
	} {
		c := usualAdam()
		change(&c)
		if err := c.Validate(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want one about the %s", err, want)
		}
		if _, err := newAdam(&Parameters{}, c); err == nil {
			t.Errorf("an optimiser was made with a wrong %s", want)
		}
	}
	if err := usualAdam().Validate(); err != nil {
		t.Error(err)
	}
}
