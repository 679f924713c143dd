#include "bindings/torch/intercept/raw_readers.h"

#include <ATen/TensorSubclassLikeUtils.h>
#include <ATen/core/Formatting.h>
#include <ATen/core/Tensor.h>
#include <ATen/core/stack.h>

#include <algorithm>
#include <array>
#include <deque>
#include <iterator>
#include <memory>
#include <ostream>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "bindings/torch/base/devices.h"
#include "bindings/torch/engine/engine.h"
#include "bindings/torch/intercept/interception.h"
#include "bindings/torch/intercept/operands/argument_tracking.h"
#include "bindings/torch/intercept/operands/tensor_components.h"
#include "bindings/torch/storage/storage_access.h"
#include "remat/operator_call.h"

namespace tidepool::torch_glue {
namespace {

// A composite operator that reads raw memory, with all its overloads. `arguments`: those that it
// reads, mostly lengths and indices. If there are none, it reads or writes intermediates of its
// own: then all arguments are held, the operators that it is made of run unseen, and its results
// are roots. `written`: an argument that it writes though its schema says otherwise. `converts`:
// what it makes of its arguments before it reads them, if no gradient is asked for. These operators
// were found by looking through libtorch_cpu for composite operators that ask for data pointers,
// and by running PyTorch's database of operators without autograd.
enum class Conversion { kNone, kContiguous, kContiguousLongs };
struct RawReader {
  std::string_view name;
  std::array<std::string_view, 2> arguments = {};
  std::string_view written = {};
  Conversion converts = Conversion::kNone;
  // It takes no tensor, and has one composition for all devices. The dispatcher picks its device
  // past our key, so that what it is made of would be seen.
  bool takes_none = false;
  bool is_opaque() const { return arguments[0].empty(); }
};
constexpr RawReader kKaiserWindow = {"aten::kaiser_window", {}, {}, Conversion::kNone, true};
constexpr std::array kRawReaders = {
    RawReader{"aten::tensor_split", {"tensor_indices_or_sections"}},
    RawReader{"aten::max_pool1d", {"self"}, {}, Conversion::kContiguous},
    RawReader{
        "aten::ctc_loss", {"input_lengths", "target_lengths"}, {}, Conversion::kContiguousLongs},
    RawReader{"aten::_reshape_from_tensor", {"shape"}},
    RawReader{"aten::_pad_packed_sequence", {"batch_sizes"}},
    RawReader{"aten::_pack_padded_sequence_backward", {"batch_sizes"}},
    RawReader{"aten::lstm", {"batch_sizes"}},
    RawReader{"aten::gru", {"batch_sizes"}},
    RawReader{"aten::rnn_tanh", {"batch_sizes"}},
    RawReader{"aten::rnn_relu", {"batch_sizes"}},
    RawReader{"aten::quantile"},
    RawReader{"aten::nanquantile"},
    RawReader{"aten::sparse_coo_tensor"},
    RawReader{"aten::_sparse_coo_tensor_unsafe"},
    RawReader{"aten::_validate_sparse_coo_tensor_args"},
    RawReader{"aten::_sobol_engine_draw"},
    RawReader{"aten::_sobol_engine_ff_"},
    RawReader{"aten::_sobol_engine_scramble_"},
    RawReader{"aten::_sobol_engine_initialize_state_"},
    RawReader{"aten::_rowwise_prune"},
    RawReader{"aten::choose_qparams_optimized"},
    RawReader{"aten::_saturate_weight_to_fp16", {}, "weight"},
    RawReader{"aten::fbgemm_pack_quantized_matrix"},
    RawReader{"aten::fbgemm_pack_gemm_matrix_fp16"},
    RawReader{"aten::fbgemm_linear_quantize_weight"},
    RawReader{"aten::fbgemm_linear_fp16_weight"},
    RawReader{"aten::fbgemm_linear_fp16_weight_fp32_activation"},
    RawReader{"aten::fbgemm_linear_int8_weight"},
    RawReader{"aten::fbgemm_linear_int8_weight_fp32_activation"},
    kKaiserWindow,
};

// All other composite operators of PyTorch's with outputs, which they may resize by themselves.
constexpr RawReader kResizer = {"", {"out"}};

// On CUDA: before cuDNN's recurrent layers run, whether the weights lie in one buffer is found by
// comparing their addresses. What else reads elements there reads them on the host.
constexpr std::array kDeviceRawReaders = {
    RawReader{"aten::lstm", {"params"}},
    RawReader{"aten::gru", {"params"}},
    RawReader{"aten::rnn_tanh", {"params"}},
    RawReader{"aten::rnn_relu", {"params"}},
    kKaiserWindow,
};
std::span<const RawReader> raw_readers() {
  if (host_is_foreign()) return kDeviceRawReaders;
  return kRawReaders;
}

// A scope that keeps tensors of an engine resident and locked. All its functions but the
// constructor require the device's lock.
class Held {
 public:
  explicit Held(Engine& engine) : engine_(engine), call_(engine.runtime()) {}

