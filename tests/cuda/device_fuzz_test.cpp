// What stands on the driver, on a driver that keeps books and refuses calls: spaces against the
// model of pages; streams, events and copies against what was given to each stream.
#include <map>
#include <optional>

#include "cuda/space/malloc_space.h"
#include "cuda/space/virtual_memory_space.h"
#include "cuda/streams/event_order.h"
#include "cuda/streams/side_stream_copies.h"
#include "tests/cuda/fake_driver.h"
#include "tests/support/address_space_model.h"
#include "tests/support/catch.h"

namespace tidepool::device {
namespace {

using tidepool::test::AddressSpaceModel;
using tidepool::test::expect;
using tidepool::test::expect_equal;
using tidepool::test::Operation;
using tidepool::test::OperationKind;
using tidepool::test::SpaceContents;

constexpr size_t kPage = 4096;

struct FakeDevice {
  FakeDevice() { fake.granularity = kPage; }
  void fail_at(size_t n, bool) { fake.fail_at(n); }
  bool take_failure() {
    const bool failed = fake.failed();
    if (failed) fake.fail_at(0);
    return failed;
  }
  test::FakeDriver fake{2};
};

struct VirtualWorld : FakeDevice {
  static constexpr bool kHasMemory = false, kMoves = true;
  static constexpr size_t kMappings = SIZE_MAX;

  AddressSpace& space() { return virtual_memory; }
  void check(const SpaceContents& contents) {
    virtual_memory.check_invariants();
    fake.fills.clear();
    expect_equal(virtual_memory.handle_bytes_total(), contents.handle_bytes);
    expect_equal(fake.handle_bytes(), contents.handle_bytes);
    expect_equal(fake.mapping_count(), contents.mappings);
    expect_equal(fake.range_count(), contents.ranges);
    for (const auto& [page, accessible] : contents.pages) {
      expect_equal(fake.accessible(page.value, 1), accessible);
    }
    expect_equal(fake.current_device(), -1);
  }

  Driver driver{fake.functions(), 1};
  VirtualMemorySpace virtual_memory{driver};
};

// Its ranges are the driver's allocations, which come at multiples of 256 bytes only.
constexpr size_t kMallocPage = 256;

struct MallocWorld : FakeDevice {
  static constexpr bool kHasMemory = false, kMoves = false;
  static constexpr size_t kMappings = SIZE_MAX;

  AddressSpace& space() { return malloced; }
  void check(const SpaceContents& contents) {
    malloced.check_invariants();
    fake.fills.clear();
    expect_equal(fake.allocation_count(), contents.ranges);
    expect_equal(fake.current_device(), -1);
  }

  Driver driver{fake.functions(), 0};
  MallocSpace malloced{driver};
};

using VirtualModel = AddressSpaceModel<VirtualWorld, kPage>;
using MallocModel = AddressSpaceModel<MallocWorld, kMallocPage>;

// Streams with work, fences on them, and copies beside them. Each stream is a count of what it was
// given and what of that has run; a fence, the stream and the count it stands for.
class StreamsModel {
 public:
  enum Kind {
    kLaunch,
    kProgress,
    kRecord,
    kDropFence,
    kAsk,
    kHostWait,
    kWait,
    kCopy,
    kFinish,
    kSwitchDevice,
    kFail
  };
  static constexpr OperationKind kKinds[] = {
      {"kLaunch", 8}, {"kProgress", 4},     {"kRecord", 8}, {"kDropFence", 5},
      {"kAsk", 6},    {"kHostWait", 1},     {"kWait", 4},   {"kCopy", 4},
      {"kFinish", 1}, {"kSwitchDevice", 1}, {"kFail", 3}};

  explicit StreamsModel(uint64_t) {
    copies_.emplace(driver_, table_, pool_);
    for (int i = 0; i < 3; ++i) add_stream(i == 0 ? nullptr : fake_.add_stream(kDevice));
  }

  bool run(const Operation& op) {
    const bool had_effect = step(op);
    if (fake_.failed()) fake_.fail_at(0);
    compare();
    return had_effect;
  }

