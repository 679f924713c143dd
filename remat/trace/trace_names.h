// The words of the trace format: what reader and writer have to agree on. See docs/trace-format.md.
#pragma once

#include <array>
#include <cstdint>

namespace tidepool::remat {

inline constexpr uint64_t kTraceVersion = 1;
inline constexpr uint64_t kBlocksVersion = 2;     // the version of traces that have blocks
inline constexpr uint64_t kMostStreams = 0xffff;  // greatest number of a stream

// The names of RootKind's values.
inline constexpr std::array<const char*, 6> kKinds = {"other",  "parameter", "input",
                                                      "buffer", "gradient",  "optimizer_state"};
// The names of Access's values; a read has none.
inline constexpr std::array<const char*, 4> kAccesses = {"", "update", "overwrite", "side"};

}  // namespace tidepool::remat
