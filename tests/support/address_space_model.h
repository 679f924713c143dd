// AddressSpaceModel: random calls, right and wrong, of an AddressSpace with faults, against a table
// of pages that follows the rules of address_space.h. For operation_fuzz.h. World has
//   kHasMemory (bytes can be touched), kMoves (move() can succeed), kMappings (the limit);
//   AddressSpace& space();
//   void fail_at(size_t n, bool other_way), bool take_failure(): a fault has happened since asked;
//   void check(const SpaceContents&): its own books say the same.
#pragma once

#include <map>
#include <vector>

#include "allocator/space/address_space.h"
#include "tests/support/operation_fuzz.h"

namespace tidepool::test {

struct SpaceContents {
  size_t ranges = 0, handle_bytes = 0, mappings = 0;
  std::map<Address, bool> pages;  // mapped ones -> accessible
};

template <typename World, size_t kPage>
class AddressSpaceModel {
 public:
  enum Kind {
    kReserve,
    kReleaseRange,
    kCreate,
    kRelease,
    kMap,
    kOpen,
    kUnmap,
    kMove,
    kFill,
    kFail
  };
  static constexpr OperationKind kKinds[] = {
      {"kReserve", 2}, {"kReleaseRange", 1}, {"kCreate", 8}, {"kRelease", 4}, {"kMap", 16},
      {"kOpen", 16},   {"kUnmap", 6},        {"kMove", 12},  {"kFill", 4},    {"kFail", 4}};

  explicit AddressSpaceModel(uint64_t) {}

  bool run(const Operation& op) {
    const bool had_effect = step(op);
    check();
    return had_effect;
  }

  void finish() {
    world_.fail_at(SIZE_MAX / 2, false);
    for (const Handle& handle : handles_) {
      if (handle.mapped) space().unmap(handle.at, handle.pages * kPage);
      space().release_handle(handle.id);
    }
    for (const auto& [start, pages] : ranges_) space().release_range(start, pages * kPage);
    world_.check({});
  }

 private:
  struct Handle {
    HandleId id;
    size_t pages = 0;
    bool mapped = false, accessible = false;
    Address at = {};
    unsigned char stamp = 0;
  };
  static constexpr size_t kMostRanges = 3, kMostHandles = 12, kMostRangePages = 12;

  AddressSpace& space() { return world_.space(); }

  bool step(const Operation& op) {
    switch (op.kind) {
      case kReserve:
        return reserve(op);
      case kReleaseRange:
        return release_range(op);
      case kCreate:
        return create(op);
      case kRelease:
        return release(op);
      case kMap:
        return map(op);
      case kOpen:
        return open(op);
      case kUnmap:
        return unmap(op);
      case kMove:
        return move(op);
      case kFill:
        return fill(op);
      default:
        world_.fail_at(1 + op.a % 8, op.b % 2 == 0);
        return true;
    }
  }

  // Makes the call, which has to succeed exactly if it is allowed and no fault is due in it.
  template <typename Call>
  bool succeeds(bool allowed, Call&& call) {
    bool threw = false;
    try {
      call();
    } catch (const DeviceError&) {
      threw = true;
    }
    const bool failed = world_.take_failure();
    expect_equal(threw, !allowed || failed);
    return !threw;
  }

  bool reserve(const Operation& op) {
    if (ranges_.size() == kMostRanges) return false;
    const size_t bytes = op.a % (kMostRangePages + 1) * kPage + (op.b % 16 == 0);
    Address start;
    if (succeeds(bytes > 0 && bytes % kPage == 0, [&] { start = space().reserve(bytes); })) {
      expect(start.value % kPage == 0);
      for (const auto& [other, pages] : ranges_) {
        expect(other + pages * kPage <= start || start + bytes <= other);
      }
      ranges_.emplace(start, bytes / kPage);
    }
    return true;
  }