  void add(const at::Tensor& tensor, bool written) {
    c10::StorageImpl* storage = storage_of(tensor.unsafeGetTensorImpl());
    if (storage == nullptr || engine_of(storage) != &engine_) return;
    const c10::DataPtr& data = storage->_mutable_data_ptr_no_checks();
    const bool resident = holds_block(data) && engine_.allocator().contains(data.get());
    if (!is_evicted(data) && !resident) return;
    // Also what no operator has used so far: those inside would make it evictable.
    call_.add(track_argument(engine_, tensor.unsafeGetTensorImpl(), written),
              written ? remat::Access::kUpdate : remat::Access::kRead);
  }
  void restore(DeviceLock& lock) { call_.prepare(lock); }

 private:
  Engine& engine_;
  remat::OperatorCall call_;  // never finished: what it writes are roots, its locks go with it
};

struct Argument {
  int index;
  bool written;
};
using Arguments = absl::InlinedVector<Argument, 4>;

class RawReaderKernel final : public c10::OperatorKernel {
 public:
  RawReaderKernel(c10::SafeKernelFunction kernel, const Arguments& arguments,
                  const RawReader& reader)
      : kernel_(std::move(kernel)), arguments_(arguments), reader_(reader) {}

  void operator()(const c10::OperatorHandle& op, c10::DispatchKeySet keys,
                  torch::jit::Stack* stack) {
    if (!is_thread_intercepted() || is_below_interception()) {
      kernel_.callBoxed(op, keys, stack);
      return;
    }
    const auto values = torch::jit::last(*stack, op.schema().arguments().size());
    if (reader_.converts != Conversion::kNone) convert(values.data(), *stack);
    // The tensors themselves are kept, too, because the operator takes its arguments off the stack.
    const std::vector<c10::IValue> kept(values.begin(), values.end());
    std::deque<Held> held;
    for_each_engine([&](Engine& engine) { hold(engine, held.emplace_back(engine), kept); });
    if (!reader_.is_opaque()) return kernel_.callBoxed(op, keys, stack);
    BelowInterception below;
    kernel_.callBoxed(op, keys, stack);
    for (const c10::IValue& result : torch::jit::last(*stack, op.schema().returns().size())) {
      if (result.isTensor()) keep_components(result.toTensor());
    }
  }

 private:
  // What a sparse tensor is made of stays where it is. Requires: it is held.
  static void keep_components(const at::Tensor& tensor) {
    if (!tensor.defined()) return;
    for (const at::Tensor& component : components_of(tensor.unsafeGetTensorImpl())) {
      c10::StorageImpl* storage = storage_of(component.unsafeGetTensorImpl());
      Engine* const engine = storage != nullptr ? engine_of(storage) : nullptr;
      if (engine == nullptr) continue;
      DeviceLock lock(engine->mutex());
      remat::Storage* const tracked = find_tracked(*engine, storage, remat::RootReason::kNone);
      if (tracked != nullptr) tracked->fixed = true;
    }
  }

  // The conversion is made here, because nothing would hold a copy that the operator makes. Those
  // that PyTorch differentiates or that wrap others it converts by operators, if at all.
  void convert(const c10::IValue* values, torch::jit::Stack& stack) const {
    const size_t base = values - stack.data();
    for (const Argument& argument : arguments_) {
      c10::IValue& value = stack[base + argument.index];
      if (!value.isTensor() || !value.toTensor().device().is_cpu()) continue;
      const at::Tensor tensor = value.toTensor();
      if (at::isTensorSubclassLike(tensor)) continue;
      if (reader_.converts == Conversion::kContiguous) {
        const bool differentiated = (tensor.requires_grad() && at::GradMode::is_enabled()) ||
                                    tensor._fw_grad(/*level=*/0).defined();
        if (!differentiated && !tensor.is_quantized()) value = tensor.contiguous();
      } else if (c10::isIntegralType(tensor.scalar_type(), false)) {
        value = tensor.to(at::kLong).contiguous();
      }
    }
  }

