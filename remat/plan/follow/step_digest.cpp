#include "remat/plan/follow/step_digest.h"

#include <algorithm>
#include <string_view>
#include <vector>

#include "remat/simulate/job/recorded_costs.h"

namespace tidepool::remat {
namespace {

class Digest {
 public:
  void mix(uint64_t word) {
    sum_ = ((sum_ ^ word) + 1) * 0x9E3779B97F4A7C15u;
    sum_ ^= sum_ >> 29;
  }
  void mix(std::string_view text) {
    for (const char c : text) mix(static_cast<unsigned char>(c));
    mix(text.size());
  }
  uint64_t sum() const { return sum_; }

 private:
  uint64_t sum_ = 0;
};

}  // namespace

uint64_t step_digest(const Trace& step, size_t alignment) {
  Digest digest;
  std::vector<uint32_t> numbers(step.storages.size());  // from 1; 0: not met yet
  uint32_t met = 0;
  const auto mix = [&](StorageIndex storage, uint64_t role) {
    const size_t bytes = step.storages[number(storage)].bytes;
    if (bytes == 0) return;
    uint32_t& own = numbers[number(storage)];
    if (own == 0) {
      own = ++met;
      digest.mix((bytes + alignment - 1) & ~(alignment - 1));
    }
    digest.mix(uint64_t{own} << 8 | role);
  };
  constexpr uint64_t kOutput = 0xff;  // beside the numbers of Access
  for (const TraceOperator& op : step.operators) {
    if (is_cut(step, op)) continue;
    digest.mix(step.names[op.name]);
    for (const TraceWrite& write : step.writes(op)) {
      mix(write.storage, static_cast<uint64_t>(write.access));
    }
    for (const StorageIndex read : step.reads(op)) mix(read, static_cast<uint64_t>(Access::kRead));
    for (const StorageIndex output : step.outputs(op)) mix(output, kOutput);
  }
  return digest.sum();
}

size_t digested_operators(const Trace& step) {
  return std::count_if(step.operators.begin(), step.operators.end(),
                       [&](const TraceOperator& op) { return !is_cut(step, op); });
}

}  // namespace tidepool::remat
