#include "remat/tier/transfer_threads.h"

#include <signal.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <new>

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace tidepool::remat {
namespace {

size_t round_up(size_t bytes) {
  return (bytes + TransferThreads::kAlignment - 1) / TransferThreads::kAlignment *
         TransferThreads::kAlignment;
}

}  // namespace

void TransferThreads::Free::operator()(char* buffer) const { std::free(buffer); }

TransferThreads::Buffer TransferThreads::make_buffer() {
  void* memory = nullptr;
  if (::posix_memalign(&memory, kAlignment, kChunkBytes) != 0) throw std::bad_alloc();
  return Buffer(static_cast<char*>(memory));
}

TransferThreads::TransferThreads(TransferFile& file, size_t threads) : file_(file) {
  // The job's signals are for its own threads.
  sigset_t all;
  sigset_t before;
  ::sigfillset(&all);
  ::pthread_sigmask(SIG_SETMASK, &all, &before);
  for (size_t k = 0; k < threads; ++k) threads_.emplace_back([this] { work(); });
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

TransferThreads::~TransferThreads() {
  if (forked_) {
    for (std::thread& thread : threads_) thread.detach();
    return;
  }
  {
    const MutexLock guard(mutex_);
    ends_ = true;
  }
  work_to_do_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

void TransferThreads::work() {
  file_.begin_thread();
  const Buffer buffer = make_buffer();
  while (const std::optional<Chunk> chunk = take()) {
    carry(*chunk, buffer.get());
    const MutexLock guard(mutex_);
    if (--chunk->transfer->left_ == 0) chunk_done_.notify_all();
  }
}

std::optional<TransferThreads::Chunk> TransferThreads::take() {
  const MutexLock guard(mutex_);
  while (!ends_ && queue_.empty()) work_to_do_.wait(mutex_);
  if (queue_.empty()) return std::nullopt;
  const Chunk chunk = queue_.front();
  queue_.pop_front();
  return chunk;
}

void TransferThreads::begin(Transfer& transfer) {
  const size_t chunks = (transfer.bytes + kChunkBytes - 1) / kChunkBytes;
  transfer.sums_.assign(chunks, 0);
  transfer.first_error_ = 0;
  transfer.left_ = chunks;
  if (forked_) return;
  {
    const MutexLock guard(mutex_);
    for (size_t k = 0; k < chunks; ++k) queue_.push_back({&transfer, k});
  }
  work_to_do_.notify_all();
}

void TransferThreads::wait(Transfer& transfer) {
  if (forked_) {
    const Buffer buffer = make_buffer();
    for (size_t k = 0; k < transfer.sums_.size(); ++k) carry({&transfer, k}, buffer.get());
  } else {
    const MutexLock guard(mutex_);
    while (transfer.left_ != 0) chunk_done_.wait(mutex_);
  }
  finish(transfer);
}

void TransferThreads::finish(Transfer& transfer) const {
  transfer.error = transfer.first_error_;
  transfer.checksum = XXH3_64bits(transfer.sums_.data(), transfer.sums_.size() * sizeof(uint64_t));
}

void TransferThreads::carry(const Chunk& chunk, char* buffer) const {
  Transfer& transfer = *chunk.transfer;
  const size_t begin = chunk.index * kChunkBytes;
  const size_t bytes = std::min(kChunkBytes, transfer.bytes - begin);
  char* const memory = transfer.memory + begin;
  if (transfer.kind == Transfer::Kind::kCheck) {
    transfer.sums_[chunk.index] = XXH3_64bits(memory, bytes);
    return;
  }
  const size_t whole = round_up(bytes);
  if (transfer.kind == Transfer::Kind::kWrite) {
    std::memcpy(buffer, memory, bytes);
    std::memset(buffer + bytes, 0, whole - bytes);
    transfer.sums_[chunk.index] = XXH3_64bits(buffer, bytes);
  }
  size_t done = 0;
  size_t passed = 0;  // bytes of the pieces before the present one
  for (const Extent& piece : transfer.pieces) {
    const size_t from = std::max(begin + done, passed);
    const size_t to = std::min(begin + whole, passed + static_cast<size_t>(piece.bytes));
    if (from < to) {
      const int error =
          carry_piece(transfer.kind, piece.offset + (from - passed), buffer + done, to - from);
      if (error != 0) {
        int none = 0;
        transfer.first_error_.compare_exchange_strong(none, error);
        return;
      }
      done += to - from;
    }
    passed += piece.bytes;
  }
  if (transfer.kind == Transfer::Kind::kRead) {
    transfer.sums_[chunk.index] = XXH3_64bits(buffer, bytes);
    std::memcpy(memory, buffer, bytes);
  }
}

// Returns 0 or an errno.
int TransferThreads::carry_piece(Transfer::Kind kind, uint64_t offset, char* buffer,
                                 size_t bytes) const {
  while (bytes > 0) {
    const ssize_t count = kind == Transfer::Kind::kWrite ? file_.write_at(offset, buffer, bytes)
                                                         : file_.read_at(offset, buffer, bytes);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return errno;
    if (count == 0) return kind == Transfer::Kind::kWrite ? ENOSPC : ENODATA;
    // Direct I/O goes on only from a multiple of its unit.
    const auto part = static_cast<size_t>(count) / kAlignment * kAlignment;
    if (part == 0) return EIO;
    buffer += part;
    offset += part;
    bytes -= part;
  }
  return 0;
}

}  // namespace tidepool::remat
