// CallSites: which places in a program ask for memory that they keep for good (workspaces that
// libraries never free), so that it can be put where it cuts no range. A call site is a return
// address. One that is not known yet has the benefit of the doubt: what it is given is looked at
// when it asks again, and from then on it is one that keeps, or one that does not.
// Owns its table only. Thread safe; known sites cost a look at a few addresses, without a lock.
// Invariants: (1) a site has one entry at most; (2) no two entries have the same block to be looked
// at. See docs/cuda-rematerialization.md.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>

#include "allocator/base/owner.h"

namespace tidepool {

class CallSites {
 public:
  // Whether whoever was given the block at an address keeps it; nothing if that cannot be said now.
  // Has to be right once the thread that was given it asks for more.
  using IsKept = std::function<std::optional<bool>(const void* address)>;
  // Whether a site may be one that keeps at all; asked when the site is new, without our lock.
  using MayKeep = std::function<bool(const void* site)>;

  CallSites(IsKept is_kept, MayKeep may_keep)
      : is_kept_(std::move(is_kept)), may_keep_(std::move(may_keep)) {}

  // Where a request of `site` is to be put: kLongLived or kTransient. More sites than there is room
  // for are transient.
  PlacementHint hint_for(const void* site) {
    const Entry* entry = find(site);
    const Kind kind =
        entry != nullptr ? entry->kind.load(std::memory_order_relaxed) : Kind::kUnknown;
    if (kind == Kind::kPassing) [[likely]] return PlacementHint::kTransient;
    if (kind == Kind::kKeeping) return PlacementHint::kLongLived;
    return learn(site);
  }
  // The site was given the block at `address`, placed as long-lived.
  void given(const void* site, const void* address);

 private:
  enum class Kind : uint8_t { kUnknown, kPassing, kKeeping };
  struct Entry {
    std::atomic<const void*> site{nullptr};
    std::atomic<Kind> kind{Kind::kUnknown};
    // Of an unknown site, under the lock: what it was given last, and who asked.
    const void* address = nullptr;
    std::thread::id thread;
    uint8_t doubts = 0;  // how often another thread than was given it has asked
  };
  static constexpr uint8_t kMostDoubts = 8;
  static constexpr size_t kPlaces = 256;  // a job of PyTorch's has about ten
  static constexpr size_t kProbes = 8;

  static size_t place_of(const void* site, size_t probe) {
    const auto hash = (reinterpret_cast<uintptr_t>(site) * 0x9E3779B97F4A7C15u) >> 32;
    return (hash + probe) % kPlaces;
  }
  Entry* find(const void* site) {
    for (size_t probe = 0; probe < kProbes; ++probe) {
      Entry& entry = entries_[place_of(site, probe)];
      const void* there = entry.site.load(std::memory_order_acquire);
      if (there == site) return &entry;
      if (there == nullptr) break;
    }
    return nullptr;
  }
  // The site's entry, made if it has none; null if there is no room. Requires: lock held.
  Entry* find_or_add(const void* site, bool may_keep);
  [[gnu::noinline]] PlacementHint learn(const void* site);

  const IsKept is_kept_;
  const MayKeep may_keep_;
  std::mutex mutex_;
  std::array<Entry, kPlaces> entries_;
};

}  // namespace tidepool
