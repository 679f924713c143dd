// TorchBackend: remat's Backend over PyTorch on the CPU: replays records through the dispatcher
// and moves bytes in and out of StorageImpls. Stateless but for what it is given. Thread safe.
#pragma once

#include "allocator/budgeted_allocator.h"
#include "remat/backend.h"

namespace tidepool::torch_glue {

class TorchBackend final : public remat::Backend {
 public:
  explicit TorchBackend(DeviceMutex& mutex) : mutex_(mutex) {}

  void execute(const remat::Replay& replay) override;
  bool detach(remat::Storage& storage) override;
  bool attach(remat::Storage& storage, void* address) override;
  void forget(remat::Storage& storage) override;
  void copy(void* to, const void* from, size_t bytes) override;
  uint64_t fingerprint(const void* address, size_t bytes) const override;
  // Releases Python's global lock if this thread has it: another thread may need it to get done.
  void* begin_wait() override;
  void end_wait(void* token) override;

 private:
  DeviceMutex& mutex_;
};

}  // namespace tidepool::torch_glue
