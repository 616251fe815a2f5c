// Package torch is the trainer's floor: tensors with gradients on libtorch, whose lifetime
// a [Scope] ends, sets of trainable [Parameters], and Adam.
//
// A training step reads like this; s.Err tells at its end whether any operation failed:
//
//	var s torch.Scope
//	defer s.Drop()
//	out := net.Forward(&s, batch)              // net is a *torch.Network
//	loss := s.Huber(out.Value, s.Float32(targets, batch.Size, 1), 1)
//	net.ZeroGrad()
//	s.Backward(loss)
//	norm, err := net.ClipGrad(10)
//	err = adam.Step()
//	if err := s.Err(); err != nil { ... }
//
// Everything but this comment needs the build tag torch and the environment that
// toolchain/env.sh sets; docs/torch.md tells how and why. The package stands on libtch, the
// bindings of github.com/sugarme/gotch, and not on the tensors that gotch builds on top of
// them: those ballast every tensor with 100 KB to hurry Go's collector, leak memory in every
// operation, may be freed while libtorch reads them, and end the process on any error.
// Here libtorch's memory is freed at known points, and errors are values.
//
// Shapes are row-major and written [rows, columns]. All tensors live in main memory and
// hold float32, or int64 where they index.
package torch
