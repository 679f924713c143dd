#include "remat/residency/pieces.h"

#include <algorithm>
#include <optional>

#include "allocator/base/check.h"

namespace tidepool::remat {

namespace {

// The first of the ranges that ends behind `place`.
auto first_behind(const std::vector<ByteRange>& ranges, size_t place) {
  return std::upper_bound(ranges.begin(), ranges.end(), place,
                          [](size_t at, const ByteRange& range) { return at < range.end; });
}

// The places within a period (0: none) at which the bytes lie; nothing if they repeat otherwise.
std::optional<std::vector<ByteRange>> within(size_t period, const ByteRanges& bytes) {
  if (bytes.period == period) return bytes.ranges;
  if (bytes.period != 0) return std::nullopt;
  std::vector<ByteRange> places;
  for (const ByteRange& range : bytes.ranges) {
    if (range.end - range.begin >= period) return std::vector<ByteRange>{{0, period}};
    const size_t begin = range.begin % period, end = begin + (range.end - range.begin);
    places.push_back({begin, std::min(end, period)});
    if (end > period) places.push_back({0, end - period});
  }
  return places;
}

}  // namespace

bool Pieces::covers(const Storage& storage, const ByteRanges& bytes) const {
  const auto found = written_.find(&storage);
  if (found == written_.end()) return false;
  const std::optional<std::vector<ByteRange>> asked = within(found->second.period, bytes);
  if (!asked) return false;
  const std::vector<ByteRange>& written = found->second.ranges;
  return std::all_of(asked->begin(), asked->end(), [&](const ByteRange& range) {
    const auto around = first_behind(written, range.begin);
    return around != written.end() && around->begin <= range.begin && range.end <= around->end;
  });
}

bool Pieces::meets(const Storage& storage, const ByteRanges& bytes) const {
  const auto found = written_.find(&storage);
  if (found == written_.end()) return false;
  const std::optional<std::vector<ByteRange>> asked = within(found->second.period, bytes);
  if (!asked) return true;
  const std::vector<ByteRange>& written = found->second.ranges;
  return std::any_of(asked->begin(), asked->end(), [&](const ByteRange& range) {
    const auto around = first_behind(written, range.begin);
    return around != written.end() && around->begin < range.end;
  });
}

void Pieces::insert(std::vector<ByteRange>& ranges, ByteRange fresh) {
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
  ranges_ -= found->second.ranges.size();
  written_.erase(found);
  storage.in_pieces = false;
}

bool Pieces::add(Storage& storage, const ByteRanges& bytes) {
  storage.in_pieces = true;
  auto& [ranges, period] = written_[&storage];
  if (ranges.empty()) period = bytes.period;
  const bool same = bytes.period == period || bytes.ranges.empty();
  ranges_ -= ranges.size();
  for (const ByteRange& range : bytes.ranges) {
    if (same && range.begin < range.end && ranges.size() <= kMostRanges) insert(ranges, range);
  }
  ranges_ += ranges.size();
  const bool fits = same && ranges.size() <= kMostRanges;
  const size_t end = period != 0 ? period : storage.current->bytes;
  const bool complete = !ranges.empty() && ranges.front().begin == 0 && ranges.front().end >= end;
  if (!fits || complete) erase(storage);
  return fits;
}

void Pieces::check_invariants(size_t storages) const {
  TIDEPOOL_CHECK(written_.size() == storages, "invariant 1: %zu entries, %zu storages in pieces",
                 written_.size(), storages);
  size_t ranges = 0;
  for (const auto& [storage, entry] : written_) {
    TIDEPOOL_CHECK(storage->in_pieces, "invariant 1: an entry of a storage that is whole");
    const std::vector<ByteRange>& written = entry.ranges;
    ranges += written.size();
    for (size_t k = 0; k < written.size(); ++k) {
      TIDEPOOL_CHECK(
          written[k].begin < written[k].end && (k == 0 || written[k - 1].end < written[k].begin),
          "invariant 2: range %zu of %zu", k, written.size());
    }
    TIDEPOOL_CHECK(entry.period == 0 || written.empty() || written.back().end <= entry.period,
                   "invariant 2: a range that ends behind the period of %zu bytes", entry.period);
  }
  TIDEPOOL_CHECK(ranges == ranges_, "%zu ranges, %zu counted", ranges, ranges_);
}

}  // namespace tidepool::remat
