// OwnKernels: kernels that stand in the place of PyTorch's own: those that the job has put there,
// those in Python that PyTorch itself calls for some calls of an operator, and the routers, in
// Python, too, that choose these (torch._native). Another operator may call them inside, where
// nothing is intercepted. Counts of what has run belong to the calling thread.
#pragma once

#include <atomic>
#include <cstdint>
#include <optional>
#include <vector>

#include "bindings/torch/calls/operator_info.h"
#include "bindings/torch/intercept/operands/untrusted_call.h"

namespace tidepool::torch_glue {

class OwnKernels {
 public:
  // What has run on the calling thread until now.
  static OwnKernels so_far() { return t_so_far; }
  static void note() { ++t_so_far.kernels_; }
  static void note_router() { ++t_so_far.routers_; }
  // Whether a call of this operator, which has begun when `before` was all, can be run again. None
  // can in which such a kernel ran, or which may go another way next time: of a routed operator
  // that has come to its own kernel, this one is what runs again.
  static bool allow_replay(const OperatorInfo& info, const OwnKernels& before);

  // Whether the job has put any kernel in the place of one of PyTorch's. It may draw, or wait for
  // threads that draw, inside of an operator that draws, which holds the generator's lock while it
  // is recorded. So operators that draw are not recorded from then on.
  static bool may_draw() { return g_may_draw.load(std::memory_order_relaxed); }
  static void note_that_they_may_draw() { g_may_draw.store(true, std::memory_order_relaxed); }

 private:
  uint64_t kernels_ = 0;
  uint64_t routers_ = 0;

  static constinit thread_local OwnKernels t_so_far;
  static std::atomic<bool> g_may_draw;
};

// A scope in which the calling thread runs such a kernel. What this does is seen, also inside of
// another operator: the operands of its operators are there, what they write is known to be
// written, and their results stay.
class OwnKernelScope {
 public:
  OwnKernelScope();
  ~OwnKernelScope();
  OwnKernelScope(const OwnKernelScope&) = delete;
  OwnKernelScope& operator=(const OwnKernelScope&) = delete;

 private:
  const bool within_;  // of another operator, and that is not run again
  std::optional<UntrustedCall> untrusted_;
};

// Puts such scopes around those of the job's kernels for the CPU whose registration was not seen:
// that were there before operators were intercepted, or that a library in C++ has brought. To be
// called again when some may have been taken away, or have come. Returns the names of their
// operators. Does nothing on other devices, where PyTorch's own kernels cannot be told from the
// job's. Thread safe.
std::vector<c10::OperatorName> wrap_own_kernels();

}  // namespace tidepool::torch_glue
