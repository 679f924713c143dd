#include "remat/record/workspace_meter.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "allocator/base/per_thread.h"

namespace tidepool::remat {
namespace {

struct Measurement {
  const WorkspaceMeter* meter = nullptr;               // whose it is; nullptr: none under way
  uint64_t generation = 0;                             // of the meter when it began
  std::vector<std::pair<const void*, size_t>> blocks;  // made by the operator, and not freed
  size_t bytes = 0, peak_bytes = 0;
};

// An operator that has made more, and freed none, is measured no further.
constexpr size_t kMostBlocks = size_t{1} << 16;

}  // namespace

void WorkspaceMeter::begin() {
  Measurement& now = PerThread<Measurement>::get();
  if (now.meter != nullptr && now.meter != this) return;
  now.meter = this;
  now.generation = generation_;
  now.blocks.clear();
  now.bytes = now.peak_bytes = 0;
}

size_t WorkspaceMeter::end() {
  Measurement& now = PerThread<Measurement>::get();
  if (now.meter != this) return 0;
  now.meter = nullptr;
  return now.generation == generation_ ? now.peak_bytes - now.bytes : 0;
}

size_t WorkspaceMeter::running_bytes() const {
  const Measurement& now = PerThread<Measurement>::get();
  return now.meter == this && now.generation == generation_ ? now.bytes : 0;
}

void WorkspaceMeter::allocated(const BlockView& block) {
  Measurement& now = PerThread<Measurement>::get();
  if (now.meter != this || now.generation != generation_ || block.moves) return;
  if (now.blocks.size() >= kMostBlocks) return;
  now.blocks.emplace_back(block.address, block.requested_bytes);
  now.bytes += block.requested_bytes;
  now.peak_bytes = std::max(now.peak_bytes, now.bytes);
}

// What is freed was mostly made last.
void WorkspaceMeter::freed(const BlockView& block, bool) {
  Measurement& now = PerThread<Measurement>::get();
  if (now.meter != this || now.generation != generation_) return;
  const auto found = std::find_if(now.blocks.rbegin(), now.blocks.rend(),
                                  [&](const auto& each) { return each.first == block.address; });
  if (found == now.blocks.rend()) return;
  now.bytes -= found->second;
  now.blocks.erase(std::next(found).base());
}

}  // namespace tidepool::remat
