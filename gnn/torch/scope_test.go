//go:build torch

package torch

import (
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

var close5 = cmpopts.EquateApprox(1e-5, 1e-6)

// done drops the scope and fails the test if an operation failed or a tensor is left.
func done(t *testing.T, s *Scope, before int) {
	t.Helper()
	if err := s.Err(); err != nil {
		t.Error(err)
	}
	s.Drop()
	if now := TensorCount(); now != before {
		t.Errorf("%d tensors are left, want %d", now, before)
	}
}

func TestOperations(t *testing.T) {
	type unary = func(s *Scope, x, y, index *Tensor) *Tensor
	for name, c := range map[string]struct {
		run   unary
		want  []float32
		shape []int
	}{
		"add":     {func(s *Scope, x, y, _ *Tensor) *Tensor { return s.Add(x, y) }, []float32{2, 0, 6, 3, 7, 5}, []int{3, 2}},
		"sub":     {func(s *Scope, x, y, _ *Tensor) *Tensor { return s.Sub(x, y) }, []float32{0, -4, 0, -11, 3, -17}, []int{3, 2}},
		"mul":     {func(s *Scope, x, y, _ *Tensor) *Tensor { return s.Mul(x, y) }, []float32{1, -4, 9, -28, 10, -66}, []int{3, 2}},
		"scale":   {func(s *Scope, x, _, _ *Tensor) *Tensor { return s.Scale(x, -2) }, []float32{-2, 4, -6, 8, -10, 12}, []int{3, 2}},
		"square":  {func(s *Scope, x, _, _ *Tensor) *Tensor { return s.Square(x) }, []float32{1, 4, 9, 16, 25, 36}, []int{3, 2}},
		"exp log": {func(s *Scope, x, _, _ *Tensor) *Tensor { return s.Log(s.Exp(x)) }, []float32{1, -2, 3, -4, 5, -6}, []int{3, 2}},
		"relu":    {func(s *Scope, x, _, _ *Tensor) *Tensor { return s.relu(x) }, []float32{1, 0, 3, 0, 5, 0}, []int{3, 2}},
		"linear": {func(s *Scope, x, y, _ *Tensor) *Tensor { return s.Linear(x, y, s.Float32([]float32{1, 2, 3}, 3)) },
			[]float32{-2, -9, -17, -4, -17, -35, -6, -25, -53}, []int{3, 3}},
		"project": {func(s *Scope, x, y, _ *Tensor) *Tensor { return s.project(x, y) },
			[]float32{-3, -11, -20, -5, -19, -38, -7, -27, -56}, []int{3, 3}},
		"rows": {func(s *Scope, x, _, i *Tensor) *Tensor { return s.Rows(x, i) }, []float32{5, -6, 1, -2, 5, -6}, []int{3, 2}},
		"segment sum": {func(s *Scope, x, _, i *Tensor) *Tensor { return s.segmentSum(x, i, 4) }, []float32{3, -4, 0, 0, 6, -8, 0, 0},
			[]int{4, 2}},
		"narrow":    {func(s *Scope, x, _, _ *Tensor) *Tensor { return s.Narrow(x, 0, 1, 2) }, []float32{3, -4, 5, -6}, []int{2, 2}},
		"sum":       {func(s *Scope, x, _, _ *Tensor) *Tensor { return s.Sum(x) }, []float32{-3}, []int{}},
		"sum along": {func(s *Scope, x, _, _ *Tensor) *Tensor { return s.sumAlong(x, 1) }, []float32{-1, -1, -1}, []int{3, 1}},
		"mean":      {func(s *Scope, x, _, _ *Tensor) *Tensor { return s.Mean(x) }, []float32{-0.5}, []int{}},
		"zeros":     {func(s *Scope, _, _, _ *Tensor) *Tensor { return s.zeros(1, 2) }, []float32{0, 0}, []int{1, 2}},
		"no rows":   {func(s *Scope, _, _, _ *Tensor) *Tensor { return s.Float32(nil, 0, 4) }, []float32{}, []int{0, 4}},
	} {
		t.Run(name, func(t *testing.T) {
			before := TensorCount()
			var s Scope
			x := s.Float32([]float32{1, -2, 3, -4, 5, -6}, 3, 2)
			y := s.Float32([]float32{1, 2, 3, 7, 2, 11}, 3, 2)
			got := c.run(&s, x, y, s.Int64([]int64{2, 0, 2}, 3))
			if d := cmp.Diff(c.want, s.Float32s(got), close5); d != "" {
				t.Errorf("values (-want +got):\n%s", d)
			}
			if d := cmp.Diff(c.shape, got.Shape()); d != "" {
				t.Errorf("shape (-want +got):\n%s", d)
			}
			done(t, &s, before)
		})
	}
}

func TestErrorsStayWithTheScope(t *testing.T) {
	for name, c := range map[string]struct {
		run  func(s *Scope)
		want string
	}{
		"libtorch's own, without its stack trace": {func(s *Scope) { s.project(s.zeros(2, 3), s.zeros(2, 4)) },
			"torch: project: mat1 and mat2 shapes cannot be multiplied"},
		"index out of range":     {func(s *Scope) { s.Rows(s.zeros(2, 3), s.Int64([]int64{2}, 1)) }, "index out of range"},
		"dropped":                {func(s *Scope) { x := s.zeros(1); x.Drop(); s.relu(x) }, "relu: argument 1 is a dropped tensor"},
		"none":                   {func(s *Scope) { s.Add(s.zeros(1), nil) }, "add: argument 2"},
		"too few numbers":        {func(s *Scope) { s.Float32([]float32{1, 2, 3}, 2, 2) }, "3 numbers do not fill the shape [2 2]"},
		"no dimension":           {func(s *Scope) { s.Float32([]float32{1}) }, "at least one dimension"},
		"negative dimension":     {func(s *Scope) { s.zeros(-1) }, "negative dimension"},
		"one number of many":     {func(s *Scope) { s.Float(s.zeros(2)) }, "the tensor has the shape [2]"},
		"float of int":           {func(s *Scope) { s.Float32s(s.Int64([]int64{1}, 1)) }, "read as float32"},
		"backward without graph": {func(s *Scope) { s.Backward(s.zeros(1)) }, "backward"},
	} {
		t.Run(name, func(t *testing.T) {
			before := TensorCount()
			var s Scope
			c.run(&s)
			first := s.Err()
			if first == nil || !strings.Contains(first.Error(), c.want) {
				t.Fatalf("error %v, want one with %q", first, c.want)
			}
			if strings.Contains(first.Error(), "\n") {
				t.Errorf("the error has several lines:\n%v", first)
			}
			if got := s.relu(s.zeros(2)); got != nil {
				t.Error("an operation ran after the error")
			}
			if s.Float32s(nil) != nil || s.Float(nil) != 0 {
				t.Error("something was read after the error")
			}
			if s.Err() != first {
				t.Errorf("the error became %v", s.Err())
			}
			s.Drop()
			if TensorCount() != before {
				t.Errorf("%d tensors are left, want %d", TensorCount(), before)
			}
			var other Scope // the failure is not left behind in libtorch either
			other.zeros(1)
			done(t, &other, before)
		})
	}
}

func TestNoGradNestsAndRestores(t *testing.T) {
	var p Parameters
	defer p.Drop()
	w := p.constant("w", 2, 1)
	graph := func() bool {
		var s Scope
		defer s.Drop()
		s.Backward(s.Square(w))
		return s.Err() == nil
	}
	if !graph() {
		t.Fatal("gradients are off at the start")
	}
	noGrad(func() {
		noGrad(func() {
			if graph() {
				t.Error("a graph was built inside")
			}
		})
		if graph() {
			t.Error("the inner noGrad switched gradients on")
		}
	})
	if !graph() {
		t.Error("gradients stayed off")
	}
}

func TestThreads(t *testing.T) {
	if threads() != 1 {
		t.Errorf("%d threads by default, want 1", threads())
	}
	setThreads(2)
	defer setThreads(1)
	if threads() != 2 {
		t.Errorf("%d threads, want 2", threads())
	}
}

func TestScopesInManyGoroutines(t *testing.T) {
	before := TensorCount()
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			for range 20 { // libtorch takes milliseconds to describe an error
				var s Scope
				if got := s.Float(s.Sum(s.Add(s.zeros(3), s.Float32([]float32{float32(i)}, 1)))); got != float64(3*i) {
					t.Errorf("got %v, want %d", got, 3*i)
				}
				s.project(s.zeros(1, 2), s.zeros(1, 3)) // its error must reach this scope and no other
				if s.Err() == nil {
					t.Error("an error got lost")
				}
				s.Drop()
			}
		})
	}
	wg.Wait()
	if TensorCount() != before {
		t.Errorf("%d tensors are left, want %d", TensorCount(), before)
	}
}
