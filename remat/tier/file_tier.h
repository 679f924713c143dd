// FileTier: a tier in a file of its own on a local disk (PrivateFile). Transfers run on a few
// threads.
// Each copy carries a checksum: bytes that do not come back as they went are an error.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "allocator/locks/mutex.h"
#include "remat/tier/extents.h"
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
  void become_forked_child() override;

 private:
  struct Copy;
  static constexpr size_t kThreads = 4;
  static constexpr double kNsPerByte = 1;  // until something was measured

  static Copy& copy_of(TierSlot slot);

  const std::string folder_;
  const std::unique_ptr<TransferFile> file_;
  Extents extents_;
  TransferThreads threads_;
  LinkPrice store_price_{kNsPerByte};
  LinkPrice load_price_{kNsPerByte};  // what it has measured is guarded; its price is not
  mutable Mutex mutex_;
  TierStatistics counts_ ABSL_GUARDED_BY(mutex_);
  bool failed_ = false;  // a write has failed; nothing is stored any more
  bool forked_ = false;
};

}  // namespace tidepool::remat
