// A program that uses an installed Tidepool: it exits with 0 if a budget holds where a block that
// nobody can evict leaves no room, and if the runtime then frees that block.
#include "allocator/budgeted_allocator.h"
#include "allocator/space/private_host_space.h"
#include "remat/runtime.h"

using namespace tidepool;

class NothingToReplay : public remat::Backend {
  void execute(const remat::Replay&) override {}
  bool detach(remat::Storage&) override { return false; }
  bool attach(remat::Storage&, void*) override { return false; }
  void forget(remat::Storage&) override {}
  void copy(void*, const void*, size_t) override {}
};

int main() {
  PrivateHostSpace space;
  DeviceMutex mutex;
  AllocatorConfig config;
  config.budget_bytes = 1 << 20;
  BudgetedAllocator allocator(space, mutex, config);
  NothingToReplay backend;
  remat::Runtime runtime(allocator, backend, {});
  int storage = 0;
  void* block = allocator.allocate(768 << 10);
  {
    DeviceLock lock(mutex);
    runtime.track(&storage, block, 768 << 10, remat::RootReason::kUnsupported);
  }
  try {
    allocator.allocate(512 << 10);
    return 1;
  } catch (const OutOfMemory&) {
  }
  runtime.free(block);
  allocator.free(allocator.allocate(512 << 10));
  return allocator.statistics().allocated_bytes == 0 ? 0 : 2;
}
