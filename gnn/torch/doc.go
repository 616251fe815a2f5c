// Package torch trains networks with libtorch: tensors with gradients, which a [Scope] frees, sets of
// trainable [Parameters], the networks of package infer on top of them, and Adam.
//
// This is one step of training. err tells whether any operation failed:
//
//	var s torch.Scope
//	defer s.Drop()
//	v := trainee.Net.Values(&s, batch, false)
//	loss := s.Mean(s.Square(s.Sub(v, s.Float32(targets, len(targets), 1))))
//	norm, err := trainee.Step(&s, loss, torch.Descent{Rate: 1e-3, Limit: 10})
//
// All code of the package needs the build tag torch and the environment that toolchain/env.sh sets;
// docs/contributing/torch.md tells how and why. The package uses libtch, the bindings of
// github.com/sugarme/gotch, and not the tensors that gotch builds on top of them. Those add 100 KB
// to every tensor to make Go's collector run sooner, leak memory in every operation, may be freed
// while libtorch reads them, and end the process on any error. Here libtorch's memory is freed at
// known points, and errors are values.
//
// Shapes are row-major and written [rows, columns]. All tensors are in main memory. They hold
// float32, or int64 if they are indices.
package torch
