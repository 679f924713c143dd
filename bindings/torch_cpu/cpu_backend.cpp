#include "bindings/torch_cpu/cpu_backend.h"

#include <c10/util/Exception.h>

#include <cstring>
#include <string>

#include "allocator/base/fingerprint.h"
#include "bindings/torch/base/cycle_clock.h"
#include "bindings/torch/engine/work_recorder.h"

namespace tidepool::torch_cpu {

void CpuBackend::copy(void* to, const void* from, size_t bytes) {
  const c10::Device host(c10::kCPU);
  if (torch_glue::WorkRecorder* recorder = torch_glue::work_recorder_of(host))
    recorder->copied(from, bytes);
  constexpr size_t kLarge = 256 << 10;  // bytes beside whose time calls and cold caches are little
  constexpr float kWeight = 0.125F;     // the weight of the newest copy in the average
  const uint64_t start = torch_glue::CycleClock::now();
  std::memcpy(to, from, bytes);
  if (bytes < kLarge) return;
  const auto ns = static_cast<float>(torch_glue::CycleClock::ns_since(start));
  const float before = copy_ns_per_byte_.load(std::memory_order_relaxed);
  copy_ns_per_byte_.store(before + kWeight * (ns / static_cast<float>(bytes) - before),
                          std::memory_order_relaxed);
}

uint64_t CpuBackend::copy_ns(size_t bytes) const {
  return static_cast<uint64_t>(static_cast<float>(bytes) *
                               copy_ns_per_byte_.load(std::memory_order_relaxed));
}

uint64_t CpuBackend::fingerprint(const void* address, size_t bytes) const {
  return tidepool::fingerprint(address, bytes);
}

void CpuBackend::raise_out_of_memory(const OutOfMemoryReport& report) {
  // The second line is PyTorch's own: programs that try a smaller batch look for its words.
  std::string text = report.format();
  text.insert(text.find('\n') + 1,
              "DefaultCPUAllocator: can't allocate memory: you tried to allocate " +
                  std::to_string(report.requested_bytes) + " bytes.\n");
  TORCH_CHECK_WITH(OutOfMemoryError, false, text);
  throw OutOfMemory(report);  // is not reached
}

}  // namespace tidepool::torch_cpu
