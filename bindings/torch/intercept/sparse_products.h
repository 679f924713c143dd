// Products of a sparse and a dense matrix on the CPU, which are run by operators of ours,
// `tidepool::sparse_product` and, where sums or means are asked for by name,
// `tidepool::sparse_reduction`: their operands are the sparse one's components, which are dense, so
// that they are recorded and run again like any other. Their kernel puts these together, and calls
// the kernel of PyTorch's that was there when the plugin was installed.
// The functions that register are called once, before operators are intercepted; the others are
// thread safe.
#pragma once

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>

#include <optional>
#include <vector>

namespace tidepool::torch_glue {

// A kernel of PyTorch's that a product may be run by. It lives as long as the process.
struct ProductKernel {
  c10::OperatorHandle op;
  c10::DispatchKey key;
  const c10::SafeKernelFunction* kernel;
};

// Whether it is one of the operators whose products are run so.
bool is_sparse_product(const c10::OperatorName& name);
// Remembers a kernel of such an operator, and returns its number.
int64_t remember_product_kernel(const ProductKernel& kernel);
void register_sparse_products(std::vector<c10::RegistrationHandleRAII>& handles);

// Runs the operator's call, whose arguments are on the stack, as a product, and puts the results in
// their place. False: it is no product of one sparse and one dense matrix, or holds more than what
// can be put together again; nothing has happened. Requires: the thread is intercepted.
bool run_as_product(int64_t kernel, torch::jit::Stack* stack);

}  // namespace tidepool::torch_glue
