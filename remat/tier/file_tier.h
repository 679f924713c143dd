// FileTier: a tier in a file of its own on a local disk (PrivateFile). Transfers run on a few
// threads.
// Each copy carries a checksum: bytes that do not come back as they went are an error.
// Forked children read the same file. The places of copies that such a child may still read are
// used again only where there is no other room.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "allocator/locks/mutex.h"
#include "remat/tier/extents.h"
#include "remat/tier/forked_children.h"
#include "remat/tier/link_price.h"
#include "remat/tier/tier.h"
#include "remat/tier/transfer_file.h"
#include "remat/tier/transfer_threads.h"

namespace tidepool::remat {

class FileTier final : public Tier {
 public:
  // Keeps at most `capacity` bytes, counted in units of TransferThreads::kAlignment, in `folder`.
  // Throws: as PrivateFile.
  FileTier(const std::string& folder, uint64_t capacity);
  // In that file, which lies in the folder.
  FileTier(std::unique_ptr<TransferFile> file, std::string folder, uint64_t capacity);
  std::string describe() const override { return "file in " + folder_; }
  uint64_t most_bytes() const override { return failed_ ? 0 : extents_.capacity(); }
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
  void before_fork() override { children_.before_fork(); }
  void after_fork_in_parent() override { children_.after_fork_in_parent(); }
  void become_forked_child() override;

 private:
  struct Copy;
  // The place of a copy that has been dropped, which the children of some forks may read.
  struct Kept {
    uint64_t since, until;  // how many forks there were when it was stored, and when it was dropped
    std::vector<Extent> pieces;
  };
  static constexpr size_t kThreads = 4;
  static constexpr double kNsPerByte = 1;  // until something was measured

  static Copy& copy_of(TierSlot slot);
  std::optional<std::vector<Extent>> take(uint64_t bytes);
  void give_kept(const Kept& kept);

  const std::string folder_;
  const std::unique_ptr<TransferFile> file_;
  Extents extents_;
  ForkedChildren children_;
  std::deque<Kept> kept_;  // the one dropped first is first
  uint64_t kept_bytes_ = 0;
  TransferThreads threads_;
  LinkPrice store_price_{kNsPerByte};
  LinkPrice load_price_{kNsPerByte};  // what it has measured is guarded; its price is not
  mutable Mutex mutex_;
  TierStatistics counts_ ABSL_GUARDED_BY(mutex_);
  bool failed_ = false;  // a write has failed; nothing is stored any more
  bool forked_ = false;
};

}  // namespace tidepool::remat
