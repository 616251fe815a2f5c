//go:build !amd64 || purego

package infer

func hasKernels() bool { return false }

func addRow(_, _, _ *float32, _, _ int) { panic("infer: no kernels on this processor") }
