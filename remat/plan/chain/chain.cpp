#include "remat/plan/chain/chain.h"

#include <algorithm>
#include <deque>

#include "allocator/base/check.h"

namespace tidepool::remat {
namespace {

// PrefixMaxima: the maxima of a sequence from a point on that moves left, one element at a time.
class PrefixMaxima {
 public:
  // Cursor: the place of a query whose end moves left only.
  struct Cursor {
    size_t at = 0;
  };

  // Puts an element before all others.
  void push(size_t index, size_t value) {
    while (!records_.empty() && records_.back().value <= value) records_.pop_back();
    records_.push_back({index, value});
  }
  // The greatest element up to `end`, which is not left of the first. Amortised constant.
  size_t up_to(size_t end, Cursor& cursor) const {
    size_t at = std::min(cursor.at, records_.size() - 1);
    while (records_[at].index > end) ++at;
    cursor.at = at;
    return records_[at].value;
  }

 private:
  struct Record {
    size_t index = 0, value = 0;
  };
  std::vector<Record> records_;  // the elements greater than all before them, the last one first
};

// Peaks: U of segments whose first layer moves left.
class Peaks {
 public:
  struct Cursor {
    PrefixMaxima::Cursor forward, again, backward;
  };

  explicit Peaks(const Chain& chain) : layers_(chain.layers), saved_(layers_.size() + 1) {
    for (size_t k = 0; k < layers_.size(); ++k) saved_[k + 1] = saved_[k] + layers_[k].saved;
  }

  // Makes `first` the first layer. Requires: it was the layer after it before.
  void begin_at(size_t first) {
    first_ = first;
    forward_.push(first, layers_[first].forward);
    again_.push(first, saved_[first] + layers_[first].again);
    backward_.push(first, saved_[first] + layers_[first].backward);
  }

  // The peak of the segment that ends with layer `last`.
  size_t of(size_t last, Cursor& cursor) const {
    const ChainLayer& layer = layers_[last];
    size_t again = layer.again_last > 0 ? saved_[last] + layer.again_last : 0;
    if (last > first_) again = std::max(again, again_.up_to(last - 1, cursor.again));
    if (again > 0) again += layer.rest - saved_[first_];
    const size_t backward = backward_.up_to(last, cursor.backward) - saved_[first_];
    return std::max({forward_.up_to(last, cursor.forward), again, backward});
  }

  // Whether longer segments have no lower peaks. It may say no although they have not.
  bool rise_with_length() const {
    size_t again = 0;  // of a segment that begins anywhere before the layer
    for (size_t k = 0; k + 1 < layers_.size(); ++k) {
      const ChainLayer& layer = layers_[k];
      const bool like_next = layer.rest <= layers_[k + 1].rest && layer.again_last <= layer.again;
      const size_t last = layer.again_last > 0 ? saved_[k] + layer.again_last : 0;
      const size_t most = std::max(again, last);
      if (!like_next && most > 0 && most + layer.rest > saved_[k + 1] + layers_[k + 1].backward)
        return false;
      again = std::max(again, saved_[k] + layer.again);
    }
    return true;
  }

