#include "bindings/torch_cpu/cpu_allocator.h"

#include <c10/core/CPUAllocator.h>
#include <pthread.h>

#include <atomic>
#include <cstdio>

#include "bindings/torch/engine/engine.h"
#include "bindings/torch/intercept/interception.h"
#include "bindings/torch/storage/storage_access.h"

void tidepool::torch_glue::delete_block(void* address) {
  if (address == nullptr) return;
  Engine& engine = *engine_of(c10::Device(c10::kCPU));
  if (engine.allocator().contains(address)) [[likely]]
    return engine.runtime().free(address);
  c10::GetDefaultCPUAllocator()->raw_deallocate(address);  // see allocate()
}

namespace tidepool::torch_cpu {

using torch_glue::delete_block;

namespace {
std::atomic<bool> g_is_forked_child{false};

void say_that_no_budget_holds() {
  static std::atomic<bool> said{false};
  if (said.exchange(true)) return;
  std::fputs(
      "tidepool: this process was forked from the job's, so that no budget holds here (processes "
      "that are spawned, or started by torchrun, have one)\n",
      stderr);
}
}  // namespace

c10::DataPtr CpuAllocator::allocate(size_t bytes) {
  const c10::Device cpu(c10::DeviceType::CPU);
  if (bytes == 0) return {nullptr, nullptr, &delete_block, cpu};
  torch_glue::Engine& e = *torch_glue::engine_of(cpu);
  try {
    torch_glue::notice_thread();
  } catch (const OutOfMemory&) {
    rethrow_as_torch_error(e);
  }
  if (e.chaos_at_allocations()) [[unlikely]] {
    DeviceLock lock(e.mutex());
    e.runtime().chaos_at_allocation();
  }
  try {
    void* address = e.allocator().allocate(bytes);
    return {address, address, &delete_block, cpu};
  } catch (const OutOfMemory&) {
    // A forked child has no budget, but only the addresses that were reserved for its parent's.
    if (g_is_forked_child.load(std::memory_order_relaxed)) {
      say_that_no_budget_holds();
      return c10::GetDefaultCPUAllocator()->allocate(bytes);
    }
    rethrow_as_torch_error(e);
  }
}

c10::DeleterFnPtr CpuAllocator::raw_deleter() const { return &delete_block; }

void CpuAllocator::copy_data(void* to, const void* from, std::size_t count) const {
  default_copy_data(to, from, count);
}

void CpuAllocator::install() {
  static CpuAllocator* allocator = new CpuAllocator;
  // At priority 255 the allocator is not replaced silently by one that PyTorch installs later.
  c10::SetCPUAllocator(allocator, 255);
  pthread_atfork(nullptr, nullptr, [] { g_is_forked_child = true; });
}

}  // namespace tidepool::torch_cpu
