// MergedOperands: lists an operator's operands as a trace does: each storage once, and a storage
// that is written not among those that are read. Reuses its memory. Not thread safe.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "remat/trace/trace.h"

namespace tidepool::remat {

class MergedOperands {
 public:
  struct Operand {
    uint32_t storage = 0;
    Access access = Access::kRead;
  };

  // The storages that are read or written, in the order in which they come first.
  void merge(std::span<const Operand> operands);
  std::span<const uint64_t> reads() const { return reads_; }
  std::span<const TraceWrite> writes() const { return writes_; }
  // All operands as they were; empty if the writes and then the reads are just these.
  std::span<const TraceArgument> arguments() const { return arguments_; }

 private:
  std::vector<Operand> merged_;
  absl::flat_hash_map<uint32_t, size_t> places_;  // of storages in merged_, where they are many
  std::vector<uint64_t> reads_;
  std::vector<TraceWrite> writes_;
  std::vector<TraceArgument> arguments_;
};

}  // namespace tidepool::remat
