// The heap against a table of its units, each with its state and with the uses of its last life by
// stream: memory that is handed out may have been used, since it was last known to have passed, by
// the stream that gets it alone.
#include <array>
#include <map>
#include <set>
#include <utility>

#include "allocator/heap/heap.h"
#include "tests/support/catch.h"
#include "tests/support/operation_fuzz.h"

namespace tidepool {
namespace {

using test::expect;
using test::expect_equal;
using test::Operation;
using test::OperationKind;
using PageState = PageTable::PageState;

constexpr size_t kUnit = 64, kPage = 1024, kPages = 16, kBudget = 13, kStreams = 3;
constexpr size_t kUnits = kPages * kPage / kUnit, kPageUnits = kPage / kUnit;

class HeapModel {
 public:
  enum Kind {
    kTake,
    kRelease,
    kUse,
    kClose,
    kPass,
    kReleasePassed,
    kMergePassed,
    kFlush,
    kHold,
    kClaim,
    kGiveBack
  };
  static constexpr OperationKind kKinds[] = {
      {"kTake", 30}, {"kRelease", 24},      {"kUse", 6},         {"kClose", 6},
      {"kPass", 4},  {"kReleasePassed", 3}, {"kMergePassed", 2}, {"kFlush", 3},
      {"kHold", 1},  {"kClaim", 16},        {"kGiveBack", 2}};

  explicit HeapModel(uint64_t) {
    clocks_.add_stream(StreamId{kStreams - 1});
    heap_.add_stream(StreamId{kStreams - 1});
  }

  bool run(const Operation& op) {
    const bool had_effect = step(op);
    compare();
    return had_effect;
  }

  void finish() {
    while (!live_.empty()) release(live_.begin());
    clocks_.close_all();
    for (uint32_t stream = 0; stream < kStreams; ++stream) pass(stream);
    heap_.flush();
    heap_.release_passed();
    heap_.flush();  // some have come free only now
    heap_.merge_passed();
    compare();
    heap_.check_invariants(pages_);
    // Nothing is lost: each run of committed pages in a zone is one block.
    size_t blocks = 0, edges = 0;
    for (BlockId id = first(); id != BlockId::kNone; id = heap_[id].next) ++blocks;
    for (size_t page = 0; page < kPages; ++page) {
      edges += page == 0 || heap_.zone_begins_at(page * kPage) ||
               pages_.page(page).state != pages_.page(page - 1).state;
    }
    expect_equal(heap_.allocated_bytes() + heap_.awaiting_bytes(), size_t{0});
    if (quarantined_ == 0) expect_equal(blocks, edges);
  }

 private:
  enum class Use : uint8_t { kHole, kGiven, kTaken, kQuarantined };
  struct Unit {
    Use use = Use::kHole;
    std::array<Epoch, kStreams> uses{};  // up to when each stream used it; 0: not
  };
  struct Live {
    BlockId id;
    std::set<uint32_t> users;         // until it is freed
    std::map<uint32_t, Epoch> ended;  // up to when other streams have used it
  };
  using LiveBlocks = std::map<size_t, Live>;  // by offset

  bool step(const Operation& op) {
    const uint32_t stream = op.c % kStreams;
    switch (op.kind) {
      case kTake:
        return take(op, stream);
      case kRelease:
        return !live_.empty() && release(some_live(op.a));
      case kUse:
        return use(op, stream);
      case kClose:
        clocks_.close(StreamId{stream});
        if (op.a % 16 == 0) heap_.spare_pages(), spares_pages_ = true;
        return true;
      case kPass:
        return pass(stream);
      case kReleasePassed:
        return heap_.release_passed();
      case kMergePassed:
        heap_.merge_passed();
        return true;
      case kFlush:
        return heap_.flush();
      case kHold:
        heap_.hold_merging();
        return true;
      case kClaim:
        return claim(op, stream);
      default:
        return give_back();
    }
  }

  LiveBlocks::iterator some_live(uint32_t number) {
    return std::next(live_.begin(), static_cast<std::ptrdiff_t>(number % live_.size()));
  }
  BlockId first() const { return heap_.blocks().first(); }

