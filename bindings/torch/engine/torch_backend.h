// TorchBackend: remat's Backend over PyTorch. It replays records through the dispatcher, and moves
// bytes in and out of StorageImpls. What differs between kinds of devices comes from a class for
// each kind.
// Has no state but what it is given. Thread safe.
#pragma once

#include <ATen/core/ivalue.h>
#include <c10/core/Device.h>
#include <c10/core/GeneratorImpl.h>
#include <c10/core/Storage.h>
#include <c10/core/Stream.h>

#include <functional>
#include <vector>

#include "allocator/budgeted_allocator.h"
#include "bindings/torch/base/interpreter.h"
#include "bindings/torch/base/operator_timer.h"
#include "bindings/torch/state/random_state.h"
#include "remat/lineage/backend.h"

namespace tidepool::torch_glue {

class TorchBackend : public remat::Backend, public GeneratorOffsets {
 public:
  TorchBackend(c10::Device device, DeviceMutex& mutex) : device_(device), mutex_(mutex) {}

  void execute(const remat::Replay& replay) override;
  bool detach(remat::Storage& storage) override;
  bool attach(remat::Storage& storage, void* address) override;
  void forget(remat::Storage& storage) override;
  bool give_up_memory(DeviceLock& lock) override;
  bool watch(remat::Storage& storage) override;
  remat::Storage* gradient_of(const remat::Storage& storage, size_t threads) override;
  size_t shared_bytes() const override;
  size_t side_bytes() const override;
  void* begin_wait() override { return leave_interpreter(); }
  void end_wait(void* token) override { enter_interpreter(token); }

  // Throws PyTorch's out-of-memory error, in its words for this kind of device.
  [[noreturn]] virtual void raise_out_of_memory(const OutOfMemoryReport& report) = 0;
  // A stream of the job uses the storage from now on, also after it has been evicted and restored.
  // Requires: lock held.
  virtual void remember_stream(remat::Storage& storage, StreamId user) {
    static_cast<void>(storage);
    static_cast<void>(user);
  }

  // The storages from which graphs that were captured while `generator` was drawn from read its
  // state by address.
  virtual std::vector<c10::Storage> captured_state(const c10::GeneratorImpl& generator) {
    static_cast<void>(generator);
    return {};
  }

  // The timer that says what operators cost; nullptr if operators have run when they return.
  virtual OperatorTimer* timer() { return nullptr; }

  // The number that the allocator knows a stream of the device by.
  virtual StreamId number_of(c10::Stream stream) {
    static_cast<void>(stream);
    return StreamId::kDefault;
  }
  // Calls `work` while a stream is current that nothing is launched on: that one waits for what
  // `work` waits for, and the job's streams do not. Returns its number. Requires: no lock of ours
  // is held.
  virtual StreamId wait_beside(const std::function<void()>& work) {
    work();
    return StreamId::kDefault;
  }

 protected:
  c10::Device device() const { return device_; }

 private:
  const c10::Device device_;
  DeviceMutex& mutex_;
};

}  // namespace tidepool::torch_glue
