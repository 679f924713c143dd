#include "bindings/torch/intercept/sparse_products.h"

#include <ATen/SparseCsrTensorImpl.h>
#include <ATen/SparseTensorImpl.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <torch/csrc/jit/frontend/function_schema_parser.h>

#include <algorithm>
#include <array>
#include <iterator>
#include <string>
#include <string_view>
#include <utility>

#include "bindings/torch/base/name_lists.h"
#include "bindings/torch/calls/operator_info.h"
#include "bindings/torch/intercept/operands/call_arguments.h"
#include "bindings/torch/intercept/operands/tensor_components.h"

namespace tidepool::torch_glue {
namespace {

constexpr std::array kProducts = {"aten::mm", "aten::addmm", "aten::_sparse_mm_reduce_impl"};

// The arguments of our operators. `kernel`: of remember_product_kernel(). `place`: of the sparse
// matrix among the tensors of that kernel's operator. What this does not take is absent.
constexpr const char* kArguments =
    "(int kernel, int place, Tensor[] components, int[] sizes, int layout, int sparse_dimensions, "
    "bool coalesced, Tensor dense, Tensor? addend, Scalar? beta, Scalar? alpha, str? reduce) -> ";
enum Index : size_t {
  kKernel,
  kPlace,
  kComponents,
  kSizes,
  kLayout,
  kSparseDimensions,
  kCoalesced,
  kDense,
  kAddend,
  kBeta,
  kAlpha,
  kReduce,
  kCount
};

// Which of our arguments stands for one of PyTorch's operators that is no tensor.
size_t index_named(const std::string& name) {
  if (name == "beta") return kBeta;
  return name == "alpha" ? kAlpha : kReduce;
}

std::vector<ProductKernel>& product_kernels() {
  static auto* all = new std::vector<ProductKernel>;
  return *all;
}

const c10::OperatorHandle& our_operator(const c10::OperatorHandle& op) {
  const auto find = [](std::string_view name) {
    return c10::Dispatcher::singleton().findSchemaOrThrow(name.data(), "");
  };
  static const c10::OperatorHandle product = find(kSparseProduct);
  static const c10::OperatorHandle reduction = find(kSparseReduction);
  return op.schema().returns().size() == 1 ? product : reduction;
}

// Whether the tensor is a sparse matrix without anything that composed() does not give it.
bool is_composable(const c10::TensorImpl& tensor) {
  constexpr c10::DispatchKeySet kKeys({c10::DispatchKey::SparseCPU, c10::DispatchKey::SparseCsrCPU,
                                       c10::DispatchKey::ADInplaceOrView,
                                       c10::DispatchKey::AutogradCPU,
                                       c10::DispatchKey::AutocastCPU});
  const c10::Layout layout = tensor.layout();
  const bool is_known =
      layout == c10::kSparse || layout == c10::kSparseCsr || layout == c10::kSparseCsc;
  return is_known && (tensor.key_set().raw_repr() & ~kKeys.raw_repr()) == 0 &&
         !tensor.has_symbolic_sizes_strides();
}

// Whether the tensor is a plain dense one. PyTorch has an operator on conjugated or negated looks
// reach its kernel as it lists the operator; ours would have these computed first.
bool is_plain_dense(const c10::TensorImpl& tensor) {
  constexpr c10::DispatchKeySet kLooks(
      {c10::DispatchKey::Conjugate, c10::DispatchKey::Negative, c10::DispatchKey::ZeroTensor});
  return is_supported(&tensor) && !tensor.key_set().has_any(kLooks);
}

at::Tensor composed(c10::Layout layout, c10::IntArrayRef sizes, int64_t sparse_dimensions,
                    bool coalesced, const std::vector<at::Tensor>& components) {
  const at::Tensor& values = components.back();
  if (layout == c10::kSparse) {
    at::Tensor made = at::detail::make_tensor<at::SparseTensorImpl>(
        c10::DispatchKeySet(c10::DispatchKey::SparseCPU), values.dtype());
    auto* sparse = static_cast<at::SparseTensorImpl*>(made.unsafeGetTensorImpl());
    const int64_t dense_dimensions = static_cast<int64_t>(sizes.size()) - sparse_dimensions;
    sparse->raw_resize_(sparse_dimensions, dense_dimensions, sizes);
    sparse->set_indices_and_values_unsafe(components[0], values);
    sparse->set_coalesced(coalesced);
    return made;
  }
  at::Tensor made = at::detail::make_tensor<at::SparseCsrTensorImpl>(
      c10::DispatchKeySet(c10::DispatchKey::SparseCsrCPU), values.device(), layout, values.dtype());
  static_cast<at::SparseCsrTensorImpl*>(made.unsafeGetTensorImpl())
      ->set_member_tensors(components[0], components[1], values, sizes);
  return made;
}

// The kernel of our operators.
void run_product(const c10::OperatorHandle&, c10::DispatchKeySet, torch::jit::Stack* stack) {
  const std::vector<c10::IValue> given(stack->end() - kCount, stack->end());
  torch::jit::drop(*stack, kCount);
  const ProductKernel& kernel = product_kernels().at(given[kKernel].toInt());
  const at::Tensor sparse =
      composed(static_cast<c10::Layout>(given[kLayout].toInt()), given[kSizes].toIntVector(),
               given[kSparseDimensions].toInt(), given[kCoalesced].toBool(),
               given[kComponents].toTensorVector());
  const auto place = static_cast<size_t>(given[kPlace].toInt());
  bool adds = !given[kAddend].isNone();
  size_t tensors = 0;
  for (const c10::Argument& argument : kernel.op.schema().arguments()) {
    if (argument.type()->kind() != c10::TypeKind::TensorType) {
      stack->push_back(given[index_named(argument.name())]);
    } else if (tensors++ == place) {
      stack->emplace_back(sparse);
    } else {
      stack->push_back(given[std::exchange(adds, false) ? kAddend : kDense]);
    }
  }
  kernel.kernel->callBoxed(kernel.op, c10::DispatchKeySet(kernel.key), stack);
}

}  // namespace

bool is_sparse_product(const c10::OperatorName& name) {
  return name.overload_name.empty() && lists(kProducts, name.name);
}

int64_t remember_product_kernel(const ProductKernel& kernel) {
  product_kernels().push_back(kernel);
  return static_cast<int64_t>(product_kernels().size()) - 1;
}

void register_sparse_products(std::vector<c10::RegistrationHandleRAII>& handles) {
  c10::Dispatcher& dispatcher = c10::Dispatcher::singleton();
  const auto add = [&](std::string_view name, const char* results) {
    const std::string schema = std::string(name) + kArguments + results;
    handles.push_back(dispatcher.registerDef(torch::jit::parseSchema(schema), "tidepool"));
    handles.push_back(
        dispatcher.registerImpl({std::string(name), ""}, c10::DispatchKey::CPU,
                                c10::KernelFunction::makeFromBoxedFunction<&run_product>(),
                                std::nullopt, nullptr, "tidepool"));
  };
  add(kSparseProduct, "Tensor");
  add(kSparseReduction, "(Tensor, Tensor)");
}

namespace {

// The tensors that an operator of PyTorch's is given, as our operators take them.
struct Matrices {
  c10::TensorImpl* sparse = nullptr;
  size_t place = 0;
  c10::IValue dense, addend;
};

// Absent: they are not one sparse and one dense matrix, and perhaps a dense one before these.
std::optional<Matrices> matrices_among(const c10::FunctionSchema& schema,
                                       const c10::IValue* arguments) {
  Matrices found;
  std::vector<const c10::IValue*> dense;
  size_t tensors = 0;
  for (size_t k = 0; k < schema.arguments().size(); ++k) {
    if (schema.arguments()[k].type()->kind() != c10::TypeKind::TensorType) continue;
    const c10::IValue& value = arguments[k];
    if (!value.isTensor() || !value.toTensor().defined()) return std::nullopt;
    c10::TensorImpl* const tensor = value.unsafeToTensorImpl();
    if (is_plain_dense(*tensor)) {
      dense.push_back(&value);
    } else {
      if (found.sparse != nullptr || !is_composable(*tensor)) return std::nullopt;
      found.sparse = tensor;
      found.place = tensors;
    }
    ++tensors;
  }
  const bool adds = tensors == 3;
  if (found.sparse == nullptr || dense.size() != tensors - 1 || (adds && found.place == 0)) {
    return std::nullopt;
  }
  found.dense = *dense.back();
  if (adds) found.addend = *dense.front();
  return found;
}

}  // namespace

bool run_as_product(int64_t kernel, torch::jit::Stack* stack) {
  const c10::OperatorHandle& op = product_kernels()[kernel].op;
  const auto& arguments = op.schema().arguments();
  const auto given = torch::jit::last(*stack, arguments.size());
  const std::optional<Matrices> matrices = matrices_among(op.schema(), given.data());
  if (!matrices) return false;
  c10::TensorImpl* const sparse = matrices->sparse;
  const bool has_coordinates = sparse->layout() == c10::kSparse;
  const auto components = components_of(sparse);
  const bool plain = std::all_of(components.begin(), components.end(), [](const at::Tensor& each) {
    return is_plain_dense(*each.unsafeGetTensorImpl());
  });
  if (!plain || components.size() != (has_coordinates ? 2 : 3)) return false;
  torch::jit::Stack ours(kCount);
  ours[kKernel] = kernel;
  ours[kPlace] = static_cast<int64_t>(matrices->place);
  ours[kComponents] = c10::List<at::Tensor>({components.data(), components.size()});
  ours[kSizes] = sparse->sizes().vec();
  ours[kLayout] = static_cast<int64_t>(sparse->layout());
  const auto* coordinates = has_coordinates ? static_cast<at::SparseTensorImpl*>(sparse) : nullptr;
  ours[kSparseDimensions] = has_coordinates ? coordinates->sparse_dim() : int64_t{0};
  ours[kCoalesced] = has_coordinates && coordinates->coalesced();
  ours[kDense] = matrices->dense;
  ours[kAddend] = matrices->addend;
  for (size_t k = 0; k < arguments.size(); ++k) {
    if (given[k].isTensor()) continue;
    // Of extremes the kernel says where they are from if gradients are asked for: not in a replay.
    if (given[k].isString() && given[k].toStringRef() != "mean" && given[k].toStringRef() != "sum")
      return false;
    ours[index_named(arguments[k].name())] = given[k];
  }
  const at::AutoDispatchBelowADInplaceOrView below_autograd;
  our_operator(op).callBoxed(&ours);
  torch::jit::drop(*stack, arguments.size());
  std::move(ours.begin(), ours.end(), std::back_inserter(*stack));
  return true;
}

}  // namespace tidepool::torch_glue
