#include "allocator/compaction.h"

#include "tests/support/allocator_world.h"
#include "tests/support/catch.h"

namespace tidepool {
namespace {

using test::FakeOwner;
using test::kPage;
using Owners = std::vector<FakeOwner*>;

// Sixteen pages, all free but for halves of pages that stay.
struct HalvesWorld : test::SixteenPages {
  explicit HalvesWorld(bool allow_remap = true) : SixteenPages(allow_remap) {
    for (size_t i = 0; i < 16; ++i) free(i);
    for (int i = 0; i < 16; ++i) halves.push_back(owned(kPage / 2, 100, true));
    base = static_cast<char*>(halves[0]->address);
  }
  void free_half(size_t index) {
    allocator.free(halves[index]->address);
    halves[index]->address = nullptr;
  }
  size_t compact() {
    DeviceLock lock(mutex);
    const size_t pages = allocator.compact(lock, StreamId::kDefault);
    return pages;
  }
  size_t at(size_t index) const {  // in halves of pages
    return static_cast<size_t>(static_cast<char*>(halves[index]->address) - base) / (kPage / 2);
  }
  Owners halves;
  char* base = nullptr;
};

TEST_CASE("what stays in pages of its own goes to gaps of others, from the highest on") {
  HalvesWorld world;
  for (size_t i : {1, 5, 9, 10, 12, 14, 15}) world.free_half(i);
  for (size_t i : {4, 8, 11, 13}) world.halves[i]->move_price = 1;
  // Halves 0, 4, 8, 11 and 13 are alone in their pages; 0 may not move.
  CHECK(world.compact() == 2);
  CHECK(world.reclaimer.moved == Owners{world.halves[13], world.halves[11]});
  CHECK(world.at(13) == 1);
  CHECK(world.at(11) == 5);
  CHECK(world.at(4) == 4);
  CHECK(world.at(8) == 8);
  CHECK(world.allocator.statistics().moved_bytes == kPage);
  world.allocator.check_invariants();
  CHECK(world.compact() == 0);  // 8 is the last that is alone
}

TEST_CASE("compaction moves nothing that gains no page, is large or may not move") {
  HalvesWorld world;
  for (size_t i : {1, 3, 5}) world.free_half(i);
  CHECK(world.compact() == 0);  // none may move
  FakeOwner* const large = world.owned(3 * kPage, 100, true);
  large->move_price = 1;
  CHECK(world.compact() == 0);
  world.halves[6]->move_price = world.halves[7]->move_price = 1;  // in one page
  CHECK(world.compact() == 0);
  world.halves[4]->move_price = 1;
  CHECK(world.compact() == 1);
  CHECK(world.reclaimer.moved == Owners{world.halves[4]});
  world.allocator.check_invariants();
  HalvesWorld evicted;
  for (size_t i : {1, 3, 5}) evicted.free_half(i);
  evicted.halves[4]->move_price = 1;
  evicted.halves[4]->barrier = false;
  CHECK(evicted.compact() == 0);  // it can be evicted where it is
  HalvesWorld across;
  for (size_t i = 0; i < 16; ++i) across.free_half(i);
  across.owned(kPage * 5 / 8, 100, true);
  void* const gap = across.allocator.allocate(kPage * 5 / 8);
  across.owned(kPage * 3 / 4, 100, true);
  across.owned(kPage * 5 / 8, 100, true)->move_price = 1;
  across.allocator.free(gap);
  CHECK(across.compact() == 0);  // it would keep two pages from going, in place of one
  CHECK(across.reclaimer.moved.empty());
  HalvesWorld fixed(false);
  for (size_t i : {1, 3, 5}) fixed.free_half(i);
  fixed.halves[4]->move_price = 1;
  CHECK(fixed.compact() == 0);  // where pages do not move windows do as well
}

}  // namespace
}  // namespace tidepool
