#include "bindings/torch/state/numeric_state.h"

#include <ATen/Context.h>
#include <ATen/Parallel.h>
#include <ATen/autocast_mode.h>
#include <c10/core/DefaultDtype.h>
#include <c10/core/GradMode.h>
#include <c10/core/ScalarTypeToTypeMeta.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <new>
#include <optional>
#include <unordered_map>
#include <utility>

#include "bindings/torch/state/floating_point.h"

// Functions of libraries that PyTorch has loaded. Each sets only the calling thread's number of
// threads.
extern "C" {
void omp_set_num_threads(int count) __attribute__((weak));
int omp_get_max_threads() __attribute__((weak));
int MKL_Get_Max_Threads() __attribute__((weak));
int MKL_Set_Num_Threads_Local(int count) __attribute__((weak));
}

namespace tidepool::torch_glue {
namespace {

// The precision settings themselves, which at::Context keeps private. Its getter costs three hash
// look-ups, gives what the settings amount to, and refuses some mixtures. Explicit instantiations
// may name private members. The nodes of the map stay where they are.
using PrecisionKey = std::pair<at::Float32Backend, at::Float32Op>;
using Precisions = std::unordered_map<PrecisionKey, at::Float32Precision, c10::hash<PrecisionKey>>;
template <Precisions at::Context::* Member>
struct PrecisionsMember {
  friend Precisions at::Context::* precisions_member() { return Member; }
};
Precisions at::Context::* precisions_member();
template struct PrecisionsMember<&at::Context::fp32_precision>;

using PrecisionNodes = std::array<at::Float32Precision*, 9>;
const PrecisionNodes& precision_nodes() {
  static const PrecisionNodes nodes = [] {
    using Backend = at::Float32Backend;
    using Op = at::Float32Op;
    Precisions& all = at::globalContext().*precisions_member();
    return PrecisionNodes{
        &all.at({Backend::GENERIC, Op::ALL}),   &all.at({Backend::MKLDNN, Op::ALL}),
        &all.at({Backend::MKLDNN, Op::CONV}),   &all.at({Backend::MKLDNN, Op::RNN}),
        &all.at({Backend::MKLDNN, Op::MATMUL}), &all.at({Backend::CUDA, Op::ALL}),
        &all.at({Backend::CUDA, Op::CONV}),     &all.at({Backend::CUDA, Op::RNN}),
        &all.at({Backend::CUDA, Op::MATMUL})};
  }();
  return nodes;
}

// Settings that are reached directly, because they are read at each recorded operator and their
// getters are calls into another library, or because their setters warn or check before they set.
#define TIDEPOOL_CONTEXT_MEMBER(type, name)                       \
  template <type at::Context::* Member>                           \
  struct Reach_##name {                                           \
    friend type at::Context::* member_##name() { return Member; } \
  };                                                              \
  type at::Context::* member_##name();                            \
  template struct Reach_##name<&at::Context::name>
TIDEPOOL_CONTEXT_MEMBER(bool, _deterministic_algorithms);
TIDEPOOL_CONTEXT_MEMBER(bool, _deterministic_algorithms_warn_only);
TIDEPOOL_CONTEXT_MEMBER(bool, _deterministic_fill_uninitialized_memory);
TIDEPOOL_CONTEXT_MEMBER(bool, enabled_mkldnn);
TIDEPOOL_CONTEXT_MEMBER(bool, deterministic_mkldnn);
TIDEPOOL_CONTEXT_MEMBER(bool, enabled_nnpack);
TIDEPOOL_CONTEXT_MEMBER(bool, allow_tf32_cudnn);
TIDEPOOL_CONTEXT_MEMBER(std::optional<int32_t>, sm_carveout);
TIDEPOOL_CONTEXT_MEMBER(at::LinalgBackend, linalg_preferred_backend);
TIDEPOOL_CONTEXT_MEMBER(at::BlasBackend, blas_preferred_backend);
TIDEPOOL_CONTEXT_MEMBER(std::atomic<at::QEngine>, quantized_engine);
#undef TIDEPOOL_CONTEXT_MEMBER

// Access to the member by which a guard knows that it has to end what it has begun.
template <bool at::NoTF32Guard::* Member>
struct ReachChanged {
  friend bool at::NoTF32Guard::* member_changed() { return Member; }
};
bool at::NoTF32Guard::* member_changed();
template struct ReachChanged<&at::NoTF32Guard::changed>;

// Sets for the calling thread what NoTF32Guard sets, which has no setter.
void set_no_tf32(bool on) {
  alignas(at::NoTF32Guard) std::array<std::byte, sizeof(at::NoTF32Guard)> room;
  auto* const guard = new (room.data()) at::NoTF32Guard();
  if (on) return;
  guard->*member_changed() = true;
  guard->~NoTF32Guard();
}

using Reduction = at::CuBLASReductionOption;

// Calls visit(reader, setter, bits) for each switch that only newer versions have.
template <class Context, class Visit>
void visit_newer_switches(Context& context, Visit&& visit) {
  if constexpr (requires { context.preferCublasltGroupedGemm(); }) {
    visit([&] { return context.preferCublasltGroupedGemm(); },
          [&](bool on) { context.setPreferCublasltGroupedGemm(on); }, 1);
  }
  if constexpr (requires { context.allowNativeAot(); }) {
    visit([&] { return context.allowNativeAot(); }, [&](bool on) { context.setAllowNativeAot(on); },
          1);
    visit([&] { return context.maskUnconditionalNativeAot(); },
          [&](bool on) { context.setMaskUnconditionalNativeAot(on); }, 1);
  }
  if constexpr (requires { context.cudnnDepthwiseKernel(); }) {
    using Kernel = decltype(context.cudnnDepthwiseKernel());
    visit([&] { return context.cudnnDepthwiseKernel(); },
          [&](uint32_t value) { context.setCuDNNDepthwiseKernel(static_cast<Kernel>(value)); }, 2);
  }
}

// The switches of CUDA's libraries, with one bit each, and two for a switch with three values.
uint32_t capture_cuda_switches(at::Context& context) {
  uint32_t bits = 0;
  int next = 0;
  const auto add = [&](uint32_t value, int width) {
    bits |= value << std::exchange(next, next + width);
  };
  add(context.userEnabledCuDNN(), 1);
  add(context.benchmarkCuDNN(), 1);
  add(context.deterministicCuDNN(), 1);
  add(context.*member_allow_tf32_cudnn(), 1);
  add(context.allowFP16AccumulationCuBLAS(), 1);
  add(static_cast<uint32_t>(context.allowFP16ReductionCuBLAS()), 2);
  add(static_cast<uint32_t>(context.allowBF16ReductionCuBLAS()), 2);
  visit_newer_switches(
      context, [&](auto read, auto, int width) { add(static_cast<uint32_t>(read()), width); });
  return bits;
}

void apply_cuda_switches(at::Context& context, uint32_t bits) {
  const auto take = [&](int width) {
    const uint32_t value = bits & ((1u << width) - 1);
    bits >>= width;
    return value;
  };
  context.setUserEnabledCuDNN(take(1) != 0);
  context.setBenchmarkCuDNN(take(1) != 0);
  context.setDeterministicCuDNN(take(1) != 0);
  context.*member_allow_tf32_cudnn() = take(1) != 0;
  context.setAllowFP16AccumulationCuBLAS(take(1) != 0);
  const auto reduces = [](Reduction option) {
    return option == Reduction::AllowReducedPrecisionWithSplitK;
  };
  const auto splits = [](Reduction option) {
    return option != Reduction::DisallowReducedPrecisionDisallowSplitK;
  };
  const auto fp16 = static_cast<Reduction>(take(2));
  context.setAllowFP16ReductionCuBLAS(reduces(fp16), splits(fp16));
  const auto bf16 = static_cast<Reduction>(take(2));
  context.setAllowBF16ReductionCuBLAS(reduces(bf16), splits(bf16));
  visit_newer_switches(context, [&](auto read, auto set, int width) {
    const uint32_t value = take(width);
    if (static_cast<uint32_t>(read()) != value) set(value);
  });
}

// Sets the calling thread's number of threads. at::set_num_threads() would also set the number for
// threads that are started meanwhile.
void set_threads(int count) {
  if (&omp_set_num_threads == nullptr) return at::set_num_threads(count);
  omp_set_num_threads(count);
}

uint16_t mkl_threads_now() {
  const bool has_mkl = &MKL_Get_Max_Threads != nullptr && &MKL_Set_Num_Threads_Local != nullptr;
  return has_mkl ? static_cast<uint16_t>(MKL_Get_Max_Threads()) : 0;
}

// Brings the process from state `from` to state `to`, except for what guards of the dispatcher do.
void change(const NumericState& from, const NumericState& to) {
  at::Context& context = at::globalContext();
  if (from.floating_point != to.floating_point) {
    // The pool's threads start with this thread's present state, as they would without us.
    at::parallel_for(0, at::get_num_threads(), 1, [](int64_t, int64_t) {});
    set_floating_point_control(to.floating_point);
  }
  if (from.threads != to.threads) set_threads(to.threads);
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
  for (size_t k = 0; k < to.precision.size(); ++k) {
    if (from.precision[k] == to.precision[k]) continue;
    *precision_nodes()[k] = static_cast<at::Float32Precision>(to.precision[k]);
  }
  if (from.default_dtype != to.default_dtype) {
    c10::set_default_dtype(
        c10::scalarTypeToTypeMeta(static_cast<c10::ScalarType>(to.default_dtype)));
  }
  if (from.nnpack != to.nnpack) context.setUserEnabledNNPACK(to.nnpack);
  if (from.grad_mode != to.grad_mode) c10::GradMode::set_enabled(to.grad_mode);
  if (to.autocast_dtype >= 0 && from.autocast_dtype != to.autocast_dtype) {
    at::autocast::set_autocast_dtype(at::kCPU, static_cast<at::ScalarType>(to.autocast_dtype));
  }
  if (to.cuda_autocast_dtype >= 0 && from.cuda_autocast_dtype != to.cuda_autocast_dtype) {
    at::autocast::set_autocast_dtype(at::kCUDA,
                                     static_cast<at::ScalarType>(to.cuda_autocast_dtype));
  }
  if (from.no_tf32 != to.no_tf32) set_no_tf32(to.no_tf32);
  if (from.cuda_switches != to.cuda_switches) apply_cuda_switches(context, to.cuda_switches);
  if (from.sm_carveout != to.sm_carveout) {
    context.*member_sm_carveout() =
        to.sm_carveout < 0 ? std::nullopt : std::optional<int32_t>(to.sm_carveout);
  }
  if (from.quantized_engine != to.quantized_engine) {
    context.*member_quantized_engine() = static_cast<at::QEngine>(to.quantized_engine);
  }
  if (from.blas_library != to.blas_library) {
    context.*member_blas_preferred_backend() = static_cast<at::BlasBackend>(to.blas_library);
  }
  if (from.linalg_library != to.linalg_library) {
    context.*member_linalg_preferred_backend() = static_cast<at::LinalgBackend>(to.linalg_library);
  }
}

}  // namespace