  void hold(Engine& engine, Held& held, const std::vector<c10::IValue>& values) const {
    try {
      DeviceLock lock(engine.mutex());
      for (const Argument& argument : arguments_) {
        const c10::IValue& value = values[argument.index];
        if (value.isTensor() && value.toTensor().defined()) {
          held.add(value.toTensor(), argument.written);
        }
        if (!value.isTensorList()) continue;
        for (const at::Tensor& each : value.toTensorList()) held.add(each, argument.written);
      }
      held.restore(lock);
    } catch (const OutOfMemory&) {
      rethrow_as_torch_error(engine);
    }
  }

  c10::SafeKernelFunction kernel_;
  Arguments arguments_;
  const RawReader& reader_;
};

Arguments arguments_of(const RawReader& reader, const c10::FunctionSchema& schema) {
  Arguments found;
  for (int k = 0; k < static_cast<int>(schema.arguments().size()); ++k) {
    const c10::Argument& argument = schema.arguments()[k];
    const bool named = std::find(reader.arguments.begin(), reader.arguments.end(),
                                 argument.name()) != reader.arguments.end();
    if (!named && !argument.is_out() && !reader.is_opaque()) continue;
    // What others write for the operator is seen as theirs.
    const bool written = argument.name() == reader.written ||
                         (reader.is_opaque() && argument.alias_info() != nullptr &&
                          argument.alias_info()->isWrite());
    found.push_back({k, written});
  }
  return found;
}

}  // namespace

bool has_raw_readers_kernel(const c10::OperatorName& name) {
  const auto readers = raw_readers();
  return std::any_of(readers.begin(), readers.end(), [&](const RawReader& reader) {
    return reader.takes_none && reader.name == name.name;
  });
}

void register_raw_readers(std::vector<c10::RegistrationHandleRAII>& handles) {
  c10::Dispatcher& dispatcher = c10::Dispatcher::singleton();
  const auto readers = raw_readers();
  const bool cuda = host_is_foreign();
  const c10::DispatchKey device = cuda ? c10::DispatchKey::CUDA : c10::DispatchKey::CPU;
  const c10::DispatchKey autograd =
      cuda ? c10::DispatchKey::AutogradCUDA : c10::DispatchKey::AutogradCPU;
  const std::array layouts = {
      cuda ? c10::DispatchKey::SparseCUDA : c10::DispatchKey::SparseCPU,
      cuda ? c10::DispatchKey::SparseCsrCUDA : c10::DispatchKey::SparseCsrCPU,
  };
  for (const c10::OperatorName& name : dispatcher.getAllOpNames()) {
    const auto listed =
        std::find_if(readers.begin(), readers.end(),
                     [&](const RawReader& candidate) { return candidate.name == name.name; });
    const RawReader& reader = listed != readers.end() ? *listed : kResizer;
    const auto op = dispatcher.findOp(name);
    if (!op || !op->hasSchema()) continue;
    const bool takes_none =
        reader.takes_none && op->hasKernelForDispatchKey(c10::DispatchKey::BackendSelect);
    if (!takes_none && !is_composite_only(*op)) continue;
    if (!std::string_view(name.name).starts_with("aten::")) continue;
    const Arguments arguments = arguments_of(reader, op->schema());
    if (arguments.empty()) continue;
    // With autograd these run as their tensors' autograd kernel; in inference mode, and below
    // autograd, on our key, or that of the layout that they make.
    std::vector<c10::DispatchKey> keys = {autograd, kInterceptionKey};
    if (takes_none) keys = {device};
    if (name.name.find("sparse") != std::string::npos) {
      std::copy_if(layouts.begin(), layouts.end(), std::back_inserter(keys),
                   [&](c10::DispatchKey key) { return !op->hasKernelForDispatchKey(key); });
    }
    for (const c10::DispatchKey key : keys) {
      auto kernel = std::make_unique<RawReaderKernel>(op->getComputedKernelForDispatchKey(device),
                                                      arguments, reader);
      handles.push_back(dispatcher.registerImpl(
          name, key, c10::KernelFunction::makeFromBoxedFunctor(std::move(kernel)), std::nullopt,
          nullptr, "tidepool"));
    }
  }
}

std::ostream& print_tensor(std::ostream& stream, const at::Tensor& tensor, int64_t width) {
  constexpr c10::DispatchKeySet kWrappers = c10::python_ks | c10::functorch_transforms_ks |
                                            c10::functorch_batched_ks |
                                            c10::DispatchKeySet(c10::DispatchKey::Functionalize);
  const bool is_wrapper = tensor.defined() && tensor.key_set().has_any(kWrappers);
  if (!is_thread_intercepted() || is_wrapper) return at::print(stream, tensor, width);
  const auto held = hold_tensors({&tensor, 1});
  BelowInterception below;  // it reads what it computes from the tensor by itself, too
  return at::print(stream, tensor, width);
}

}  // namespace tidepool::torch_glue
