// FileTier: a tier in a file of its own on a local disk. The file has no name (O_TMPFILE), so that
// nothing is left of it however the process ends, and nobody else can open it. Transfers are direct
// (O_DIRECT) where the file system has that, so that they take no memory for its cache, and run on
// a few threads.
// Each copy carries a checksum: bytes that do not come back as they went are an error.
#pragma once

#include <cstddef>
#include <cstdint>
#include <mutex>
#include <optional>
#include <string>

#include "remat/tier/extents.h"
#include "remat/tier/link_price.h"
#include "remat/tier/tier.h"
#include "remat/tier/transfer_threads.h"

namespace tidepool::remat {

class FileTier final : public Tier {
 public:
  // Keeps at most `capacity` bytes, counted in units of TransferThreads::kAlignment, in `folder`.
  // Throws: std::invalid_argument naming the folder, if there is none, no file can be made in it,
  // or it lies in memory.
  FileTier(std::string folder, uint64_t capacity);
  std::string describe() const override { return "file in " + folder_; }
  bool has_room(size_t bytes) const override;
  std::optional<TierSlot> store(const void* from, size_t bytes,
                                std::span<const StreamId> users) override;
  void load(TierSlot slot, void* to, StreamId user) override;
  bool matches(TierSlot slot, const void* at) override;
  void drop(TierSlot slot) override;
  uint64_t store_ns(size_t bytes) const override { return store_price_.ns(bytes); }
  uint64_t load_ns(size_t bytes) const override { return load_price_.ns(bytes); }
  bool settle_prices() override;
  TierStatistics statistics() const override;
  void become_forked_child() override;

 private:
  struct Copy;
  struct Descriptor {
    int number;
    ~Descriptor();
  };
  static constexpr size_t kThreads = 4;
  static constexpr double kNsPerByte = 1;  // until something was measured

  static int open_file(const std::string& folder);
  static Copy& copy_of(TierSlot slot);
  // Locks the counts. In a forked child, which has one thread, the mutex may be held for ever.
  std::unique_lock<std::mutex> lock_counts() const;

  const std::string folder_;
  const Descriptor descriptor_;
  Extents extents_;
  TransferThreads threads_;
  LinkPrice store_price_{kNsPerByte}, load_price_{kNsPerByte};
  mutable std::mutex mutex_;  // guards the counts, and what load() has measured
  TierStatistics counts_;
  bool failed_ = false;  // a write has failed; nothing is stored any more
  bool forked_ = false;
};

}  // namespace tidepool::remat
