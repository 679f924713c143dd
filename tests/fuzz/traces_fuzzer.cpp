// Logs of requests: refused by std::runtime_error naming file and line, or a trace in which every
// free is of a live block and every sum is right, and which is the same as a log of its own.
#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <sstream>
#include <stdexcept>
#include <string>

#include "allocator/base/check.h"
#include "bench/allocator/trace.h"

namespace {

using tidepool::bench::Trace;
using tidepool::bench::TraceEvent;

std::vector<Trace> parsed(const std::string& text) {
  std::istringstream log(text);
  try {
    return tidepool::bench::parse_log(log, "log");
  } catch (const std::runtime_error& error) {
    const std::string reason = error.what();
    TIDEPOOL_CHECK(reason.starts_with("log:") && reason.find(": ") != std::string::npos,
                   "names no line: %s", error.what());
    return {};
  }
}

void check(const Trace& trace) {
  std::map<uint32_t, TraceEvent> live;
  size_t blocks = 0, bytes = 0, peak = 0;
  for (const TraceEvent& event : trace.events) {
    TIDEPOOL_CHECK(event.bytes > 0 && static_cast<size_t>(event.stream) < trace.streams,
                   "%zu bytes, %zu streams", event.bytes, trace.streams);
    if (event.allocates) {
      TIDEPOOL_CHECK(event.block == blocks, "block %u is not the next one", event.block);
      live[event.block] = event;
      ++blocks;
      peak = std::max(peak, bytes += event.bytes);
    } else {
      const auto found = live.find(event.block);
      TIDEPOOL_CHECK(found != live.end() && found->second.bytes == event.bytes &&
                         found->second.stream == event.stream,
                     "block %u is freed, but is not live", event.block);
      bytes -= event.bytes;
      live.erase(found);
    }
  }
  TIDEPOOL_CHECK(blocks == trace.blocks && peak == trace.live_peak_bytes, "%zu blocks, peak %zu",
                 blocks, peak);
}

// As a log of RMM's.
std::string written(const Trace& trace) {
  std::string text = "Thread,Time,Action,Pointer,Size,Stream\n";
  for (const TraceEvent& event : trace.events) {
    text +=
        fmt::format("1,0,{},{:#x},{},{}\n", event.allocates ? "allocate" : "free",
                    event.block + uint64_t{1}, event.bytes, static_cast<uint32_t>(event.stream));
  }
  return text;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  for (const Trace& trace : parsed({reinterpret_cast<const char*>(data), size})) {
    check(trace);
    const std::vector<Trace> again = parsed(written(trace));
    TIDEPOOL_CHECK(again.size() == 1 && again[0].blocks == trace.blocks &&
                       again[0].live_peak_bytes == trace.live_peak_bytes,
                   "%zu traces of %zu blocks", again.size(), trace.blocks);
    const bool same =
        std::equal(again[0].events.begin(), again[0].events.end(), trace.events.begin(),
                   trace.events.end(), [](const TraceEvent& a, const TraceEvent& b) {
                     return a.allocates == b.allocates && a.block == b.block && a.bytes == b.bytes;
                   });
    TIDEPOOL_CHECK(same, "other events, of %zu", trace.events.size());
  }
  return 0;
}
