#include "bindings/torch/intercept/interception.h"

#include <ATen/Parallel.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

#include <algorithm>
#include <cstdio>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <unordered_map>
#include <utility>
#include <vector>

#include "allocator/locks/lock_order.h"
#include "bindings/torch/calls/operator_info.h"
#include "bindings/torch/intercept/boxed_call.h"
#include "bindings/torch/intercept/layout_kernels.h"
#include "bindings/torch/intercept/operands/list_parts.h"
#include "bindings/torch/intercept/own_kernels.h"
#include "bindings/torch/intercept/raw_readers.h"
#include "bindings/torch/intercept/record_stream.h"
#include "bindings/torch/intercept/sparse_products.h"
#include "bindings/torch/intercept/typed_operator.h"

namespace tidepool::torch_glue {

std::atomic<bool> g_operators_pending{false};
std::atomic<bool> g_passive{false};

namespace {

using torch::jit::Stack;

const uint64_t kKeyBit = c10::DispatchKeySet(kInterceptionKey).raw_repr();

void run_below(const c10::OperatorHandle& op, c10::DispatchKeySet keys, Stack* stack) {
  BelowInterception below;
  op.redispatchBoxed(keys & kBelowInterception, stack);
}

void run_boxed(const c10::OperatorHandle& op, c10::DispatchKeySet keys, Stack* stack) {
  if (g_operators_pending.load(std::memory_order_relaxed)) [[unlikely]]
    rescan_operators();
  const OperatorInfo& info = info_of(op);
  info.judge_once();
  if (info.is_metadata || g_passive.load(std::memory_order_relaxed)) {
    run_below(op, keys, stack);
    return;
  }
  // A router, or a kernel of the job's, may look at the whole list.
  if (info.maps_lists != remat::ListOperator::kNone && info.is_pytorchs() &&
      !info.kernel().has_router()) {
    const auto ends = part_ends(info, *stack);
    const auto run = [&](Stack* part) { run_boxed(op, keys, part); };
    if (!ends.empty()) return run_parts(info, stack, ends, run);
  }
  intercept_boxed(info, stack, [&] {
    if (info.is_foreign()) {  // what it is made of is seen, and kept
      op.redispatchBoxed(keys & kBelowInterception, stack);
    } else {
      run_below(op, keys, stack);
    }
  });
}

// Whether our kernel has to be registered for the operator itself, because it has a composite
// kernel. Otherwise that one would be chosen before our fallback, and the operators that it is made
// of would run; if there is a kernel for the device as well, this would change bits.
bool needs_direct_kernel(const c10::OperatorHandle& op) {
  using c10::DispatchKey;
  const auto has = [&](DispatchKey key) { return op.hasKernelForDispatchKey(key); };
  if (has(DispatchKey::CompositeImplicitAutograd)) {
    return has(DispatchKey::CPU) || has(DispatchKey::CUDA);
  }
  return has(DispatchKey::CompositeExplicitAutograd) ||
         has(DispatchKey::CompositeExplicitAutogradNonFunctional);
}

bool is_of_pytorch(const c10::OperatorName& name) { return name.name.starts_with("aten::"); }

using Handles = std::vector<c10::RegistrationHandleRAII>;

// All that is registered. Of an operator that its library takes away nothing may be left: PyTorch
// would keep its entry, and with it the old schema's object in Python, for the next of this name.
struct Registrations {
  RankedMutex<LockRank::kOperators> mutex;
  Handles handles;  // for the life of the process
  std::unordered_map<c10::OperatorName, Handles> of_operators;
  std::mutex pending_mutex;
  std::vector<c10::OperatorName> pending;  // defined, and not looked at yet
  // Of all operators but PyTorch's: whether it was taken away, and is not looked at yet. Nothing is
  // allocated to note it: as a process ends that could be where a destructor's operator was.
  std::unordered_map<c10::OperatorName, bool> gone;
  bool any_gone = false;
};
Registrations& registrations() {
  static auto* all = new Registrations;
  return *all;
}

void hold(const c10::OperatorHandle& op, c10::KernelFunction kernel) {
  const c10::OperatorName& name = op.operator_name();
  Handles& handles = registrations().of_operators[name];
  keep_composition(op, handles);
  handles.push_back(c10::Dispatcher::singleton().registerImpl(
      name, kInterceptionKey, std::move(kernel), std::nullopt, nullptr, "tidepool"));
}

// False if the operator has no kernels yet, so that it must be looked at again.
bool register_operator(const c10::OperatorName& name) {
  const auto op = c10::Dispatcher::singleton().findOp(name);
  if (!op || !op->hasSchema() || op->hasKernelForDispatchKey(kInterceptionKey)) return true;
  if (is_composite_only(*op)) {
    // The operator is another library's, which may read raw memory although it is called a
    // composition.
    if (!is_of_pytorch(name)) {
      register_foreign_composite(*op, registrations().of_operators[name]);
    }
    return true;
  }
  if (info_of(*op).is_metadata) {
    hold(*op, c10::KernelFunction::makeFallthrough());
    return true;
  }
  if (needs_direct_kernel(*op)) {
    hold(*op, c10::KernelFunction::makeFromBoxedFunction<&run_boxed>());
    return true;
  }
  return op->hasKernelForDispatchKey(c10::DispatchKey::CPU) ||
         op->hasKernelForDispatchKey(c10::DispatchKey::CUDA);
}

// Is called inside the dispatcher's lock, so it only notes the names.
class Listener final : public c10::OpRegistrationListener {
 public:
  void onOperatorRegistered(const c10::OperatorHandle& op) override {
    std::lock_guard<std::mutex> guard(registrations().pending_mutex);
    registrations().pending.push_back(op.operator_name());
    if (!is_of_pytorch(op.operator_name())) {
      registrations().gone.try_emplace(op.operator_name(), false);
    }
    g_operators_pending.store(true, std::memory_order_relaxed);
  }
  void onOperatorDeregistered(const c10::OperatorHandle& op) override {
    forget_operator(op);
    std::lock_guard<std::mutex> guard(registrations().pending_mutex);
    const auto known = registrations().gone.find(op.operator_name());
    if (known == registrations().gone.end()) return;
    known->second = registrations().any_gone = true;
  }
};

}  // namespace

bool is_composite_only(const c10::OperatorHandle& op) {
  using c10::DispatchKey;
  return op.hasKernelForDispatchKey(DispatchKey::CompositeImplicitAutograd) &&
         !op.hasKernelForDispatchKey(DispatchKey::CPU) &&
         !op.hasKernelForDispatchKey(DispatchKey::CUDA);
}

BelowInterception::BelowInterception()
    : excluded_(&c10::impl::raw_local_dispatch_key_set.excluded_), before_(*excluded_) {
  *excluded_ |= kKeyBit;  // the key is not in the default set, so raw bits mean what they say
}
BelowInterception::~BelowInterception() { *excluded_ = before_; }

void check_interception_is_possible() {
  if (c10::Dispatcher::singleton().hasBackendFallbackForDispatchKey(kInterceptionKey)) {
    throw std::runtime_error("this PyTorch, or an extension, already uses the dispatch key " +
                             std::string(c10::toString(kInterceptionKey)));
  }
}

void install_interception() {
  c10::Dispatcher& dispatcher = c10::Dispatcher::singleton();
  Registrations& all = registrations();
  std::lock_guard guard(all.mutex);
  all.handles.push_back(dispatcher.registerFallback(
      kInterceptionKey, c10::KernelFunction::makeFromBoxedFunction<&run_boxed>(), "tidepool"));
  if (!host_is_foreign()) register_sparse_products(all.handles);
  register_layout_kernels(all.handles);
  register_raw_readers(all.handles);
  register_typed_operators(all.handles);
  register_record_stream(all.handles);
  for (const c10::OperatorName& name : dispatcher.getAllOpNames()) register_operator(name);
  wrap_own_kernels();  // after the infos were made, which are not to trust these
  all.handles.push_back(dispatcher.addRegistrationListener(std::make_unique<Listener>()));
  // The listener is told at once of every operator that there is already.
  std::lock_guard<std::mutex> pending_guard(all.pending_mutex);
  all.pending.clear();
  g_operators_pending.store(false, std::memory_order_relaxed);
}

void rescan_operators(bool drop_gone) {
  Registrations& all = registrations();
  std::unique_lock guard(all.mutex, std::try_to_lock);
  if (!guard.owns_lock()) return;  // another thread is at it
  std::vector<c10::OperatorName> names, gone;
  {
    std::lock_guard<std::mutex> pending_guard(all.pending_mutex);
    names.swap(all.pending);
    if (drop_gone && std::exchange(all.any_gone, false)) {
      for (auto& [name, is_gone] : all.gone) {
        if (std::exchange(is_gone, false)) gone.push_back(name);
      }
    }
    g_operators_pending.store(false, std::memory_order_relaxed);
  }
  for (const c10::OperatorName& name : gone) all.of_operators.erase(name);
  names.insert(names.end(), gone.begin(), gone.end());  // they may be there again
  std::erase_if(names, [](const c10::OperatorName& name) { return register_operator(name); });
  // Operators that have no kernels yet are looked at again at the next definition or step.
  std::lock_guard<std::mutex> pending_guard(all.pending_mutex);
  all.pending.insert(all.pending.end(), names.begin(), names.end());
}

void distrust_operators(std::string_view name) {
  const bool all_operators = name == "_";
  Registrations& all = registrations();
  std::lock_guard guard(all.mutex);
  c10::Dispatcher& dispatcher = c10::Dispatcher::singleton();
  const auto distrust = [](const std::optional<c10::OperatorHandle>& op) {
    if (!op || !op->hasSchema()) return;
    info_of(*op).distrust();
    register_operator(op->operator_name());
  };
  if (name.find('.') != std::string_view::npos) return distrust(operator_named(name));
  for (const c10::OperatorName& each : dispatcher.getAllOpNames()) {
    if (all_operators || each.name == name) distrust(dispatcher.findOp(each));
  }
}

void set_recording(bool on) {
  bool lineage = false;
  for_each_engine([&](Engine& engine) {
    engine.runtime().set_recording(on);
    DeviceLock lock(engine.mutex());
    lineage |= engine.runtime().has_lineage();
  });
  g_passive.store(!on && !lineage, std::memory_order_relaxed);
}

namespace {
thread_local bool t_known = false;  // to be intercepted, or switched off on purpose

void stop_for_unseen_thread() {
  static std::atomic<bool> said{false};
  if (!said.exchange(true)) {
    std::fputs(
        "tidepool: a thread that is not watched works on tensors: nothing is evicted from "
        "now on (import PyTorch, or call tidepool.enable(), before it starts)\n",
        stderr);
  }
  for_each_engine([](Engine& engine) {
    DeviceLock lock(engine.mutex());
    engine.runtime().pause_evicting(lock);  // for good
  });
}
}  // namespace

void notice_thread() {
  // The answer is not remembered, because some threads are intercepted only while they work for
  // another.
  if (t_known || is_thread_intercepted() || at::in_parallel_region()) [[likely]]
    return;
  // Only replays and what runs below an intercepted operator exclude the key.
  if (is_below_interception()) return;
  t_known = true;  // restoring allocates, too
  try {
    stop_for_unseen_thread();
  } catch (...) {
    t_known = false;
    throw;
  }
}

bool set_thread_intercepted(bool on) {
  t_known = true;
  const bool before = is_thread_intercepted();
  c10::impl::tls_set_dispatch_key_included(kInterceptionKey, on);
  return before;
}

}  // namespace tidepool::torch_glue
