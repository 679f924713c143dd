// What the heap is made of, each part against a container of the standard library: the list of
// blocks with its table, the index over free ones, the bins.
#include <map>
#include <optional>
#include <set>

#include "allocator/blocks/block_list.h"
#include "allocator/blocks/block_table.h"
#include "allocator/heap/exact_bins.h"
#include "allocator/heap/free_index.h"
#include "tests/support/catch.h"
#include "tests/support/operation_fuzz.h"
#include "tests/support/random.h"

namespace tidepool {
namespace {

using test::expect;
using test::expect_equal;
using test::Operation;
using test::OperationKind;

constexpr size_t kUnit = 64;

template <typename Container>
auto some(Container& container, uint32_t number) {
  return std::next(container.begin(), static_cast<std::ptrdiff_t>(number % container.size()));
}

class BlockListModel {
 public:
  enum Kind { kSplit, kAbsorb, kSetEntry, kDropEntries };
  static constexpr OperationKind kKinds[] = {
      {"kSplit", 9}, {"kAbsorb", 7}, {"kSetEntry", 3}, {"kDropEntries", 1}};

  explicit BlockListModel(uint64_t) {
    const BlockId id = blocks_.append(kBytes, Zone::kMedium);
    ids_[0] = id;
    refs_.push_back(blocks_.ref(id));
  }

  bool run(const Operation& op) {
    const auto at = some(ids_, op.a);
    Block& block = blocks_[at->second];
    const auto next = std::next(at);
    switch (op.kind) {
      case kSplit: {
        if (block.bytes == kUnit) return false;
        const size_t kept = kUnit * (1 + op.b % (block.bytes / kUnit - 1));
        const BlockId rest = blocks_.split(at->second, kept);
        expect(ids_.emplace(at->first + kept, rest).second);
        refs_.push_back(blocks_.ref(rest));
        break;
      }
      case kAbsorb:
        if (next == ids_.end()) return false;
        std::erase_if(refs_, [&](BlockRef ref) { return ref.id == next->second; });
        gone_.push_back(blocks_.ref(next->second));
        blocks_.absorb_next(at->second);
        ids_.erase(next);
        break;
      case kSetEntry:
        table_.set(at->first, at->second);
        entries_[at->first] = at->second;
        break;
      case kDropEntries:
        drop(kUnit * (op.b % (kBytes / kUnit)), kUnit * (op.c % (kBytes / kUnit)));
        break;
    }
    compare();
    return true;
  }
  void finish() {}

 private:
  static constexpr size_t kBytes = size_t{1} << 20;

  void drop(size_t offset, size_t bytes) {
    bytes = std::min(bytes, kBytes - offset);
    table_.drop(offset, bytes);
    constexpr size_t kPerPage = kUnit * 4096 / sizeof(BlockId);  // of the range, by one page of it
    const auto end = entries_.lower_bound(offset + bytes);
    for (auto it = entries_.lower_bound(offset); it != end;) {
      const size_t page = it->first / kPerPage * kPerPage;
      const bool whole = page >= offset && page + kPerPage <= offset + bytes;
      it = whole ? entries_.erase(it) : std::next(it);
    }
  }

  void compare() {
    blocks_.check_invariants();
    expect_equal(blocks_.count(), ids_.size());
    BlockId id = blocks_.first();
    for (const auto& [offset, expected] : ids_) {
      expect(id == expected && blocks_[id].offset == offset);
      id = blocks_[id].next;
    }
    for (BlockRef ref : refs_) expect(blocks_.current(ref));
    for (BlockRef ref : gone_) expect(!blocks_.current(ref));
    if (gone_.size() > 20) gone_.erase(gone_.begin());
    for (const auto& [offset, entry] : entries_) expect(table_.at(offset) == entry);
    for (size_t offset = 0; offset < kBytes; offset += kBytes / 16) {
      if (!entries_.contains(offset)) expect(table_.at(offset) == BlockId::kNone);
    }
  }

  BlockList blocks_{kBytes};
  BlockTable table_{kBytes, kUnit};
  std::map<size_t, BlockId> ids_;  // by offset
  std::map<size_t, BlockId> entries_;
  std::vector<BlockRef> refs_, gone_;
};

// Blocks of sizes that fall into many classes, few of them alike.
struct SomeBlocks {
  explicit SomeBlocks(uint64_t seed, BlockState state) : blocks(kBytes) {
    test::Random random(seed);
    const uint64_t most_bits = random.between(1, 20);
    for (int i = 0; i < 48; ++i) {
      const size_t bytes = kUnit * random.between(1, uint64_t{1} << random.between(0, most_bits));
      const BlockId id = blocks.append(bytes, kZones[random.below(2)]);
      blocks[id].state = state;
      outside.push_back(id);
    }
  }
  // One of the blocks in or outside, which changes sides.
  static BlockId take(std::vector<BlockId>& from, uint32_t number) {
    const auto at = some(from, number);
    const BlockId id = *at;
    from.erase(at);
    return id;
  }
  static constexpr size_t kBytes = size_t{1} << 40;
  BlockList blocks;
  std::vector<BlockId> outside, inside;
};

class FreeIndexModel : SomeBlocks {
 public:
  enum Kind { kInsert, kRemove, kFit };
  static constexpr OperationKind kKinds[] = {{"kInsert", 4}, {"kRemove", 3}, {"kFit", 8}};

