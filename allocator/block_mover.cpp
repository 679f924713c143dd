#include "allocator/block_mover.h"

#include <algorithm>
#include <vector>

namespace tidepool {
namespace {

// A window that is being emptied: for a request, or to make a place that a block of another window
// moves to.
struct EmptyingWindow {
  struct Move {
    BlockRef from;
    Owner owner = nullptr;
    BlockId to{};
  };

  ByteRange range;
  std::vector<Move> moves;  // the largest first: the smaller ones fit into what they leave
  std::vector<Claim> kept;  // free blocks of the window: no place to move to, and nobody else's
  size_t next = 0;          // of `moves`: whose place is looked for
  // The place that is made for moves[next] where none is free: first by evictions alone.
  Request place;
  bool makes_place = false;
  bool may_move = false;
};

enum class Progress : uint8_t { kGoesOn, kAllPlaced, kNoPlace };

// The windows that are being emptied for one request, a stack in place of a recursion. Each window
// but the first makes a place that a block of the window before it moves to. Blocks become smaller
// from window to window, and the request's moves bound how many windows there are.
class WindowStack {
 public:
  WindowStack(DeviceLock& lock, Arena& arena, RoomSearch& search, BlockMover& mover,
              Request& request)
      : lock_(lock), arena_(arena), search_(search), mover_(mover), request_(request) {}

  // Empties the windows. True: all that was to move out of the first window has moved.
  bool run(const MovesPlan& plan) {
    begin(plan);
    while (true) {
      const Progress progress = advance();
      if (progress == Progress::kGoesOn) continue;
      finish(progress == Progress::kAllPlaced);
      if (windows_.empty()) return progress == Progress::kAllPlaced;
    }
  }

 private:
  void begin(const MovesPlan& plan);
  Progress advance();
  // Takes one step towards a place for the next block of the last window.
  Progress make_place();
  void finish(bool all_placed);
  // The request for which the last window is emptied: the caller's, or the one for a place that the
  // window before it needs.
  Request& requester() {
    return windows_.size() == 1 ? request_ : windows_[windows_.size() - 2].place;
  }
  // Takes the smallest free block of any zone that is large enough, and cuts its surplus off.
  BlockId take_free_place(const Block& block);

