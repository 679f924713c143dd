// Moving contents out of a window: blocks that may not be evicted, or cost more to make again than
// to copy, go to free blocks elsewhere.
#include <algorithm>

#include "allocator/arena.h"

namespace tidepool {

bool Arena::can_move_blocks(const Request& request) const {
  return config_.allow_moves && config_.allow_windows && reclaimer_ != nullptr &&
         suspended_ == 0 && request.moves_left > 0;
}

// Else what other streams do with the bytes would have to be awaited, which moving is not worth.
bool Arena::is_alone(const Block& block, StreamId stream) const {
  return order_ == nullptr || (block.stream == stream && !block.shared);
}

bool Arena::better_moved(const Block& block, const Request& request, Price evicting,
                         Price& price) const {
  if (block.bytes > request.move_limit_bytes || !is_alone(block, request.stream)) return false;
  // A place costs an eviction elsewhere then.
  if (request.evicts_for_places && !evicting.barrier) return false;
  const Price moving = reclaimer_->move_price(block.owner);
  if (moving.barrier || (!evicting.barrier && evicting.value <= moving.value)) return false;
  price = moving;
  return true;
}

BlockId Arena::take_place(const Block& block, StreamId stream) {
  BlockId id = heap_.take_free(block.zone, block.bytes, stream);
  for (size_t i = 0; i < kZoneCount && id == BlockId::kNone; ++i) {
    id = heap_.take_free(kZones[i], block.bytes, stream);
  }
  return id;
}

bool Arena::is_emptied(const Block& block, const Request& request) {
  for (const Emptied* window = request.emptied; window != nullptr; window = window->outer) {
    if (window->begin <= block.offset && block.offset < window->end) return true;
  }
  return false;
}

BlockId Arena::clear_place(DeviceLock& lock, const Block& block, Request& request,
                           const Emptied& emptied) {
  Request place{.asked_bytes = block.bytes,
                .bytes = block.bytes,
                .zone = block.zone,
                .stream = request.stream,
                .moves_left = request.moves_left,
                .move_limit_bytes = block.bytes - 1,  // else it would take such a place again
                .evicts_for_places = true,
                .emptied = &emptied};
  BlockId served{};
  Outcome outcome = Outcome::kNothing;
  // Each round but the last has a victim refused, which is a barrier from then on, is the first
  // that may move blocks, or moves some.
  for (bool moving = false; outcome == Outcome::kNothing;) {
    list_room(place, moving);
    const auto window = find_window_anywhere(place.bytes);
    if (!window) {
      if (moving || !can_move_blocks(place)) break;
      moving = true;
    } else if (moving && moves_something(*window)) {
      move_out(lock, place, *window);
      moving = false;
    } else {
      outcome = take_window(lock, place, *window, served);
    }
  }
  request.moves_left = place.moves_left;
  return outcome == Outcome::kServed ? served : BlockId::kNone;
}

bool Arena::moves_something(const Window& window) const {
  for (size_t i = window.first; i <= window.last; ++i) {
    if (room_[i].kind == RoomKind::kMovable) return true;
  }
  return false;
}

bool Arena::move_block(DeviceLock& lock, BlockRef from, Owner owner, BlockId to,
                       StreamId stream) {
  const Block& block = heap_[from.id];
  // While another one was copied this one may have been freed, and its block used again, or another
  // stream may have begun to use it.
  const bool same = heap_.blocks().current(from) && block.state == BlockState::kAllocated &&
                    block.owner == owner && block.bytes <= heap_[to].bytes &&
                    is_alone(block, stream);
  if (!same || reclaimer_->move_price(owner).barrier) {
    heap_.release(to);
    return false;
  }
  const size_t requested_bytes = block.requested_bytes;
  heap_.set_requested(to, requested_bytes);
  // Before the copy, which uses it.
  if (observer_ != nullptr) [[unlikely]] observer_->allocated(heap_.view(to));
  if (!reclaimer_->move(lock, owner, address_of(to).pointer())) {
    if (observer_ != nullptr) [[unlikely]] observer_->freed(heap_.view(to), heap_[to].shared);
    heap_.release(to);
    return false;
  }
  ++counts_.moves;
  counts_.moved_bytes += requested_bytes;
  trace_.add(TraceKind::kMove, address_of(from.id).value, requested_bytes);
  if (observer_ != nullptr) [[unlikely]] {
    observer_->freed(heap_.view(from.id), heap_[from.id].shared);
  }
  if (config_.poison) fill(address_of(from.id).pointer(), heap_[from.id].bytes);
  heap_.release(from.id);
  return true;
}

Arena::Outcome Arena::move_out(DeviceLock& lock, Request& request, const Window& window) {
  struct Move {
    BlockRef from;
    Owner owner;
    BlockId to;
  };
  --request.moves_left;
  const Emptied emptied{room_[window.first].offset, room_[window.last].end(), request.emptied};
  std::vector<Move> moves;
  std::vector<Claim> kept;  // free blocks of the window: no place to move to, and nobody else's
  for (size_t i = window.first; i <= window.last; ++i) {
    const RoomItem item = room_[i];
    if (item.kind == RoomKind::kMovable) {
      moves.push_back({heap_.blocks().ref(item.block), heap_[item.block].owner, BlockId::kNone});
    }
    if (item.kind != RoomKind::kFree) continue;
    Claim& claim = kept.emplace_back();
    claim.block = heap_.claim(item.block, item.offset, item.end(), &claim.uses);
  }
  // The largest first: the smaller ones fit into what they leave.
  std::sort(moves.begin(), moves.end(), [&](const Move& a, const Move& b) {
    const Block& first = heap_[a.from.id];
    const Block& second = heap_[b.from.id];
    return first.bytes != second.bytes ? first.bytes > second.bytes : first.offset < second.offset;
  });
  bool placed = true;
  for (Move& move : moves) {
    const Block from = heap_[move.from.id];
    const bool same = heap_.blocks().current(move.from) && from.owner == move.owner;
    if (!same) continue;  // freed while a place was made for another
    move.to = take_place(from, request.stream);
    if (move.to == BlockId::kNone && request.evicts_for_places) {
      move.to = clear_place(lock, from, request, emptied);
    }
    if (move.to != BlockId::kNone) continue;
    request.move_limit_bytes = from.bytes - 1;
    placed = false;
    break;
  }
  InFlight in_flight(*this);
  for (const Move& move : moves) {
    if (move.to == BlockId::kNone) continue;
    if (placed) {
      move_block(lock, move.from, move.owner, move.to, request.stream);
    } else {
      heap_.release(move.to);
    }
  }
  for (const Claim& claim : kept) heap_.settle(claim.block, pages_, request.stream, claim.uses);
  return placed ? Outcome::kRetry : Outcome::kNothing;
}

}  // namespace tidepool
