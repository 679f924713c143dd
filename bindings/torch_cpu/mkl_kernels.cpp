#include "bindings/torch_cpu/mkl_kernels.h"

#include <ATen/CPUFunctions.h>
#include <ATen/EmptyTensor.h>

namespace tidepool::torch_cpu {

void choose_mkl_kernels() {
  // The calls go below the dispatcher, so that neither autograd nor a mode of the job sees them.
  for (const at::ScalarType type : {at::kFloat, at::kDouble}) {
    at::Tensor x = at::detail::empty_cpu({1}, at::TensorOptions(type));
    at::cpu::fill_(x, 0.5);
    for (const auto function :
         {&at::cpu::acos,   &at::cpu::asin, &at::cpu::atan,   &at::cpu::cos,   &at::cpu::cosh,
          &at::cpu::erf,    &at::cpu::erfc, &at::cpu::erfinv, &at::cpu::exp,   &at::cpu::expm1,
          &at::cpu::lgamma, &at::cpu::log,  &at::cpu::log10,  &at::cpu::log1p, &at::cpu::log2,
          &at::cpu::sin,    &at::cpu::sinh, &at::cpu::sqrt,   &at::cpu::tan,   &at::cpu::tanh,
          &at::cpu::trunc}) {
      function(x);
    }
  }
}

}  // namespace tidepool::torch_cpu