  DeviceLock& lock_;
  Arena& arena_;
  RoomSearch& search_;
  BlockMover& mover_;
  Request& request_;
  std::vector<EmptyingWindow> windows_;  // the last one is worked on
  std::vector<ByteRange> emptied_;       // their ranges
};

void WindowStack::begin(const MovesPlan& plan) {
  --request_.moves_left;
  Heap& heap = arena_.heap;
  EmptyingWindow& window = windows_.emplace_back();
  window.range = plan.range;
  emptied_.push_back(plan.range);
  for (const BlockId id : plan.moved) {
    window.moves.push_back({heap.blocks().ref(id), heap[id].owner, BlockId::kNone});
  }
  for (const BlockId id : plan.free) {
    Claim& claim = window.kept.emplace_back();
    claim.block = heap.claim(id, heap[id].offset, heap[id].end(), &claim.uses);
  }
  std::sort(window.moves.begin(), window.moves.end(), [&](const auto& a, const auto& b) {
    const Block& first = heap[a.from.id];
    const Block& second = heap[b.from.id];
    return first.bytes != second.bytes ? first.bytes > second.bytes : first.offset < second.offset;
  });
}

Progress WindowStack::advance() {
  EmptyingWindow& window = windows_.back();
  if (window.makes_place) return make_place();
  if (window.next == window.moves.size()) return Progress::kAllPlaced;
  EmptyingWindow::Move& move = window.moves[window.next];
  const Block from = arena_.heap[move.from.id];
  const bool same = arena_.heap.blocks().current(move.from) && from.owner == move.owner;
  // The block may have been freed while a place was made for another one.
  if (same) move.to = take_free_place(from);
  if (!same || move.to != BlockId::kNone) {
    ++window.next;
    return Progress::kGoesOn;
  }
  const Request& request = requester();
  window.place = {.asked_bytes = from.bytes,
                  .bytes = from.bytes,
                  .zone = from.zone,
                  .stream = request.stream,
                  .move_limit_bytes = from.bytes - 1,  // else it would take such a place again
                  .evicts_for_places = true};
  if (!request.evicts_for_places) return Progress::kNoPlace;
  window.makes_place = true;
  window.may_move = false;
  return Progress::kGoesOn;
}

Progress WindowStack::make_place() {
  EmptyingWindow& window = windows_.back();
  const RoomPlan plan = window.may_move
                            ? search_.window_with_moves(window.place, WindowZones::kAny, emptied_)
                            : search_.window_of_evictions(window.place, emptied_);
  if (const auto* moves = std::get_if<MovesPlan>(&plan)) {
    window.may_move = false;  // afterwards
    begin(*moves);
    return Progress::kGoesOn;
  }
  if (const auto* taken = std::get_if<WindowPlan>(&plan)) {
    // In each round but the last an owner refuses, whose block is a barrier from then on.
    BlockId served{};
    const Outcome outcome = arena_.take_window(lock_, window.place, *taken, served);
    if (outcome == Outcome::kNothing) return Progress::kGoesOn;
    if (outcome != Outcome::kServed) return Progress::kNoPlace;
    window.moves[window.next++].to = served;
    window.makes_place = false;
    return Progress::kGoesOn;
  }
  if (window.may_move || !search_.can_move_contents(request_)) return Progress::kNoPlace;
  window.may_move = true;
  return Progress::kGoesOn;
}

void WindowStack::finish(bool all_placed) {
  EmptyingWindow& window = windows_.back();
  Heap& heap = arena_.heap;
  Request& request = requester();
  if (!all_placed) request.move_limit_bytes = window.place.bytes - 1;
  CallsInFlight::Sequence sequence(arena_.calls);
  for (const EmptyingWindow::Move& move : window.moves) {
    if (move.to == BlockId::kNone) continue;
    if (all_placed) {
      mover_.move(lock_, move.from, move.owner, move.to, request.stream);
    } else {
      heap.release(move.to);
    }
  }
  for (const Claim& claim : window.kept) {
    heap.unclaim(claim.block, arena_.pages, request.stream, claim.uses);
  }
  windows_.pop_back();
  emptied_.pop_back();
}

BlockId WindowStack::take_free_place(const Block& block) {
  Heap& heap = arena_.heap;
  const StreamId stream = request_.stream;
  BlockId id = heap.take_free(block.zone, block.bytes, stream);
  for (size_t i = 0; i < kZoneCount && id == BlockId::kNone; ++i) {
    id = heap.take_free(kZones[i], block.bytes, stream);
  }
  return id;
}

}  // namespace

Outcome BlockMover::empty_window(DeviceLock& lock, Request& request, const MovesPlan& plan) {
  const bool placed = WindowStack(lock, arena_, search_, *this, request).run(plan);
  return placed ? Outcome::kRetry : Outcome::kNothing;
}

bool BlockMover::move(DeviceLock& lock, BlockRef from, Owner owner, BlockId to, StreamId stream) {
  Heap& heap = arena_.heap;
  const Block& block = heap[from.id];
  // While another block was copied, this one may have been freed and handed out again, or another
  // stream may have begun to use it.
  const bool same = heap.blocks().current(from) && block.state == BlockState::kAllocated &&
                    block.owner == owner && block.bytes <= heap[to].bytes &&
                    arena_.is_alone(block, stream);
  if (!same || arena_.reclaimer->move_price(owner).barrier) {
    heap.release(to);
    return false;
  }
  const size_t requested_bytes = block.requested_bytes;
  heap.set_requested(to, requested_bytes);
  // The stream has to wait for the place before it copies to it.
  tell(to, true);
  if (!arena_.reclaimer->move(lock, owner, arena_.address_of(to).pointer())) {
    tell(to, false);
    heap.release(to);
    return false;
  }
  ++arena_.counts.moves;
  arena_.counts.moved_bytes += requested_bytes;
  if (arena_.config.poison)
    arena_.poison(arena_.address_of(from.id).pointer(), heap[from.id].bytes);
  tell(from.id, false);
  heap.release(from.id);
  return true;
}

void BlockMover::tell(BlockId id, bool allocated) {
  AllocatorObserver* const observer = arena_.observer;
  if (observer == nullptr) return;
  BlockView view = arena_.heap.view(id);
  view.moves = true;
  if (allocated) {
    observer->allocated(view);
  } else {
    observer->freed(view, arena_.heap[id].shared);
  }
}

}  // namespace tidepool
