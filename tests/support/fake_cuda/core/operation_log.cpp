#include "tests/support/fake_cuda/core/operation_log.h"

#include <fmt/format.h>

namespace tidepool::fake_cuda {

std::string describe(const LogEntry& entry) {
  std::string text = fmt::format("{} {} stream={} tick={} {}", entry.sequence, name_of(entry.call),
                                 static_cast<uint32_t>(entry.stream), entry.tick, entry.name);
  if (entry.event != 0) text += fmt::format(" event={}", entry.event);
  if (entry.bytes != 0) text += fmt::format(" {:#x} bytes={}", entry.address, entry.bytes);
  if (entry.source != 0) text += fmt::format(" from {:#x}", entry.source);
  return text;
}

}  // namespace tidepool::fake_cuda
