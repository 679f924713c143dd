#include "remat/residency/pieces.h"

#include <algorithm>

#include "allocator/base/check.h"

namespace tidepool::remat {

namespace {

// The first of the ranges that ends behind `place`.
auto first_behind(const std::vector<ByteRange>& ranges, size_t place) {
  return std::upper_bound(ranges.begin(), ranges.end(), place,
                          [](size_t at, const ByteRange& range) { return at < range.end; });
}

}  // namespace

bool Pieces::covers(const Storage& storage, std::span<const ByteRange> bytes) const {
  const auto found = written_.find(&storage);
  if (found == written_.end()) return false;
  const Ranges& ranges = found->second;
  return std::all_of(bytes.begin(), bytes.end(), [&](const ByteRange& range) {
    const auto around = first_behind(ranges, range.begin);
    return around != ranges.end() && around->begin <= range.begin && range.end <= around->end;
  });
}

bool Pieces::meets(const Storage& storage, std::span<const ByteRange> bytes) const {
  const auto found = written_.find(&storage);
  if (found == written_.end()) return false;
  const Ranges& ranges = found->second;
  return std::any_of(bytes.begin(), bytes.end(), [&](const ByteRange& range) {
    const auto around = first_behind(ranges, range.begin);
    return around != ranges.end() && around->begin < range.end;
  });
}

void Pieces::insert(Ranges& ranges, ByteRange fresh) {
  // Those that touch it are joined with it.
  const auto first =
      std::lower_bound(ranges.begin(), ranges.end(), fresh.begin,
                       [](const ByteRange& range, size_t place) { return range.end < place; });
  auto last = first;
  for (; last != ranges.end() && last->begin <= fresh.end; ++last) {
    fresh = {std::min(fresh.begin, last->begin), std::max(fresh.end, last->end)};
  }
  if (first == last) {
    ranges.insert(first, fresh);
  } else {
    *first = fresh;
    ranges.erase(first + 1, last);
  }
}

void Pieces::erase(Storage& storage) {
  const auto found = written_.find(&storage);
  ranges_ -= found->second.size();
  written_.erase(found);
  storage.in_pieces = false;
}

bool Pieces::add(Storage& storage, std::span<const ByteRange> bytes) {
  storage.in_pieces = true;
  Ranges& ranges = written_[&storage];
  ranges_ -= ranges.size();
  for (const ByteRange& range : bytes) {
    if (range.begin < range.end && ranges.size() <= kMostRanges) insert(ranges, range);
  }
  ranges_ += ranges.size();
  const bool fits = ranges.size() <= kMostRanges;
  const bool complete =
      !ranges.empty() && ranges.front().begin == 0 && ranges.front().end >= storage.current->bytes;
  if (!fits || complete) erase(storage);
  return fits;
}

void Pieces::check_invariants(size_t storages) const {
  TIDEPOOL_CHECK(written_.size() == storages, "invariant 1: %zu entries, %zu storages in pieces",
                 written_.size(), storages);
  size_t ranges = 0;
  for (const auto& [storage, written] : written_) {
    TIDEPOOL_CHECK(storage->in_pieces, "invariant 1: an entry of a storage that is whole");
    ranges += written.size();
    for (size_t k = 0; k < written.size(); ++k) {
      TIDEPOOL_CHECK(
          written[k].begin < written[k].end && (k == 0 || written[k - 1].end < written[k].begin),
          "invariant 2: range %zu of %zu", k, written.size());
    }
  }
  TIDEPOOL_CHECK(ranges == ranges_, "%zu ranges, %zu counted", ranges, ranges_);
}

}  // namespace tidepool::remat
