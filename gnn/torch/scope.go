//go:build torch

package torch

import (
	"fmt"

	"github.com/sugarme/gotch/libtch"
)

// Scope owns every tensor that its methods make, until Drop frees them all at once. The zero value is
// ready for use:
//
//	var s torch.Scope
//	defer s.Drop()
//
// After an operation has failed, later operations do nothing and return nil, as with bufio.Writer.
// Err returns the first error, and one check at the end is enough.
//
// Operations take tensors of any owner, so scopes may be nested: an inner scope frees the
// intermediate results of a part early. A Scope is not safe for concurrent use; each goroutine needs
// its own.
type Scope struct {
	owned []*Tensor
	err   error
}

// Err returns the first error of any operation in the scope. It outlives Drop.
func (s *Scope) Err() error { return s.err }

// Drop frees every tensor that the scope still owns. Gradients that reached parameters
// stay with them.
func (s *Scope) Drop() {
	for _, t := range s.owned {
		t.Drop()
	}
	s.owned = s.owned[:0]
}

// fail keeps the first error.
func (s *Scope) fail(err error) {
	if s.err == nil {
		s.err = err
	}
}

// add makes the scope the owner of t; it passes errors on into the scope.
func (s *Scope) add(t *Tensor, err error) *Tensor {
	if err != nil {
		s.fail(err)
		return nil
	}
	s.owned = append(s.owned, t)
	return t
}

// ready reports whether an operation on these tensors may run: there was no error yet, and no tensor
// is dropped or nil.
func (s *Scope) ready(name string, in ...*Tensor) bool {
	if s.err != nil {
		return false
	}
	for i, t := range in {
		if t == nil || t.c == nil {
			s.err = fmt.Errorf("torch: %s: argument %d is a dropped tensor or none", name, i+1)
			return false
		}
	}
	return true
}

// op runs an operation with one result, which the scope owns.
func (s *Scope) op(name string, run func(out *libtch.Ctensor), in ...*Tensor) *Tensor {
	if !s.ready(name, in...) {
		return nil
	}
	return s.add(result(name, run))
}

// result runs an operation that writes one tensor through out.
func result(name string, run func(out *libtch.Ctensor)) (*Tensor, error) {
	var out libtch.Ctensor
	if err := call(name, func() { run(&out) }); err != nil {
		return nil, err
	}
	return own(out), nil
}

// Float32 copies data into a new tensor of the shape, which it must fill.
func (s *Scope) Float32(data []float32, shape ...int) *Tensor {
	if !s.ready("new float32 tensor") {
		return nil
	}
	return s.add(fromFloat32(data, shape))
}

// Int64 copies data into a new tensor of the shape, which it must fill. Operations that take an
// index need such a tensor.
func (s *Scope) Int64(data []int64, shape ...int) *Tensor {
	if !s.ready("new int64 tensor") {
		return nil
	}
	return s.add(fromInt64(data, shape))
}

// zeros returns a tensor of float32 zeros.
func (s *Scope) zeros(shape ...int) *Tensor {
	d, err := dims(shape)
	if err != nil {
		s.fail(err)
		return nil
	}
	return s.op("zeros", func(out *libtch.Ctensor) {
		libtch.AtgZeros(out, d, len(d), kindFloat32, onCPU)
	})
}

// Float32s copies a tensor's numbers out, row by row; nil after an error.
func (s *Scope) Float32s(t *Tensor) []float32 {
	if !s.ready("read", t) {
		return nil
	}
	out, err := t.float32s()
	if err != nil {
		s.fail(err)
		return nil
	}
	return out
}

// Float reads a tensor of one element, such as a loss; 0 after an error.
func (s *Scope) Float(t *Tensor) float64 {
	v := s.Float32s(t)
	if s.err == nil && len(v) != 1 {
		s.err = fmt.Errorf("torch: read one number: the tensor has the shape %v", t.Shape())
	}
	if s.err != nil {
		return 0
	}
	return float64(v[0])
}

// Backward adds the gradient of the loss, a tensor of one element, to the gradient of every parameter
// from which it was computed. It frees libtorch's record of the operations, so a second call is an
// error.
func (s *Scope) Backward(loss *Tensor) {
	if !s.ready("backward", loss) {
		return
	}
	if err := call("backward", func() { libtch.AtBackward(loss.c, 0, 0) }); err != nil {
		s.fail(err)
	}
}