  void finish() {
    fake_.fail_at(0);
    fences_.clear();
    copies_.reset();
    order_.reset();
    expect_equal(fake_.stream_count(), lanes_.size() - 1);
    expect_equal(pool_->idle(), pool_->created());
    pool_.reset();
    expect_equal(fake_.event_count(), size_t{0});
  }

 private:
  static constexpr int kDevice = 1;
  struct Lane {
    driver::Stream stream = nullptr;
    uint64_t given = 0, done = 0;
  };
  struct Mark {
    std::shared_ptr<Fence> fence;
    StreamId stream;
    uint64_t position = 0;
  };

  void add_stream(driver::Stream stream) {
    const StreamId id = table_.id_of(stream);
    expect(!lanes_.contains(id));
    lanes_[id].stream = stream;
  }

  bool step(const Operation& op) {
    const auto lane = std::next(lanes_.begin(), op.a % lanes_.size());
    const bool any = !fences_.empty();
    Mark* mark = any ? &fences_[op.b % fences_.size()] : nullptr;
    switch (op.kind) {
      case kLaunch:
        fake_.launch(lane->second.stream, kDevice);
        ++lane->second.given;
        return true;
      case kProgress:
        fake_.finish(lane->second.stream, kDevice);
        return std::exchange(lane->second.done, lane->second.given) < lane->second.given;
      case kRecord:
        return record(lane->first, op);
      case kDropFence:
        if (any) fences_.erase(fences_.begin() + op.b % fences_.size());
        return any;
      case kAsk:
        return any && ask(*mark);
      case kHostWait:
        return any && host_wait(*mark);
      case kWait:
        return any && wait(lane->first, *mark);
      case kCopy:
        return copy(op, mark);
      case kFinish:
        return finish_all();
      case kSwitchDevice:
        fake_.make_current(static_cast<int>(op.a % 3) - 1);
        current_ = fake_.current_device();
        return true;
      default:
        fake_.fail_at(1 + op.a % 6, 1 + op.b % 2);
        return true;
    }
  }

  // Runs `call`, which fails exactly if a call of the driver was refused.
  template <typename Call>
  bool succeeds(Call&& call) {
    bool threw = false;
    try {
      call();
    } catch (const DeviceError&) {
      threw = true;
    }
    expect_equal(threw, fake_.failed());
    return !threw;
  }

  bool record(StreamId id, const Operation& op) {
    if (fences_.size() > 10) return false;
    std::shared_ptr<Fence> fence;
    const bool by_number = op.b % 2 == 0;
    if (!succeeds([&] {
          fence = by_number ? order_->record(id) : pool_->record(table_.stream_of(id));
        })) {
      return true;
    }
    fences_.push_back({std::move(fence), id, lanes_.at(id).given});
    return true;
  }

  bool ask(const Mark& mark) {
    const bool passed = mark.fence->passed();
    if (fake_.failed()) {
      expect(!passed);
    } else {
      expect_equal(passed, lanes_.at(mark.stream).done >= mark.position);
    }
    return true;
  }

  bool host_wait(const Mark& mark) {
    Lane& lane = lanes_.at(mark.stream);
    if (succeeds([&] { mark.fence->wait(); })) lane.done = std::max(lane.done, mark.position);
    return true;
  }

  bool wait(StreamId waiter, const Mark& mark) {
    fake_.waits.clear();
    if (succeeds([&] { order_->wait(waiter, *mark.fence); })) {
      expect_equal(fake_.waits.size(), size_t{1});
      expect(fake_.waits[0].stream == table_.stream_of(waiter));
      expect_equal(fake_.waits[0].device, kDevice);
    } else {
      expect(fake_.waits.empty());
    }
    return true;
  }

