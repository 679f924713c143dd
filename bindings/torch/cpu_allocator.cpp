#include "bindings/torch/cpu_allocator.h"

#include <c10/core/CPUAllocator.h>

#include "bindings/torch/engine.h"
#include "bindings/torch/interception.h"
#include "bindings/torch/storage_access.h"

namespace tidepool::torch_glue {

c10::DataPtr CpuAllocator::allocate(size_t bytes) {
  const c10::Device cpu(c10::DeviceType::CPU);
  if (bytes == 0) return {nullptr, nullptr, &delete_block, cpu};
  Engine& e = *engine();
  try {
    notice_thread();
  } catch (const OutOfMemory&) {
    rethrow_as_torch_error();
  }
  if (e.chaos_at_allocations()) [[unlikely]] {
    DeviceLock lock(e.mutex());
    e.runtime().chaos_at_allocation();
  }
  try {
    void* address = e.allocator().allocate(bytes);
    return {address, address, &delete_block, cpu};
  } catch (const OutOfMemory&) {
    rethrow_as_torch_error();
  }
}

c10::DeleterFnPtr CpuAllocator::raw_deleter() const { return &delete_block; }

void CpuAllocator::copy_data(void* to, const void* from, std::size_t count) const {
  default_copy_data(to, from, count);
}

void CpuAllocator::install() {
  static CpuAllocator* allocator = new CpuAllocator;
  // Priority 255: nothing that PyTorch installs later replaces us silently.
  c10::SetCPUAllocator(allocator, 255);
}

}  // namespace tidepool::torch_glue
