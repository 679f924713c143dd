#include "remat/tier/host_tier.h"

#include <algorithm>
#include <cinttypes>
#include <utility>

#include "allocator/base/check.h"
#include "allocator/base/device_error.h"
#include "allocator/base/steady_clock.h"
#include "fmt/format.h"
#include "remat/tier/parent_lock.h"

namespace tidepool::remat {
namespace {

constexpr auto kOut = CopyDirection::kOut;
constexpr auto kIn = CopyDirection::kIn;

}  // namespace

struct HostTier::Copy {
  size_t bytes;
  std::vector<Extent> pieces;
  std::vector<Part> parts;        // the same on the host
  std::shared_ptr<Fence> stored;  // passes when the bytes have arrived
  std::shared_ptr<Fence> loaded;  // passes when the last copy in has run; null: there was none
};

HostTier::HostTier(std::unique_ptr<CopyEngine> engine, uint64_t capacity, size_t probe_bytes)
    : engine_(std::move(engine)),
      capacity_(capacity / kUnit * kUnit),
      streams_{engine_->stream(kOut), engine_->stream(kIn)},
      out_ns_per_byte_(engine_->measure_ns_per_byte(kOut, probe_bytes)),
      in_ns_per_byte_(engine_->measure_ns_per_byte(kIn, probe_bytes)) {}

HostTier::~HostTier() {
  try {
    engine_->record(kOut)->wait();
    engine_->record(kIn)->wait();
    for (const Slab& slab : slabs_) engine_->free_host(slab.address);
    for (char* const buffer : buffers_) engine_->free_host(buffer);
  } catch (const DeviceError&) {
    // The memory goes with the device.
  }
}

bool HostTier::has_room(size_t bytes) const {
  const uint64_t room = extents_.room() + retired_bytes_ + (exhausted_ ? 0 : capacity_ - held_);
  return !forked_ && whole_units(bytes) <= room;
}

bool HostTier::grow() {
  while (!exhausted_ && held_ < capacity_) {
    const uint64_t bytes = std::min(slab_bytes_, capacity_ - held_);
    if (void* const address = engine_->allocate_host(bytes)) {
      slabs_.push_back({held_, bytes, static_cast<char*>(address)});
      held_ += bytes;
      extents_.grow(bytes);
      return true;
    }
    slab_bytes_ /= 2;
    exhausted_ = slab_bytes_ < kSmallestSlab;
  }
  return false;
}

void HostTier::settle_retired(bool all) {
  while (!retired_.empty()) {
    const Retired& oldest = retired_.front();
    if (!oldest.read->passed()) {
      if (!all) return;
      engine_->wait(kOut, *oldest.read);
    }
    for (const Extent& piece : oldest.pieces) retired_bytes_ -= piece.bytes;
    extents_.give(oldest.pieces);
    retired_.pop_front();
  }
}

std::optional<std::vector<Extent>> HostTier::take(uint64_t bytes) {
  settle_retired(false);
  while (bytes > extents_.room() && grow()) {
  }
  if (bytes > extents_.room()) settle_retired(true);
  return extents_.take(bytes);
}

template <class Visit>
void HostTier::for_each_part(const std::vector<Extent>& pieces, size_t bytes, Visit&& visit) const {
  size_t done = 0;
  for (Extent piece : pieces) {
    while (piece.bytes > 0 && done < bytes) {
      const auto after =
          std::upper_bound(slabs_.begin(), slabs_.end(), piece.offset,
                           [](uint64_t offset, const Slab& slab) { return offset < slab.begin; });
      const Slab& slab = *std::prev(after);
      const uint64_t within = piece.offset - slab.begin;
      const uint64_t part = std::min(piece.bytes, slab.bytes - within);
      const size_t wanted = std::min<size_t>(part, bytes - done);
      visit(slab.address + within, done, wanted);
      done += wanted;
      piece.offset += part;
      piece.bytes -= part;
    }
  }
}

std::optional<TierSlot> HostTier::refuse() {
  const ParentLock guard(mutex_, forked_);
  ++counts_.refusals;
  return std::nullopt;
}

std::optional<TierSlot> HostTier::store(const void* from, size_t bytes,
                                        std::span<const StreamId> users) {
  if (forked_) return refuse();
  const uint64_t start = steady_now_ns();
  std::optional<std::vector<Extent>> pieces;
  auto copy = std::make_unique<Copy>();
  try {
    pieces = take(whole_units(bytes));
    if (!pieces) return refuse();
    for (const StreamId user : users) engine_->order_after(kOut, user);
    for_each_part(*pieces, bytes, [&](char* host, size_t done, size_t part) {
      engine_->copy(kOut, host, static_cast<const char*>(from) + done, part);
      copy->parts.push_back({host, part});
    });
    copy->stored = engine_->record(kOut);
  } catch (const DeviceError&) {  // the device's error will come again, to the job's own work
    // A copy may be under way to what was taken; copies out run in order, so that the next one may
    // take it.
    if (pieces) extents_.give(*pieces);
    last_out_ = nullptr;
    return refuse();
  }
  last_out_ = copy->stored;
  copy->bytes = bytes;
  copy->pieces = std::move(*pieces);
  const ParentLock guard(mutex_, forked_);
  ++counts_.stores;
  counts_.stored_bytes += bytes;
  counts_.store_ns += steady_now_ns() - start;
  counts_.held_bytes += whole_units(bytes);
  counts_.peak_bytes = std::max(counts_.peak_bytes, counts_.held_bytes);
  return TierSlot{reinterpret_cast<uintptr_t>(copy.release())};
}

void HostTier::load(TierSlot slot, void* to, StreamId user) {
  Copy& copy = copy_of(slot);
  if (forked_) {
    throw TierError(fmt::format(
        "{} bytes that were offloaded to the {} cannot be read back: a forked child has no device",
        copy.bytes, describe()));
  }
  const uint64_t start = steady_now_ns();
  engine_->order_after(kIn, user);
  engine_->wait(kIn, *copy.stored);
  size_t done = 0;
  last_in_ = nullptr;  // what follows may fail half way
  for (const Part& part : copy.parts) {
    engine_->copy(kIn, static_cast<char*>(to) + done, part.host, part.bytes);
    done += part.bytes;
  }
  copy.loaded = engine_->record(kIn);
  last_in_ = copy.loaded;
  const ParentLock guard(mutex_, forked_);
  ++counts_.loads;
  counts_.loaded_bytes += copy.bytes;
  counts_.load_ns += steady_now_ns() - start;
}

void HostTier::drop(TierSlot slot) {
  const std::unique_ptr<Copy> copy(&copy_of(slot));
  {
    const ParentLock guard(mutex_, forked_);
    counts_.held_bytes -= whole_units(copy->bytes);
  }
  if (copy->loaded != nullptr) {
    for (const Extent& piece : copy->pieces) retired_bytes_ += piece.bytes;
    retired_.push_back({std::move(copy->pieces), std::move(copy->loaded)});
  } else {
    extents_.give(copy->pieces);  // copies out run in order
  }
}

std::span<const HostTier::Part> HostTier::wait_until_stored(TierSlot slot) {
  const Copy& copy = copy_of(slot);
  copy.stored->wait();
  return copy.parts;
}

char* HostTier::take_buffer(size_t bytes) {
  constexpr uint64_t kShare = 4;
  if (whole_units(bytes) > capacity_ / kShare) return nullptr;
  auto* const buffer = static_cast<char*>(engine_->allocate_host(whole_units(bytes)));
  if (buffer == nullptr) return nullptr;
  buffers_.push_back(buffer);
  capacity_ -= whole_units(bytes);
  return buffer;
}

TierStatistics HostTier::statistics() const {
  const ParentLock guard(mutex_, forked_);
  return counts_;
}

void HostTier::check_invariants() const {
  extents_.check_invariants();
  const uint64_t taken = extents_.taken();
  TIDEPOOL_CHECK(taken == retired_bytes_ + statistics().held_bytes,
                 "%" PRIu64 " taken, %" PRIu64 " of them retired", taken, retired_bytes_);
  TIDEPOOL_CHECK(held_ <= capacity_, "%" PRIu64 " of %" PRIu64, held_, capacity_);
}

}  // namespace tidepool::remat
