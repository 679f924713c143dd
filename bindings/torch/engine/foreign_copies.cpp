#include "bindings/torch/engine/foreign_copies.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "bindings/torch/engine/engine.h"
#include "bindings/torch/storage/storage_access.h"

namespace tidepool::torch_glue {

std::optional<ForeignCopies::Region> ForeignCopies::region_of(const c10::TensorImpl& tensor) {
  c10::StorageImpl* storage = storage_of(&tensor);
  if (storage == nullptr || !storage->device().is_cpu() || tensor.numel() == 0) return std::nullopt;
  const auto* data = static_cast<const char*>(storage->_mutable_data_ptr_no_checks().get());
  if (data == nullptr) return std::nullopt;
  size_t elements = 1;
  for (int64_t k = 0; k < tensor.dim(); ++k) {
    elements += static_cast<size_t>((tensor.size(k) - 1) * tensor.stride(k));
  }
  // An expanded tensor has fewer elements than it shows, a column of a matrix spans many more.
  if (elements > 2 * static_cast<size_t>(tensor.numel())) return std::nullopt;
  const size_t item = tensor.itemsize();
  const size_t offset = static_cast<size_t>(tensor.storage_offset()) * item;
  const Region region{storage, data + offset, elements * item};
  if (offset + region.bytes > storage->nbytes() || region.lead_bytes() % item != 0) {
    return std::nullopt;
  }
  return region;
}

bool ForeignCopies::equal(const Region& region, const remat::Storage& copy) {
  const char* address = static_cast<const char*>(copy.address) + region.lead_bytes();
  return std::memcmp(address, region.first, region.bytes) == 0;
}

ForeignCopies::Entry* ForeignCopies::find(const Region& region) {
  for (Entry& entry : entries_) {
    const Region& source = entry.source;
    if (source.storage == region.storage && source.first == region.first &&
        source.bytes == region.bytes) {
      return &entry;
    }
  }
  return nullptr;
}

template <class Wanted>
void ForeignCopies::take_out(Dropped& dropped, Wanted&& wanted) {
  const auto first = std::stable_partition(entries_.begin(), entries_.end(),
                                           [&](const Entry& entry) { return !wanted(entry); });
  for (auto entry = first; entry != entries_.end(); ++entry) {
    drop_weak_hold(entry->source.storage);
    statistics_.bytes -= entry->copy.nbytes();
    dropped.push_back(std::move(*entry));
  }
  entries_.erase(first, entries_.end());
}

void ForeignCopies::take_out_stale(Dropped& dropped) {
  take_out(dropped, [&](const Entry& entry) {
    const remat::Storage& copy = *entry.tracked;
    if (copy.locks > 0) return false;
    return c10::raw::weak_intrusive_ptr::use_count(entry.source.storage) == 0 ||
           copy.current->consumers == nullptr || entry.used_step + 1 < step_;
  });
}

std::optional<ForeignCopies::Copy> ForeignCopies::obtain(const Region& region) {
  std::optional<Copy> copy = find_equal(region);
  return copy ? std::move(copy) : make_copy(region);
}

std::optional<ForeignCopies::Copy> ForeignCopies::find_equal(const Region& region) {
  Dropped dropped;  // its destructor comes after that of the lock, as does that of `held`
  c10::Storage held;
  remat::Runtime& runtime = engine_.runtime();
  DeviceLock lock(engine_.mutex());
  take_out_stale(dropped);
  const Entry* entry = find(region);
  if (entry == nullptr) return std::nullopt;
  remat::Storage& tracked = *entry->tracked;
  held = entry->copy;
  remat::LockedStorage locked(runtime, &tracked);
  bool is_equal = false;
  {
    Unlocked unlocked(lock);
    dropped.clear();
    is_equal = equal(region, tracked);
  }
  if (!is_equal) {
    take_out(dropped, [&](const Entry& each) { return each.tracked == &tracked; });
    return std::nullopt;
  }
  if (Entry* same = find(region)) same->used_step = step_;
  ++statistics_.uses;
  return Copy{remat::HeldStorage(std::move(locked)), false};
}

std::optional<ForeignCopies::Copy> ForeignCopies::make_copy(const Region& region) {
  const size_t bytes = region.lead_bytes() + region.bytes;
  void* address = nullptr;
  try {
    address = engine_.allocator().allocate(bytes);
  } catch (const OutOfMemory&) {
    return std::nullopt;
  }
  std::memset(address, 0, region.lead_bytes());
  std::memcpy(static_cast<char*>(address) + region.lead_bytes(), region.first, region.bytes);
  c10::Storage copy(c10::make_intrusive<c10::StorageImpl>(
      c10::StorageImpl::use_byte_size_t(), bytes,
      c10::DataPtr(address, address, &delete_block, engine_.device()), nullptr, false));
  Dropped dropped;
  DeviceLock lock(engine_.mutex());
  remat::Storage* tracked = start_tracking(engine_.runtime(), copy.unsafeGetStorageImpl(),
                                           remat::RootReason::kForeignCopy);
  tracked->role = remat::Role::kInput;
  remat::LockedStorage locked(engine_.runtime(), tracked);
  // Another thread may have copied the same meanwhile.
  const Entry* same = find(region);
  const remat::Storage* replaced = same != nullptr ? same->tracked : nullptr;
  if (same == nullptr && entries_.size() == kMost) replaced = entries_.front().tracked;
  take_out(dropped, [&](const Entry& entry) { return entry.tracked == replaced; });
  hold_weakly(region.storage);
  entries_.push_back({region, std::move(copy), tracked, step_});
  ++statistics_.copies;
  ++statistics_.uses;
  statistics_.bytes += bytes;
  return Copy{remat::HeldStorage(std::move(locked)), true};
}

bool ForeignCopies::still_equal(const Region& region, remat::Storage& copy) {
  c10::Storage held;
  {
    DeviceLock lock(engine_.mutex());
    if (copy.dead) return false;  // given up meanwhile
    for (const Entry& entry : entries_) {
      if (entry.tracked == &copy) held = entry.copy;
    }
    if (!held) return false;
  }
  return equal(region, copy);
}

void ForeignCopies::note_change(remat::Storage& copy) {
  {
    DeviceLock lock(engine_.mutex());
    ++statistics_.changed;
  }
  drop(copy);
}

void ForeignCopies::drop(remat::Storage& copy) {
  Dropped dropped;
  DeviceLock lock(engine_.mutex());
  take_out(dropped, [&](const Entry& entry) { return entry.tracked == &copy; });
}

void ForeignCopies::note_unpaid(uint64_t timing_key) {
  DeviceLock lock(engine_.mutex());
  if (unpaid_.size() >= kMostKinds) unpaid_.clear();
  unpaid_.insert(timing_key);
}

bool ForeignCopies::give_up(DeviceLock& lock) {
  if (entries_.empty()) return false;
  Dropped dropped;
  statistics_.given_up += entries_.size();
  take_out(dropped, [](const Entry&) { return true; });
  Unlocked unlocked(lock);
  dropped.clear();
  return true;
}

void ForeignCopies::end_step() {
  Dropped dropped;
  DeviceLock lock(engine_.mutex());
  ++step_;
  if (!entries_.empty()) take_out_stale(dropped);
}

ForeignCopyStatistics ForeignCopies::statistics() const {
  DeviceLock lock(engine_.mutex());
  return statistics_;
}

}  // namespace tidepool::torch_glue
