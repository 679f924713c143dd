// ChainedTier: the host's memory, and a file below it. Contents go to the host's memory. When that
// is full, those that have been there longest move to the file, and the caller waits for that; what
// is larger than the host's memory goes to the file at once, through a buffer of page-locked
// memory. From the file contents come back through two more: one is read into while the other is
// copied from. Owns both tiers and the buffers. Thread safe as Tier says. Invariants: (1) a copy is
// either in the host's memory, and then in oldest_, or in the file; (2) the two tiers hold what the
// copies say, and nothing else.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <list>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "allocator/locks/mutex.h"
#include "remat/tier/host_tier.h"
#include "remat/tier/tier.h"

namespace tidepool::remat {

class ChainedTier final : public Tier {
 public:
  // `file` is waited for, and takes contents from any memory of the host.
  ChainedTier(std::unique_ptr<HostTier> host, std::unique_ptr<Tier> file);
  ~ChainedTier() override;
  ChainedTier(const ChainedTier&) = delete;
  ChainedTier& operator=(const ChainedTier&) = delete;

  std::string describe() const override { return host_->describe() + " and " + file_->describe(); }
  uint64_t most_bytes() const override { return host_->most_bytes() + file_->most_bytes(); }
  bool has_room(size_t bytes) const override {
    return host_->has_room(bytes) || file_->has_room(bytes);
  }
  bool stores_beside(size_t bytes) const override { return host_->has_room(bytes); }
  std::optional<TierSlot> store(const void* from, size_t bytes,
                                std::span<const StreamId> users) override;
  void load(TierSlot slot, void* to, StreamId user) override;
  bool compares() const override { return false; }
  bool matches(TierSlot, const void*) override { return false; }
  void drop(TierSlot slot) override;
  const TierStreams* streams() const override { return host_->streams(); }
  uint64_t store_ns(size_t bytes) const override;
  // As if so large a part of each copy were in the file as of all copies together.
  uint64_t load_ns(size_t bytes) const override;
  bool settle_prices() override;
  TierStatistics statistics() const override;
  void become_forked_child() override;

  void check_invariants() const;

 private:
  struct Copy;
  struct Chunk {
    TierSlot slot;  // of the file
    size_t bytes;
  };
  struct Free {
    void operator()(char* memory) const { std::free(memory); }
  };
  struct Buffer {
    char* memory = nullptr;
    std::shared_ptr<Fence> read;  // passes when the last copy from it has run; null: there was none
  };
  static constexpr size_t kInBuffers = 2, kBuffers = kInBuffers + 1;
  static constexpr size_t kMostChunkBytes = size_t{4} << 20, kLeastChunkBytes = size_t{64} << 10;

  static Copy& copy_of(TierSlot slot) { return *reinterpret_cast<Copy*>(slot); }

  std::optional<TierSlot> store_on_host(const void* from, size_t bytes,
                                        std::span<const StreamId> users);
  // Moves the copy that has been in the host's memory longest. False: there is none that nobody is
  // loading, or the file does not take it; then it stays.
  bool move_oldest();
  // Copies to the file through the buffer for that, and waits.
  bool store_in_file(Copy& copy, const void* from, std::span<const StreamId> users);
  // Appends contents to the copy's chunks in the file. False: the file does not take them.
  bool append(Copy& copy, const char* from, size_t bytes);
  void drop_chunks(Copy& copy);
  // Throws: as load().
  void load_from_file(const Copy& copy, char* to, StreamId user)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(buffers_mutex_);
  // How large a part of what is held lies in the file.
  double share_in_file() const;

  const std::unique_ptr<HostTier> host_;
  const std::unique_ptr<Tier> file_;
  std::unique_ptr<char, Free> ordinary_;  // the buffers, where page-locked memory is refused
  size_t chunk_bytes_ = kMostChunkBytes;
  std::array<Buffer, kInBuffers> in_;  // copies from the file to the device
  // Copies from the device to the file. It has no other use, so that a copy of which nobody knows
  // when it has run, because the device failed, cannot spoil what is on the way in.
  char* out_ = nullptr;
  double price_share_ = 0;       // as share_in_file() was when prices were settled
  mutable Mutex buffers_mutex_;  // guards what is in the buffers; taken first
  mutable Mutex mutex_;
  // In the host's memory, the one stored first is first.
  std::list<Copy*> oldest_ ABSL_GUARDED_BY(mutex_);
  TierStatistics counts_ ABSL_GUARDED_BY(mutex_);
  bool forked_ = false;
};

}  // namespace tidepool::remat
