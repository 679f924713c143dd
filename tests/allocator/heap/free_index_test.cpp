#include "allocator/heap/free_index.h"

#include <map>
#include <set>

#include "tests/support/catch.h"
#include "tests/support/random.h"

namespace tidepool {
namespace {

constexpr size_t kUnit = 64;

// Lays out free blocks of the given sizes, each behind an allocated one, and indexes them.
struct Layout {
  explicit Layout(const std::vector<size_t>& sizes) : blocks(total(sizes)), index(blocks, kUnit) {
    for (size_t bytes : sizes) {
      BlockId id = blocks.append(bytes, Zone::kTransient);
      blocks[id].state = BlockState::kFree;
      index.insert(id);
      ids.push_back(id);
    }
  }
  static size_t total(const std::vector<size_t>& sizes) {
    size_t bytes = 0;
    for (size_t size : sizes) bytes += size;
    return bytes;
  }

  BlockList blocks;
  FreeIndex index;
  std::vector<BlockId> ids;
};

size_t random_size(test::Random& random) {
  return kUnit * random.between(1, uint64_t{1} << random.between(0, 18));
}

TEST_CASE("best fit equals brute force") {
  test::Random random(2);
  size_t compared = 0;
  for (int layout_number = 0; layout_number < 100'000; ++layout_number) {
    std::vector<size_t> sizes(random.between(0, 30));
    for (size_t& size : sizes) size = random_size(random);
    Layout layout(sizes);
    std::multiset<size_t> model(sizes.begin(), sizes.end());
    for (int query = 0; query < 8; ++query) {
      size_t bytes = random_size(random);
      if (!model.empty() && random.chance(30)) bytes = sizes[random.below(sizes.size())];
      auto expected = model.lower_bound(bytes);
      BlockId found = layout.index.best_fit(bytes);
      if ((found == BlockId::kNone) != (expected == model.end())) FAIL("of " << bytes);
      ++compared;
      if (found == BlockId::kNone) continue;
      if (layout.blocks[found].bytes != *expected) {
        FAIL(layout.blocks[found].bytes << " bytes for " << bytes << ", not " << *expected);
      }
      if (!random.chance(30)) continue;
      layout.index.remove(found);
      model.erase(expected);
    }
    if (layout_number % 64 == 0) layout.index.check_invariants();
    if (layout.index.count() != model.size()) FAIL("layout " << layout_number);
  }
  CHECK(compared == 800'000);
}

TEST_CASE("blocks of one size are taken from the lowest address") {
  Layout layout({256, 512, 256, 256});
  BlockId found = layout.index.best_fit(256);
  CHECK(layout.blocks[found].offset == 0);
  layout.index.remove(found);
  CHECK(layout.blocks[layout.index.best_fit(200)].offset == 768);
}

TEST_CASE("sizes at the edges of classes are told apart") {
  for (size_t units : {1u, 31u, 32u, 63u, 64u, 65u, 127u, 128u, 1023u, 1024u, 1055u, 1056u}) {
    Layout layout({units * kUnit});
    CHECK(layout.index.best_fit(units * kUnit) != BlockId::kNone);
    CHECK(layout.index.best_fit((units + 1) * kUnit) == BlockId::kNone);
    if (units > 1) CHECK(layout.index.best_fit((units - 1) * kUnit) != BlockId::kNone);
    layout.index.check_invariants();
  }
}

}  // namespace
}  // namespace tidepool
