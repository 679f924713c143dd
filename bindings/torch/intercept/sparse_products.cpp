#include "bindings/torch/intercept/sparse_products.h"

#include <ATen/SparseCsrTensorImpl.h>
#include <ATen/SparseTensorImpl.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <torch/csrc/jit/frontend/function_schema_parser.h>

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

#include "bindings/torch/base/name_lists.h"
#include "bindings/torch/calls/operator_info.h"
#include "bindings/torch/intercept/operands/call_arguments.h"
#include "bindings/torch/intercept/operands/tensor_components.h"

namespace tidepool::torch_glue {
namespace {

constexpr std::array kProducts = {"aten::mm", "aten::addmm"};

// The arguments of our operator. `kernel`: of remember_product_kernel(). `place`: of the sparse
// matrix among its arguments. Where the operator adds nothing, `addend` is absent.
constexpr const char* kSchema =
    "(int kernel, int place, Tensor[] components, int[] sizes, int layout, int sparse_dimensions, "
    "bool coalesced, Tensor dense, Tensor? addend, Scalar beta, Scalar alpha) -> Tensor";
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
  kCount
};

std::vector<ProductKernel>& product_kernels() {
  static auto* all = new std::vector<ProductKernel>;
  return *all;
}

const c10::OperatorHandle& our_operator() {
  static const c10::OperatorHandle handle =
      c10::Dispatcher::singleton().findSchemaOrThrow(kSparseProduct.data(), "");
  return handle;
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

// The kernel of our operator.
void run_product(const c10::OperatorHandle&, c10::DispatchKeySet, torch::jit::Stack* stack) {
  const std::vector<c10::IValue> given(stack->end() - kCount, stack->end());
  torch::jit::drop(*stack, kCount);
  const ProductKernel& kernel = product_kernels().at(given[kKernel].toInt());
  const at::Tensor sparse =
      composed(static_cast<c10::Layout>(given[kLayout].toInt()), given[kSizes].toIntVector(),
               given[kSparseDimensions].toInt(), given[kCoalesced].toBool(),
               given[kComponents].toTensorVector());
  const auto place = static_cast<size_t>(given[kPlace].toInt());
  const bool adds = !given[kAddend].isNone();
  if (adds) stack->push_back(given[kAddend]);
  const size_t first = adds ? 1 : 0;
  stack->push_back(place == first ? c10::IValue(sparse) : given[kDense]);
  stack->push_back(place == first ? given[kDense] : c10::IValue(sparse));
  if (adds) stack->insert(stack->end(), {given[kBeta], given[kAlpha]});
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

void register_sparse_product(std::vector<c10::RegistrationHandleRAII>& handles) {
  c10::Dispatcher& dispatcher = c10::Dispatcher::singleton();
  const std::string name(kSparseProduct);
  handles.push_back(dispatcher.registerDef(torch::jit::parseSchema(name + kSchema), "tidepool"));
  handles.push_back(dispatcher.registerImpl(
      {name, ""}, c10::DispatchKey::CPU, c10::KernelFunction::makeFromBoxedFunction<&run_product>(),
      std::nullopt, nullptr, "tidepool"));
}

bool run_as_product(int64_t kernel, torch::jit::Stack* stack) {
  const c10::OperatorHandle& op = product_kernels()[kernel].op;
  const size_t count = op.schema().arguments().size();
  const size_t matrices = count == 2 ? 2 : 3;  // those of `addmm` come after what is added
  const size_t base = stack->size() - count;
  std::optional<size_t> place;
  for (size_t k = 0; k < matrices; ++k) {
    if (!(*stack)[base + k].isTensor()) return false;
    const at::Tensor& tensor = (*stack)[base + k].toTensor();
    if (!tensor.defined()) return false;
    if (is_supported(tensor.unsafeGetTensorImpl())) continue;
    if (place || !is_composable(*tensor.unsafeGetTensorImpl())) return false;
    place = k;
  }
  const bool adds = matrices == 3;
  const size_t first = adds ? 1 : 0;
  if (!place || *place < first) return false;
  c10::TensorImpl* const sparse = (*stack)[base + *place].unsafeToTensorImpl();
  const auto components = components_of(sparse);
  const bool plain = std::all_of(components.begin(), components.end(), [](const at::Tensor& each) {
    return is_supported(each.unsafeGetTensorImpl());
  });
  if (!plain || components.size() != (sparse->layout() == c10::kSparse ? 2 : 3)) return false;
  int64_t sparse_dimensions = 0;
  bool coalesced = false;
  if (sparse->layout() == c10::kSparse) {
    auto* coordinates = static_cast<at::SparseTensorImpl*>(sparse);
    sparse_dimensions = coordinates->sparse_dim();
    coalesced = coordinates->coalesced();
  }
  const size_t other = *place == first ? first + 1 : first;
  torch::jit::Stack arguments;
  torch::jit::push(
      arguments, kernel, static_cast<int64_t>(*place),
      std::vector<at::Tensor>(components.begin(), components.end()), sparse->sizes().vec(),
      static_cast<int64_t>(sparse->layout()), sparse_dimensions, coalesced,
      (*stack)[base + other].toTensor(), adds ? (*stack)[base] : c10::IValue(),
      adds ? (*stack)[base + 3] : c10::IValue(1), adds ? (*stack)[base + 4] : c10::IValue(1));
  const at::AutoDispatchBelowADInplaceOrView below_autograd;
  our_operator().callBoxed(&arguments);
  torch::jit::drop(*stack, count);
  stack->push_back(std::move(arguments.back()));
  return true;
}

}  // namespace tidepool::torch_glue
