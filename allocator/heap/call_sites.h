// CallSites: learns which places in a program ask for memory that they keep for good (workspaces
// that libraries never free), so that such memory can be put among long-lived blocks. A call site
// is a return address. A new site's first request counts as long-lived; when the site asks again,
// it is looked at whether the first block is still kept, which decides about the site for good.
// Owns only its table. Thread safe; for a known site a few addresses are compared, without a lock.
// Invariants: (1) a site has one entry at most; (2) no two entries have the same block to be looked
// at. See docs/cuda-rematerialization.md.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <thread>
#include <utility>

#include "allocator/base/owner.h"
#include "allocator/locks/mutex.h"

namespace tidepool {

class CallSites {
 public:
  // Whether the block at an address is still kept by whoever was given it; nullopt if that cannot
  // be said now. The answer has to be right once the thread that was given the block asks for more.
  using IsKept = std::function<std::optional<bool>(const void* address)>;
  // Whether a site may be one that keeps memory at all. It is asked without our lock when the site
  // is new.
  using MayKeep = std::function<bool(const void* site)>;

  CallSites(IsKept is_kept, MayKeep may_keep)
      : is_kept_(std::move(is_kept)), may_keep_(std::move(may_keep)) {}

  // Returns where a request of `site` should be put: kLongLived or kTransient. Sites beyond those
  // that the table has room for are transient.
  PlacementHint hint_for(const void* site) {
    const Entry* entry = find(site);
    const Kind kind =
        entry != nullptr ? entry->kind.load(std::memory_order_relaxed) : Kind::kUnknown;
    if (kind == Kind::kPassing) [[likely]]
      return PlacementHint::kTransient;
    if (kind == Kind::kKeeping) return PlacementHint::kLongLived;
    return learn(site);
  }
  // Notes that the site was given the block at `address`, which was placed as long-lived.
  void given(const void* site, const void* address);

 private:
  enum class Kind : uint8_t { kUnknown, kPassing, kKeeping };
  struct Entry {
    std::atomic<const void*> site{nullptr};
    std::atomic<Kind> kind{Kind::kUnknown};
    // Only for an unknown site, under the lock: the block that it was given last, and to which
    // thread.
    const void* address = nullptr;
    std::thread::id thread;
    uint8_t doubts = 0;  // how often other threads asked before the one that was given the block
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
  // Returns the site's entry, which is made if there is none; null if there is no room.
  Entry* find_or_add(const void* site, bool may_keep) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  [[gnu::noinline]] PlacementHint learn(const void* site);

  const IsKept is_kept_;
  const MayKeep may_keep_;
  Mutex mutex_;
  std::array<Entry, kPlaces> entries_;
};

}  // namespace tidepool
