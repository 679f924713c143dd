#include "tests/support/fake_cuda/core/race_checker.h"

#include <fmt/format.h>

#include <iterator>
#include <utility>

namespace tidepool::fake_cuda {
namespace {

void merge(std::map<StreamId, Tick>& into, const std::map<StreamId, Tick>& from) {
  for (const auto& [stream, tick] : from) into[stream] = std::max(into[stream], tick);
}

}  // namespace

const char* name_of(Race::Kind kind) {
  switch (kind) {
    case Race::Kind::kReuse:
      return "reuse";
    case Race::Kind::kUnordered:
      return "unordered";
    case Race::Kind::kReturned:
      return "returned";
    case Race::Kind::kUsedAfterFree:
      return "used_after_free";
    case Race::Kind::kMisdeclared:
      return "misdeclared";
  }
  return "?";
}

std::string describe(const Race& race) {
  std::string text =
      fmt::format("{}: {} bytes at {:#x}", name_of(race.kind), race.bytes, race.address);
  if (race.kind == Race::Kind::kReuse || race.kind == Race::Kind::kUnordered) {
    text += fmt::format(", stream {} uses them", static_cast<uint32_t>(race.stream));
  }
  if (race.earlier_tick != 0) {
    text += fmt::format(", unordered after operation {} of stream {}", race.earlier_tick,
                        static_cast<uint32_t>(race.earlier));
  }
  return text;
}

void RaceChecker::report(Race::Kind kind, uintptr_t address, size_t bytes, StreamId stream,
                         StreamId earlier, Tick tick) {
  races_.push_back({kind, address, bytes, stream, earlier, tick});
}

std::map<uintptr_t, RaceChecker::Range>::iterator RaceChecker::live_at(uintptr_t address) {
  auto found = live_.upper_bound(address);
  if (found == live_.begin()) return live_.end();
  --found;
  return address < found->second.end ? found : live_.end();
}

void RaceChecker::allocated(uintptr_t address, size_t bytes, StreamId owner, Tick now) {
  if (bytes == 0) return;
  const auto above = live_.lower_bound(address);
  if (live_at(address) != live_.end() || (above != live_.end() && above->first < address + bytes)) {
    report(Race::Kind::kMisdeclared, address, bytes, owner);
    return;
  }
  Range range;
  range.end = address + bytes;
  range.owner = owner;
  range.born = ++count_;
  range.since[owner] = now;
  range.inherited = exhume(address, address + bytes);
  if (!range.inherited.empty()) unchecked_[owner].push_back(address);
  live_.emplace(address, std::move(range));
}

void RaceChecker::shared(uintptr_t address, StreamId stream) {
  const auto found = live_at(address);
  if (found == live_.end()) return;
  Range& range = found->second;
  const bool is_new = range.since.emplace(stream, 0).second;
  if (is_new && !range.inherited.empty()) unchecked_[stream].push_back(found->first);
}

void RaceChecker::used(uintptr_t address, size_t bytes, Use use, StreamId stream, Tick tick,
                       const VectorClock& clock) {
  if (bytes == 0) return;
  const auto found = live_at(address);
  if (found != live_.end()) {
    Range& range = found->second;
    Tick& last = range.operands[stream];
    last = std::max(last, tick);
    check(found->first, range, stream, clock);
    if (use != Use::kCaptured) check_order(address, bytes, range, use, stream, tick, clock);
    return;
  }
  const auto above = freed_.upper_bound(address);
  if (above == freed_.begin()) return;
  const auto& [start, freed] = *std::prev(above);
  if (address < freed.end) report(Race::Kind::kUsedAfterFree, address, bytes, stream);
}

void RaceChecker::check_order(uintptr_t address, size_t bytes, Range& range, Use use,
                              StreamId stream, Tick tick, const VectorClock& clock) {
  const uintptr_t end = address + bytes;
  for (const Write& write : range.writes) {
    const bool is_apart = write.end <= address || write.begin >= end;
    if (is_apart || clock.of(write.stream) >= write.tick) continue;
    report(Race::Kind::kUnordered, address, bytes, stream, write.stream, write.tick);
  }
  range.ran[stream] = tick;
  if (use != Use::kWritten) return;
  std::erase_if(range.writes,
                [&](const Write& before) { return before.begin >= address && before.end <= end; });
  range.writes.push_back({address, end, stream, tick});
  for (const auto& [reader, last] : range.ran) {
    if (clock.of(reader) >= last) continue;
    report(Race::Kind::kUnordered, address, bytes, stream, reader, last);
  }
}

RaceChecker::Uses RaceChecker::uses_of(const Range& range, const VectorClock& newest) const {
  Uses uses = range.operands;
  for (const auto& [stream, since] : range.since) {
    if (newest.of(stream) > since) uses[stream] = newest.of(stream);
  }
  if (const auto found = replays_.find(range.owner); found != replays_.end()) {
    for (const auto& [stream, replay] : found->second) {
      if (replay.count > range.born) uses[stream] = std::max(uses[stream], replay.tick);
    }
  }
  if (range.checked.empty()) merge(uses, range.inherited);  // nobody used it: they live on
  return uses;
}

void RaceChecker::freed(uintptr_t address, const VectorClock& newest) {
  const auto found = live_.find(address);
  if (found == live_.end()) {
    report(Race::Kind::kMisdeclared, address, 0);
    return;
  }
  bury(address, found->second.end, uses_of(found->second, newest));
  live_.erase(found);
}

void RaceChecker::bury(uintptr_t start, uintptr_t end, const Uses& uses) {
  freed_.emplace(start, Freed{end, uses});
}

RaceChecker::Uses RaceChecker::exhume(uintptr_t start, uintptr_t end) {
  Uses uses;
  auto next = freed_.lower_bound(start);
  if (next != freed_.begin() && std::prev(next)->second.end > start) --next;
  while (next != freed_.end() && next->first < end) {
    const auto [first, freed] = *next;
    next = freed_.erase(next);
    merge(uses, freed.uses);
    if (first < start) freed_.emplace(first, Freed{start, freed.uses});
    if (freed.end > end) next = freed_.emplace(end, Freed{freed.end, freed.uses}).first;
  }
  return uses;
}

void RaceChecker::check(uintptr_t address, Range& range, StreamId stream,
                        const VectorClock& clock) {
  if (range.inherited.empty() || !range.checked.insert(stream).second) return;
  for (const auto& [earlier, tick] : range.inherited) {
    if (clock.of(earlier) >= tick) continue;
    report(Race::Kind::kReuse, address, range.end - address, stream, earlier, tick);
  }
}

void RaceChecker::operation(StreamId stream, const VectorClock& clock) {
  const auto waiting = unchecked_.find(stream);
  if (waiting == unchecked_.end()) return;
  const std::vector<uintptr_t> addresses = std::move(waiting->second);
  unchecked_.erase(waiting);
  for (const uintptr_t address : addresses) {
    const auto found = live_.find(address);
    if (found == live_.end() || !found->second.since.contains(stream)) continue;
    check(address, found->second, stream, clock);
  }
}

void RaceChecker::replayed(StreamId captured, StreamId stream, Tick tick) {
  replays_[captured][stream] = Replay{tick, ++count_};
}

void RaceChecker::returned(uintptr_t address, size_t bytes, const VectorClock& newest,
                           const VectorClock& host) {
  const uintptr_t end = address + bytes;
  auto next = live_.lower_bound(address);
  if (next != live_.begin() && std::prev(next)->second.end > address) --next;
  while (next != live_.end() && next->first < end) {
    report(Race::Kind::kReturned, next->first, next->second.end - next->first, next->second.owner);
    bury(next->first, next->second.end, uses_of(next->second, newest));
    next = live_.erase(next);
  }
  for (const auto& [stream, tick] : exhume(address, end)) {
    if (host.of(stream) >= tick) continue;
    report(Race::Kind::kReturned, address, bytes, stream, stream, tick);
  }
}

}  // namespace tidepool::fake_cuda
