// DeviceArena against a list of its blocks, on a driver whose calls are refused now and then:
// blocks do not overlap, can be reached by every device that may, and the device holds what the
// arena says. What another stream may still use is the stream fuzzer's of the allocator.
#include <map>
#include <optional>

#include "cuda/device_arena.h"
#include "tests/cuda/fake_driver.h"
#include "tests/support/catch.h"
#include "tests/support/operation_fuzz.h"

namespace tidepool::device {
namespace {

using tidepool::test::expect;
using tidepool::test::expect_equal;
using tidepool::test::Operation;
using tidepool::test::OperationKind;

class DeviceArenaModel {
 public:
  enum Kind {
    kAllocate,
    kFree,
    kFreeChecked,
    kRecord,
    kProgress,
    kFinish,
    kGiveBack,
    kSetLimit,
    kAddPeer,
    kSynchronize,
    kFail
  };
  static constexpr OperationKind kKinds[] = {
      {"kAllocate", 20}, {"kFree", 8},        {"kFreeChecked", 8}, {"kRecord", 6},
      {"kProgress", 6},  {"kFinish", 2},      {"kGiveBack", 2},    {"kSetLimit", 1},
      {"kAddPeer", 1},   {"kSynchronize", 1}, {"kFail", 3}};

  explicit DeviceArenaModel(uint64_t seed) {
    fake_.virtual_memory = seed % 4 != 0;
    AllocatorConfig config;
    config.budget_bytes = kBudgetPages * kPage;
    config.page_bytes = kPage;
    config.allow_remap = seed % 3 != 0;
    arena_.emplace(fake_.functions(), kDevice, config);
    for (int i = 0; i < 3; ++i) streams_.push_back(i == 0 ? nullptr : fake_.add_stream(kDevice));
  }

  bool run(const Operation& op) {
    const bool had_effect = step(op);
    if (fake_.failed()) fake_.fail_at(0);
    compare();
    return had_effect;
  }

  void finish() {
    fake_.fail_at(0);
    while (!blocks_.empty()) free(blocks_.begin(), false);
    fake_.finish();
    for (int i = 0; i < 2; ++i) arena_->allocator().give_back_free_pages();
    expect_equal(arena_->allocator().statistics().allocated_bytes, size_t{0});
    if (fake_.virtual_memory) expect_equal(fake_.handle_count(), size_t{0});
    arena_.reset();
    expect_equal(
        fake_.range_count() + fake_.handle_count() + fake_.allocation_count() + fake_.event_count(),
        size_t{0});
    expect_equal(fake_.primary_references(kDevice), 0);
  }

 private:
  static constexpr size_t kPage = size_t{2} << 20, kBudgetPages = 12;
  static constexpr int kDevice = 1, kPeer = 0;
  struct Block {
    size_t bytes = 0;
    driver::Stream stream = nullptr;
  };
  using Blocks = std::map<char*, Block>;

  Blocks::iterator some(uint32_t number) {
    return std::next(blocks_.begin(), static_cast<std::ptrdiff_t>(number % blocks_.size()));
  }

  bool step(const Operation& op) {
    const driver::Stream stream = streams_[op.c % streams_.size()];
    switch (op.kind) {
      case kAllocate:
        return allocate(op, stream);
      case kFree:
      case kFreeChecked:
        if (blocks_.empty()) return false;
        free(some(op.a), op.kind == kFreeChecked);
        return true;
      case kRecord:
        if (blocks_.empty()) return false;
        fake_.launch(stream, kDevice);
        arena_->record_stream(some(op.a)->first, stream);
        return true;
      case kProgress:
        fake_.finish(stream, kDevice);
        return true;
      case kFinish:
        fake_.finish();
        return true;
      case kGiveBack:
        return arena_->allocator().give_back_free_pages() > 0;
      case kSetLimit:
        return arena_->allocator().set_limit((1 + op.a % kBudgetPages) * kPage), true;
      case kAddPeer:
        if (fake_.virtual_memory) peers_ |= attempt([&] { arena_->add_peer(kPeer); });
        return fake_.virtual_memory;
      case kSynchronize:
        attempt([&] { arena_->synchronize(); });
        return true;
      default:
        fake_.fail_at(1 + op.a % 12, 1 + op.b % 4);
        return true;
    }
  }

  // False if a call of the driver was refused, which is the only reason.
  template <typename Call>
  bool attempt(Call&& call) {
    try {
      call();
      return true;
    } catch (const DeviceError&) {
      expect(fake_.failed());
      return false;
    }
  }

  bool allocate(const Operation& op, driver::Stream stream) {
    const size_t bytes = op.b % 3 == 0 ? 1 + op.a % (4 * kPage) : 1 + op.a % 5000;
    char* address = nullptr;
    try {
      attempt([&] { address = static_cast<char*>(arena_->allocate(bytes, stream)); });
    } catch (const OutOfMemory&) {
    }
    if (address == nullptr) return false;
    const auto next = blocks_.lower_bound(address);
    expect(next == blocks_.end() || address + bytes <= next->first);
    expect(next == blocks_.begin() ||
           std::prev(next)->first + std::prev(next)->second.bytes <= address);
    expect(arena_->block_bytes(address) >= bytes);
    expect(!arena_->owns_block(address + 1));
    blocks_[address] = {bytes, stream};
    fake_.launch(stream, kDevice);
    return true;
  }

  void free(Blocks::iterator at, bool checked) {
    const auto [address, block] = *at;
    blocks_.erase(at);
    expect(arena_->owns_block(address));
    if (checked) {
      arena_->free_checked(address, block.bytes, block.stream);
    } else {
      arena_->free(address);
    }
    expect(!arena_->owns_block(address));
  }

  void compare() {
    if (++compared_ % 4 == 0) arena_->allocator().check_invariants();
    const AllocatorStatistics statistics = arena_->allocator().statistics();
    expect(statistics.reserved_bytes <= kBudgetPages * kPage);
    size_t bytes = 0;
    for (const auto& [address, block] : blocks_) bytes += block.bytes;
    expect_equal(statistics.requested_bytes, bytes);
    if (!fake_.virtual_memory) return;
    expect_equal(statistics.reserved_bytes, fake_.handle_bytes());
    for (const auto& [address, block] : blocks_) {
      const auto first = reinterpret_cast<uintptr_t>(address);
      for (uintptr_t byte : {first, first + block.bytes / 2, first + block.bytes - 1}) {
        expect(fake_.accessible(byte, kDevice));
        expect(!peers_ || fake_.accessible(byte, kPeer));
      }
    }
    fake_.waits.clear();
    fake_.recorded_on.clear();
    fake_.recorded_devices.clear();
    expect_equal(fake_.current_device(), -1);
  }

  test::FakeDriver fake_{2};
  std::optional<DeviceArena> arena_;
  std::vector<driver::Stream> streams_;
  Blocks blocks_;
  bool peers_ = false;
  size_t compared_ = 0;
};

TEST_CASE("a device's arena does what a list of its blocks says, whatever call is refused") {
  tidepool::test::fuzz<DeviceArenaModel>("DeviceArenaModel");
}

}  // namespace
}  // namespace tidepool::device
