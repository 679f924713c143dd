#include "bindings/torch/engine/job_trace.h"

#include <cstdio>
#include <exception>
#include <string>

#include "bindings/torch/base/host_prices.h"

namespace tidepool::torch_glue {
namespace {

constexpr size_t kHostAlignment = 64, kDeviceAlignment = 512;  // of blocks; see AllocatorConfig

void say(const std::string& line) { std::fprintf(stderr, "tidepool: %s\n", line.c_str()); }

}  // namespace

std::string numbered_path(const std::string& path, int number) {
  if (number <= 0) return path;
  const size_t folder = path.rfind('/') + 1;  // 0 if there is none
  const size_t dot = path.find('.', folder + 1);
  const size_t end = dot == std::string::npos ? path.size() : dot;
  return path.substr(0, end) + "." + std::to_string(number) + path.substr(end);
}

remat::TraceFacts trace_facts(c10::Device device, const remat::Backend& backend,
                              const BudgetedAllocator& allocator) {
  remat::TraceFacts facts;
  facts.device = device.is_cuda() ? "cuda" : "cpu";
  facts.alignment = device.is_cuda() ? kDeviceAlignment : kHostAlignment;
  if (device.is_cpu()) {
    facts.copy_bytes_per_ns = 1 / double{kHostCopyNsPerByte};
    facts.map_ns = kHostMapNs;
  } else {
    constexpr size_t kBytes = size_t{1} << 26;
    facts.copy_bytes_per_ns =
        static_cast<double>(kBytes) / static_cast<double>(backend.copy_ns(kBytes) + 1);
    facts.map_ns = allocator.remap_ns_per_page();
    facts.drain_ns = allocator.drain_ns();
  }
  return facts;
}

std::unique_ptr<remat::TraceRecorder> start_trace_recorder(const TraceSettings& settings,
                                                           c10::Device device,
                                                           const remat::Backend& backend,
                                                           const BudgetedAllocator& allocator) {
  if (settings.recording.path.empty()) return nullptr;
  remat::TraceFacts facts = trace_facts(device, backend, allocator);
  facts.name = settings.name;
  facts.blocks = settings.blocks;
  remat::RecordingSettings recording = settings.recording;
  recording.path = numbered_path(recording.path, device.has_index() ? device.index() : 0);
  try {
    return std::make_unique<remat::TraceRecorder>(recording, facts, &say);
  } catch (const std::exception& error) {
    say(std::string("no trace: ") + error.what());
    return nullptr;
  }
}

}  // namespace tidepool::torch_glue
