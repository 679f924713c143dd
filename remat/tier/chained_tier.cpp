#include "remat/tier/chained_tier.h"

#include <algorithm>
#include <cinttypes>
#include <cmath>
#include <new>
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

struct ChainedTier::Copy {
  size_t bytes = 0;
  std::optional<TierSlot> on_host;
  std::list<Copy*>::iterator place;  // in oldest_; only while it is on the host
  int loading = 0;                   // calls of load() that read it on the host
  std::vector<Chunk> chunks;         // in the file, in order
};

ChainedTier::ChainedTier(std::unique_ptr<HostTier> host, std::unique_ptr<Tier> file)
    : host_(std::move(host)), file_(std::move(file)) {
  char* memory = nullptr;
  while (memory == nullptr && chunk_bytes_ >= kLeastChunkBytes) {
    memory = host_->take_buffer(kBuffers * chunk_bytes_);
    if (memory == nullptr) chunk_bytes_ /= 2;
  }
  if (memory == nullptr) {  // copies from other memory are slower, and no less right
    chunk_bytes_ = kLeastChunkBytes;
    memory = static_cast<char*>(std::aligned_alloc(4096, kBuffers * chunk_bytes_));
    if (memory == nullptr) throw std::bad_alloc();
    ordinary_.reset(memory);
  }
  for (size_t k = 0; k < in_.size(); ++k) in_[k].memory = memory + k * chunk_bytes_;
  out_ = memory + in_.size() * chunk_bytes_;
}

ChainedTier::~ChainedTier() {
  try {  // ordinary memory goes before the host's tier, which waits for its copies
    for (const Buffer& buffer : in_) {
      if (buffer.read != nullptr && !forked_) buffer.read->wait();
    }
  } catch (const DeviceError&) {
    // Nothing runs on that device any more.
  }
}

std::optional<TierSlot> ChainedTier::store(const void* from, size_t bytes,
                                           std::span<const StreamId> users) {
  const uint64_t start = steady_now_ns();
  auto copy = std::make_unique<Copy>();
  copy->bytes = bytes;
  if (!forked_) copy->on_host = store_on_host(from, bytes, users);
  const bool stored = !forked_ && (copy->on_host || store_in_file(*copy, from, users));
  const ParentLock guard(mutex_, forked_);
  if (!stored) {
    ++counts_.refusals;
    return std::nullopt;
  }
  if (copy->on_host) copy->place = oldest_.insert(oldest_.end(), copy.get());
  ++counts_.stores;
  counts_.stored_bytes += bytes;
  counts_.store_ns += steady_now_ns() - start;
  counts_.held_bytes = host_->statistics().held_bytes + file_->statistics().held_bytes;
  counts_.peak_bytes = std::max(counts_.peak_bytes, counts_.held_bytes);
  return TierSlot{reinterpret_cast<uintptr_t>(copy.release())};
}

std::optional<TierSlot> ChainedTier::store_on_host(const void* from, size_t bytes,
                                                   std::span<const StreamId> users) {
  if (bytes > host_->most_bytes()) return std::nullopt;
  do {
    if (!host_->has_room(bytes)) continue;
    if (const auto slot = host_->store(from, bytes, users)) return slot;
    // More page-locked memory was refused than expected, or the device has failed.
  } while (move_oldest());
  return std::nullopt;
}

bool ChainedTier::move_oldest() {
  const ParentLock guard(mutex_, forked_);
  const auto found = std::find_if(oldest_.begin(), oldest_.end(),
                                  [](const Copy* copy) { return copy->loading == 0; });
  if (found == oldest_.end()) return false;
  Copy& copy = **found;
  if (!file_->has_room(copy.bytes)) return false;
  try {
    for (const HostTier::Part& part : host_->wait_until_stored(*copy.on_host)) {
      if (append(copy, part.host, part.bytes)) continue;
      drop_chunks(copy);
      return false;
    }
  } catch (const DeviceError&) {
    return false;
  }
  host_->drop(*copy.on_host);
  copy.on_host.reset();
  oldest_.erase(found);
  return true;
}

bool ChainedTier::store_in_file(Copy& copy, const void* from, std::span<const StreamId> users) {
  if (!file_->has_room(copy.bytes)) return false;
  const ParentLock guard(buffers_mutex_, forked_);
  CopyEngine& engine = host_->engine();
  try {
    for (const StreamId user : users) engine.order_after(kOut, user);
    for (size_t done = 0; done < copy.bytes;) {
      const size_t part = std::min(chunk_bytes_, copy.bytes - done);
      engine.copy(kOut, out_, static_cast<const char*>(from) + done, part);
      engine.record(kOut)->wait();
      if (!append(copy, out_, part)) break;
      done += part;
      if (done == copy.bytes) return true;
    }
  } catch (const DeviceError&) {
    // The device's error will come again, to the job's own work.
  }
  drop_chunks(copy);
  return false;
}

