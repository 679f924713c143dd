#include "bindings/torch/intercept/layout_kernels.h"

#include <array>
#include <span>
#include <utility>

#include "bindings/torch/base/devices.h"
#include "bindings/torch/base/name_lists.h"
#include "bindings/torch/base/no_warnings.h"
#include "bindings/torch/engine/engine.h"
#include "bindings/torch/intercept/boxed_call.h"
#include "bindings/torch/intercept/sparse_products.h"

namespace tidepool::torch_glue {
namespace {

constexpr std::array kHostKeys = {c10::DispatchKey::SparseCPU, c10::DispatchKey::SparseCsrCPU,
                                  c10::DispatchKey::NestedTensorCPU, c10::DispatchKey::MkldnnCPU};
constexpr std::array kCudaKeys = {c10::DispatchKey::SparseCUDA, c10::DispatchKey::SparseCsrCUDA,
                                  c10::DispatchKey::NestedTensorCUDA};
using Keys = std::span<const c10::DispatchKey>;

// These hand out components of a sparse tensor, or say how many there are, and read none.
constexpr std::array kGetters = {
    "aten::_indices",     "aten::_values",     "aten::indices",      "aten::values",
    "aten::crow_indices", "aten::col_indices", "aten::ccol_indices", "aten::row_indices",
    "aten::_nnz",         "aten::sparse_dim",  "aten::dense_dim",    "aten::_dimI",
    "aten::is_coalesced", "aten::_dimV",
};
bool is_sparse(c10::DispatchKey key) {
  return key == c10::DispatchKey::SparseCPU || key == c10::DispatchKey::SparseCsrCPU;
}

// Whether it is a composition for all backends that may read raw memory of dense operands beside
// one of this layout, as convolutions read weights beside oneDNN's inputs.
bool reads_by_itself(const c10::OperatorHandle& op, c10::DispatchKey key) {
  return key == c10::DispatchKey::MkldnnCPU && !info_of(op).is_metadata &&
         op.hasKernelForDispatchKey(c10::DispatchKey::CompositeExplicitAutograd);
}

// Calls a kernel as an intercepted call. Within an intercepted operator all that it reads is there.
void call_around(const c10::SafeKernelFunction& kernel, const c10::OperatorHandle& op,
                 c10::DispatchKeySet keys, torch::jit::Stack* stack) {
  if (!is_thread_intercepted() || is_below_interception()) {
    kernel.callBoxed(op, keys, stack);
    return;
  }
  const OperatorInfo& info = info_of(op);
  intercept_boxed(info, stack, [&] {
    if (info.is_foreign()) return kernel.callBoxed(op, keys, stack);
    BelowInterception below;  // as for any kernel: its temporaries are its own
    kernel.callBoxed(op, keys, stack);
  });
}

// The kernel that was there before.
class AroundKernel final : public c10::OperatorKernel {
 public:
  explicit AroundKernel(c10::SafeKernelFunction kernel) : kernel_(std::move(kernel)) {}

  const c10::SafeKernelFunction& kernel() const { return kernel_; }
  // Says that its calls may be run as products by this kernel.
  void runs_products(int64_t product) { product_ = product; }

  void operator()(const c10::OperatorHandle& op, c10::DispatchKeySet keys,
                  torch::jit::Stack* stack) {
    const bool is_product = product_ >= 0 && is_thread_intercepted() && !is_below_interception() &&
                            info_of(op).is_pytorchs();
    if (is_product && run_as_product(product_, stack)) return;
    call_around(kernel_, op, keys, stack);
  }

 private:
  c10::SafeKernelFunction kernel_;
  int64_t product_ = -1;
};

// What an operator runs on a backend at the time of the call: a job may register another kernel, or
// take one away.
class CompositionKernel final : public c10::OperatorKernel {
 public:
  explicit CompositionKernel(c10::DispatchKey backend) : backend_(backend) {}

  void operator()(const c10::OperatorHandle& op, c10::DispatchKeySet keys,
                  torch::jit::Stack* stack) {
    call_around(op.getComputedKernelForDispatchKey(backend_), op, keys, stack);
  }

 private:
  c10::DispatchKey backend_;
};

}  // namespace

void register_layout_kernels(std::vector<c10::RegistrationHandleRAII>& handles) {
  const NoWarnings quiet;  // that a kernel replaces another one, which is meant here
  const Keys layout_keys = host_is_foreign() ? Keys(kCudaKeys) : Keys(kHostKeys);
  c10::Dispatcher& dispatcher = c10::Dispatcher::singleton();
  for (const c10::OperatorName& name : dispatcher.getAllOpNames()) {
    const auto op = dispatcher.findOp(name);
    if (!op || !op->hasSchema()) continue;  // views, too: those of nested tensors read their tables
    for (c10::DispatchKey key : layout_keys) {
      if (!op->hasKernelForDispatchKey(key) && !reads_by_itself(*op, key)) continue;
      if (is_sparse(key) && lists(kGetters, name.name)) continue;
      auto kernel = std::make_unique<AroundKernel>(op->getComputedKernelForDispatchKey(key));
      if (is_sparse(key) && is_sparse_product(name) && is_kernel_of_torch(*op, key)) {
        kernel->runs_products(remember_product_kernel({*op, key, &kernel->kernel()}));
      }
      handles.push_back(dispatcher.registerImpl(
          name, key, c10::KernelFunction::makeFromBoxedFunctor(std::move(kernel)), std::nullopt,
          nullptr, "tidepool"));
    }
  }
}

void keep_composition(const c10::OperatorHandle& op,
                      std::vector<c10::RegistrationHandleRAII>& handles) {
  constexpr auto kKey = c10::DispatchKey::AutogradOther;
  constexpr auto kBackend = c10::DispatchKey::FPGA;  // one that has nothing but compositions
  if (!op.hasKernelForDispatchKey(c10::DispatchKey::CompositeImplicitAutograd)) return;
  if (op.hasKernelForDispatchKey(kKey)) return;
  auto kernel = std::make_unique<CompositionKernel>(kBackend);
  handles.push_back(c10::Dispatcher::singleton().registerImpl(
      op.operator_name(), kKey, c10::KernelFunction::makeFromBoxedFunctor(std::move(kernel)),
      std::nullopt, nullptr, "tidepool"));
}

void register_foreign_composite(const c10::OperatorHandle& op,
                                std::vector<c10::RegistrationHandleRAII>& handles) {
  const bool cuda = host_is_foreign();
  const c10::DispatchKey backend = cuda ? c10::DispatchKey::CUDA : c10::DispatchKey::CPU;
  const c10::DispatchKey autograd =
      cuda ? c10::DispatchKey::AutogradCUDA : c10::DispatchKey::AutogradCPU;
  keep_composition(op, handles);
  // With autograd these run as their tensors' autograd kernel; in inference mode, on our key.
  for (c10::DispatchKey key : {autograd, kInterceptionKey}) {
    if (op.hasKernelForDispatchKey(key)) continue;
    auto kernel = std::make_unique<CompositionKernel>(backend);
    handles.push_back(c10::Dispatcher::singleton().registerImpl(
        op.operator_name(), key, c10::KernelFunction::makeFromBoxedFunctor(std::move(kernel)),
        std::nullopt, nullptr, "tidepool"));
  }
}

}  // namespace tidepool::torch_glue
