// Memory that goes from one stream to another: what has to pass before, and how that is awaited.
#include <fmt/format.h>

#include <utility>

#include "allocator/arena.h"
#include "allocator/check.h"

namespace tidepool {

void Arena::set_stream_order(StreamOrder* order) {
  TIDEPOOL_CHECK(order_ == nullptr && order != nullptr, "set_stream_order was called before, %p",
                 static_cast<void*>(order));
  order_ = order;
}

void Arena::know(StreamId stream) {
  if (clocks_.knows(stream)) return;
  TIDEPOOL_CHECK(order_ != nullptr && static_cast<size_t>(stream) < kStreams,
                 "stream %u: there is %s", static_cast<unsigned>(stream),
                 order_ == nullptr ? "one stream, without an order" : "a limit of 65536 streams");
  clocks_.know(stream);
  heap_.add_stream(stream);
}

void Arena::record_stream(void* address, StreamId user) {
  know(user);
  heap_.add_user(block_at(address), user);
}

void Arena::resume_order() {
  TIDEPOOL_CHECK(suspended_ > 0, "resumed %zu times too often", size_t{1});
  --suspended_;
}

bool Arena::ready(StreamId stream, const Block& block) const {
  return clocks_.ordered(stream, {block.stream, block.freed_epoch});
}

std::optional<std::vector<StreamClocks::Milestone>> Arena::fences_for(DeviceLock& lock,
                                                                      const StreamUses& uses) {
  std::vector<StreamClocks::Milestone> found;
  for (StreamUse use : uses) {
    if (clocks_.passed(use)) continue;
    found.push_back(clocks_.milestone_for(use));
    // Frees from here on, while the lock is released, are of the next epoch.
    if (found.back().fence == nullptr) found.back().use.epoch = clocks_.close(use.stream);
  }
  std::vector<size_t> recorded;
  bool refused = false;
  lock.unlock();
  try {
    for (size_t i = 0; i < found.size(); ++i) {
      if (found[i].fence != nullptr) continue;
      found[i].fence = order_->record(found[i].use.stream);
      recorded.push_back(i);
    }
  } catch (const DeviceError&) {
    refused = true;  // an epoch left without a fence is covered by a later one
  }
  lock.lock();
  for (size_t i : recorded) clocks_.add_fence(found[i].use, found[i].fence);
  if (!refused) return found;
  // The stream may be gone, and its memory still here.
  if (!finish_streams(lock)) return std::nullopt;
  found.clear();
  return found;
}

void Arena::note_passed(StreamUse use) {
  clocks_.note_passed(use);
  passed_since_release_ = true;
}

void Arena::release_passed() {
  if (std::exchange(passed_since_release_, false)) heap_.release_passed();
}

bool Arena::finish_streams(DeviceLock& lock) {
  const std::vector<StreamUse> closed = clocks_.close_all();
  std::string error;
  lock.unlock();
  try {
    order_->finish();
  } catch (const DeviceError& refused) {
    error = refused.what();
  }
  lock.lock();
  if (!error.empty()) {
    order_error_ = error;
    return false;
  }
  for (StreamUse use : closed) note_passed(use);
  return true;
}

bool Arena::order_after(DeviceLock& lock, StreamId stream, StreamUses& uses) {
  StreamUses left;
  bool idle = true;
  for (StreamUse use : uses) {
    idle = idle && clocks_.passed(use);
    if (!clocks_.ordered(stream, use)) left.push_back(use);
  }
  if (!left.empty()) {
    InFlight in_flight(*this);
    auto fences = fences_for(lock, left);
    if (!fences) return false;
    size_t waited = 0;
    std::string error;
    lock.unlock();
    try {
      for (; waited < fences->size(); ++waited) order_->wait(stream, *(*fences)[waited].fence);
    } catch (const DeviceError& refused) {
      error = refused.what();
    }
    lock.lock();
    for (size_t i = 0; i < waited; ++i) clocks_.note_waited(stream, (*fences)[i].use);
    counts_.stream_waits += waited;
    if (waited < fences->size()) {
      order_error_ = error;
      return false;
    }
  }
  uses.clear();
  if (!idle) uses.push_back({stream, clocks_.open(stream)});
  return true;
}

void Arena::order_after(DeviceLock& lock, StreamId stream, StreamUse use) {
  know(stream);
  if (clocks_.ordered(stream, use)) return;
  if (!can_order()) {
    throw DeviceError("a stream would have to wait for another while a graph is captured");
  }
  StreamUses uses{use};
  if (!order_after(lock, stream, uses)) throw DeviceError(order_error_);
}

bool Arena::wait_for(DeviceLock& lock, StreamUses& uses) {
  if (order_ != nullptr && !uses.empty()) {
    InFlight in_flight(*this);
    auto fences = fences_for(lock, uses);
    if (!fences) return false;
    std::string error;
    lock.unlock();
    try {
      for (const StreamClocks::Milestone& milestone : *fences) milestone.fence->wait();
    } catch (const DeviceError& refused) {
      error = refused.what();
    }
    lock.lock();
    if (!error.empty()) {
      order_error_ = error;
      return false;
    }
    for (const StreamClocks::Milestone& milestone : *fences) note_passed(milestone.use);
  }
  uses.clear();
  return true;
}

void Arena::poll(DeviceLock& lock, std::optional<StreamId> requester) {
  if (!can_order()) return;
  batch_blocks_ = 0;
  StreamUses to_record;
  for (StreamUse use : heap_.awaited()) {
    if (clocks_.milestone_for(use).fence == nullptr) add_use(to_record, use);
  }
  if (requester && clocks_.stream_count() > 1) {
    for (StreamUse use : heap_.unpassed()) {
      bool others = use.stream != *requester;
      if (others && !clocks_.has_milestone(use.stream)) add_use(to_record, use);
    }
  }
  InFlight in_flight(*this);
  if (!to_record.empty()) (void)fences_for(lock, to_record);  // refused: tried again next time
  std::vector<StreamClocks::Milestone> milestones = clocks_.milestones();
  if (milestones.empty()) return release_passed();
  std::vector<StreamUse> passed;
  lock.unlock();
  for (size_t i = 0; i < milestones.size(); ++i) {
    StreamId stream = milestones[i].use.stream;
    if (milestones[i].fence->passed()) {
      passed.push_back(milestones[i].use);
    } else {  // nor have the later ones of this stream; those of others may have
      while (i + 1 < milestones.size() && milestones[i + 1].use.stream == stream) ++i;
    }
  }
  lock.lock();
  for (StreamUse use : passed) note_passed(use);
  release_passed();
}

void Arena::settle_streams(DeviceLock& lock) {
  if (!can_order()) return;
  // Refused: what has not passed stays as it is.
  StreamUses uses = heap_.awaited();
  if (!uses.empty()) (void)wait_for(lock, uses);
  release_passed();
  uses = heap_.unpassed();
  if (!uses.empty()) (void)wait_for(lock, uses);
  release_passed();
}

Arena::Outcome Arena::serve_claim(DeviceLock& lock, const Request& request, Claim& claim,
                                  BlockId& served) {
  if (!order_after(lock, request.stream, claim.uses)) {
    heap_.settle(claim.block, pages_, request.stream, claim.uses);
    return Outcome::kOrderFailed;
  }
  served = heap_.hand_out(claim.block, request.bytes, pages_, request.stream, claim.uses);
  return Outcome::kServed;
}

Arena::Outcome Arena::lend(DeviceLock& lock, const Request& request, bool ordered,
                           BlockId& served) {
  if (clocks_.stream_count() == 1 || (!ordered && !can_order())) return Outcome::kNothing;
  BlockId id = heap_.find_lendable(request.zone, request.bytes, request.stream, ordered);
  if (id == BlockId::kNone) return Outcome::kNothing;
  Claim claim;
  size_t begin = heap_[id].offset;
  claim.block = heap_.claim(id, begin, begin + request.bytes, &claim.uses);
  Outcome outcome = serve_claim(lock, request, claim, served);
  counts_.lent += outcome == Outcome::kServed;
  return outcome;
}

Arena::Outcome Arena::take_awaiting(DeviceLock& lock, const Request& request, BlockId& served) {
  if (!can_order()) return Outcome::kNothing;
  BlockId id = heap_.find_awaiting(request.zone, request.bytes);
  if (id == BlockId::kNone) return Outcome::kNothing;
  // All of it: what is left over has been waited for as well.
  Claim claim;
  claim.block = heap_.claim(id, heap_[id].offset, heap_[id].end(), &claim.uses);
  Outcome outcome = serve_claim(lock, request, claim, served);
  counts_.lent += outcome == Outcome::kServed;
  return outcome;
}

}  // namespace tidepool
