#include "tests/support/value_kernels/value_kernel.h"

#include <ATen/ops/empty.h>
#include <c10/util/Exception.h>
#include <dlfcn.h>

#include <algorithm>
#include <atomic>
#include <memory>
#include <mutex>
#include <unordered_set>
#include <vector>

#include "tests/support/value_kernels/call_log.h"
#include "tests/support/value_kernels/captured_call.h"
#include "tests/support/value_kernels/contents.h"
#include "tests/support/value_kernels/mixing.h"
#include "tests/support/value_kernels/operand_uses.h"
#include "tests/support/value_kernels/value_call.h"

namespace tidepool::value_kernels {
namespace {

using Kind = OperatorFacts::Kind;

thread_local int t_depth = 0;
std::atomic<uint64_t> g_blank_seed{0};
std::atomic<uint64_t> g_blanks{0};

// How many kernels, copies and fills the stand-in device has been given.
uint64_t operations_so_far() {
  using Calls = uint64_t (*)(const char*);
  static const auto calls = reinterpret_cast<Calls>(dlsym(RTLD_DEFAULT, "fake_cuda_calls"));
  TORCH_CHECK(calls != nullptr, "value kernels need the stand-in CUDA device");
  return calls("launch") + calls("copy") + calls("fill");
}

class Depth {
 public:
  Depth() { ++t_depth; }
  ~Depth() { --t_depth; }
  Depth(const Depth&) = delete;
  Depth& operator=(const Depth&) = delete;
};

bool is_nonzero(const char* element, size_t bytes) {
  return std::any_of(element, element + bytes, [](char byte) { return byte != 0; });
}

// The real one would read its size from memory that nobody has written.
at::Tensor places_of_nonzero(const at::Tensor& tensor) {
  const Packed packed = read_contents(tensor);
  const size_t element = tensor.itemsize();
  std::vector<int64_t> places;
  int64_t count = 0;
  for (int64_t k = 0; k < tensor.numel(); ++k) {
    if (!is_nonzero(packed.data() + k * element, element)) continue;
    ++count;
    int64_t rest = k;
    places.resize(count * tensor.dim());
    for (int64_t d = tensor.dim() - 1; d >= 0; --d) {
      places[(count - 1) * tensor.dim() + d] = rest % tensor.size(d);
      rest /= tensor.size(d);
    }
  }
  at::Tensor result = at::empty({count, tensor.dim()}, tensor.options().dtype(at::kLong));
  const auto* bytes = reinterpret_cast<const char*>(places.data());
  write_contents(result, Packed(bytes, bytes + places.size() * sizeof(int64_t)));
  return result;
}

// True if the operator was one whose results the host must know.
bool run_on_host(Kind kind, torch::jit::Stack* stack) {
  if (kind == Kind::kNonzero) {
    at::Tensor tensor = torch::jit::pop(*stack).toTensor();
    stack->emplace_back(places_of_nonzero(tensor));
    return true;
  }
  if (kind == Kind::kEqual) {
    at::Tensor second = torch::jit::pop(*stack).toTensor();
    at::Tensor first = torch::jit::pop(*stack).toTensor();
    stack->emplace_back(first.sizes() == second.sizes() &&
                        read_contents(first) == read_contents(second));
    return true;
  }
  return false;
}

// The longest list among the arguments.
size_t most_elements(const OperatorFacts& facts, const torch::jit::Stack& stack) {
  size_t most = 0;
  for (const c10::IValue& value : torch::jit::last(stack, facts.arguments.size())) {
    if (value.isList()) most = std::max(most, value.toListRef().size());
  }
  return most;
}

void fill_blank(const at::Tensor& tensor) {
  const uint64_t seed = g_blank_seed.load(std::memory_order_relaxed);
  if (seed != 0 && has_contents(tensor)) write_hashed(tensor, mixed(seed, ++g_blanks));
}

}  // namespace

void set_blank_seed(uint64_t seed) { g_blank_seed = seed; }

void ValueKernel::operator()(const c10::OperatorHandle& op, c10::DispatchKeySet keys,
                             torch::jit::Stack* stack) {
  if (facts_.kind == Kind::kBlank) {
    real_.callBoxed(op, keys, stack);
    fill_blank(stack->back().toTensor());
  } else if (facts_.kind == Kind::kShare) {
    if (OperandUses::is_watching()) {
      declare_shared((*stack)[stack->size() - 2].toTensor(), stack->back().toStream());
    }
    real_.callBoxed(op, keys, stack);
  } else if (facts_.by_element && most_elements(facts_, *stack) > 1) {
    run_by_element(op, keys, stack);
  } else {
    run(op, keys, stack);
  }
}

void ValueKernel::run_by_element(const c10::OperatorHandle& op, c10::DispatchKeySet keys,
                                 torch::jit::Stack* stack) {
  const size_t count = most_elements(facts_, *stack);
  const torch::jit::Stack arguments(stack->end() - static_cast<ptrdiff_t>(facts_.arguments.size()),
                                    stack->end());
  torch::jit::drop(*stack, facts_.arguments.size());
  std::vector<c10::impl::GenericList> results;
  for (size_t k = 0; k < count; ++k) {
    torch::jit::Stack one;
    for (const c10::IValue& value : arguments) {
      if (!value.isList() || value.toListRef().empty()) {
        one.push_back(value);
        continue;
      }
      const c10::List<c10::IValue> whole = value.toList();
      c10::impl::GenericList element(whole.elementType());
      element.push_back(whole.get(k));
      one.emplace_back(std::move(element));
    }
    run(op, keys, &one);
    for (size_t r = 0; r < one.size(); ++r) {
      const c10::List<c10::IValue> part = one[r].toList();
      if (k == 0) results.emplace_back(part.elementType());
      results[r].append(part);
    }
  }
  for (c10::impl::GenericList& result : results) stack->emplace_back(std::move(result));
}

void ValueKernel::run(const c10::OperatorHandle& op, c10::DispatchKeySet keys,
                      torch::jit::Stack* stack) {
  const bool is_nested = t_depth > 0;
  const uint64_t operations = operations_so_far();
  std::unique_ptr<CapturedCall> captured;
  if (!is_nested && CapturedCall::is_capturing()) {
    captured = std::make_unique<CapturedCall>(facts_, *stack);
  }
  // What a collective does, on a stream of its own, NCCL's stand-in does and declares.
  const bool is_collective = facts_.name.starts_with("c10d::");
  if (!is_collective) settle_streams();
  ValueCall call(facts_, *stack);
  OperandUses uses;
  const bool watched = OperandUses::is_watching() && !is_collective;
  if (watched) {
    uses.add(*stack, facts_.arguments.size());
    const size_t first = stack->size() - facts_.arguments.size();
    for (size_t k = 0; k < facts_.arguments.size(); ++k) {
      if (facts_.arguments[k].is_written) uses.add_written((*stack)[first + k]);
    }
  }
  {
    Depth depth;
    if (!run_on_host(facts_.kind, stack)) {
      real_.callBoxed(op, keys, stack);
      call.write_results(*stack);
      if (captured) CapturedCall::hand_over(std::move(captured), *stack);
    }
  }
  if (watched) {
    uses.add(*stack, facts_.returns);
    for (size_t k = stack->size() - facts_.returns; k < stack->size(); ++k) {
      uses.add_written((*stack)[k]);
    }
    uses.declare(operations_so_far() > operations);
  }
  call_log().count(facts_.name, call.hash(), operations_so_far() - operations, is_nested);
}

size_t install_value_kernels() {
  static std::mutex mutex;
  static auto* names = new std::unordered_set<c10::OperatorName>;
  static auto* handles = new std::vector<c10::RegistrationHandleRAII>;
  std::lock_guard lock(mutex);
  // PyTorch says once that a kernel is replaced.
  c10::WarningHandler* const handler = c10::WarningUtils::get_warning_handler();
  struct Silent final : c10::WarningHandler {
    void process(const c10::Warning&) override {}
  } silent;
  c10::WarningUtils::set_warning_handler(&silent);
  c10::Dispatcher& dispatcher = c10::Dispatcher::singleton();
  for (const c10::OperatorName& name : dispatcher.getAllOpNames()) {
    const auto op = dispatcher.findOp(name);
    if (!op || !op->hasSchema() || names->contains(name) || !computes_on_cuda(*op) ||
        touches_no_contents(*op)) {
      continue;
    }
    auto kernel = std::make_unique<ValueKernel>(
        OperatorFacts(*op), op->getComputedKernelForDispatchKey(c10::DispatchKey::CUDA));
    handles->push_back(dispatcher.registerImpl(
        name, c10::DispatchKey::CUDA,
        c10::KernelFunction::makeFromBoxedFunctor<ValueKernel>(std::move(kernel)), std::nullopt,
        nullptr, "value kernels"));
    names->insert(name);
  }
  c10::WarningUtils::set_warning_handler(handler);
  return names->size();
}

}  // namespace tidepool::value_kernels
