// DeviceKernel: the kernel that an operator has for tensors of the engines' devices. A replay runs
// the one that was there at first, and finds out whether another has taken its place.
#pragma once

#include <ATen/core/boxing/KernelFunction.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <c10/core/Device.h>

#include <atomic>
#include <string>

namespace tidepool::torch_glue {

// Thread safe: what other threads may be reading is replaced, not changed, and stays.
class DeviceKernel {
 public:
  // Takes the kernel that is there now for the operator's own; there may be none.
  void remember(const c10::OperatorHandle& op);
  // What is there now has been put before the operator's own kernel. It either calls kernels that
  // tell when they run, or passes on to that one, which is the one to replay.
  void note_router();
  // Whether there is now another kernel than the own one or its router.
  bool is_replaced() const;
  bool has_router() const;
  bool is_of_torch() const;  // as is_kernel_of_torch()
  // Runs the operator's own kernel.
  void call(const c10::OperatorHandle& op, torch::jit::Stack& stack, c10::Device device) const;

 private:
  struct Known {
    c10::KernelFunction own;
    c10::KernelFunction router;  // not valid if there is none
  };

  std::atomic<const c10::KernelFunction*> slot_{nullptr};  // the dispatcher's; written after known_
  std::atomic<const Known*> known_{nullptr};
};

// The dispatcher's entry for a key; nullptr if the operator has no kernel for it.
const c10::KernelFunction* kernel_of(const c10::OperatorHandle& op, c10::DispatchKey key);

// The path of the library that has the operator's kernel for tensors of the engines' devices; "" if
// that is not known, or there is none. Thread safe.
std::string kernel_library(const c10::OperatorHandle& op);

// False if the operator's kernel for the key is one that a job has put in the place of PyTorch's.
// It is noticed for keys of the CPU only. Thread safe.
bool is_kernel_of_torch(const c10::OperatorHandle& op, c10::DispatchKey key);

}  // namespace tidepool::torch_glue
