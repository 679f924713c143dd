#include "remat/plan/chain/turn.h"

namespace tidepool::remat {
namespace {

constexpr size_t kMostPlaces = 1000;  // all pairs of places are tried

}  // namespace

void Turn::find_forward() {
  for (const Turned& each : results_) first_ = std::min(first_, values_[each.storage].made);
  for (size_t k = 0; k < values_.size(); ++k) {
    const auto storage = static_cast<StorageIndex>(k);
    if (is_forward(storage) && last_forward_use(storage) >= first_) forward_.push_back(storage);
  }
}

// Places are where neither right before nor right behind fewer bytes lie.
void Turn::find_places() {
  Held crossing(turn_), writing(turn_);
  for (const StorageIndex storage : forward_) {
    const StepValue& value = values_[storage];
    const Moment last = last_forward_use(storage);
    if (last > value.made) crossing.add(value.made, last - 1, value.bytes);
    if (value.last_write > value.made) writing.add(value.made, value.last_write - 1, 1);
  }
  const std::vector<size_t> bytes = crossing.by_operator();
  const std::vector<size_t> written = writing.by_operator();
  for (Moment at = first_; at + 1 < turn_; ++at) {
    if (written[at] > 0 || bytes[at] == 0) continue;
    const bool more_before = at == first_ || written[at - 1] > 0 || bytes[at - 1] >= bytes[at];
    const bool more_behind = at + 2 == turn_ || written[at + 1] > 0 || bytes[at + 1] >= bytes[at];
    if (more_before && more_behind) places_.push_back(at);
  }
  // Of too many, those of fewest bytes in as many equal parts.
  if (places_.size() > kMostPlaces) {
    std::vector<Moment> fewer;
    const size_t part = (places_.size() + kMostPlaces - 1) / kMostPlaces;
    for (size_t k = 0; k < places_.size(); k += part) {
      const auto begin = places_.begin() + static_cast<ptrdiff_t>(k);
      const auto end = begin + static_cast<ptrdiff_t>(std::min(part, places_.size() - k));
      fewer.push_back(
          *std::min_element(begin, end, [&](Moment a, Moment b) { return bytes[a] < bytes[b]; }));
    }
    places_ = std::move(fewer);
  }
  places_.push_back(turn_ - 1);
}

// By operator before the turn: the number of the layer that it belongs to, which ends with the
// place of this number.
std::vector<uint32_t> Turn::blocks() const {
  std::vector<uint32_t> block(turn_);
  uint32_t at = 0;
  for (Moment k = 0; k < turn_; ++k) {
    if (k > places_[at]) ++at;
    block[k] = at;
  }
  return block;
}

Chain Turn::chain() const {
  Chain chain;
  chain.layers.resize(places_.size());
  const std::vector<uint32_t> block = blocks();
  add_forward(chain, block);
  add_again(chain, block);
  add_backward(chain, block);
  return chain;
}

void Turn::add_forward(Chain& chain, const std::vector<uint32_t>& block) const {
  Held waiting(turn_);  // results that a later operator of the forward pass reads
  for (const StorageIndex storage : forward_) {
    const StepValue& value = values_[storage];
    const Moment last = last_forward_use(storage);
    const uint32_t made = block[value.made], read = block[last];
    for (uint32_t k = made; k < read; ++k) chain.layers[k].kept += value.bytes;
    if (read > made + 1) chain.spans.push_back({made, read - 1, value.bytes});
    if (result_of_[number(storage)] == kNone) continue;
    chain.layers[made].saved += value.bytes;
    waiting.add(value.made, std::min(last, places_[made]), value.bytes);
  }
  const std::vector<size_t> bytes = waiting.by_operator();
  for (Moment at = first_; at < turn_; ++at) {
    size_t& most = chain.layers[block[at]].forward;
    most = std::max(most, others_[at] + bytes[at]);
  }
}

// What a layer takes while it runs again: what it leaves for the backward pass, and what it makes
// on the way there.
void Turn::add_again(Chain& chain, const std::vector<uint32_t>& block) const {
  Held held(turn_);
  for (const StorageIndex storage : forward_) {
    const StepValue& value = values_[storage];
    const bool is_result = result_of_[number(storage)] != kNone;
    const Moment end = places_[block[value.made]];
    held.add(value.made, is_result ? end : std::min(end, last_forward_use(storage)), value.bytes);
    if (is_result && !crosses(storage, end)) chain.layers[block[value.made]].again_last = 1;
  }
  const std::vector<size_t> bytes = held.by_operator();
  for (Moment at = first_; at < turn_; ++at) {
    ChainLayer& layer = chain.layers[block[at]];
    const size_t now = bytes[at] + trace_.aligned(trace_.operators[at].workspace_bytes);
    layer.again = std::max(layer.again, now);
  }
  for (ChainLayer& layer : chain.layers) {
    if (layer.again_last > 0) layer.again_last = layer.again;
  }
}

// The backward pass has come to a layer when it reads what no later layer has read.
void Turn::add_backward(Chain& chain, const std::vector<uint32_t>& block) const {
  const size_t operators = trace_.operators.size();
  std::vector<std::vector<const Turned*>> by_block(places_.size());
  std::vector<std::vector<StorageIndex>> reads(operators);
  std::vector<size_t> gone(operators + 1);  // bytes of results that are read for the last time
  for (const Turned& each : results_) {
    by_block[block[values_[each.storage].made]].push_back(&each);
    for (const Moment use : values_.uses(each.storage)) {
      if (use >= turn_) reads[use].push_back(each.storage);
    }
  }
  const auto count = static_cast<uint32_t>(places_.size());
  uint32_t present = count;
  size_t held = 0;  // results of the present layer and later ones
  const auto enter = [&](uint32_t layer, Moment at) {
    while (present > layer) {
      chain.layers[--present].rest = others_before(at);
      for (const Turned* each : by_block[present]) {
        if (each->last_read < at) continue;
        held += values_[each->storage].bytes;
        gone[each->last_read + size_t{1}] += values_[each->storage].bytes;
      }
    }
  };
  Moment end = turn_;
  for (const Turned& each : results_) end = std::max(end, each.last_read + 1);
  enter(count - 1, turn_);
  for (Moment at = turn_; at < end; ++at) {
    held -= gone[at];
    for (const StorageIndex storage : reads[at]) enter(block[last_forward_use(storage)], at);
    size_t& most = chain.layers[present].backward;
    most = std::max(most, others_[at] + held);
  }
  enter(0, end - 1);
}

// Replay: a segment that runs again.
struct Turn::Replay {
  Moment first = 0, end = 0;       // its operators
  Moment at = kNeverUsed;          // the operator before which it runs again
  std::vector<bool> kept, needed;  // by storage, all segments'
  size_t peak_bytes = 0;           // beyond what is held then
  size_t saved_bytes = 0;          // what stays
  std::vector<Moment> runs;        // the operators that run, in their order
};

// Runs a segment again. Notes in `needed_until` until when the storages that it reads have to stay.
void Turn::replay(Replay& segment, std::vector<Moment>& needed_until) const {
  std::vector<std::pair<Moment, StorageIndex>> ends;  // the operators that need storages last
  const auto is_there = [&](StorageIndex storage, Moment at) {
    const StepValue& value = values_[storage];
    if (!is_forward(storage)) return true;
    return value.made < segment.first || (segment.kept[number(storage)] && value.last_write < at);
  };
  const auto need = [&](StorageIndex storage, Moment at) {
    if (is_there(storage, at)) {
      Moment& until = needed_until[number(storage)];
      until = std::max(until, segment.at);
    } else if (!segment.needed[number(storage)]) {
      segment.needed[number(storage)] = true;
      ends.emplace_back(at, storage);
    }
  };
  for (Moment at = segment.end; at-- > segment.first;) {
    const TraceOperator& op = trace_.operators[at];
    bool runs_again = false;
    for (const StorageIndex output : trace_.outputs(op)) {
      runs_again |= segment.needed[number(output)];
    }
    for (const TraceWrite& write : trace_.writes(op)) {
      runs_again |= segment.needed[number(write.storage)];
    }
    if (!runs_again) continue;
    segment.runs.push_back(at);
    for (const StorageIndex read : trace_.reads(op)) need(read, at);
    for (const TraceWrite& write : trace_.writes(op)) {
      if (write.access != Access::kSideWrite) need(write.storage, at);
    }
  }
  std::reverse(segment.runs.begin(), segment.runs.end());
  std::sort(ends.begin(), ends.end());
  size_t held = 0, next_end = 0;
  for (const Moment run : segment.runs) {
    const TraceOperator& op = trace_.operators[run];
    segment.peak_bytes = std::max(segment.peak_bytes, held + new_bytes(op));
    for (const StorageIndex output : trace_.outputs(op)) {
      if (segment.needed[number(output)]) held += values_[output].bytes;
    }
    for (; next_end < ends.size() && ends[next_end].first <= run; ++next_end) {
      held -= values_[ends[next_end].second].bytes;
    }
  }
  segment.saved_bytes = held;
}

Schedule Turn::schedule(std::span<const uint32_t> cuts) const {
  std::vector<Segment> segments;
  for (const uint32_t cut : cuts) segments.push_back({places_[cut] + 1});
  segments.push_back({turn_, false});
  return schedule_of(segments);
}

Schedule Turn::schedule_of(std::span<const Segment> cut) const {
  Schedule result(trace_.operators.size());
  std::vector<Replay> segments(cut.size());
  std::vector<uint32_t> segment_of(turn_);
  for (uint32_t k = 0; k < segments.size(); ++k) {
    segments[k].first = k > 0 ? cut[k - 1].end : 0;
    segments[k].end = cut[k].end;
    std::fill(segment_of.begin() + segments[k].first, segment_of.begin() + segments[k].end, k);
  }
  std::vector<bool> kept(trace_.storages.size()), saved(trace_.storages.size());
  for (const StorageIndex storage : forward_) {
    const Segment& segment = cut[segment_of[values_[storage].made]];
    kept[number(storage)] = !segment.runs_again || crosses(storage, segment.end - 1);
  }
  for (const Turned& each : results_) {
    if (kept[number(each.storage)]) continue;
    Replay& segment = segments[segment_of[values_[each.storage].made]];
    segment.at = std::min(segment.at, each.first_read);
    saved[number(each.storage)] = true;
  }
  std::vector<Moment> needed_until(trace_.storages.size());
  for (Replay& segment : segments) {
    if (segment.at == kNeverUsed) continue;
    segment.kept = kept;
    segment.needed = saved;
    replay(segment, needed_until);
  }
  for (const Turned& each : results_) {
    const StepValue& value = values_[each.storage];
    if (kept[number(each.storage)]) {
      const Moment last = std::max(each.last_read, needed_until[number(each.storage)]);
      result.held.add(value.made, last, value.bytes);
      result.kept.emplace_back(each.storage, last);
      continue;
    }
    const Moment last = last_forward_use(each.storage);
    result.held.add(value.made, last, value.bytes);
    result.held.add(segments[segment_of[value.made]].at, each.last_read, value.bytes);
    result.dropped.emplace_back(each.storage, last);
  }
  // What is no result, but needed to make results again, stays for that.
  for (size_t k = 0; k < needed_until.size(); ++k) {
    const auto storage = static_cast<StorageIndex>(k);
    const Moment until = needed_until[k];
    if (until == 0 || result_of_[k] != kNone) continue;
    if (until > held_until_[k]) result.held.add(held_until_[k] + 1, until, values_[storage].bytes);
    result.kept.emplace_back(storage, std::max(until, held_until_[k]));
  }
  add_replays(segments, result);
  return result;
}

void Turn::add_replays(std::span<const Replay> segments, Schedule& schedule) const {
  for (const Replay& segment : segments) {
    if (segment.at == kNeverUsed) continue;
    for (const Moment run : segment.runs) {
      schedule.reruns.push_back({segment.at, run});
      schedule.replay_ns += trace_.operators[run].cost_ns;
    }
    const size_t later = segment.saved_bytes + new_bytes(trace_.operators[segment.at]);
    schedule.replays.push_back(
        {segment.at, static_cast<int64_t>(segment.peak_bytes) - static_cast<int64_t>(later)});
  }
}

}  // namespace tidepool::remat
