#include "allocator/heap/call_sites.h"

namespace tidepool {

CallSites::Entry* CallSites::find_or_add(const void* site, bool may_keep) {
  if (Entry* entry = find(site)) return entry;
  for (size_t probe = 0; probe < kProbes; ++probe) {
    Entry& entry = entries_[place_of(site, probe)];
    if (entry.site.load(std::memory_order_relaxed) != nullptr) continue;
    if (!may_keep) entry.kind = Kind::kPassing;
    entry.site.store(site, std::memory_order_release);
    return &entry;
  }
  return nullptr;
}

PlacementHint CallSites::learn(const void* site) {
  // It is asked without our lock, because it may take the loader's.
  const bool may_keep = find(site) != nullptr || may_keep_(site);
  const MutexLock guard(mutex_);
  Entry* entry = find_or_add(site, may_keep);
  if (entry == nullptr || entry->kind == Kind::kPassing) return PlacementHint::kTransient;
  if (entry->address == nullptr) return PlacementHint::kLongLived;
  const std::optional<bool> kept = is_kept_(entry->address);
  if (!kept) return PlacementHint::kLongLived;
  if (*kept) {
    entry->kind = Kind::kKeeping;
    return PlacementHint::kLongLived;
  }
  // The thread that was given the block may be about to keep it; but that is no excuse for ever.
  if (entry->thread != std::this_thread::get_id() && ++entry->doubts < kMostDoubts) {
    return PlacementHint::kLongLived;
  }
  entry->kind = Kind::kPassing;
  return PlacementHint::kTransient;
}

void CallSites::given(const void* site, const void* address) {
  const MutexLock guard(mutex_);
  // Another site that was given a block at this address has freed it, and what becomes of the new
  // block says nothing about that site.
  for (Entry& other : entries_) {
    if (other.address == address) other.address = nullptr;
  }
  Entry* entry = find(site);
  if (entry == nullptr || entry->kind != Kind::kUnknown) return;
  entry->address = address;
  entry->thread = std::this_thread::get_id();
}

}  // namespace tidepool