  bool copy(const Operation& op, const Mark* after) {
    if (fences_.size() > 10) return false;
    fake_.copies.clear();
    fake_.waits.clear();
    const bool out = op.c % 2 == 0;
    auto* device = reinterpret_cast<void*>(uintptr_t{1} << 44);
    const bool copied = succeeds([&] {
      const auto direction = out ? CopyDirection::kOut : CopyDirection::kIn;
      if (after != nullptr) copies_->wait(direction, *after->fence);
      out ? copies_->copy(direction, host_, device, sizeof host_)
          : copies_->copy(direction, device, host_, sizeof host_);
    });
    expect(!copied || fake_.copies.size() == 1);
    expect(fake_.copies.size() <= 1);
    // What was not ordered after the fence is not copied.
    if (!fake_.copies.empty()) expect_equal(fake_.waits.size(), size_t{after != nullptr});
    if (!fake_.copies.empty()) expect_copy_stream(fake_.copies[0].stream, out);
    return true;
  }
  // Each direction has a stream, which is none of the job's.
  void expect_copy_stream(driver::Stream stream, bool out) {
    for (const auto& [id, lane] : lanes_) expect(lane.stream != stream);
    driver::Stream& known = side_streams_[out];
    if (known == nullptr) known = stream;
    expect(known == stream && side_streams_[0] != side_streams_[1]);
  }

  bool finish_all() {
    if (!succeeds([&] { order_->finish(); })) return true;
    for (auto& [id, lane] : lanes_) lane.done = lane.given;
    return true;
  }

  void compare() {
    expect_equal(pool_->created(), fake_.event_count());
    expect_equal(pool_->idle() + fences_.size(), pool_->created());
    expect_equal(fake_.current_device(), current_);
    for (const auto& [id, lane] : lanes_) expect(table_.stream_of(id) == lane.stream);
    fake_.recorded_on.clear();
    fake_.recorded_devices.clear();
  }

  test::FakeDriver fake_{2};
  Driver driver_{fake_.functions(), kDevice};
  std::shared_ptr<EventPool> pool_ = EventPool::make(driver_);
  StreamTable table_;
  std::optional<EventOrder> order_{std::in_place, driver_, table_, pool_};
  std::optional<SideStreamCopies> copies_;
  std::map<StreamId, Lane> lanes_;
  std::vector<Mark> fences_;
  driver::Stream side_streams_[2] = {};
  char host_[8] = {};
  int current_ = -1;
};

// Thousands of streams, met again and again, by addresses that share most of their bits.
class StreamTableModel {
 public:
  enum Kind { kMeet, kMeetAgain };
  static constexpr OperationKind kKinds[] = {{"kMeet", 3}, {"kMeetAgain", 2}};

  explicit StreamTableModel(uint64_t seed) : shift_(seed % 20) {}

  bool run(const Operation& op) {
    uintptr_t value = uintptr_t{op.a % 4096} << shift_;
    if (op.kind == kMeetAgain) {
      if (known_.empty()) return false;
      value = std::next(known_.begin(), op.b % known_.size())->first;
    }
    const bool is_default = value <= 1;
    const auto next = static_cast<uint32_t>(known_.size() + 1);
    const auto entry = is_default ? known_.end() : known_.try_emplace(value, next).first;
    const StreamId expected{is_default ? 0 : entry->second};
    const auto stream = reinterpret_cast<driver::Stream>(value);
    expect(table_.id_of(stream) == expected);
    expect(table_.stream_of(expected) == (is_default ? nullptr : stream));
    expect_equal(table_.count(), known_.size() + 1);
    return true;
  }
  void finish() {
    for (const auto& [value, number] : known_) {
      expect(table_.id_of(reinterpret_cast<driver::Stream>(value)) == StreamId{number});
    }
  }

 private:
  const size_t shift_;
  StreamTable table_;
  std::map<uintptr_t, uint32_t> known_;
};

TEST_CASE("virtual memory does what the model of pages says") {
  tidepool::test::fuzz<VirtualModel>("VirtualModel");
}
TEST_CASE("allocated memory does what the model of pages says") {
  tidepool::test::fuzz<MallocModel>("MallocModel");
}
TEST_CASE("fences pass when their streams' work has run, and events are not lost") {
  tidepool::test::fuzz<StreamsModel>("StreamsModel");
}
TEST_CASE("streams keep the numbers they got") {
  tidepool::test::fuzz<StreamTableModel>("StreamTableModel", 2000);
}

}  // namespace
}  // namespace tidepool::device
