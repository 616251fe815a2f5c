//go:build !purego

package infer

import "golang.org/x/sys/cpu"

// hasKernels reports whether the processor has the instructions that the kernels use.
func hasKernels() bool { return cpu.X86.HasAVX2 && cpu.X86.HasFMA }

// addRow adds x W to y: x has in entries, y has out, w is in × out. in is at least 1, out a
// multiple of 8.
//
//go:noescape
func addRow(y, x, w *float32, in, out int)
