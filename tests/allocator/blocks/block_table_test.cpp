#include "allocator/blocks/block_table.h"

#include "tests/support/catch.h"

namespace tidepool {
namespace {

TEST_CASE("entries are found again, until their part of the table is dropped") {
  constexpr size_t kPage = 64 << 10;
  BlockTable table(size_t{1} << 40, 64);
  table.set(0, BlockId{1});
  table.set(kPage - 64, BlockId{2});
  table.set(kPage, BlockId{3});
  table.set((size_t{1} << 40) - 64, BlockId{4});
  CHECK(table.at(0) == BlockId{1});
  CHECK(table.at((size_t{1} << 40) - 64) == BlockId{4});
  CHECK(table.at(size_t{1} << 39) == BlockId::kNone);
  table.drop(0, kPage);
  CHECK(table.at(0) == BlockId::kNone);
  CHECK(table.at(kPage - 64) == BlockId::kNone);
  CHECK(table.at(kPage) == BlockId{3});
}

TEST_CASE("dropping less than a page of the table touches nothing else") {
  BlockTable table(1 << 20, 64);
  table.set(0, BlockId{1});
  table.set(1 << 15, BlockId{2});
  table.drop(1 << 12, 1 << 13);
  CHECK(table.at(0) == BlockId{1});
  CHECK(table.at(1 << 15) == BlockId{2});
}

}  // namespace
}  // namespace tidepool