uint16_t NumericState::threads_now() {
  const int count = &omp_get_max_threads != nullptr ? omp_get_max_threads() : at::get_num_threads();
  return static_cast<uint16_t>(count);
}

void NumericState::capture_threads() {
  threads = threads_now();
  mkl_threads = mkl_threads_now();
}

bool NumericState::rounds_as_usual() {
  constexpr uint32_t kUsual = 0x1f80;  // as a process starts
  return floating_point_control() == (kUsual & kFloatingPointControl);
}

NumericState NumericState::capture(bool cuda) {
  NumericState state;
  at::Context& context = at::globalContext();
  const uint64_t excluded = c10::impl::raw_local_dispatch_key_set.excluded().raw_repr();
  state.autocast_excluded = excluded & c10::autocast_dispatch_keyset.raw_repr();
  const uint64_t cpu_bit = c10::DispatchKeySet(c10::DispatchKey::AutocastCPU).raw_repr() &
                           c10::autocast_dispatch_keyset.raw_repr();
  if ((cpu_bit & ~state.autocast_excluded) != 0) {
    state.autocast_dtype = static_cast<int8_t>(at::autocast::get_autocast_dtype(at::kCPU));
  }
  if (cuda) {
    const uint64_t cuda_bit = c10::DispatchKeySet(c10::DispatchKey::AutocastCUDA).raw_repr() &
                              c10::autocast_dispatch_keyset.raw_repr();
    if ((cuda_bit & ~state.autocast_excluded) != 0) {
      state.cuda_autocast_dtype = static_cast<int8_t>(at::autocast::get_autocast_dtype(at::kCUDA));
    }
    state.cuda_switches = capture_cuda_switches(context);
    state.no_tf32 = at::NoTF32Guard::should_disable_tf32();
    state.sm_carveout = (context.*member_sm_carveout()).value_or(-1);
    state.blas_library = static_cast<int8_t>(context.*member_blas_preferred_backend());
    state.linalg_library = static_cast<int8_t>(context.*member_linalg_preferred_backend());
  }
  state.quantized_engine =
      static_cast<uint8_t>((context.*member_quantized_engine()).load(std::memory_order_relaxed));
  state.floating_point = floating_point_control();
  state.grad_mode = c10::GradMode::is_enabled();
  state.deterministic = context.*member__deterministic_algorithms();
  state.deterministic_warn_only = context.*member__deterministic_algorithms_warn_only();
  state.fill_uninitialized = context.*member__deterministic_fill_uninitialized_memory();
  state.mkldnn = context.*member_enabled_mkldnn();
  state.mkldnn_deterministic = context.*member_deterministic_mkldnn();
  state.nnpack = context.*member_enabled_nnpack();
  state.default_dtype = static_cast<int8_t>(c10::get_default_dtype_as_scalartype());
  const PrecisionNodes& nodes = precision_nodes();
  const auto read = [&](size_t from, size_t to) {
    for (size_t k = from; k < to; ++k) state.precision[k] = static_cast<uint8_t>(*nodes[k]);
  };
  read(0, kHostPrecisions);
  if (cuda) read(kHostPrecisions, nodes.size());
  return state;
}

NumericScope::NumericScope(const NumericState& state, bool cuda)
    : before_(NumericState::capture(cuda)),
      during_(state),
      autocast_cache_(at::autocast::is_autocast_cache_enabled()) {
  before_.autocast_dtype = static_cast<int8_t>(at::autocast::get_autocast_dtype(at::kCPU));
  if (cuda) {
    before_.cuda_autocast_dtype = static_cast<int8_t>(at::autocast::get_autocast_dtype(at::kCUDA));
  }
  at::get_num_threads();  // a new thread chooses here; else the kernel would have it choose
  before_.capture_threads();
  change(before_, during_);
  if (before_.mkl_threads != during_.mkl_threads) {
    mkl_before_ = MKL_Set_Num_Threads_Local(during_.mkl_threads);
  }
  // The cache of casts is not used, because it may hold a tensor that this replay did not make.
  if (is_autocast()) at::autocast::set_autocast_cache_enabled(false);
}

NumericScope::~NumericScope() {
  if (is_autocast()) at::autocast::set_autocast_cache_enabled(autocast_cache_);
  change(during_, before_);
  if (mkl_before_ >= 0) MKL_Set_Num_Threads_Local(mkl_before_);
}

}  // namespace tidepool::torch_glue