  bool take(const Operation& op, uint32_t stream) {
    const Zone zone = kZones[op.b % kZoneCount];
    const size_t bytes = kUnit * (1 + (op.a >> 8) % (op.a % 4 == 0 ? 3 * kPageUnits : 6));
    BlockId id = heap_.take_cached(zone, bytes, StreamId{stream});
    if (id == BlockId::kNone) {
      size_t best = SIZE_MAX;
      for (BlockId each = first(); each != BlockId::kNone; each = heap_[each].next) {
        const Block& block = heap_[each];
        const bool fits = block.state == BlockState::kFree && block.zone == zone &&
                          block.stream == StreamId{stream} && block.bytes >= bytes;
        if (fits) best = std::min(best, block.bytes);
      }
      const End end = (op.b >> 8) % 4 == 0 ? End::kHigh : End::kLow;
      id = heap_.take_free(zone, bytes, StreamId{stream}, end);
      expect_equal(id == BlockId::kNone, best == SIZE_MAX);
      if (id == BlockId::kNone) return false;
      const auto left_over = [&](BlockId neighbour) {
        if (neighbour == BlockId::kNone) return size_t{0};
        const Block& block = heap_[neighbour];
        const bool cut_off = block.state == BlockState::kFree && block.zone == zone &&
                             block.stream == StreamId{stream};
        return cut_off ? block.bytes : 0;
      };
      const size_t before = left_over(heap_[id].previous);
      const size_t after = left_over(heap_[id].next);
      expect_equal(before + after, best - bytes);
      const bool at_end = (end == End::kHigh ? after : before) == 0;
      expect(at_end || (spares_pages_ && bytes >= kPage && heap_[id].offset % kPage == 0));
    }
    took(id, bytes, stream, {});
    return true;
  }

  // The block was handed out to a stream that has waited for `waited`.
  void took(BlockId id, size_t bytes, uint32_t stream, const StreamUses& waited) {
    Block& block = heap_[id];
    expect(block.stream == StreamId{stream});
    expect_equal(block.bytes, bytes);
    heap_.set_requested(id, bytes - slack_++ % kUnit);
    for_units(block.offset, block.end(), [&](Unit& unit) {
      expect(unit.use == Use::kGiven);
      expect(covered(unit, stream, waited));
      unit = {Use::kTaken, {}};
    });
    expect(live_.emplace(block.offset, Live{id, {}, {}}).second);
    expect(heap_.allocated_at(block.offset) == id);
  }

  // Every use of the unit is the stream's own, has passed, or is among `waited`.
  bool covered(const Unit& unit, uint32_t stream, const StreamUses& waited) const {
    for (uint32_t user = 0; user < kStreams; ++user) {
      bool safe = user == stream || unit.uses[user] <= passed_[user];
      for (StreamUse use : waited) {
        safe |= use.stream == StreamId{user} && use.epoch >= unit.uses[user];
      }
      if (!safe) return false;
    }
    return true;
  }

  bool release(LiveBlocks::iterator at) {
    const auto& [offset, live] = *at;
    const Block& block = heap_[live.id];
    const auto own = static_cast<uint32_t>(block.stream);
    for_units(offset, block.end(), [&](Unit& unit) {
      unit.use = Use::kGiven;
      unit.uses[own] = clocks_.open(block.stream);
      for (const auto& [user, epoch] : live.ended) unit.uses[user] = epoch;
      for (uint32_t user : live.users) unit.uses[user] = clocks_.open(StreamId{user});
    });
    heap_.release(live.id);
    live_.erase(at);
    return true;
  }

  bool use(const Operation& op, uint32_t stream) {
    if (live_.empty()) return false;
    const auto at = some_live(op.a);
    const BlockId id = at->second.id;
    const bool is_other = heap_[id].stream != StreamId{stream};
    if (op.b % 2 == 0) {
      heap_.add_user(id, StreamId{stream});
      if (is_other) at->second.users.insert(stream);
    } else {
      const StreamUse use{StreamId{stream}, clocks_.open(StreamId{stream})};
      heap_.add_user(id, use);
      if (is_other) at->second.ended[stream] = use.epoch;
    }
    return true;
  }

  bool pass(uint32_t stream) {
    const Epoch last = clocks_.open(StreamId{stream}) - 1;
    clocks_.note_passed({StreamId{stream}, last});
    return std::exchange(passed_[stream], last) < last;
  }

  // Claims some pages that nobody uses, or parts of them, gives pages to some of them, takes pages
  // from others, and hands out the front if it can.
  bool claim(const Operation& op, uint32_t stream) {
    size_t page = op.a % kPages, end_page = page;
    while (end_page < page + 1 + op.b % 4 && end_page < kPages && claimable(page, end_page)) {
      ++end_page;
    }
    if (end_page == page) return false;
    size_t begin = page * kPage, end = end_page * kPage;
    if (pages_.page(page).state == PageState::kAccessible) begin += kUnit * (op.c % kPageUnits);
    if (pages_.page(end_page - 1).state == PageState::kAccessible) {
      end -= kUnit * ((op.c >> 8) % kPageUnits);
    }
    if (begin >= end) return false;
    if (op.b % 3 == 0) heap_.flush();
    BlockId id = first();
    while (heap_[id].end() <= begin) id = heap_[id].next;
    StreamUses uses;
    id = heap_.claim(id, begin, end, &uses);
    expect(heap_[id].offset == begin && heap_[id].end() == end);
    for_units(begin, end, [&](Unit& unit) { expect(covered(unit, kStreams, uses)); });
    for (size_t each = (begin + kPage - 1) / kPage; (each + 1) * kPage <= end; ++each) {
      change_page(each, op.b >> (4 + 2 * (each - page)) & 3);
    }
    const size_t front = accessible_bytes(begin, end);
    unclaimed(begin, end, uses);
    if (front > 0 && op.c % 2 == 0) {
      const size_t bytes = kUnit * (1 + (op.c >> 16) % (front / kUnit));
      took(heap_.hand_out(id, bytes, pages_, StreamId{stream}, uses), bytes, stream, uses);
    } else {
      heap_.unclaim(id, pages_, StreamId{stream}, uses);
    }
    return true;
  }

