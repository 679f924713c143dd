// Loops over single operators on tiny tensors, timed; bench/operator_overhead.py switches Tidepool
// on and off between them. A C interface, because the driver is Python. One thread.
#include <ATen/core/Generator.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/add.h>
#include <ATen/ops/bernoulli.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/mul.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/sign.h>
#include <c10/core/CPUAllocator.h>
#include <c10/core/GradMode.h>
#include <time.h>

#include <vector>

namespace {

// Of this thread only: what other processes do to the clock on the wall does not count.
double thread_ns() {
  timespec now;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) * 1e9 + static_cast<double>(now.tv_nsec);
}

c10::DeviceType device = c10::kCPU;  // of the operands

at::Tensor ones(at::IntArrayRef sizes) { return at::ones(sizes, at::device(device)); }

struct Operands {
  at::Tensor one = ones({1});
  at::Tensor other = ones({1});
  at::Tensor target = ones({1});
  at::Tensor square = ones({4, 4});
  std::vector<at::Tensor> pair = {one, other};
};

struct Case {
  const char* name;
  void (*run)(Operands& x, int count);
};

template <typename Call>
void repeat(int count, Call&& call) {
  for (int k = 0; k < count; ++k) call();
}

// Results die at once, unless the case says otherwise.
const Case kCases[] = {
    {"add", [](Operands& x, int n) { repeat(n, [&] { at::add(x.one, x.other); }); }},
    {"t()", [](Operands& x, int n) { repeat(n, [&] { x.square.t(); }); }},
    // On a root: such a write is seen, but has nothing to record.
    {"add_", [](Operands& x, int n) { repeat(n, [&] { x.target.add_(x.other); }); }},
    {"add_ (lineage)",
     [](Operands& x, int n) {
       at::Tensor sum;
       for (int k = 0; k < n; ++k) {
         if (k % 24 == 0) sum = at::mul(x.one, x.other);  // lineage of versions is bounded
         sum.add_(x.other);
       }
     }},
    {"mm", [](Operands& x, int n) { repeat(n, [&] { at::mm(x.square, x.square); }); }},
    {"bernoulli", [](Operands& x, int n) { repeat(n, [&] { at::bernoulli(x.one); }); }},
    {"y = y * x",
     [](Operands& x, int n) {
       at::Tensor y = ones({1});
       repeat(n, [&] { y = at::mul(y, x.other); });
     }},
    {"sign", [](Operands& x, int n) { repeat(n, [&] { at::sign(x.one); }); }},
    {"cat", [](Operands& x, int n) { repeat(n, [&] { at::cat(x.pair); }); }},
};

Operands& operands() {
  static auto* all = new Operands;
  return *all;
}

}  // namespace

#define EXPORT extern "C" __attribute__((visibility("default")))

// Makes the operands, on a CUDA device or the CPU, with the allocator there is now.
EXPORT int operator_overhead_prepare(int cuda) {
  if (cuda) device = c10::kCUDA;
  operands();
  return static_cast<int>(std::size(kCases));
}

EXPORT const char* operator_overhead_name(int which) { return kCases[which].name; }

// Switches to PyTorch's own CPU allocator (1) and back to the one that was installed (0).
EXPORT void operator_overhead_stock_allocator(int on) {
  static c10::Allocator* const installed = c10::GetCPUAllocator();
  c10::SetCPUAllocator(on ? c10::GetDefaultCPUAllocator() : installed, 255);
}

// Runs a case `count` times after a short warm-up and returns nanoseconds for each.
EXPORT double operator_overhead_run(int which, int count) {
  at::NoGradGuard no_grad;
  kCases[which].run(operands(), 50);
  const double start = thread_ns();
  kCases[which].run(operands(), count);
  return (thread_ns() - start) / count;
}
