#include "remat/tier/file_tier.h"

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <utility>

#include "allocator/base/steady_clock.h"
#include "fmt/format.h"
#include "remat/tier/parent_lock.h"
#include "remat/tier/private_file.h"

namespace tidepool::remat {
namespace {

uint64_t whole_units(size_t bytes) {
  constexpr size_t kUnit = TransferThreads::kAlignment;
  return (bytes + kUnit - 1) / kUnit * kUnit;
}

}  // namespace

struct FileTier::Copy {
  size_t bytes;
  std::vector<Extent> pieces;
  uint64_t checksum;
  uint64_t forks;  // before it was stored
};

FileTier::Copy& FileTier::copy_of(TierSlot slot) { return *reinterpret_cast<Copy*>(slot); }

FileTier::FileTier(const std::string& folder, uint64_t capacity)
    : FileTier(std::make_unique<PrivateFile>(folder), folder, capacity) {}

FileTier::FileTier(std::unique_ptr<TransferFile> file, std::string folder, uint64_t capacity)
    : folder_(std::move(folder)),
      file_(std::move(file)),
      extents_(capacity / TransferThreads::kAlignment * TransferThreads::kAlignment),
      threads_(*file_, kThreads) {}

bool FileTier::has_room(size_t bytes) const {
  return !failed_ && !forked_ && whole_units(bytes) <= extents_.room() + kept_bytes_;
}

void FileTier::give_kept(const Kept& kept) {
  for (const Extent& piece : kept.pieces) kept_bytes_ -= piece.bytes;
  extents_.give(kept.pieces);
}

std::optional<std::vector<Extent>> FileTier::take(uint64_t bytes) {
  if (bytes > extents_.room() + kept_bytes_) return std::nullopt;
  if (bytes > extents_.room()) {
    children_.forget_ended();
    std::erase_if(kept_, [this](const Kept& kept) {
      const bool ended = !children_.any_between(kept.since, kept.until);
      if (ended) give_kept(kept);
      return ended;
    });
  }
  for (; bytes > extents_.room() && !kept_.empty(); kept_.pop_front()) give_kept(kept_.front());
  return extents_.take(bytes);
}

std::optional<TierSlot> FileTier::store(const void* from, size_t bytes, std::span<const StreamId>) {
  if (forked_) return std::nullopt;
  auto pieces = failed_ ? std::nullopt : take(whole_units(bytes));
  if (!pieces) {
    const ParentLock guard(mutex_, forked_);
    ++counts_.refusals;
    return std::nullopt;
  }
  Transfer transfer;
  transfer.kind = Transfer::Kind::kWrite;
  transfer.memory = static_cast<char*>(const_cast<void*>(from));
  transfer.bytes = bytes;
  transfer.pieces = *pieces;
  const uint64_t start = steady_now_ns();
  threads_.run(transfer);
  const uint64_t ns = steady_now_ns() - start;
  const ParentLock guard(mutex_, forked_);
  if (transfer.error != 0) {
    extents_.give(*pieces);
    ++counts_.refusals;
    failed_ = true;
    std::fprintf(stderr,
                 "tidepool: nothing more is offloaded to %s, because writing there failed: %s\n",
                 folder_.c_str(), std::strerror(transfer.error));
    return std::nullopt;
  }
  store_price_.note(bytes, ns);
  ++counts_.stores;
  counts_.stored_bytes += bytes;
  counts_.store_ns += ns;
  counts_.held_bytes = extents_.taken() - kept_bytes_;
  counts_.peak_bytes = std::max(counts_.peak_bytes, counts_.held_bytes);
  return TierSlot{reinterpret_cast<uintptr_t>(
      new Copy{bytes, std::move(*pieces), transfer.checksum, children_.forks()})};
}

void FileTier::load(TierSlot slot, void* to, StreamId) {
  const Copy& copy = copy_of(slot);
  Transfer transfer;
  transfer.kind = Transfer::Kind::kRead;
  transfer.memory = static_cast<char*>(to);
  transfer.bytes = copy.bytes;
  transfer.pieces = copy.pieces;
  const uint64_t start = steady_now_ns();
  threads_.run(transfer);
  const uint64_t ns = steady_now_ns() - start;
  if (transfer.error != 0 || transfer.checksum != copy.checksum) {
    const char* const what =
        transfer.error != 0 ? std::strerror(transfer.error)
        : forked_ ? "the process that this one was forked from has stored something else there"
                  : "its checksum is wrong";
    throw TierError(fmt::format("{} bytes that were offloaded to the {} cannot be read back: {}",
                                copy.bytes, describe(), what));
  }
  const ParentLock guard(mutex_, forked_);
  load_price_.note(copy.bytes, ns);
  ++counts_.loads;
  counts_.loaded_bytes += copy.bytes;
  counts_.load_ns += ns;
}

bool FileTier::matches(TierSlot slot, const void* at) {
  const Copy& copy = copy_of(slot);
  Transfer transfer;
  transfer.memory = static_cast<char*>(const_cast<void*>(at));
  transfer.bytes = copy.bytes;
  threads_.run(transfer);
  return transfer.checksum == copy.checksum;
}

void FileTier::drop(TierSlot slot) {
  const std::unique_ptr<Copy> copy(&copy_of(slot));
  if (children_.any_since(copy->forks)) {
    for (const Extent& piece : copy->pieces) kept_bytes_ += piece.bytes;
    kept_.push_back({copy->forks, children_.forks(), std::move(copy->pieces)});
  } else {
    extents_.give(copy->pieces);
  }
  const ParentLock guard(mutex_, forked_);
  counts_.held_bytes = extents_.taken() - kept_bytes_;
}

bool FileTier::settle_prices() {
  const ParentLock guard(mutex_, forked_);
  const bool stores = store_price_.settle();
  return load_price_.settle() || stores;
}

TierStatistics FileTier::statistics() const {
  const ParentLock guard(mutex_, forked_);
  return counts_;
}

void FileTier::become_forked_child() {
  forked_ = true;
  children_.become_forked_child();
  threads_.become_forked_child();
}

}  // namespace tidepool::remat
