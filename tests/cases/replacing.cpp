// An extension that replaces kernels of PyTorch's on the CPU, of a composition of operators as
// well. They count their calls, so that a kernel that runs once more gives other bits.
#include <ATen/ATen.h>
#include <torch/library.h>

namespace {

int g_calls = 0;

at::Tensor counted_sin(const at::Tensor& x) {
  at::Tensor made = at::empty_like(x);
  ++g_calls;
  const float* from = x.const_data_ptr<float>();
  float* to = made.mutable_data_ptr<float>();
  for (int64_t k = 0; k < x.numel(); ++k) to[k] = from[k] + static_cast<float>(g_calls);
  return made;
}

at::Tensor counted_addmm(const at::Tensor& bias, const at::Tensor& x, const at::Tensor& y,
                         const at::Scalar&, const at::Scalar&) {
  return at::mm(x, y) + bias + ++g_calls;
}

at::Tensor counted_matmul(const at::Tensor& x, const at::Tensor& y) {
  return at::mm(x, y) + ++g_calls;
}

TORCH_LIBRARY_IMPL(aten, CPU, library) {
  library.impl("sin", &counted_sin);
  library.impl("addmm", &counted_addmm);
  library.impl("matmul", &counted_matmul);
}

}  // namespace
