#include "allocator/arena/page_supply.h"

#include <algorithm>
#include <utility>

#include "allocator/base/device_broken.h"
#include "allocator/base/sizes.h"
#include "allocator/base/steady_clock.h"

namespace tidepool {

PageSupply::PageSupply(Arena& arena) : arena_(arena) {
  if (!arena_.space.has_virtual_memory()) commit_everything();
}

PageSupply::~PageSupply() {
  arena_.streams.finish_for_good();
  give_everything_back();
}

void PageSupply::commit_everything() {
  PageTransaction transaction(arena_.space, arena_.base, arena_.page_bytes());
  std::vector<BlockId> zones;
  Heap& heap = arena_.heap;
  for (Zone zone : kZones) {
    const BlockId id = heap.first_hole(zone);
    if (id == BlockId::kNone) continue;  // a zone without addresses
    zones.push_back(heap.claim(id, heap[id].offset, heap[id].end()));
  }
  for (size_t page = 0; page < arena_.pages.page_count(); ++page) {
    transaction.commit(arena_.pages, page);
  }
  transaction.run();
  transaction.apply(arena_.pages);
  for (BlockId id : zones) heap.unclaim(id, arena_.pages);
  arena_.note_reserved();
  if (transaction.succeeded()) return;
  give_everything_back();
  throw DeviceError(transaction.error());
}

void PageSupply::give_everything_back() {
  // Whatever the device refuses here is lost to the process, not to correctness.
  PageTransaction transaction(arena_.space, arena_.base, arena_.page_bytes());
  for (size_t page = 0; page < arena_.pages.page_count(); ++page) {
    if (arena_.pages.page(page).state != PageTable::PageState::kEmpty) {
      transaction.give_back(arena_.pages, page);
    }
  }
  while (arena_.pages.spare_count() > 0) transaction.give_back_spare(arena_.pages);
  transaction.run();
}

PageSupply::Claims PageSupply::claim(const PagesPlan& plan) {
  Heap& heap = arena_.heap;
  const Site& site = plan.site;
  Claims claims;
  bool target_claimed = false;
  auto claim_target = [&] {
    claims.target.block = heap.claim(site.first, site.begin, site.claim_end, &claims.target.uses);
    target_claimed = true;
  };
  // Claims go from the highest address down, because a claim keeps the ids of blocks below it.
  for (const PageRun& run : plan.sources) {
    if (run.range.begin < site.begin && !target_claimed) claim_target();
    Claim& source = claims.sources.emplace_back();
    source.block = heap.claim(run.block, run.range.begin, run.range.end, &source.uses);
  }
  if (!target_claimed) claim_target();
  heap.flush();
  return claims;
}

Outcome PageSupply::serve(DeviceLock& lock, const Request& request, const PagesPlan& plan,
                          BlockId& served) {
  Heap& heap = arena_.heap;
  const size_t page_bytes = arena_.page_bytes();
  Claims claims = claim(plan);
  PageTransaction transaction(arena_.space, arena_.base, page_bytes,
                              request.takes_reserve ? 0 : arena_.config.device_reserve_bytes);
  auto from = plan.moved_pages.begin();
  for (size_t page = plan.site.begin / page_bytes; page * page_bytes < plan.site.claim_end;
       ++page) {
    if (arena_.pages.page(page).state != PageTable::PageState::kEmpty) continue;
    if (from != plan.moved_pages.end()) {
      transaction.move(arena_.pages, *from++, page);
    } else {
      transaction.commit(arena_.pages, page);
    }
  }
  arena_.note_reserved();
  if (!arena_.streams.order_after(lock, request.stream, claims.target.uses)) {
    transaction.refuse(arena_.streams.error());
  }
  run(lock, transaction, claims.sources);
  arena_.note_reserved();
  for (const Claim& source : claims.sources) {
    heap.unclaim(source.block, arena_.pages, request.stream, source.uses);
  }
  if (!transaction.succeeded()) {
    heap.unclaim(claims.target.block, arena_.pages, request.stream, claims.target.uses);
    if (transaction.device_broken()) throw DeviceBroken(transaction.error());
    arena_.counts.device_refusals += transaction.device_refused();
    return transaction.device_refused() ? Outcome::kDeviceRefused : Outcome::kDeviceFailed;
  }
  if (!plan.moved_pages.empty()) {
    ++arena_.counts.remaps;
    arena_.counts.remapped_bytes += transaction.moved() * page_bytes;
  }
  served = heap.hand_out(claims.target.block, request.bytes, arena_.pages, request.stream,
                         claims.target.uses);
  return Outcome::kServed;
}

void PageSupply::run(DeviceLock& lock, PageTransaction& transaction, std::vector<Claim>& emptied) {
  std::vector<std::pair<size_t, size_t>> places;
  StreamUses uses;
  for (const Claim& claim : emptied) {
    places.emplace_back(arena_.heap[claim.block].offset, arena_.heap[claim.block].bytes);
    add_uses(uses, claim.uses);
  }
  double waited_ns = 0;
  double took_ns = 0;
  CallsInFlight::Sequence sequence(arena_.calls);
  if (transaction.succeeded()) {
    const uint64_t asked_ns = steady_now_ns();
    if (arena_.streams.wait_for(lock, uses)) {
      for (Claim& claim : emptied) claim.uses.clear();
      Unlocked unlocked(lock);
      const uint64_t start_ns = steady_now_ns();
      waited_ns = static_cast<double>(start_ns - asked_ns);
      transaction.run();
      took_ns = static_cast<double>(steady_now_ns() - start_ns);
      // The table's memory is not needed where no block lies. Nobody else reads or writes these
      // entries, because their places are claimed.
      for (auto [offset, bytes] : places) arena_.heap.table().drop(offset, bytes);
    } else {
      transaction.refuse(arena_.streams.error());
    }
  }
  transaction.apply(arena_.pages, arena_.observer);
  arena_.note_reserved();
  measure(transaction, waited_ns, took_ns);
}

void PageSupply::measure(const PageTransaction& transaction, double waited_ns, double took_ns) {
  if (!arena_.config.measure_remaps || transaction.moved() == 0 || !transaction.succeeded()) return;
  constexpr double kWeight = 0.125;  // of the newest
  // The thread may have been stopped meanwhile, on a busy machine for long. Were that counted,
  // pages would seem dear, so that none moves any more and their cost is not measured again.
  constexpr double kMostAtOnce = 2;  // times what is known
  static constexpr double kLeastKnownNs = 4000;
  const auto update = [](std::atomic<double>& known, double ns) {
    const double known_ns = known.load(std::memory_order_relaxed);
    const double counted_ns = std::min(ns, kMostAtOnce * std::max(known_ns, kLeastKnownNs));
    known.store(known_ns + kWeight * (counted_ns - known_ns), std::memory_order_relaxed);
  };
  update(arena_.remap_ns_per_page, took_ns / static_cast<double>(transaction.moved()));
  // Without an order of streams nothing is waited for, and the lock's own time is no wait.
  if (arena_.streams.has_order()) update(arena_.drain_ns, waited_ns);
}

size_t PageSupply::give_back(DeviceLock& lock) {
  const size_t page_bytes = arena_.page_bytes();
  Heap& heap = arena_.heap;
  arena_.wait_for_streams(lock);
  arena_.merge_free_blocks();
  if (!arena_.space.has_virtual_memory()) return 0;
  PageTransaction transaction(arena_.space, arena_.base, page_bytes);
  std::vector<Claim> claimed;
  for (BlockId id = heap.blocks().first(); id != BlockId::kNone; id = heap[id].next) {
    const Block& block = heap[id];
    const size_t begin = round_up(block.offset, page_bytes);
    const size_t end = round_down(block.end(), page_bytes);
    if (begin >= end) continue;
    if (block.state == BlockState::kQuarantined) {
      heap[id].state = BlockState::kClaimed;
      claimed.emplace_back().block = id;
    } else if (block.state == BlockState::kFree && arena_.may_wait_for(block)) {
      Claim& claim = claimed.emplace_back();
      id = claim.block = heap.claim(id, begin, end, &claim.uses);
    } else {
      continue;
    }
    for (size_t page = begin / page_bytes; page * page_bytes < end; ++page) {
      transaction.give_back(arena_.pages, page);
    }
  }
  while (arena_.pages.spare_count() > 0) transaction.give_back_spare(arena_.pages);
  run(lock, transaction, claimed);
  for (const Claim& claim : claimed) {
    heap.unclaim(claim.block, arena_.pages, StreamId::kDefault, claim.uses);
  }
  return transaction.given_back() * page_bytes;
}

size_t PageSupply::set_limit(DeviceLock& lock, size_t bytes) {
  PageTable& pages = arena_.pages;
  const size_t wanted = std::min(bytes, arena_.counts.budget_bytes) / arena_.page_bytes();
  pages.set_budget(wanted);
  if (wanted < pages.committed()) give_back(lock);
  return pages.given_budget() * arena_.page_bytes();
}

}  // namespace tidepool