bool ChainedTier::append(Copy& copy, const char* from, size_t bytes) {
  for (size_t done = 0; done < bytes;) {
    const size_t part = std::min(chunk_bytes_, bytes - done);
    const auto slot = file_->store(from + done, part, {});
    if (!slot) return false;
    copy.chunks.push_back({*slot, part});
    done += part;
  }
  return true;
}

void ChainedTier::drop_chunks(Copy& copy) {
  for (const Chunk& chunk : copy.chunks) file_->drop(chunk.slot);
  copy.chunks.clear();
}

void ChainedTier::load(TierSlot slot, void* to, StreamId user) {
  Copy& copy = copy_of(slot);
  if (forked_) {
    throw TierError(fmt::format(
        "{} bytes that were offloaded to the {} cannot be read back: a forked child has no device",
        copy.bytes, describe()));
  }
  const uint64_t start = steady_now_ns();
  std::optional<TierSlot> on_host;
  {
    const ParentLock guard(mutex_, forked_);
    on_host = copy.on_host;
    if (on_host) ++copy.loading;  // it does not move meanwhile
  }
  if (on_host) {
    try {
      host_->load(*on_host, to, user);
    } catch (...) {
      const ParentLock guard(mutex_, forked_);
      --copy.loading;
      throw;
    }
  } else {
    const ParentLock guard(buffers_mutex_, forked_);
    load_from_file(copy, static_cast<char*>(to), user);
  }
  const ParentLock guard(mutex_, forked_);
  if (on_host) --copy.loading;
  ++counts_.loads;
  counts_.loaded_bytes += copy.bytes;
  counts_.load_ns += steady_now_ns() - start;
}

void ChainedTier::load_from_file(const Copy& copy, char* to, StreamId user) {
  CopyEngine& engine = host_->engine();
  engine.order_after(kIn, user);
  for (size_t k = 0; k < copy.chunks.size(); ++k) {
    Buffer& buffer = in_[k % in_.size()];
    const Chunk& chunk = copy.chunks[k];
    if (buffer.read != nullptr) buffer.read->wait();
    file_->load(chunk.slot, buffer.memory, user);
    engine.copy(kIn, to, buffer.memory, chunk.bytes);
    buffer.read = engine.record(kIn);
    to += chunk.bytes;
  }
}

void ChainedTier::drop(TierSlot slot) {
  const std::unique_ptr<Copy> copy(&copy_of(slot));
  const ParentLock guard(mutex_, forked_);
  if (copy->on_host) {
    host_->drop(*copy->on_host);
    oldest_.erase(copy->place);
  }
  drop_chunks(*copy);
  counts_.held_bytes = host_->statistics().held_bytes + file_->statistics().held_bytes;
}

uint64_t ChainedTier::store_ns(size_t bytes) const {
  const uint64_t out_ns = host_->store_ns(bytes);
  return host_->has_room(bytes) ? out_ns : out_ns + file_->store_ns(bytes);
}

uint64_t ChainedTier::load_ns(size_t bytes) const {
  const auto file_ns = static_cast<double>(file_->load_ns(bytes));
  return host_->load_ns(bytes) + static_cast<uint64_t>(price_share_ * file_ns);
}

double ChainedTier::share_in_file() const {
  const size_t below = file_->statistics().held_bytes;
  const size_t all = below + host_->statistics().held_bytes;
  return all == 0 ? 0 : static_cast<double>(below) / static_cast<double>(all);
}

bool ChainedTier::settle_prices() {
  constexpr double kTolerance = 0.125;  // new prices make policies compute all others again
  const double share = share_in_file();
  const bool moved = std::abs(share - price_share_) > kTolerance;
  if (moved) price_share_ = share;
  return file_->settle_prices() || moved;
}

TierStatistics ChainedTier::statistics() const {
  const ParentLock guard(mutex_, forked_);
  return counts_;
}

void ChainedTier::become_forked_child() {
  forked_ = true;
  host_->become_forked_child();
  file_->become_forked_child();
}

void ChainedTier::check_invariants() const {
  host_->check_invariants();
  const ParentLock guard(mutex_, forked_);
  for (auto each = oldest_.begin(); each != oldest_.end(); ++each) {
    TIDEPOOL_CHECK((*each)->on_host && (*each)->chunks.empty() && (*each)->place == each,
                   "invariant 1: %zu bytes", (*each)->bytes);
  }
  const size_t held = host_->statistics().held_bytes + file_->statistics().held_bytes;
  TIDEPOOL_CHECK(counts_.held_bytes == held, "invariant 2: %zu bytes, not %zu", held,
                 counts_.held_bytes);
}

}  // namespace tidepool::remat