 private:
  const std::vector<ChainLayer>& layers_;
  std::vector<size_t> saved_;  // by all layers before one
  size_t first_ = 0;
  PrefixMaxima forward_, again_, backward_;
};

// Best: by layer, the least bytes of what begins with it, and the last layer of its first segment.
struct Best {
  size_t bytes = 0;
  uint32_t last = 0;
};

// By two pointers. The queue has those last layers of the first segment that may be best for the
// present first layer or one before it, in their order; what follows them takes the more bytes, the
// earlier they are.
std::vector<Best> by_pointers(const Chain& chain, Peaks& peaks) {
  const std::vector<ChainLayer>& layers = chain.layers;
  std::vector<Best> best(layers.size() + 1);
  const auto rest_of = [&](uint32_t last) { return layers[last].kept + best[last + 1].bytes; };
  std::deque<uint32_t> queue;
  Peaks::Cursor back, before_back;
  for (size_t first = layers.size(); first-- > 0;) {
    peaks.begin_at(first);
    const auto nearest = static_cast<uint32_t>(first);
    while (!queue.empty() && rest_of(queue.front()) >= rest_of(nearest)) queue.pop_front();
    queue.push_front(nearest);
    size_t bytes = std::max(rest_of(queue.back()), peaks.of(queue.back(), back));
    while (queue.size() > 1) {
      const uint32_t other = queue[queue.size() - 2];
      const size_t others = std::max(rest_of(other), peaks.of(other, before_back));
      if (bytes < others) break;
      // It stays worse for every earlier first layer: peaks grow, and what follows it is less.
      queue.pop_back();
      back = before_back;
      bytes = others;
    }
    best[first] = {bytes, queue.back()};
  }
  return best;
}

// By trying all pairs.
std::vector<Best> by_pairs(const Chain& chain, Peaks& peaks) {
  const std::vector<ChainLayer>& layers = chain.layers;
  const size_t count = layers.size();
  std::vector<Best> best(count + 1);
  std::vector<std::vector<const ChainSpan*>> beginning(count);
  std::vector<size_t> ending(count);  // bytes of spans that begin before the segment
  for (const ChainSpan& span : chain.spans) {
    TIDEPOOL_CHECK(span.first <= span.last && span.last < count, "a span from %u to %u of %zu",
                   span.first, span.last, count);
    beginning[span.first].push_back(&span);
    ending[span.last] += span.bytes;
  }
  std::vector<size_t> shared(count + 1);  // by layer: what the cuts before and behind it share
  for (size_t first = count; first-- > 0;) {
    peaks.begin_at(first);
    for (const ChainSpan* span : beginning[first]) ending[span->last] -= span->bytes;
    for (size_t last = count; last-- > first;) shared[last] = shared[last + 1] + ending[last];
    Best& found = best[first];
    found.bytes = SIZE_MAX;
    Peaks::Cursor cursor;
    for (size_t last = count; last-- > first;) {
      const size_t later = layers[last].kept - shared[last] + best[last + 1].bytes;
      if (later >= found.bytes) continue;
      const size_t bytes = std::max(later, peaks.of(last, cursor));
      if (bytes < found.bytes) found = {bytes, static_cast<uint32_t>(last)};
    }
  }
  return best;
}

}  // namespace

Chain simple_chain(size_t input, std::span<const size_t> outputs,
                   std::span<const size_t> workspaces) {
  TIDEPOOL_CHECK(outputs.size() == workspaces.size(), "%zu workspaces of %zu layers",
                 workspaces.size(), outputs.size());
  Chain chain;
  for (size_t k = 0; k < outputs.size(); ++k) {
    const size_t before = k == 0 ? input : outputs[k - 1];
    ChainLayer& layer = chain.layers.emplace_back();
    layer.kept = layer.saved = layer.rest = outputs[k];
    layer.again = outputs[k] + workspaces[k];
    layer.forward = layer.again + (k == 0 ? 0 : before);
    layer.backward = outputs[k] + before + workspaces[k];
  }
  // The last segment runs its layers once, before there is a gradient.
  if (!chain.layers.empty()) chain.layers.back().rest = 0;
  return chain;
}

ChainCuts least_cuts(const Chain& chain) {
  ChainCuts result;
  const size_t count = chain.layers.size();
  if (count == 0) return result;
  Peaks peaks(chain);
  const bool simple = chain.spans.empty() && peaks.rise_with_length();
  const bool by_pair = !simple && count <= kMostPairedLayers;
  const std::vector<Best> best = by_pair ? by_pairs(chain, peaks) : by_pointers(chain, peaks);
  result.least = simple || by_pair;
  result.bytes = best[0].bytes;
  for (size_t at = best[0].last; at + 1 < count; at = best[at + 1].last) {
    result.cuts.push_back(static_cast<uint32_t>(at));
  }
  return result;
}

}  // namespace tidepool::remat
