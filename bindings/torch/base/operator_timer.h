// OperatorTimer: says what operators cost on a device whose work the host runs ahead of, without
// waiting for it. Some calls of each kind are timed, and the others are taken to cost the same.
// Implementations are thread safe.
#pragma once

#include <cstddef>
#include <cstdint>

#include "remat/lineage/lineage.h"

namespace tidepool::torch_glue {

class OperatorTimer {
 public:
  virtual ~OperatorTimer() = default;

  // A call that may be timed; it is not if `start` is null. Owned by the thread that makes it.
  struct Call {
    uint64_t timing_key = 0;  // a hash of the operator, shapes and types
    void* start = nullptr;
    uint64_t misses = 0;  // of the allocator until then
  };

  // Called before the kernel, for the calling thread's stream. `record`: nullptr if the call cannot
  // be run again. Never waits; throws only what ends the call.
  virtual Call begin(const remat::RecordType& type, const remat::Record* record,
                     uint64_t timing_key) = 0;
  // Called after the kernel. Returns its cost in ns, as far as that is known; else an estimate from
  // the `bytes` that it reads and writes.
  virtual uint64_t end(const Call& call, size_t bytes) = 0;
};

}  // namespace tidepool::torch_glue
