#include "remat/record/block_book.h"

#include "remat/record/workspace_meter.h"
#include "tests/remat/record/block_views.h"
#include "tests/support/catch.h"

namespace tidepool::remat {
namespace {

const void* at(uintptr_t address) { return reinterpret_cast<const void*>(address); }

std::vector<std::pair<uint32_t, size_t>> listed(const BlockBook& book) {
  std::vector<std::pair<uint32_t, size_t>> all;
  for (const BlockChange& change : book.changes()) all.emplace_back(change.block, change.bytes);
  return all;
}

using List = std::vector<std::pair<uint32_t, size_t>>;

TEST_CASE("blocks are numbered in their order, whatever their addresses") {
  WorkspaceMeter meter;
  BlockBook book(meter);
  book.allocated(block(900, 10));
  book.allocated(block(100, 20));
  book.freed(block(900, 10), false);
  book.allocated(block(900, 30));
  book.freed(block(900, 30), false);
  CHECK(listed(book) == List{{0, 10}, {1, 20}, {0, 0}, {2, 30}, {2, 0}});
  book.clear();
  book.allocated(block(900, 40));
  CHECK(listed(book) == List{{3, 40}});
}

TEST_CASE("the block of a storage is freed by the storage's death, and not listed") {
  WorkspaceMeter meter;
  BlockBook book(meter);
  book.allocated(block(900, 10));
  book.allocated(block(100, 20));
  CHECK(book.give(at(100)) == 1);
  book.freed(block(100, 20), false);
  CHECK(book.give(at(100)) == BlockChange::kNone);  // freed
  book.allocated(block(100, 30));                   // another one
  book.freed(block(100, 30), false);
  CHECK(listed(book) == List{{0, 10}, {1, 20}, {2, 30}, {2, 0}});
}

TEST_CASE("what was there before has no number, and the next one hears of all") {
  WorkspaceMeter meter;
  BlockBook book(meter);
  book.freed(block(500, 10), false);
  CHECK(book.give(at(500)) == BlockChange::kNone);
  CHECK(book.give(nullptr) == BlockChange::kNone);
  CHECK(book.changes().empty());
  meter.begin();
  book.allocated(block(900, 10));
  book.freed(block(900, 10), false);
  CHECK(meter.end() == 10);
}

}  // namespace
}  // namespace tidepool::remat
