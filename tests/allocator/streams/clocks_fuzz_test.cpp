// Books over time: the clocks of streams, and uses joined by stream.
#include <algorithm>
#include <array>
#include <map>

#include "allocator/streams/stream_clocks.h"
#include "tests/support/catch.h"
#include "tests/support/host_fence.h"
#include "tests/support/operation_fuzz.h"

namespace tidepool {
namespace {

using test::expect;
using test::expect_equal;
using test::Operation;
using test::OperationKind;

class StreamClocksModel {
 public:
  enum Kind { kClose, kCloseAll, kAddFence, kPass, kWait, kJoin };
  static constexpr OperationKind kKinds[] = {{"kClose", 6}, {"kCloseAll", 1}, {"kAddFence", 6},
                                             {"kPass", 3},  {"kWait", 3},     {"kJoin", 3}};

  explicit StreamClocksModel(uint64_t) {
    clocks_.add_stream(StreamId{kStreams - 1});
    clocks_.add_stream(StreamId{0});  // known already
  }

  bool run(const Operation& op) {
    const bool had_effect = step(op);
    clocks_.check_invariants();
    expect_equal(clocks_.stream_count(), kStreams);
    for (uint32_t i = 0; i < kStreams; ++i) compare(i, op);
    expect(std::equal(uses_.begin(), uses_.end(), joined_.begin(), joined_.end(),
                      [](StreamUse use, const auto& entry) {
                        return use.stream == entry.first && use.epoch == entry.second;
                      }));
    return had_effect;
  }
  void finish() {}

 private:
  static constexpr size_t kStreams = 4;
  struct Stream {
    Epoch open = 1, passed = 0;
    std::map<Epoch, std::shared_ptr<Fence>> fences;  // all that were ever recorded
    std::array<Epoch, kStreams> waited{};            // for other streams
  };

  bool step(const Operation& op) {
    const uint32_t number = op.a % kStreams;
    Stream& stream = streams_[number];
    const StreamUse closed{StreamId{number}, op.b % stream.open};
    switch (op.kind) {
      case kClose:
        expect_equal(clocks_.close(StreamId{number}), stream.open++);
        return true;
      case kCloseAll: {
        const std::vector<StreamUse> all = clocks_.close_all();
        expect_equal(all.size(), kStreams);
        for (uint32_t i = 0; i < kStreams; ++i) {
          expect(all[i] == StreamUse{StreamId{i}, streams_[i].open++});
        }
        return true;
      }
      case kAddFence: {
        const Epoch back = op.b % std::min<Epoch>(stream.open, 4);
        const StreamUse latest{StreamId{number}, stream.open - 1 - back};
        if (stream.fences.contains(latest.epoch)) return false;
        auto fence = std::make_shared<test::HostFence>();
        clocks_.add_fence(latest, fence);
        stream.fences[latest.epoch] = fence;
        if (latest.epoch <= stream.passed) stream.fences[latest.epoch] = nullptr;  // too late
        return true;
      }
      case kPass:
        clocks_.note_passed(closed);
        stream.passed = std::max(stream.passed, closed.epoch);
        return true;
      case kWait: {
        const uint32_t waiter = op.c % kStreams;
        clocks_.note_waited(StreamId{waiter}, closed);
        Epoch& waited = streams_[waiter].waited[number];
        waited = std::max(waited, closed.epoch);
        return true;
      }
      default:
        if (op.c % 16 == 0) uses_.clear(), joined_.clear();
        add_use(uses_, closed);
        Epoch& joined = joined_[closed.stream];
        joined = std::max(joined, closed.epoch);
        return true;
    }
  }

  void compare(uint32_t number, const Operation& op) const {
    const Stream& stream = streams_[number];
    const StreamId id{number};
    const StreamUse use{id, op.b % (stream.open + 1)};
    expect_equal(clocks_.open(id), stream.open);
    expect_equal(clocks_.passed(use), use.epoch <= stream.passed);
    for (uint32_t waiter = 0; waiter < kStreams; ++waiter) {
      expect_equal(clocks_.ordered(StreamId{waiter}, use),
                   waiter == number || use.epoch <= stream.passed ||
                       (streams_[waiter].waited[number] >= use.epoch));
    }
    size_t kept = 0;
    const Fence* earliest = nullptr;
    for (const auto& [epoch, fence] : stream.fences) {
      if (epoch <= stream.passed || fence == nullptr) continue;
      ++kept;
      if (epoch >= use.epoch && earliest == nullptr) earliest = fence.get();
    }
    expect_equal(clocks_.has_milestone(id), kept > 0);
    expect(clocks_.milestone_for(use).fence.get() == earliest);
    size_t listed = 0;
    for (const auto& milestone : clocks_.milestones()) listed += milestone.use.stream == id;
    expect_equal(listed, kept);
  }

  StreamClocks clocks_;
  std::array<Stream, kStreams> streams_;
  StreamUses uses_;
  std::map<StreamId, Epoch> joined_;
};

TEST_CASE("clocks know what has passed and what is ordered") {
  test::fuzz<StreamClocksModel>("StreamClocksModel", 200);
}

}  // namespace
}  // namespace tidepool
