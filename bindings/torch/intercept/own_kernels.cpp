#include "bindings/torch/intercept/own_kernels.h"

#include <mutex>
#include <string_view>
#include <utility>
#include <vector>

#include "bindings/torch/base/devices.h"
#include "bindings/torch/base/no_warnings.h"
#include "bindings/torch/base/replaying.h"
#include "bindings/torch/intercept/interception.h"
#include "bindings/torch/intercept/raw_readers.h"

namespace tidepool::torch_glue {

constinit thread_local OwnKernels OwnKernels::t_so_far;
std::atomic<bool> OwnKernels::g_may_draw{false};

bool OwnKernels::allow_replay(const OperatorInfo& info, const OwnKernels& before) {
  const uint64_t routers = info.kernel().has_router() ? 1 : 0;
  return t_so_far.kernels_ == before.kernels_ && t_so_far.routers_ - before.routers_ <= routers;
}

OwnKernelScope::OwnKernelScope()
    : within_(is_thread_intercepted() && is_below_interception() && !is_replaying()) {
  OwnKernels::note();
  if (!within_) return;
  untrusted_.emplace();
  c10::impl::tls_set_dispatch_key_excluded(kInterceptionKey, false);
}

OwnKernelScope::~OwnKernelScope() {
  if (within_) c10::impl::tls_set_dispatch_key_excluded(kInterceptionKey, true);
}

namespace {

class Wrapped : public c10::OperatorKernel {
 public:
  explicit Wrapped(c10::KernelFunction kernel) : kernel_(std::move(kernel)) {}
  void operator()(const c10::OperatorHandle& op, c10::DispatchKeySet keys,
                  torch::jit::Stack* stack) {
    const OwnKernelScope scope;
    kernel_.callBoxed(op, keys, stack);
  }

 private:
  c10::KernelFunction kernel_;
};

}  // namespace

std::vector<c10::OperatorName> wrap_own_kernels() {
  std::vector<c10::OperatorName> wrapped_names;
  if (host_is_foreign()) return wrapped_names;
  static std::mutex mutex;
  static auto* const handles = new std::vector<c10::RegistrationHandleRAII>;
  const std::lock_guard guard(mutex);
  const NoWarnings quiet;  // that a kernel replaces another one, which is meant here
  constexpr auto kKey = c10::DispatchKey::CPU;
  handles->clear();
  c10::Dispatcher& dispatcher = c10::Dispatcher::singleton();
  for (const c10::OperatorName& name : dispatcher.getAllOpNames()) {
    if (!std::string_view(name.name).starts_with("aten::")) continue;
    if (has_raw_readers_kernel(name)) continue;  // which is ours, not the job's
    const auto op = dispatcher.findOp(name);
    if (!op || !op->hasKernelForDispatchKey(kKey) || is_kernel_of_torch(*op, kKey)) continue;
    OwnKernels::note_that_they_may_draw();
    auto wrapped = std::make_unique<Wrapped>(*kernel_of(*op, kKey));
    handles->push_back(dispatcher.registerImpl(
        name, kKey, c10::KernelFunction::makeFromBoxedFunctor(std::move(wrapped)), std::nullopt,
        nullptr, "tidepool"));
    wrapped_names.push_back(name);
  }
  return wrapped_names;
}

}  // namespace tidepool::torch_glue
