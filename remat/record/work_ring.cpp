#include "remat/record/work_ring.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <stdexcept>

#include "allocator/base/steady_clock.h"
#include "fmt/format.h"

namespace tidepool::remat {
namespace {

constexpr unsigned kRoleShift = 48, kReasonShift = 56;
constexpr uint64_t kBytesMask = (uint64_t{1} << kRoleShift) - 1;
constexpr size_t kLeastSegment = 64;  // events

uint64_t with_role(uint64_t bytes, uint8_t role, uint8_t reason = 0) {
  return (bytes & kBytesMask) | uint64_t{role} << kRoleShift | uint64_t{reason} << kReasonShift;
}

// Copies a text into a field, cut so that a zero follows it.
template <size_t N>
void copy_text(char (&field)[N], const std::string& text) {
  std::memcpy(field, text.data(), std::min(text.size(), N - 1));
}

}  // namespace

WorkRing::WorkRing(const std::string& path, size_t bytes, const WorkRingFacts& facts) {
  segment_events_ = std::max(bytes / kSegments / sizeof(WorkEvent), kLeastSegment);
  file_bytes_ = layout::kEventsAt + room() * sizeof(WorkEvent);
  const int file = ::open(path.c_str(), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  int failure = file < 0 ? errno : 0;
  // All of it is taken now: a mapped file on a full disk would end the job later.
  if (failure == 0) failure = ::posix_fallocate(file, 0, static_cast<off_t>(file_bytes_));
  if (failure == 0) {
    void* map = ::mmap(nullptr, file_bytes_, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    failure = map == MAP_FAILED ? errno : 0;
    if (failure == 0) map_ = static_cast<char*>(map);
  }
  if (failure != 0) {
    if (file >= 0) {
      ::close(file);
      ::unlink(path.c_str());
    }
    throw std::runtime_error(fmt::format("{}: {}", path, std::strerror(failure)));
  }
  file_ = OwnDescriptor(file);
  header_ = reinterpret_cast<layout::Header*>(map_);
  events_ = reinterpret_cast<WorkEvent*>(map_ + layout::kEventsAt);
  began_ns_ = steady_now_ns();
  header_->version = layout::kVersion;
  header_->event_bytes = sizeof(WorkEvent);
  header_->segment_events = segment_events_;
  header_->segments = kSegments;
  header_->names_bytes = layout::kNamesBytes;
  header_->began_unix_ns =
      static_cast<uint64_t>(std::chrono::duration_cast<std::chrono::nanoseconds>(
                                std::chrono::system_clock::now().time_since_epoch())
                                .count());
  header_->budget_bytes = limit_ = facts.budget_bytes;
  header_->process = static_cast<uint32_t>(::getpid());
  copy_text(header_->device, facts.device);
  copy_text(header_->name, facts.name);
  std::memcpy(header_->magic, layout::kMagic, sizeof header_->magic);
}

WorkRing::~WorkRing() {
  finish();
  if (map_ != nullptr) ::munmap(map_, file_bytes_);
}

void WorkRing::taken(size_t offset, size_t bytes, const char* operator_name) {
  if (!open_.load(std::memory_order_relaxed)) return;
  const MutexLock guard(mutex_);
  const uint16_t label = label_of(operator_name);
  add(WorkKind::kTaken, offset, bytes, 0, label);
  blocks_[offset] = {bytes, 0, label};
}

void WorkRing::freed(size_t offset, size_t bytes) {
  if (!open_.load(std::memory_order_relaxed)) return;
  const MutexLock guard(mutex_);
  add(WorkKind::kFreed, offset, bytes);
  blocks_.erase(offset);
}

void WorkRing::owned(size_t offset, const void* key, const char* maker, uint8_t role,
                     uint8_t reason) {
  if (!open_.load(std::memory_order_relaxed)) return;
  const MutexLock guard(mutex_);
  const auto found = blocks_.find(offset);
  if (found == blocks_.end()) return;
  const uint32_t number = number_of(key);
  const uint64_t bytes = with_role(found->second.bytes, role, reason);
  // An operator that writes in place becomes the maker; the first one is as good a name.
  if (found->second.storage == number && found->second.bytes == bytes) return;
  const uint16_t label = maker != nullptr ? label_of(maker) : found->second.label;
  add(WorkKind::kOwned, offset, bytes, number, label);
  if (const auto again = blocks_.find(offset); again != blocks_.end()) {
    again->second = {bytes, number, label};
  }
}

void WorkRing::evicted(size_t offset, size_t bytes, const void* key, const char* maker,
                       bool copied) {
  if (!open_.load(std::memory_order_relaxed)) return;
  const MutexLock guard(mutex_);
  const uint32_t number = number_of(key);
  const uint16_t label = label_of(maker);
  const uint64_t packed = with_role(bytes, copied ? 1 : 0);
  add(WorkKind::kEvicted, offset, packed, number, label);
  evicted_[number] = {packed, number, label};
}

void WorkRing::restored(size_t offset, size_t bytes, const void* key, const char* maker,
                        bool copied, const char* needed_by) {
  if (!open_.load(std::memory_order_relaxed)) return;
  const MutexLock guard(mutex_);
  const uint32_t number = number_of(key);
  const uint16_t label = label_of(maker);
  add(WorkKind::kRestored, offset, with_role(bytes, copied ? 1 : 0), number, label);
  add(WorkKind::kNeeded, 0, 0, number, label_of(needed_by));
  evicted_.erase(number);
  if (const auto found = blocks_.find(offset); found != blocks_.end()) {
    found->second = {with_role(found->second.bytes, 0), number, label};
  }
}

void WorkRing::forgotten(const void* key) {
  if (!open_.load(std::memory_order_relaxed)) return;
  const MutexLock guard(mutex_);
  const auto found = numbers_.find(key);
  if (found == numbers_.end()) return;
  const uint32_t number = found->second;
  numbers_.erase(found);
  if (evicted_.erase(number) != 0) add(WorkKind::kForgotten, 0, 0, number);
}

void WorkRing::replayed(const char* operator_name, uint64_t ns) {
  if (!open_.load(std::memory_order_relaxed)) return;
  const MutexLock guard(mutex_);
  add(WorkKind::kReplayed, ns, 0, 0, label_of(operator_name));
}

void WorkRing::copied(size_t offset, size_t bytes) {
  if (!open_.load(std::memory_order_relaxed)) return;
  const MutexLock guard(mutex_);
  add(WorkKind::kCopied, offset, bytes);
}

void WorkRing::held(size_t bytes) {
  if (!open_.load(std::memory_order_relaxed)) return;
  const MutexLock guard(mutex_);
  held_ = bytes;
  add(WorkKind::kHeld, 0, bytes);
}

void WorkRing::limited(size_t bytes) {
  if (!open_.load(std::memory_order_relaxed)) return;
  const MutexLock guard(mutex_);
  limit_ = std::min<uint64_t>(bytes, header_->budget_bytes);
  add(WorkKind::kLimited, 0, limit_);
}

void WorkRing::step_ended(uint64_t search_ns, uint64_t prices) {
  if (!open_.load(std::memory_order_relaxed)) return;
  const MutexLock guard(mutex_);
  if (prices != prices_) add(WorkKind::kSearched, search_ns - search_ns_, prices - prices_);
  search_ns_ = search_ns;
  prices_ = prices;
  add(WorkKind::kStep, 0, 0);
}

void WorkRing::out_of_memory(size_t bytes) {
  if (!open_.load(std::memory_order_relaxed)) return;
  const MutexLock guard(mutex_);
  add(WorkKind::kOutOfMemory, 0, bytes);
}

void WorkRing::finish() {
  if (!open_.exchange(false, std::memory_order_relaxed)) return;
  const MutexLock guard(mutex_);  // nobody writes any more
  header_->ended_ns = now();
  header_->ended = 1;
  const size_t used = layout::kEventsAt + std::min<size_t>(written_, room()) * sizeof(WorkEvent);
  // Nothing is read or written behind its new end. A file that stays too long is as good.
  [[maybe_unused]] const int failed = ::ftruncate(file_.get(), static_cast<off_t>(used));
  file_.close();
}

uint64_t WorkRing::now() const { return steady_now_ns() - began_ns_; }

void WorkRing::add(WorkKind kind, uint64_t where, uint64_t bytes, uint32_t storage,
                   uint16_t label) {
  if (!open_.load(std::memory_order_relaxed)) return;
  if (written_ % segment_events_ == 0) begin_segment();
  put({now(), where, bytes, storage, label, static_cast<uint8_t>(kind), 0});
}

void WorkRing::put(WorkEvent event) {
  uint64_t words[4];
  std::memcpy(words, &event, sizeof words);
  uint64_t folded = words[0] ^ words[1] ^ words[2] ^ words[3];
  folded ^= folded >> 32;
  folded ^= folded >> 16;
  folded ^= folded >> 8;
  event.check = static_cast<uint8_t>(folded) ^ layout::kCheck;
  events_[written_ % room()] = event;
  ++written_;
  std::atomic_ref<uint64_t>(header_->written).store(written_, std::memory_order_release);
}

// Writes what is there already. At least half of the segment stays for what happens: of more
// blocks than fit the rest is left out.
void WorkRing::begin_segment() {
  size_t left = segment_events_ / 2;
  const auto already = [&](WorkKind kind, uint64_t where,
                           const Block& block) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    if (left == 0) return;
    --left;
    put({now(), where, block.bytes, block.storage, block.label,
         static_cast<uint8_t>(static_cast<uint8_t>(kind) | layout::kAlready), 0});
  };
  already(WorkKind::kHeld, 0, {held_, 0, 0});
  already(WorkKind::kLimited, 0, {limit_, 0, 0});
  for (const auto& [offset, block] : blocks_) {
    already(block.storage != 0 ? WorkKind::kOwned : WorkKind::kTaken, offset, block);
  }
  for (const auto& [number, block] : evicted_) already(WorkKind::kEvicted, 0, block);
}

uint16_t WorkRing::label_of(const char* name) {
  if (name == nullptr) return 0;
  const auto [place, is_new] = labels_.try_emplace(name, 0);
  if (!is_new) return place->second;
  const auto length = static_cast<uint16_t>(std::min<size_t>(std::strlen(name), 1000));
  const size_t used = header_->names_used;
  if (names_ == UINT16_MAX || used + sizeof length + length > layout::kNamesBytes) return 0;
  std::memcpy(map_ + layout::kNamesAt + used, &length, sizeof length);
  std::memcpy(map_ + layout::kNamesAt + used + sizeof length, name, length);
  header_->names_used = static_cast<uint32_t>(used + sizeof length + length);
  return place->second = ++names_;
}

uint32_t WorkRing::number_of(const void* key) {
  const auto [place, is_new] = numbers_.try_emplace(key, 0);
  if (is_new) place->second = ++storages_;
  return place->second;
}

}  // namespace tidepool::remat
