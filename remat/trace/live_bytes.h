// LiveBytes: counts what a trace's storages take as its events pass, if nothing is evicted and
// nothing is lost between blocks: a plain count of bytes or, for a trace with blocks, of these,
// which are what is held, and in which storages lie.
// The trace outlives it. Not thread safe.
#pragma once

#include <cstddef>
#include <vector>

#include "remat/trace/trace.h"

namespace tidepool::remat {

class LiveBytes {
 public:
  explicit LiveBytes(const Trace& trace) : trace_(trace) {}

  void begin(StorageIndex storage) {
    if (!trace_.facts.blocks) bytes_ += trace_.aligned_bytes(storage);
  }
  void end(StorageIndex storage) {
    bytes_ -= trace_.facts.blocks ? blocks_[trace_.storages[number(storage)].block]
                                  : trace_.aligned_bytes(storage);
  }
  void change(const BlockChange& change) {
    if (change.bytes == 0) {
      bytes_ -= blocks_[change.block];
      return;
    }
    blocks_.push_back(trace_.aligned(change.bytes));
    bytes_ += blocks_.back();
  }

  size_t bytes() const { return bytes_; }

 private:
  const Trace& trace_;
  std::vector<size_t> blocks_;  // bytes, by number
  size_t bytes_ = 0;
};

}  // namespace tidepool::remat
