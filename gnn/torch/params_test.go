//go:build torch

package torch

import (
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"gnnsched/internal/fatal"
)

func export(t *testing.T, p *Parameters) []Array {
	t.Helper()
	arrays, err := p.Export()
	fatal.If(t, err)
	return arrays
}

func TestInitialisation(t *testing.T) {
	var p Parameters
	defer p.Drop()
	NewLinear(&p, rand.New(rand.NewPCG(1, 2)), "a", 64, 128)
	fatal.If(t, p.Err())
	if d := cmp.Diff([]string{"a.weight", "a.bias"}, p.names); d != "" {
		t.Errorf("names (-want +got):\n%s", d)
	}
	if countOf(&p) != 64*128+128 {
		t.Errorf("%d numbers", countOf(&p))
	}
	arrays := export(t, &p)
	weight := arrays[0]
	if !slices.Equal(weight.Shape, []int{128, 64}) {
		t.Errorf("shape %v, want [128 64]", weight.Shape)
	}
	low, high := slices.Min(weight.Data), slices.Max(weight.Data)
	if low < -0.125 || high > 0.125 || low > -0.12 || high < 0.12 {
		t.Errorf("weights from %v to %v, want close to ±1/√64", low, high)
	}
	// A uniform distribution on ±b has the deviation b/√3.
	if got, want := norm(arrays[:1])/math.Sqrt(64*128), 0.125/math.Sqrt(3); math.Abs(got-want) > 0.02*want {
		t.Errorf("deviation %v, want %v", got, want)
	}
}

func TestRegisteringTwiceFails(t *testing.T) {
	var p Parameters
	defer p.Drop()
	p.constant("w", 0, 1)
	if p.constant("w", 0, 1) != nil || p.Err() == nil || !strings.Contains(p.Err().Error(), `"w"`) {
		t.Errorf("error %v, want one that names w", p.Err())
	}
	if _, err := newAdam(&p, usualAdam()); err == nil {
		t.Error("Adam took broken parameters")
	}
	if _, err := p.Export(); err == nil {
		t.Error("broken parameters were exported")
	}
	var q Parameters
	if q.constant("w", 0, -1); q.Err() == nil {
		t.Error("a negative dimension passed")
	}
}

func TestExportImport(t *testing.T) {
	a, b := newNetwork(t, 1, 3, 4), newNetwork(t, 2, 3, 4)
	want := export(t, &a.params)
	if cmp.Equal(want, export(t, &b.params)) {
		t.Fatal("two seeds gave the same weights")
	}
	shuffled := slices.Clone(want)
	slices.Reverse(shuffled)
	before := TensorCount()
	fatal.If(t, b.params.Import(shuffled))
	if d := cmp.Diff(want, export(t, &b.params)); d != "" {
		t.Errorf("after import (-want +got):\n%s", d)
	}
	if TensorCount() != before {
		t.Errorf("import left %d tensors behind", TensorCount()-before)
	}
	// What was imported can still be trained.
	var s Scope
	defer s.Drop()
	s.Backward(b.loss(&s, 1, 1, 3, 3))
	if err := s.Err(); err != nil {
		t.Error(err)
	}
}

func TestImportIsAllOrNothing(t *testing.T) {
	for want, change := range map[string]func([]Array) []Array{
		"no array for the parameter":         func(a []Array) []Array { return a[1:] },
		`no parameter "extra"`:               func(a []Array) []Array { return append(a, Array{Name: "extra"}) },
		"given twice":                        func(a []Array) []Array { return append(a, a[0]) },
		"the network wants":                  func(a []Array) []Array { a[5].Shape = []int{2}; return a },
		"its shape [1] wants 1":              func(a []Array) []Array { a[5].Data = nil; return a },
		`number 0 of "out.bias" is NaN`:      func(a []Array) []Array { a[5].Data[0] = float32(math.NaN()); return a },
		`number 0 of "out.bias" is +Inf`:     func(a []Array) []Array { a[5].Data[0] = float32(math.Inf(1)); return a },
		`number 1 of "in.weight" is -Inf`:    func(a []Array) []Array { a[0].Data[1] = float32(math.Inf(-1)); return a },
		`"out.weight" has the shape [8 1], `: func(a []Array) []Array { a[4].Shape = []int{8, 1}; return a },
	} {
		t.Run(want, func(t *testing.T) {
			n, other := newNetwork(t, 1, 3, 4), newNetwork(t, 2, 3, 4)
			before := export(t, &n.params)
			err := n.params.Import(change(export(t, &other.params)))
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("error %v, want one with %q", err, want)
			}
			if d := cmp.Diff(before, export(t, &n.params)); d != "" {
				t.Errorf("the weights changed (-before +after):\n%s", d)
			}
		})
	}
}

func TestBlend(t *testing.T) {
	a, b := newNetwork(t, 1, 3, 4), newNetwork(t, 2, 3, 4)
	c := newNetwork(t, 1, 3, 5)
	old, source := export(t, &a.params), export(t, &b.params)
	fatal.If(t, a.params.Blend(&b.params, 0.25))
	for i, got := range export(t, &a.params) {
		for j := range got.Data {
			want := old[i].Data[j] + 0.25*(source[i].Data[j]-old[i].Data[j])
			if math.Abs(float64(got.Data[j]-want)) > 1e-6 {
				t.Fatalf("%s[%d] is %v, want %v", got.Name, j, got.Data[j], want)
			}
		}
	}
	if err := a.params.Blend(&c.params, 0.5); err == nil {
		t.Error("blended with a wider network")
	}
	if err := a.params.Blend(&b.params, 1.5); err == nil {
		t.Error("blended by more than the whole")
	}
	var empty Parameters
	if err := a.params.Blend(&empty, 0.5); err == nil {
		t.Error("blended with nothing")
	}
}
