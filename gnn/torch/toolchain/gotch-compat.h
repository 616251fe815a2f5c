// What gotch 0.9.1 expects of libtorch 2.1 and other releases spell differently.
//
// gotch's C++ glue names every function of libtorch 2.1, the few hundred that anybody uses
// and the thousands that nobody does. Debian 12 ships libtorch 1.13, where some names are
// missing or take other arguments. This header, included before the glue (env.sh passes it
// to the compiler), declares them: most of them throw when called, which gotch hands to Go
// as an ordinary error. gotch itself stays as published, so `go mod verify` holds.
//
// On libtorch 2.1 the header declares nothing.
#pragma once

// Every header of libtorch that the glue includes comes first: the macros at the end of
// this file must meet the glue's calls only, never a declaration.
#include <ATen/autocast_mode.h>
#include <torch/csrc/autograd/engine.h>
#include <torch/csrc/jit/passes/fixup_trace_scope_blocks.h>
#include <torch/csrc/jit/passes/normalize_ops.h>
#include <torch/csrc/jit/runtime/graph_executor.h>
#include <torch/script.h>
#include <torch/torch.h>
#include <torch/version.h>

#include <array>

namespace gnnsched_compat {

[[noreturn]] inline void unavailable(const char *function) {
  TORCH_CHECK(false, function, " does not exist in libtorch ", TORCH_VERSION);
}

// The result type of a function that always throws. The glue takes results apart in three
// ways: as one tensor, as an integer, or with std::get; this serves all three.
struct Never : std::array<at::Tensor, 9> {
  operator at::Tensor() const { return {}; }
  operator int64_t() const { return 0; }
};

// A function template takes any arguments, and an exact declaration of libtorch's, where
// there is one, is hidden by it: list a name here only if no caller can use what is hidden.
#define GNNSCHED_UNAVAILABLE(function)                                                   \
  template <typename... Arguments> Never function(Arguments &&...) {                     \
    unavailable(#function);                                                              \
  }

} // namespace gnnsched_compat

#if TORCH_VERSION_MAJOR == 1

// clang-format off
#define GNNSCHED_NEWER_THAN_1_13(X)                                                      \
  /* attention */                                                                        \
  X(scaled_dot_product_attention) X(_scaled_dot_product_attention_math)                  \
  X(_scaled_dot_product_efficient_attention)                                             \
  X(_scaled_dot_product_flash_attention_backward) X(_efficient_attention_backward)       \
  X(_flash_attention_backward) X(_fill_mem_eff_dropout_mask_) X(_fused_sdp_choice)       \
  /* matrix products of small or sparse types */                                         \
  X(_int_mm) X(_int_mm_out) X(_scaled_mm) X(_scaled_mm_out)                              \
  X(_cslt_compress) X(_cslt_sparse_mm) X(_sparse_mm_reduce_impl)                         \
  X(_sparse_semi_structured_linear) X(_to_sparse_semi_structured)                        \
  /* sparse and dense layouts */                                                         \
  X(_sparse_coo_tensor_with_dims_and_tensors_out) X(_sparse_mask_projection_out)         \
  X(_to_dense_out) X(to_dense_backward) X(_to_sparse_out) X(_to_sparse_bsc_out)          \
  X(_to_sparse_bsr_out) X(_to_sparse_csc_out) X(_to_sparse_csr_out)                      \
  /* normalisation, recurrence, pooling, mkldnn */                                       \
  X(_native_batch_norm_legit) X(_native_batch_norm_legit_out)                            \
  X(_native_batch_norm_legit_functional) X(_native_batch_norm_legit_no_training)         \
  X(_native_batch_norm_legit_no_training_out) X(_prelu_kernel) X(_prelu_kernel_backward) \
  X(_lstm_mps) X(_lstm_mps_out) X(max_pool2d_backward) X(max_pool2d_backward_out)        \
  X(quantized_max_pool3d) X(quantized_max_pool3d_out) X(mkldnn_reorder_conv2d_weight)    \
  X(mkldnn_reorder_conv2d_weight_out) X(mkldnn_rnn_layer) X(mkldnn_rnn_layer_out)        \
  X(mkldnn_rnn_layer_backward) X(mkldnn_rnn_layer_backward_out)                          \
  /* views, indexing, construction */                                                    \
  X(_nested_view_from_buffer) X(_nested_view_from_buffer_copy)                           \
  X(_nested_view_from_buffer_copy_out) X(_reshape_copy) X(squeeze_copy_out)              \
  X(_unsafe_index) X(_unsafe_index_put) X(empty_permuted) X(empty_permuted_out)          \
  X(nonzero_static) X(nonzero_static_out)                                                \
  /* assertions, tracing, tests */                                                       \
  X(_functional_assert_async) X(_functional_sym_constrain_range)                         \
  X(_functional_sym_constrain_range_for_size) X(sym_constrain_range)                     \
  X(sym_constrain_range_for_size) X(_is_all_true) X(_is_any_true) X(_make_dep_token)     \
  X(_propagate_xla_data) X(_test_check_tensor) X(_test_functorch_fallback)               \
  X(_test_functorch_fallback_out)
// clang-format on

namespace torch {
using gnnsched_compat::Never;
using gnnsched_compat::unavailable;
GNNSCHED_NEWER_THAN_1_13(GNNSCHED_UNAVAILABLE)

// Sparse constructors gained a last argument, is_coalesced, which 1.13 works out itself.
inline Tensor sparse_coo_tensor(const Tensor &indices, const Tensor &values,
                                TensorOptions options, bool) {
  return torch::sparse_coo_tensor(indices, values, options);
}
inline Tensor sparse_coo_tensor(const Tensor &indices, const Tensor &values,
                                IntArrayRef size, TensorOptions options, bool) {
  return torch::sparse_coo_tensor(indices, values, size, options);
}
inline Tensor _sparse_coo_tensor_unsafe(const Tensor &indices, const Tensor &values,
                                        IntArrayRef size, TensorOptions options, bool) {
  return torch::_sparse_coo_tensor_unsafe(indices, values, size, options);
}
inline Tensor _sparse_coo_tensor_with_dims_and_tensors(int64_t sparse, int64_t dense,
                                                       IntArrayRef size,
                                                       const Tensor &indices,
                                                       const Tensor &values,
                                                       TensorOptions options, bool) {
  return torch::_sparse_coo_tensor_with_dims_and_tensors(sparse, dense, size, indices,
                                                         values, options);
}
} // namespace torch

// Overloads beside the ones that 1.13 has; the glue finds them through its arguments.
namespace at {

// Variance and deviation count their correction in a Scalar since 2.0, in an integer before.
#define GNNSCHED_CORRECTION(function, Result)                                            \
  inline Result function(const Tensor &x, OptionalIntArrayRef dims, const Scalar &c,     \
                         bool keep) {                                                    \
    return at::function(x, dims, c10::optional<int64_t>(c.toLong()), keep);              \
  }
#define GNNSCHED_CORRECTION_OUT(function)                                                \
  inline Tensor &function(Tensor &out, const Tensor &x, OptionalIntArrayRef dims,        \
                          const Scalar &c, bool keep) {                                  \
    return at::function(out, x, dims, c10::optional<int64_t>(c.toLong()), keep);         \
  }
#define GNNSCHED_CORRECTION_PAIR_OUT(function)                                           \
  inline gnnsched_compat::Never function(Tensor &, Tensor &, const Tensor &,             \
                                         OptionalIntArrayRef, const Scalar &, bool) {    \
    gnnsched_compat::unavailable(#function);                                             \
  }
using TensorPair = ::std::tuple<Tensor, Tensor>;
GNNSCHED_CORRECTION(var, Tensor)
GNNSCHED_CORRECTION(std, Tensor)
GNNSCHED_CORRECTION(var_mean, TensorPair)
GNNSCHED_CORRECTION(std_mean, TensorPair)
GNNSCHED_CORRECTION_OUT(var_out)
GNNSCHED_CORRECTION_OUT(std_out)
GNNSCHED_CORRECTION_PAIR_OUT(var_mean_out)
GNNSCHED_CORRECTION_PAIR_OUT(std_mean_out)

inline Tensor &max_out(Tensor &out, const Tensor &x) { return out.copy_(at::max(x)); }
inline Tensor &min_out(Tensor &out, const Tensor &x) { return out.copy_(at::min(x)); }
inline Tensor squeeze(const Tensor &, IntArrayRef) {
  gnnsched_compat::unavailable("squeeze of several dimensions");
}
inline Tensor squeeze_copy(const Tensor &, IntArrayRef) {
  gnnsched_compat::unavailable("squeeze_copy of several dimensions");
}
inline Tensor _sparse_mm(const Tensor &, const Tensor &, const ::std::string &) {
  gnnsched_compat::unavailable("_sparse_mm with a reduction");
}
inline gnnsched_compat::Never _ctc_loss_out(Tensor &, Tensor &, const Tensor &,
                                            const Tensor &, const Tensor &,
                                            const Tensor &, int64_t, bool) {
  gnnsched_compat::unavailable("_ctc_loss_out with tensor lengths");
}
} // namespace at

namespace gnnsched_compat {
// to_sparse(dim) is in 1.13, to_sparse(layout, block size, dim) is not.
inline int64_t sparse_dim(int64_t dim) { return dim; }
template <typename... Arguments> int64_t sparse_dim(Arguments &&...) {
  unavailable("to_sparse with a layout");
}
inline at::Tensor missing_member(const char *name) { unavailable(name); }
inline int64_t squeezed_dim(int64_t dim) { return dim; }
inline int64_t squeezed_dim(at::IntArrayRef) { unavailable("squeeze_ of several dimensions"); }
} // namespace gnnsched_compat

// Members of at::Tensor: nothing can be added to the class from here, so the glue's calls
// are rewritten. `t.name(arguments)` becomes a call of a member that does exist and whose
// argument throws before it runs.
#define GNNSCHED_MISSING_MEMBER(name) add(gnnsched_compat::missing_member(name))
#define _sparse_mask_projection(...) GNNSCHED_MISSING_MEMBER("_sparse_mask_projection")
#define _to_sparse(...) GNNSCHED_MISSING_MEMBER("_to_sparse")
#define _to_sparse_bsc(...) GNNSCHED_MISSING_MEMBER("_to_sparse_bsc")
#define _to_sparse_bsr(...) GNNSCHED_MISSING_MEMBER("_to_sparse_bsr")
#define _to_sparse_csc(...) GNNSCHED_MISSING_MEMBER("_to_sparse_csc")
#define _to_sparse_csr(...) GNNSCHED_MISSING_MEMBER("_to_sparse_csr")
#define to_sparse_bsc(...) GNNSCHED_MISSING_MEMBER("to_sparse_bsc")
#define to_sparse_bsr(...) GNNSCHED_MISSING_MEMBER("to_sparse_bsr")
#define to_sparse_csc(...) GNNSCHED_MISSING_MEMBER("to_sparse_csc")
#define to_sparse_csr(...) GNNSCHED_MISSING_MEMBER("to_sparse_csr")
#define to_sparse(...) to_sparse(gnnsched_compat::sparse_dim(__VA_ARGS__))
#define squeeze_(...) squeeze_(__VA_OPT__(gnnsched_compat::squeezed_dim(__VA_ARGS__)))
#define to_dense(dtype, ...) to_dense(dtype)   // masked_grad came later
#define _to_dense(dtype, ...) _to_dense(dtype) // likewise

#endif // libtorch 1

#if TORCH_VERSION_MAJOR > 2 || (TORCH_VERSION_MAJOR == 2 && TORCH_VERSION_MINOR > 1)
// Private functions whose arguments changed after 2.1 (Debian 13 has 2.6).
namespace torch {
using gnnsched_compat::Never;
using gnnsched_compat::unavailable;
GNNSCHED_UNAVAILABLE(_cslt_sparse_mm)
GNNSCHED_UNAVAILABLE(_scaled_mm)
GNNSCHED_UNAVAILABLE(_scaled_mm_out)
} // namespace torch
#endif
