#include "bindings/torch/numeric_state.h"

#include <ATen/Context.h>
#include <ATen/Parallel.h>
#include <ATen/autocast_mode.h>
#include <c10/core/GradMode.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <xmmintrin.h>

namespace tidepool::torch_glue {
namespace {

// MXCSR bits 6 to 15 without the exception masks' sticky flags below them.
constexpr uint32_t kFloatingPointControl = 0xffc0;

at::Float32Op operator_kind(MatrixProduct product) {
  switch (product) {
    case MatrixProduct::kConvolution: return at::Float32Op::CONV;
    case MatrixProduct::kRecurrent: return at::Float32Op::RNN;
    default: return at::Float32Op::MATMUL;
  }
}

// Brings the process from state `from` to state `to`, but for what the dispatcher's guards do.
void change(const NumericState& from, const NumericState& to) {
  at::Context& context = at::globalContext();
  if (from.floating_point != to.floating_point) {
    _mm_setcsr((_mm_getcsr() & ~kFloatingPointControl) | to.floating_point);
  }
  if (from.threads != to.threads) at::set_num_threads(to.threads);
  if (from.deterministic != to.deterministic ||
      from.deterministic_warn_only != to.deterministic_warn_only) {
    context.setDeterministicAlgorithms(to.deterministic, to.deterministic_warn_only);
  }
  if (from.fill_uninitialized != to.fill_uninitialized) {
    context.setDeterministicFillUninitializedMemory(to.fill_uninitialized);
  }
  if (from.mkldnn != to.mkldnn) context.setUserEnabledMkldnn(to.mkldnn);
  if (from.mkldnn_deterministic != to.mkldnn_deterministic) {
    context.setDeterministicMkldnn(to.mkldnn_deterministic);
  }
  if (from.matrix_precision != to.matrix_precision) {
    context.setFloat32Precision(at::Float32Backend::MKLDNN, operator_kind(to.matrix_product),
                                static_cast<at::Float32Precision>(to.matrix_precision));
  }
  if (from.grad_mode != to.grad_mode) c10::GradMode::set_enabled(to.grad_mode);
  if (to.autocast_dtype >= 0 && from.autocast_dtype != to.autocast_dtype) {
    at::autocast::set_autocast_dtype(at::kCPU, static_cast<at::ScalarType>(to.autocast_dtype));
  }
}

}  // namespace

NumericState NumericState::capture(MatrixProduct product) {
  NumericState state;
  const at::Context& context = at::globalContext();
  const uint64_t excluded = c10::impl::raw_local_dispatch_key_set.excluded().raw_repr();
  state.autocast_excluded = excluded & c10::autocast_dispatch_keyset.raw_repr();
  const uint64_t cpu_bit = c10::DispatchKeySet(c10::DispatchKey::AutocastCPU).raw_repr() &
                           c10::autocast_dispatch_keyset.raw_repr();
  if ((cpu_bit & ~state.autocast_excluded) != 0) {
    state.autocast_dtype = static_cast<int8_t>(at::autocast::get_autocast_dtype(at::kCPU));
  }
  state.floating_point = _mm_getcsr() & kFloatingPointControl;
  state.threads = static_cast<uint16_t>(at::get_num_threads());
  state.grad_mode = c10::GradMode::is_enabled();
  state.deterministic = context.deterministicAlgorithms();
  state.deterministic_warn_only = context.deterministicAlgorithmsWarnOnly();
  state.fill_uninitialized = context.deterministicFillUninitializedMemory();
  state.mkldnn = context.userEnabledMkldnn();
  state.mkldnn_deterministic = context.deterministicMkldnn();
  state.matrix_product = product;
  if (product != MatrixProduct::kNone) {
    state.matrix_precision = static_cast<uint8_t>(
        context.float32Precision(at::Float32Backend::MKLDNN, operator_kind(product)));
  }
  return state;
}

NumericScope::NumericScope(const NumericState& state)
    : before_(NumericState::capture(state.matrix_product)),
      during_(state),
      autocast_cache_(at::autocast::is_autocast_cache_enabled()) {
  before_.autocast_dtype = static_cast<int8_t>(at::autocast::get_autocast_dtype(at::kCPU));
  change(before_, during_);
  // A cached cast would be a tensor that this replay did not make.
  if (during_.autocast_dtype >= 0) at::autocast::set_autocast_cache_enabled(false);
}

NumericScope::~NumericScope() {
  if (during_.autocast_dtype >= 0) at::autocast::set_autocast_cache_enabled(autocast_cache_);
  change(during_, before_);
}

}  // namespace tidepool::torch_glue
