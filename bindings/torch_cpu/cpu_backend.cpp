#include "bindings/torch_cpu/cpu_backend.h"

#include <c10/util/Exception.h>

#include <cstring>

#include "allocator/fingerprint.h"

namespace tidepool::torch_cpu {

void CpuBackend::copy(void* to, const void* from, size_t bytes) { std::memcpy(to, from, bytes); }

uint64_t CpuBackend::fingerprint(const void* address, size_t bytes) const {
  return tidepool::fingerprint(address, bytes);
}

void CpuBackend::raise_out_of_memory(const OutOfMemoryReport& report) {
  TORCH_CHECK_WITH(OutOfMemoryError, false, report.format());
  throw OutOfMemory(report);  // not reached
}

}  // namespace tidepool::torch_cpu
