//go:build torch

package torch

import (
	"fmt"
	"sync/atomic"
	"unsafe"

	"github.com/sugarme/gotch/libtch"
)

// libtorch's numbers of its scalar types.
const (
	kindInt64   = 4
	kindFloat32 = 6
)

// onCPU is gotch's number for main memory.
const onCPU = -1

// Tensor is one tensor of libtorch. Its owner must drop it: the [Scope] that made it, the [Parameters]
// that it belongs to, or the caller of [Scope.Keep]. Go's collector does not free libtorch's memory.
type Tensor struct {
	c libtch.Ctensor // nil once dropped
}

var tensors atomic.Int64

// TensorCount returns how many tensors exist. A training loop that keeps no tensor from one step to
// the next sees the same number after each step, so a test finds a leak at once.
func TensorCount() int { return int(tensors.Load()) }

func own(c libtch.Ctensor) *Tensor {
	tensors.Add(1)
	return &Tensor{c: c}
}

// Drop frees the tensor. A second call does nothing.
func (t *Tensor) Drop() {
	if t == nil || t.c == nil {
		return
	}
	libtch.AtFree(t.c)
	t.c = nil
	tensors.Add(-1)
}

// Shape returns the size of every dimension, outermost first; nil for a dropped tensor.
func (t *Tensor) Shape() []int {
	if t == nil || t.c == nil {
		return nil
	}
	dims := make([]int64, libtch.AtDim(t.c))
	shape := make([]int, len(dims))
	if len(dims) > 0 {
		libtch.AtShape(t.c, unsafe.Pointer(&dims[0]))
	}
	for i, d := range dims {
		shape[i] = int(d)
	}
	return shape
}

// float32s copies the elements out, row by row.
func (t *Tensor) float32s() ([]float32, error) {
	if kind := libtch.AtScalarType(t.c); kind != kindFloat32 {
		return nil, fmt.Errorf("torch: read as float32: the tensor holds libtorch's type %d", kind)
	}
	out := make([]float32, size(t.Shape()))
	if len(out) == 0 {
		return out, nil
	}
	return out, call("read", func() { libtch.AtCopyData(t.c, unsafe.Pointer(&out[0]), uint(len(out)), 4) })
}

// fromMemory copies n elements of so many bytes each, which start at data, into a new tensor.
func fromMemory(data unsafe.Pointer, n int, bytes uint, kind int, shape []int) (*Tensor, error) {
	dims, err := dims(shape)
	if err != nil {
		return nil, err
	}
	if size(shape) != n {
		return nil, fmt.Errorf("torch: %d numbers do not fill the shape %v", n, shape)
	}
	var c libtch.Ctensor
	if err := call("new tensor", func() {
		c = libtch.AtTensorOfData(data, dims, uint(len(dims)), bytes, kind)
	}); err != nil {
		return nil, err
	}
	return own(c), nil
}

func fromFloat32(data []float32, shape []int) (*Tensor, error) {
	return fromMemory(unsafe.Pointer(unsafe.SliceData(data)), len(data), 4, kindFloat32, shape)
}

func fromInt64(data []int64, shape []int) (*Tensor, error) {
	return fromMemory(unsafe.Pointer(unsafe.SliceData(data)), len(data), 8, kindInt64, shape)
}

// dims converts a shape for libtorch.
func dims(shape []int) ([]int64, error) {
	if len(shape) == 0 {
		return nil, fmt.Errorf("torch: a shape needs at least one dimension")
	}
	out := make([]int64, len(shape))
	for i, d := range shape {
		if d < 0 {
			return nil, fmt.Errorf("torch: negative dimension in the shape %v", shape)
		}
		out[i] = int64(d)
	}
	return out, nil
}

// size returns the number of elements of a shape.
func size(shape []int) int {
	n := 1
	for _, d := range shape {
		n *= d
	}
	return n
}