  bool release_range(const Operation& op) {
    if (ranges_.empty()) return false;
    const auto range = some(ranges_, op.a);
    const size_t bytes = range->second * kPage - (op.b % 8 == 0 ? kPage : 0);
    bool empty = true;
    for (const Handle& handle : handles_) {
      empty &= !handle.mapped || handle.at < range->first ||
               handle.at >= range->first + range->second * kPage;
    }
    const bool allowed = empty && bytes == range->second * kPage;
    if (succeeds(allowed, [&] { space().release_range(range->first, bytes); })) {
      ranges_.erase(range);
    }
    return true;
  }

  bool create(const Operation& op) {
    if (handles_.size() == kMostHandles) return false;
    const size_t bytes = op.a % 4 * kPage + (op.b % 16 == 0);
    HandleId id{};
    if (succeeds(bytes > 0 && bytes % kPage == 0, [&] { id = space().create_handle(bytes); })) {
      for (const Handle& other : handles_) expect(other.id != id);
      handles_.push_back({id, bytes / kPage});
    }
    return true;
  }

  bool release(const Operation& op) {
    if (op.b % 16 == 0) {  // one that is gone, or never was
      return !succeeds(false, [&] { space().release_handle(dead_); });
    }
    if (handles_.empty()) return false;
    const auto handle = some(handles_, op.a);
    if (succeeds(!handle->mapped, [&] { space().release_handle(handle->id); })) {
      dead_ = handle->id;
      handles_.erase(handle);
    }
    return true;
  }

  bool map(const Operation& op) {
    if (handles_.empty() || ranges_.empty()) return false;
    Handle& handle = *some(handles_, op.a);
    const Address to = place(op);
    const size_t pages = handle.pages + (op.c % 32 == 0);
    const bool allowed = !handle.mapped && pages == handle.pages && vacant(to, pages) &&
                         mappings() < World::kMappings;
    if (succeeds(allowed, [&] { space().map(to, pages * kPage, handle.id); })) {
      handle.mapped = true;
      handle.at = to;
    }
    return true;
  }

  bool open(const Operation& op) {
    if (ranges_.empty()) return false;
    const auto [start, pages] = run_of(op);
    if (!succeeds(tiled(start, pages), [&] { space().set_access(start, pages * kPage); })) {
      return true;
    }
    for (Handle& handle : handles_) {
      if (!handle.mapped || handle.at < start || handle.at >= start + pages * kPage) continue;
      if (!handle.accessible) write(handle, static_cast<unsigned char>(op.b));
      handle.accessible = true;
    }
    return true;
  }

  bool unmap(const Operation& op) {
    if (ranges_.empty()) return false;
    const auto [start, pages] = run_of(op);
    if (!succeeds(tiled(start, pages), [&] { space().unmap(start, pages * kPage); })) return true;
    for (Handle& handle : handles_) {
      if (handle.at >= start && handle.at < start + pages * kPage) lose(handle);
    }
    return true;
  }

  bool move(const Operation& op) {
    if (handles_.empty() || ranges_.empty()) return false;
    Handle& handle = *some(handles_, op.a);
    const Address from = op.c % 16 == 0 ? place({0, op.a, op.c, 1}) : handle.at;
    const Address to = place(op);
    const size_t pages = handle.pages + (op.c % 32 == 1);
    const bool allowed =
        handle.mapped && from == handle.at && pages == handle.pages && vacant(to, pages);
    const MoveResult result = space().move(handle.id, from, to, pages * kPage);
    const bool failed = world_.take_failure();
    const bool moves = allowed && World::kMoves && !failed;
    expect((result == MoveResult::kMoved) == moves);
    if (result == MoveResult::kUnmapped) expect(allowed && failed);
    if (result == MoveResult::kStayed) return true;
    lose(handle);
    handle.mapped = moves;
    if (moves) handle.at = to;
    return true;
  }