  // In the zone of `page`, and nobody's.
  bool claimable(size_t page, size_t another) const {
    if (another > page && heap_.zone_begins_at(another * kPage)) return false;
    for (size_t unit = another * kPageUnits; unit < (another + 1) * kPageUnits; ++unit) {
      if (units_[unit].use > Use::kGiven) return false;
    }
    return true;
  }

  void change_page(size_t page, uint32_t choice) {
    if (pages_.page(page).state == PageState::kEmpty) {
      if (choice == 0 || pages_.headroom() == 0) return;
      pages_.promise(1);
      pages_.keep_promise();
      ++newest_handle_;
      pages_.set_mapped(page, HandleId{newest_handle_}, choice < 3 || newest_handle_ % 8 != 0);
    } else if (choice == 0) {
      pages_.take(page);
      pages_.forget_released();
    }
  }

  size_t accessible_bytes(size_t begin, size_t end) const {
    size_t at = begin;
    while (at < end && pages_.page(at / kPage).state == PageState::kAccessible) at += kUnit;
    return at - begin;
  }

  // The units of a claimed block are what their pages are.
  void unclaimed(size_t begin, size_t end, const StreamUses& uses) {
    for (size_t offset = begin; offset < end; offset += kUnit) {
      Unit& unit = units_[offset / kUnit];
      unit = {};
      const PageState state = pages_.page(offset / kPage).state;
      if (state == PageState::kEmpty) continue;
      unit.use = state == PageState::kAccessible ? Use::kGiven : Use::kQuarantined;
      quarantined_ += state == PageState::kInaccessible;
      if (unit.use == Use::kQuarantined) continue;
      for (StreamUse use : uses) unit.uses[static_cast<size_t>(use.stream)] = use.epoch;
    }
  }

  // As the arena does it, with the pages that were refused access.
  bool give_back() {
    BlockId id = first();
    while (id != BlockId::kNone && heap_[id].state != BlockState::kQuarantined) {
      id = heap_[id].next;
    }
    if (id == BlockId::kNone) return false;
    heap_[id].state = BlockState::kClaimed;
    for (size_t page = heap_[id].offset / kPage; page * kPage < heap_[id].end(); ++page) {
      pages_.take(page);
      pages_.forget_released();
    }
    for_units(heap_[id].offset, heap_[id].end(), [&](Unit& unit) {
      unit = {};
      --quarantined_;
    });
    heap_.unclaim(id, pages_);
    return true;
  }

  template <typename Function>
  void for_units(size_t begin, size_t end, Function&& function) {
    for (size_t unit = begin / kUnit; unit < end / kUnit; ++unit) function(units_[unit]);
  }

  void compare() {
    // Slow, since every bin and class is looked at.
    if (++compared_ % 8 == 0) heap_.check_invariants(pages_);
    for (BlockId id = first(); id != BlockId::kNone; id = heap_[id].next) {
      const Block& block = heap_[id];
      StreamUses own{{block.stream, block.freed_epoch}};
      const bool ready = block.state == BlockState::kFree || block.state == BlockState::kCached ||
                         block.state == BlockState::kUnmerged;
      for_units(block.offset, block.end(), [&](const Unit& unit) {
        expect(unit.use == use_of(block.state));
        if (ready) expect(covered(unit, kStreams, own));
      });
      const bool live = block.state == BlockState::kAllocated;
      expect((heap_.allocated_at(block.offset) == id) == live);
    }
  }

  static Use use_of(BlockState state) {
    switch (state) {
      case BlockState::kHole:
        return Use::kHole;
      case BlockState::kAllocated:
        return Use::kTaken;
      case BlockState::kQuarantined:
        return Use::kQuarantined;
      default:
        return Use::kGiven;
    }
  }

  StreamClocks clocks_;
  Heap heap_{kPages * kPage, kPage, kUnit, 2 * kPage, clocks_};
  PageTable pages_{kPages, kBudget};
  std::array<Unit, kUnits> units_{};
  std::array<Epoch, kStreams> passed_{};
  LiveBlocks live_;
  uint64_t newest_handle_ = 0;
  bool spares_pages_ = false;
  size_t quarantined_ = 0;  // units
  size_t slack_ = 0, compared_ = 0;
};

TEST_CASE("the heap does what a table of its units says, on every stream") {
  test::fuzz<HeapModel>("HeapModel");
}

}  // namespace
}  // namespace tidepool
