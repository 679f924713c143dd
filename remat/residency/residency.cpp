#include "remat/residency/residency.h"

#include <algorithm>
#include <cmath>
#include <exception>
#include <limits>
#include <span>
#include <utility>
#include <vector>

#include "allocator/base/check.h"
#include "remat/residency/chaos_odds.h"

namespace tidepool::remat {
namespace {

// Has the contents' fingerprint kept, before anything is changed. False: they cannot be read, and
// have to stay; what is wrong with the device the job's own work will hear.
bool remember(ContentCheck& check, const Storage& storage) {
  try {
    check.evicted(*storage.current, storage.address);
    return true;
  } catch (const std::exception&) {
    return false;
  }
}

}  // namespace

Residency::Residency(BudgetedAllocator& allocator, Backend& backend, Policy& policy,
                     LineageStore& store, const ForeseenStorages& foreseen,
                     std::unique_ptr<Tier> tier)
    : copies(std::move(tier), store),
      check(backend),
      watch(backend),
      allocator_(allocator),
      backend_(backend),
      policy_(policy),
      store_(store),
      foreseen_(foreseen) {
  list_.previous = list_.next = &list_;
}

void Residency::list(Storage& storage) {
  if (storage.next != nullptr) return;
  storage.next = list_.next;
  storage.previous = &list_;
  list_.next->previous = &storage;
  list_.next = &storage;
}

void Residency::unlist(Storage& storage) {
  if (storage.next == nullptr) return;
  storage.previous->next = storage.next;
  storage.next->previous = storage.previous;
  storage.previous = storage.next = nullptr;
}

// What is laid out in ways of its own is read unseen, and our copies of foreign memory are compared
// by address. What finds no place stays: the tier may be full, or have failed.
bool Residency::leaves_by_copy(const Storage& storage) const {
  if (!offloads_roots()) [[likely]]
    return false;
  const Value& value = *storage.current;
  return value.producer == nullptr && value.reason != RootReason::kLayout &&
         value.reason != RootReason::kForeignCopy && copies.has_place(value);
}

double Residency::forgetting_price(Storage& storage, const Circumstances& now) const {
  if (storage.current->producer == nullptr) return std::numeric_limits<double>::infinity();
  return policy_.price(storage, now);
}

// A copy is paid in full, while the price of forgetting counts all that is evicted around the
// storage, most of which will be made again in any case: each such operator is counted once for
// every storage beside it. The factor makes up for that. It was found by simulation of 12 traces at
// 0.2 to 0.7 of their peaks, over links of 12, 55 and 450 GB/s, and holds on ten others.
double Residency::copying_price(const Storage& storage, const Circumstances& now) const {
  constexpr double kFactor = 4;
  // What was copied ahead leaves and comes back while operators run, if the link is not busy.
  constexpr double kFactorAhead = 1;
  constexpr double kNever = std::numeric_limits<double>::infinity();
  const uint64_t ns = copies.cost_ns(*storage.current);
  if (ns == UINT64_MAX) return kNever;
  // A plan was found with prices in full.
  const double exposure = policy_.follows_plan() ? 1 : exposure_;
  const double factor = exposure * (copies.is_ahead(*storage.current) ? kFactorAhead : kFactor);
  const uint64_t until_use_ns = foreseen_.time_until_use_ns(storage);
  return factor * policy_.copy_price(storage, ns, until_use_ns, now).value_or(kNever);
}

// Found by simulation of 22 traces at 0.2 to 0.5 of their peaks over links of 12 to 450 GB/s, where
// nothing takes longer than with full prices. Less than a quarter gains more there; but a GPT on a
// stand-in device copied so much then that a smaller part of it was hidden.
void Residency::end_step(uint64_t form, uint64_t next) {
  constexpr double kIdle = 0.4, kBusy = 0.8, kLeast = 0.25;
  const uint64_t step_ns = now_ - std::exchange(step_began_ns_, now_);
  const uint64_t bytes = evicted_bytes - std::exchange(evicted_before_step_, evicted_bytes);
  exposure_ = 1;
  const Tier* const tier = copies.tier();
  if (step_ns == 0 || tier == nullptr || !tier->runs_beside()) return;
  const auto find = [this](uint64_t wanted) {
    return std::find_if(exposures_.begin(), exposures_.end(),
                        [&](const Exposure& exposure) { return exposure.form == wanted; });
  };
  const auto link_ns = static_cast<double>(std::max(tier->store_ns(bytes), tier->load_ns(bytes)));
  const double busy = link_ns / static_cast<double>(step_ns);
  const double part = std::pow(kLeast, std::clamp((kBusy - busy) / (kBusy - kIdle), 0.0, 1.0));
  const auto known = find(form);
  if (known != exposures_.end()) {
    known->part = part;
    std::rotate(known, known + 1, exposures_.end());
  } else {  // a form's first step does what later ones need not
    if (exposures_.size() == StepHistory::kKinds) exposures_.erase(exposures_.begin());
    exposures_.push_back({form, 1});
  }
  const auto coming = find(next);
  if (coming != exposures_.end()) exposure_ = coming->part;
}

double Residency::price(Storage& storage, size_t free_beside_bytes) const {
  const Circumstances now = circumstances(storage, free_beside_bytes);
  if (!copies.enabled()) [[likely]]
    return policy_.price(storage, now);
  if (policy_.prefers_copy(0, 0)) return forgetting_price(storage, now);
  return std::min(forgetting_price(storage, now), copying_price(storage, now));
}

bool Residency::is_better_copied(Storage& storage) {
  if (!copies.enabled()) return false;
  if (storage.current->producer == nullptr) return true;
  if (random_ways_) return random_ways_->next() % 2 == 0;
  const uint64_t copy_ns = copies.cost_ns(*storage.current);
  const std::optional<bool> preferred =
      policy_.prefers_copy(copy_ns, storage.current->producer->cost_ns);
  if (preferred) return *preferred;
  const Circumstances now = circumstances(storage, 0);
  return copying_price(storage, now) < forgetting_price(storage, now);
}

void Residency::close_copies(CopyDirection direction) {
  const TierStreams* const streams = copies.streams();
  if (streams == nullptr) return;
  std::shared_ptr<Fence> earlier = copies.tier()->last(direction);
  if (earlier == nullptr) return;
  const bool is_out = direction == CopyDirection::kOut;
  allocator_.close_uses_locked(is_out ? streams->out : streams->in, std::move(earlier));
}

template <class Make>
bool Residency::enqueue_copy(Value& value, void* address, Make&& make) {
  const TierStreams* const streams = copies.streams();
  if (streams == nullptr) return make(std::span<const StreamId>());
  const std::vector<StreamId> users = allocator_.users(address);
  close_copies(CopyDirection::kOut);
  const bool made = make(std::span<const StreamId>(users));
  // The block is used until the copy has run, also by one of which only a part was enqueued. Who
  // writes the bytes where they are waits for it, too. One that was refused need not come after the
  // hidden use before it, such as a copy in, which is waited for then.
  const StreamUse use = allocator_.use_so_far(streams->out);
  allocator_.record_use_locked(address, use);
  if (made || value.hidden_use.epoch == 0) value.hidden_use = use;
  return made;
}

bool Residency::copy_out(Value& value, void* address) {
  if (copies.is_ahead(value)) return true;  // the block's use by that copy was noted then
  return enqueue_copy(value, address, [&](std::span<const StreamId> users) {
    return copies.make(value, address, users);
  });
}

bool Residency::copy_ahead(Storage& storage, uint64_t over_ns) {
  Value& value = *storage.current;
  if (value.copied || !at_rest(storage) || !copies.tier()->stores_beside(value.bytes)) return false;
  const bool is_root = value.producer == nullptr;
  if (is_root && (!copies_roots_ahead_ || !leaves_by_copy(storage))) return false;
  return enqueue_copy(value, storage.address, [&](std::span<const StreamId> users) {
    return copies.make_ahead(value, storage.address, users, over_ns);
  });
}

bool Residency::evict(Storage& storage) {
  if (!evictable(storage) || !remember(check, storage)) return false;
  // A copy would stand for what its readers read. The next operator that reads it notices, too.
  if (storage.current->producer == nullptr && watch.is_changed(*storage.current)) [[unlikely]] {
    storage.fixed = true;  // somebody has its address
    return false;
  }
  const bool copied = is_better_copied(storage) && copy_out(*storage.current, storage.address);
  if (!copied && storage.current->producer == nullptr) return false;
  if (!copied) copies.drop(*storage.current);  // it is dearer, or was not compared
  if (!backend_.detach(storage)) {
    storage.dying = true;
    return false;
  }
  storage.address = nullptr;
  storage.evicted = true;
  set_absent(storage, true);
  unlist(storage);
  ++evictions;
  evicted_bytes += storage.current->bytes;
  offloads += copied;
  offloaded_bytes += copied ? storage.current->bytes : 0;
  availability_changed(*storage.current);
  return true;
}

bool Residency::evict_and_free(Storage& storage) {
  void* address = storage.address;
  if (!evict(storage)) return false;
  allocator_.free_locked(address);
  return true;
}

// Has one of a few storages copied now, and stay: it leaves the next time, or is written before.
bool Residency::is_copied_ahead_at_random(Storage& storage) {
  if (!random_ways_ || copies.streams() == nullptr) return false;
  return random_ways_->next() % 4 == 0 && copy_ahead(storage, now_);
}

size_t Residency::evict_everything(uint64_t odds, SplitMix* random) {
  size_t count = 0;
  const auto evict_or_copy = [&](Storage& storage) {
    if (odds > 1 && random->next() % odds != 0) return;
    if (!is_copied_ahead_at_random(storage)) count += evict_and_free(storage);
  };
  for (Storage* storage = list_.next; storage != &list_;) {
    Storage* next = storage->next;
    evict_or_copy(*storage);
    storage = next;
  }
  if (!copies.enabled()) return count;
  store_.for_each_storage([&](Storage& storage) {
    if (storage.dead || storage.current->producer != nullptr || !evictable(storage)) return;
    evict_or_copy(storage);
  });
  if (odds <= 1 || random->next() % odds == 0) count += offload_retained();
  return count;
}

bool Residency::install(Storage& storage, void* address) {
  if (storage.dying) return false;
  if (!backend_.attach(storage, address)) {
    storage.dying = true;
    availability_changed(*storage.current);  // the job will not read it any more
    return false;
  }
  allocator_.set_owner(address, &storage);
  storage.address = address;
  storage.evicted = false;
  set_absent(storage, false);
  if (storage.current->producer != nullptr) list(storage);
  ++rematerializations;
  check.restored(*storage.current, address);
  availability_changed(*storage.current);
  return true;
}

void Residency::set_absent(Storage& storage, bool absent) {
  if (storage.absent == absent) return;
  storage.absent = absent;
  if (absent) {
    absent_bytes_ += storage.current->bytes;
  } else {
    absent_bytes_ -= storage.current->bytes;
  }
}

bool Residency::set_aside(Storage& storage) {
  if (!backend_.detach(storage)) {
    storage.dying = true;
    return false;
  }
  keep(*storage.current, std::exchange(storage.address, nullptr));
  storage.evicted = true;
  unlist(storage);
  return true;
}

bool Residency::put_back(Storage& storage, void* to) {
  Value& value = *storage.current;
  void* const address = to != nullptr ? to : value.kept;
  if (!backend_.attach(storage, address)) {
    storage.dying = true;
    return false;
  }
  take_kept(value);
  allocator_.set_owner(address, &storage);
  storage.address = address;
  storage.evicted = false;
  if (value.producer != nullptr) list(storage);
  moves += to != nullptr;
  return to != nullptr;
}

void Residency::keep(Value& value, void* address) {
  allocator_.set_owner(address, nullptr);
  value.kept = address;
  value.kept_slot = static_cast<uint32_t>(kept_.size());
  kept_.push_back(&value);
}

void* Residency::take_kept(Value& value) {
  void* address = value.kept;
  kept_[value.kept_slot] = kept_.back();
  kept_[value.kept_slot]->kept_slot = value.kept_slot;
  kept_.pop_back();
  value.kept = nullptr;
  return address;
}

size_t Residency::offload_retained() {
  if (!copies.enabled() || frozen_ > 0) return 0;
  size_t count = 0;
  for (size_t k = kept_.size(); k-- > 0;) {
    Value& value = *kept_[k];
    if (value.producer != nullptr || value.storage != nullptr) continue;  // no retained root
    if (value.lost) continue;
    if (value.uses > 0 || value.locks > 0 || !copy_out(value, value.kept)) continue;
    free_kept(value);
    availability_changed(value);
    ++count;
  }
  return count;
}

void Residency::free_kept(Value& value) { allocator_.free_locked(take_kept(value)); }

void Residency::value_dies(Value& value) {
  const bool is_cut = value.references > 0;  // it only loses its lineage
  if (is_cut && !copies_roots_ahead_ && copies.is_ahead(value)) copies.drop(value);  // a root now
  if (!is_cut) {
    copies.drop(value);
    if (value.kept != nullptr) free_kept(value);
    check.forget(value);
    watch.forget(value);
  }
  const bool known = value.component != 0 || value.changed_slot != 0;
  if (known) policy_.value_dies(value);
}

void Residency::check_invariants(const LineageStore& store) const {
  copies.check_invariants();
  copies.for_each_ahead([](const Value& value) {
    const bool has_readers = value.consumers != nullptr;
    TIDEPOOL_CHECK(value.available() || !has_readers, "invariant 5: %zu bytes", value.bytes);
  });
  size_t listed = 0;
  for (const Storage* storage = list_.next; storage != &list_; storage = storage->next) {
    TIDEPOOL_CHECK(storage->next->previous == storage, "a broken list of resident storages");
    ++listed;
  }
  size_t expected = 0;
  size_t absent = 0;
  size_t in_pieces = 0;
  store.for_each_storage([&](const Storage& storage) {
    in_pieces += storage.in_pieces;
    if (storage.current == nullptr) return;
    absent += storage.absent ? storage.current->bytes : 0;
    const bool in_list = !storage.evicted && storage.current->producer != nullptr;
    TIDEPOOL_CHECK(in_list == (storage.next != nullptr),
                   "invariant 1: evicted %d, lineage %d, listed %d", storage.evicted,
                   storage.current->producer != nullptr, storage.next != nullptr);
    expected += in_list;
    if (storage.evicted || storage.address == nullptr) return;
    TIDEPOOL_CHECK(allocator_.owner(storage.address) == &storage,
                   "invariant 3: block %p is not its storage's", storage.address);
  });
  pieces.check_invariants(in_pieces);
  TIDEPOOL_CHECK(listed == expected, "invariant 1: %zu listed, %zu expected", listed, expected);
  TIDEPOOL_CHECK(absent == absent_bytes_, "invariant 4: %zu bytes absent, %zu counted", absent,
                 absent_bytes_);
  size_t with_bytes = 0;
  store.for_each_value([&](const Value& value) { with_bytes += value.kept != nullptr; });
  TIDEPOOL_CHECK(with_bytes == kept_.size(), "invariant 2: %zu kept, %zu listed", with_bytes,
                 kept_.size());
  for (size_t k = 0; k < kept_.size(); ++k) {
    TIDEPOOL_CHECK(kept_[k]->kept_slot == k, "invariant 2: slot %u at %zu", kept_[k]->kept_slot, k);
    TIDEPOOL_CHECK(allocator_.owner(kept_[k]->kept) == nullptr,
                   "invariant 3: kept block %p has an owner", kept_[k]->kept);
  }
}

}  // namespace tidepool::remat
