// OperandUses: declares the operands of operators to the race checker of the stand-in device, as
// used by the newest operation of the stream that is current on their device. Nothing that guards
// tensors against raw pointers notices. Who hands memory out must be declared, too
// (Device.watch_allocator() of tests/support/standin.py).
// Holds the storages from when they are added until it ends. Used by one thread.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/stack.h>
#include <c10/core/Storage.h>
#include <c10/core/Stream.h>

#include <vector>

namespace tidepool::value_kernels {

class OperandUses {
 public:
  // Off at first; for all threads, from now on.
  static void watch(bool on);
  static bool is_watching();

  // Adds the CUDA tensors among the `count` topmost values, in lists too, or of one value.
  void add(const torch::jit::Stack& stack, size_t count);
  void add_written(const c10::IValue& value);
  // `launched`: the operator has launched something, so that what it writes is written on the
  // device.
  void declare(bool launched) const;

 private:
  void add(const c10::IValue& value);

  std::vector<c10::Storage> storages_;
  std::vector<at::Tensor> written_;
};

// Waits for what other processes have to do before the next operation of the current streams.
void settle_streams();

// Declares a tensor's memory used on another stream from now on, as record_stream does.
void declare_shared(const at::Tensor& tensor, const c10::Stream& stream);

}  // namespace tidepool::value_kernels