  bool fill(const Operation& op) {
    if (handles_.empty()) return false;
    Handle& handle = *some(handles_, op.a);
    if (!handle.accessible) return false;
    const auto value = static_cast<unsigned char>(op.b);
    if (succeeds(true, [&] { space().fill(handle.at, handle.pages * kPage, value); })) {
      handle.stamp = value;
    }
    return true;
  }

  template <typename Container>
  static auto some(Container& container, uint32_t number) {
    return std::next(container.begin(), number % container.size());
  }
  // Mostly a page of a range; sometimes beyond it, or not the start of a page.
  Address place(const Operation& op) {
    const auto range = some(ranges_, op.b >> 8);
    return range->first + op.b % (range->second + 1) * kPage + (op.c % 64 == 2);
  }
  // Mostly the mappings from one to another; sometimes any pages.
  std::pair<Address, size_t> run_of(const Operation& op) {
    const Address start = place(op);
    if (op.c % 8 == 0 || handles_.empty()) return {start, op.a % 6};
    const Handle& first = *some(handles_, op.a);
    if (!first.mapped) return {start, op.a % 6};
    Address end = first.at;
    for (size_t left = 1 + op.b % 3; left > 0; --left) {
      for (const Handle& next : handles_) {
        if (!next.mapped || next.at != end) continue;
        end = end + next.pages * kPage;
        break;
      }
    }
    return {first.at, (end - first.at) / kPage};
  }

  const Handle* at(Address page) const {
    for (const Handle& handle : handles_) {
      if (handle.mapped && page >= handle.at && page < handle.at + handle.pages * kPage) {
        return &handle;
      }
    }
    return nullptr;
  }
  size_t mappings() const {
    size_t count = 0;
    for (const Handle& handle : handles_) count += handle.mapped;
    return count;
  }
  // Whole pages of one range, with nothing in them.
  bool vacant(Address start, size_t pages) const {
    bool inside = false;
    for (const auto& [range, size] : ranges_) {
      inside |= start >= range && start + pages * kPage <= range + size * kPage;
    }
    for (size_t page = 0; page < pages; ++page) inside &= at(start + page * kPage) == nullptr;
    return inside && start.value % kPage == 0;
  }
  // Every page is mapped, and no mapping sticks out.
  bool tiled(Address start, size_t pages) const {
    if (pages == 0 || start.value % kPage != 0) return false;
    for (size_t page = 0; page < pages; ++page) {
      const Handle* handle = at(start + page * kPage);
      if (handle == nullptr || handle->at < start) return false;
      if (handle->at + handle->pages * kPage > start + pages * kPage) return false;
    }
    return true;
  }

  void lose(Handle& handle) {
    handle.mapped = handle.accessible = false;
    handle.at = {};
  }
  void write(Handle& handle, unsigned char stamp) {
    handle.stamp = stamp;
    for (size_t page = 0; World::kHasMemory && page < handle.pages; ++page) {
      bytes(handle, page)[0] = bytes(handle, page)[kPage - 1] = stamp;
    }
  }
  static unsigned char* bytes(const Handle& handle, size_t page) {
    return static_cast<unsigned char*>((handle.at + page * kPage).pointer());
  }

  void check() {
    SpaceContents contents{ranges_.size(), 0, mappings(), {}};
    for (const Handle& handle : handles_) {
      contents.handle_bytes += handle.pages * kPage;
      for (size_t page = 0; handle.mapped && page < handle.pages; ++page) {
        contents.pages[handle.at + page * kPage] = handle.accessible;
        if (!World::kHasMemory || !handle.accessible) continue;
        expect_equal(bytes(handle, page)[0], handle.stamp);
        expect_equal(bytes(handle, page)[kPage - 1], handle.stamp);
      }
    }
    world_.check(contents);
  }

  World world_;
  std::map<Address, size_t> ranges_;  // start -> pages
  std::vector<Handle> handles_;
  HandleId dead_ = HandleId::kNone;
};

}  // namespace tidepool::test
