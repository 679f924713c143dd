#include "allocator/heap/exact_bins.h"

#include "allocator/base/check.h"

namespace tidepool {

void ExactBins::remove(BlockId id) {
  const Block& block = blocks_[id];
  unlink(bin_of(block.zone, block.bytes), id);
}

BlockId ExactBins::pop_any() {
  if (bytes_ == 0) return BlockId::kNone;
  for (size_t word = 0; word < words_.size(); ++word) {
    if (words_[word] == 0) continue;
    size_t bin = word * 64 + static_cast<size_t>(std::countr_zero(words_[word]));
    BlockId id = heads_[bin];
    unlink(bin, id);
    return id;
  }
  TIDEPOOL_CHECK(false, "(3) %zu bytes in no bin", bytes_);
}

void ExactBins::check_invariants() const {
  size_t bytes = 0;
  for (size_t bin = 0; bin < kBins; ++bin) {
    bool bit = (words_[bin / 64] >> (bin % 64)) & 1;
    TIDEPOOL_CHECK((heads_[bin] != BlockId::kNone) == bit, "(2) bin %zu, bit %d", bin, bit);
    BlockId previous{};
    for (BlockId id = heads_[bin]; id != BlockId::kNone; id = blocks_[id].link_next) {
      const Block& block = blocks_[id];
      TIDEPOOL_CHECK(block.state == BlockState::kCached && bin_of(block.zone, block.bytes) == bin,
                     "(1) block at %zu in bin %zu", block.offset, bin);
      TIDEPOOL_CHECK(block.link_previous == previous, "(1) back link at %zu", block.offset);
      previous = id;
      bytes += block.bytes;
    }
  }
  TIDEPOOL_CHECK(bytes == bytes_ && bytes <= limit_bytes_, "(3) %zu bytes, not %zu; limit %zu",
                 bytes, bytes_, limit_bytes_);
}

}  // namespace tidepool
