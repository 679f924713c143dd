// The order of a request, and what it does with pages: committing, moving, giving back.
#include <algorithm>
#include <chrono>

#include "allocator/arena.h"
#include "allocator/check.h"
#include "allocator/sizes.h"

namespace tidepool {

BlockId Arena::make_room(DeviceLock& lock, Request request) {
  BlockId served{};
  int device_failures = 0;
  bool gave_back = false;
  for (int waits = 0; request.bytes <= config_.range_bytes;) {
    poll_host_fences();
    poll(lock, request.stream);
    heap_.flush();
    if (clocks_.stream_count() > 1) heap_.merge_passed();
    served = heap_.take_free(request.zone, request.bytes, request.stream, request.end);
    if (served != BlockId::kNone) return served;

    // A commit costs once, waiting for another stream again and again: so memory that is in use
    // elsewhere comes after new pages.
    Outcome outcome = lend(lock, request, true, served);
    if (outcome == Outcome::kNothing) outcome = commit_room(lock, request, served);
    if (outcome == Outcome::kNothing && !config_.allow_remap) {
      for (Zone zone : kZones) {
        served = heap_.take_free(zone, request.bytes, request.stream, request.end);
        if (served != BlockId::kNone) return served;
      }
    }
    if (outcome == Outcome::kNothing) outcome = lend(lock, request, false, served);
    if (outcome == Outcome::kNothing) outcome = take_awaiting(lock, request, served);
    if (outcome == Outcome::kNothing) outcome = reclaim(lock, request, served);
    if (outcome == Outcome::kServed) return served;
    if (outcome == Outcome::kRetry) continue;

    if (outcome == Outcome::kOrderFailed) {
      if (++device_failures > kDeviceFailures) throw DeviceError(order_error_);
      continue;
    }
    if (outcome == Outcome::kDeviceFailed && ++device_failures <= kDeviceFailures) {
      request.device_failed = true;
      give_back(lock);
      continue;
    }
    if (outcome == Outcome::kDeviceFailed || ++waits > kWaits) break;
    if (in_flight_ > 0) {  // pages are on their way: of another thread's request
      ++counts_.retries;
      size_t seen = in_flight_;
      in_flight_change_.wait(lock, [&] { return in_flight_ < seen; });
      continue;
    }
    if (wait_for_a_fence(lock)) continue;
    // Helps where free pages cannot be moved, are quarantined, or are shared by free blocks that
    // wait for different streams.
    if (!gave_back) {
      gave_back = true;
      const size_t unsettled = heap_.unpassed().size() + heap_.awaited().size();
      if (give_back(lock) > 0 || (unsettled > 0 && can_order())) continue;
    }
    if (reclaimer_ == nullptr || !reclaimer_->wait_for_room(lock)) break;
    ++counts_.retries;
  }
  out_of_memory(request);
}

Arena::Site Arena::site_from(const Request& request, BlockId start) const {
  const size_t bytes = request.bytes;
  Site site{start, heap_[start].offset, 0, 0};
  size_t covered = 0;
  for (BlockId id = start; id != BlockId::kNone; id = heap_[id].next) {
    const Block& block = heap_[id];
    if (block.zone != heap_[start].zone) return {};
    size_t taken = std::min(bytes - covered, block.bytes);
    if (block.state == BlockState::kHole) {
      size_t pages = (taken + config_.handle_bytes - 1) / config_.handle_bytes;
      site.pages_needed += pages;
      site.claim_end = block.offset + pages * config_.handle_bytes;
    } else if (block.state == BlockState::kFree && ready(request.stream, block)) {
      site.claim_end = block.offset + taken;
    } else {
      return {};
    }
    covered += taken;
    if (covered < bytes) continue;
    // New pages are whole: what the last one has to spare may as well lie before the request.
    const size_t spare = site.claim_end - site.begin - bytes;
    site.begin = heap_.start_within(site.begin, spare, bytes, End::kLow);
    while (heap_[site.first].end() <= site.begin) site.first = heap_[site.first].next;
    return site;
  }
  return {};
}

Arena::Site Arena::find_site(const Request& request, Zone zone) const {
  Site best;
  auto consider = [&](const Site& site) {
    if (site.pages_needed == 0) return;
    if (best.pages_needed == 0 || site.pages_needed < best.pages_needed ||
        (site.pages_needed == best.pages_needed && site.begin < best.begin)) {
      best = site;
    }
  };
  for (BlockId id = heap_.first_hole(zone); id != BlockId::kNone; id = heap_[id].link_next) {
    BlockId previous = heap_[id].previous;
    bool lead = previous != BlockId::kNone && heap_[previous].state == BlockState::kFree &&
                heap_[previous].zone == zone;
    if (lead) consider(site_from(request, previous));
    consider(site_from(request, id));
  }
  return best;
}

Arena::Site Arena::find_hole(const Request& request, Zone zone) const {
  Site best;
  for (BlockId id = heap_.first_hole(zone); id != BlockId::kNone; id = heap_[id].link_next) {
    if (heap_[id].bytes < request.bytes) continue;
    if (best.pages_needed == 0 || heap_[id].offset < best.begin) best = site_from(request, id);
  }
  return best;
}

Arena::Site Arena::next_site(const Request& request, size_t attempt) const {
  // The request's own zone first; others mix what should lie apart.
  Zone zone = request.zone;
  if (attempt >= 2) zone = kZones[kZoneCount - attempt / 2];
  return attempt % 2 == 0 ? find_site(request, zone) : find_hole(request, zone);
}

Arena::Outcome Arena::commit_room(DeviceLock& lock, const Request& request, BlockId& served) {
  for (size_t attempt = 0; attempt < kSiteAttempts; attempt += 2) {
    Site site = next_site(request, attempt);
    if (site.pages_needed == 0) continue;  // no room for it in that zone: the next one
    if (site.pages_needed > pages_at_hand()) break;
    return fill_site(lock, request, site, {}, served);
  }
  return Outcome::kNothing;
}

Arena::Claims Arena::claim_pages(const Site& site, const std::vector<size_t>& from_pages) {
  const size_t page_bytes = config_.handle_bytes;
  Claims claims;
  bool target_claimed = false;
  auto claim_target = [&] {
    claims.target.block =
        heap_.claim(site.first, site.begin, site.claim_end, &claims.target.uses);
  };
  // From the highest address down: a claim keeps the ids of blocks below it.
  for (size_t last = from_pages.size(); last > 0;) {
    size_t first = last - 1;
    while (first > 0 && from_pages[first - 1] + 1 == from_pages[first] &&
           !heap_.zone_begins_at(from_pages[first] * page_bytes)) {
      --first;
    }
    size_t begin = from_pages[first] * page_bytes;
    if (begin < site.begin && !target_claimed) {
      claim_target();
      target_claimed = true;
    }
    Claim& source = claims.sources.emplace_back();
    source.block = heap_.claim(block_listed_at(begin), begin,
                               begin + (last - first) * page_bytes, &source.uses);
    last = first;
  }
  if (!target_claimed) claim_target();
  heap_.flush();
  return claims;
}

Arena::Outcome Arena::fill_site(DeviceLock& lock, const Request& request, const Site& site,
                                const std::vector<size_t>& from_pages, BlockId& served) {
  const size_t page_bytes = config_.handle_bytes;
  Claims claims = claim_pages(site, from_pages);
  PageTransaction transaction(space_, base_, page_bytes);
  auto from = from_pages.begin();
  for (size_t page = site.begin / page_bytes; page * page_bytes < site.claim_end; ++page) {
    if (pages_.page(page).state != PageTable::PageState::kEmpty) continue;
    if (from != from_pages.end()) {
      transaction.move(pages_, *from++, page);
    } else {
      transaction.commit(pages_, page);
    }
  }
  note_reserved();
  if (!order_after(lock, request.stream, claims.target.uses)) transaction.refuse(order_error_);
  run_unlocked(lock, transaction, claims.sources);
  note_reserved();
  for (const Claim& source : claims.sources) {
    heap_.settle(source.block, pages_, request.stream, source.uses);
  }
  trace_.add(from_pages.empty() ? TraceKind::kCommit : TraceKind::kRemap,
             (base_ + site.begin).value, site.pages_needed * page_bytes);
  if (!transaction.succeeded()) {
    heap_.settle(claims.target.block, pages_, request.stream, claims.target.uses);
    return Outcome::kDeviceFailed;
  }
  if (!from_pages.empty()) {
    ++counts_.remaps;
    counts_.remapped_bytes += transaction.moved() * page_bytes;
  }
  served = heap_.hand_out(claims.target.block, request.bytes, pages_, request.stream,
                          claims.target.uses);
  return Outcome::kServed;
}

void Arena::run_unlocked(DeviceLock& lock, PageTransaction& transaction,
                         std::vector<Claim>& emptied) {
  std::vector<std::pair<size_t, size_t>> places;
  StreamUses uses;
  for (const Claim& claim : emptied) {
    places.emplace_back(heap_[claim.block].offset, heap_[claim.block].bytes);
    add_uses(uses, claim.uses);
  }
  double took_ns = 0;
  InFlight in_flight(*this);
  if (transaction.succeeded()) {
    if (wait_for(lock, uses)) {
      for (Claim& claim : emptied) claim.uses.clear();
      lock.unlock();
      const auto start = std::chrono::steady_clock::now();
      transaction.run();
      took_ns = std::chrono::duration<double, std::nano>(std::chrono::steady_clock::now() - start)
                    .count();
      // Where no block lies the table's memory is not needed. The places are claimed: nobody else
      // reads or writes their entries.
      for (auto [offset, bytes] : places) heap_.table().drop(offset, bytes);
      lock.lock();
    } else {
      transaction.refuse(order_error_);
    }
  }
  transaction.apply(pages_, observer_);
  note_reserved();
  if (config_.measure_remaps && transaction.moved() > 0 && transaction.succeeded()) {
    constexpr double kWeight = 0.125;  // of the newest
    const double ns = took_ns / static_cast<double>(transaction.moved());
    remap_ns_per_handle_ += kWeight * (ns - remap_ns_per_handle_);
  }
}

bool Arena::poll_host_fences() {
  bool any = false;
  for (size_t i = 0; i < deferred_.size();) {
    if (!deferred_[i].fence->passed()) {
      ++i;
      continue;
    }
    TIDEPOOL_CHECK(heap_.blocks().current(deferred_[i].block), "deferred free %zu is stale", i);
    heap_.release(deferred_[i].block.id);
    std::swap(deferred_[i], deferred_.back());
    deferred_.pop_back();
    any = true;
  }
  return any;
}

bool Arena::wait_for_a_fence(DeviceLock& lock) {
  if (deferred_.empty()) return false;
  std::shared_ptr<Fence> fence = deferred_.front().fence;
  lock.unlock();
  fence->wait();
  lock.lock();
  return true;
}

size_t Arena::give_back(DeviceLock& lock) {
  const size_t page_bytes = config_.handle_bytes;
  settle_streams(lock);
  heap_.flush();
  if (clocks_.stream_count() > 1) heap_.merge_passed();
  if (!space_.has_virtual_memory()) return 0;
  PageTransaction transaction(space_, base_, page_bytes);
  std::vector<Claim> claimed;
  for (BlockId id = heap_.blocks().first(); id != BlockId::kNone; id = heap_[id].next) {
    const Block& block = heap_[id];
    size_t begin = round_up(block.offset, page_bytes);
    size_t end = round_down(block.end(), page_bytes);
    if (begin >= end) continue;
    if (block.state == BlockState::kQuarantined) {
      heap_[id].state = BlockState::kClaimed;
      claimed.emplace_back().block = id;
    } else if (block.state == BlockState::kFree && may_wait_for(block)) {
      Claim& claim = claimed.emplace_back();
      id = claim.block = heap_.claim(id, begin, end, &claim.uses);
    } else {
      continue;
    }
    for (size_t page = begin / page_bytes; page * page_bytes < end; ++page) {
      transaction.give_back(pages_, page);
    }
  }
  while (pages_.spare_count() > 0) transaction.give_back_spare(pages_);
  run_unlocked(lock, transaction, claimed);
  for (const Claim& claim : claimed) {
    heap_.settle(claim.block, pages_, StreamId::kDefault, claim.uses);
  }
  size_t bytes = transaction.given_back() * page_bytes;
  trace_.add(TraceKind::kGiveBack, 0, bytes);
  return bytes;
}

}  // namespace tidepool
