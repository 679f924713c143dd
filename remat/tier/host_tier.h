// HostTier: a tier in page-locked memory of the host, for a device whose streams run beside the
// host. Copies out and in are enqueued on the two streams of a CopyEngine and not waited for: a
// copy out runs after what the given streams have been given, and a copy in after the copy out of
// the same contents. What is dropped while a copy in still reads it is taken again only after that.
// The memory is taken in slabs, as it is needed, and kept until the end.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "allocator/locks/mutex.h"
#include "allocator/streams/copy_engine.h"
#include "remat/tier/extents.h"
#include "remat/tier/tier.h"

namespace tidepool::remat {

class HostTier final : public Tier {
 public:
  // Takes at most `capacity` bytes. The speed of the link is measured with copies of `probe_bytes`.
  // Throws: DeviceError.
  HostTier(std::unique_ptr<CopyEngine> engine, uint64_t capacity, size_t probe_bytes);
  ~HostTier() override;
  HostTier(const HostTier&) = delete;
  HostTier& operator=(const HostTier&) = delete;

  std::string describe() const override { return "host's memory"; }
  uint64_t most_bytes() const override { return exhausted_ ? held_ : capacity_; }
  bool has_room(size_t bytes) const override;
  std::optional<TierSlot> store(const void* from, size_t bytes,
                                std::span<const StreamId> users) override;
  void load(TierSlot slot, void* to, StreamId user) override;
  // A copy on the host cannot be compared with contents on the device without a wait.
  bool compares() const override { return false; }
  bool matches(TierSlot, const void*) override { return false; }
  void drop(TierSlot slot) override;
  uint64_t store_ns(size_t bytes) const override { return ns(bytes, out_ns_per_byte_); }
  uint64_t load_ns(size_t bytes) const override { return ns(bytes, in_ns_per_byte_); }
  const TierStreams* streams() const override { return &streams_; }
  std::shared_ptr<Fence> last(CopyDirection direction) const override {
    return direction == CopyDirection::kOut ? last_out_ : last_in_;
  }
  TierStatistics statistics() const override;
  void become_forked_child() override { forked_ = true; }

  // What a tier below this one needs, into which contents move.
  struct Part {
    char* host;
    size_t bytes;
  };
  CopyEngine& engine() { return *engine_; }
  // Waits until the contents are on the host, where they lie in these parts. Throws: DeviceError.
  std::span<const Part> wait_until_stored(TierSlot slot);
  // Page-locked memory beside the contents, which is kept until the end. It takes at most a quarter
  // of the capacity. nullptr: there is no more to be had.
  char* take_buffer(size_t bytes);

  void check_invariants() const;

 private:
  struct Copy;
  struct Slab {
    uint64_t begin;  // of the range of Extents
    uint64_t bytes;
    char* address;
  };
  struct Retired {
    std::vector<Extent> pieces;
    std::shared_ptr<Fence> read;  // passes when nothing reads them any more
  };
  static constexpr uint64_t kUnit = 512;
  static constexpr uint64_t kLargestSlab = uint64_t{256} << 20, kSmallestSlab = uint64_t{2} << 20;
  static constexpr uint64_t kLatencyNs = 10'000;

  static uint64_t ns(size_t bytes, double ns_per_byte) {
    return kLatencyNs + static_cast<uint64_t>(static_cast<double>(bytes) * ns_per_byte);
  }
  static Copy& copy_of(TierSlot slot) { return *reinterpret_cast<Copy*>(slot); }
  static uint64_t whole_units(size_t bytes) { return (bytes + kUnit - 1) / kUnit * kUnit; }

  std::optional<std::vector<Extent>> take(uint64_t bytes);
  // Adds a slab. False: there is no more memory to be had, or the capacity is reached.
  bool grow();
  // Gives back what nothing reads any more; or everything, after having later copies out wait.
  // Throws: DeviceError; then nothing is given back that is still read.
  void settle_retired(bool all);
  // Calls visit(host address, bytes done before, bytes) for each part that lies in one slab.
  template <class Visit>
  void for_each_part(const std::vector<Extent>& pieces, size_t bytes, Visit&& visit) const;
  std::optional<TierSlot> refuse();

  const std::unique_ptr<CopyEngine> engine_;
  uint64_t capacity_;  // without buffers
  const TierStreams streams_;
  const double out_ns_per_byte_, in_ns_per_byte_;
  std::vector<Slab> slabs_;
  std::vector<char*> buffers_;
  uint64_t slab_bytes_ = kLargestSlab;  // of the next one
  uint64_t held_ = 0;                   // by all slabs
  bool exhausted_ = false;
  Extents extents_{0};
  std::shared_ptr<Fence> last_out_;  // passes when all copies out have run; null: not known
  std::shared_ptr<Fence> last_in_;   // the same of copies in
  std::deque<Retired> retired_;      // the one dropped first is first
  uint64_t retired_bytes_ = 0;
  mutable Mutex mutex_;
  TierStatistics counts_ ABSL_GUARDED_BY(mutex_);  // load() changes them without the device's lock
  bool forked_ = false;
};

}  // namespace tidepool::remat