  explicit FreeIndexModel(uint64_t seed) : SomeBlocks(seed, BlockState::kFree) {}

  bool run(const Operation& op) {
    switch (op.kind) {
      case kInsert:
        if (outside.empty()) return false;
        insert(take(outside, op.a));
        break;
      case kRemove:
        if (inside.empty()) return false;
        remove(take(inside, op.a));
        break;
      case kFit: {
        size_t bytes = kUnit * (1 + op.a % (1u << op.b % 21));
        if (op.c % 2 == 0 && !inside.empty()) bytes = blocks[*some(inside, op.c)].bytes;
        const auto best = by_size_.lower_bound({bytes, BlockId::kNone});
        const BlockId found = index_.best_fit(bytes);
        expect((found == BlockId::kNone) == (best == by_size_.end()));
        if (found != BlockId::kNone) expect_equal(blocks[found].bytes, best->first);
        break;
      }
    }
    index_.check_invariants();
    expect_equal(index_.count(), by_size_.size());
    expect_equal(index_.bytes(), bytes_);
    return true;
  }
  void finish() {}

 private:
  void insert(BlockId id) {
    index_.insert(id);
    inside.push_back(id);
    by_size_.emplace(blocks[id].bytes, id);
    bytes_ += blocks[id].bytes;
  }
  void remove(BlockId id) {
    index_.remove(id);
    outside.push_back(id);
    by_size_.erase({blocks[id].bytes, id});
    bytes_ -= blocks[id].bytes;
  }

  FreeIndex index_{blocks, kUnit};
  std::set<std::pair<size_t, BlockId>> by_size_;
  size_t bytes_ = 0;
};

class ExactBinsModel : SomeBlocks {
 public:
  enum Kind { kPush, kPop, kRemove, kPopAny };
  static constexpr OperationKind kKinds[] = {
      {"kPush", 8}, {"kPop", 6}, {"kRemove", 2}, {"kPopAny", 1}};

  explicit ExactBinsModel(uint64_t seed) : SomeBlocks(seed, BlockState::kCached) {}

  bool run(const Operation& op) {
    const bool had_effect = step(op);
    bins_.check_invariants();
    expect_equal(bins_.bytes(), bytes_);
    return had_effect;
  }
  void finish() {}

 private:
  using Key = std::pair<Zone, size_t>;
  static constexpr size_t kLimitBytes = 1 << 16;

  bool step(const Operation& op) {
    switch (op.kind) {
      case kPush: {
        if (outside.empty()) return false;
        const size_t bytes = blocks[*some(outside, op.a)].bytes;
        const bool accepts = bytes / kUnit < 1024 && bytes_ + bytes <= kLimitBytes;
        expect_equal(bins_.accepts(bytes), accepts);
        if (!accepts) return true;
        const BlockId id = take(outside, op.a);
        bins_.push(id);
        inside.push_back(id);
        stacks_[key(id)].push_back(id);
        bytes_ += bytes;
        return true;
      }
      case kPop: {
        const BlockId like =
            op.b % 4 != 0 && !inside.empty() ? *some(inside, op.a) : blocks.first();
        const auto& stack = stacks_[key(like)];
        const BlockId expected = stack.empty() ? BlockId::kNone : stack.back();
        expect(bins_.pop(blocks[like].zone, blocks[like].bytes) == expected);
        return left(expected);
      }
      case kRemove: {
        if (inside.empty()) return false;
        const BlockId id = *some(inside, op.a);
        bins_.remove(id);
        return left(id);
      }
      default: {
        const BlockId id = bins_.pop_any();
        expect((id == BlockId::kNone) == inside.empty());
        return left(id);
      }
    }
  }
  Key key(BlockId id) { return {blocks[id].zone, blocks[id].bytes}; }
  // The block came out of the bins.
  bool left(BlockId id) {
    if (id == BlockId::kNone) return false;
    expect(std::erase(inside, id) == 1);
    std::erase(stacks_[key(id)], id);
    outside.push_back(id);
    bytes_ -= blocks[id].bytes;
    return true;
  }

  ExactBins bins_{blocks, kUnit, kLimitBytes};
  std::map<Key, std::vector<BlockId>> stacks_;
  size_t bytes_ = 0;
};

TEST_CASE("blocks and their table follow a map by offset") {
  test::fuzz<BlockListModel>("BlockListModel", 300);
}
TEST_CASE("the free index finds what an ordered set finds") {
  test::fuzz<FreeIndexModel>("FreeIndexModel");
}
TEST_CASE("bins are stacks by zone and size") { test::fuzz<ExactBinsModel>("ExactBinsModel"); }

}  // namespace
}  // namespace tidepool
