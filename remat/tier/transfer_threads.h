// TransferThreads: a few threads that carry contents between memory and a file, in chunks, several
// of which are under way at a time, and add up checksums (XXH3 of xxHash) on the way. Chunks go
// through aligned buffers of the threads' own, as direct I/O asks for, so that contents may lie
// anywhere in memory.
// Thread safe.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <thread>
#include <vector>

#include "allocator/locks/mutex.h"
#include "remat/tier/extents.h"
#include "remat/tier/transfer_file.h"

namespace tidepool::remat {

// One transfer, from begin() on.
struct Transfer {
  enum class Kind : uint8_t { kWrite, kRead, kCheck };  // kCheck only adds up the checksum

  Kind kind = Kind::kCheck;
  char* memory = nullptr;
  size_t bytes = 0;
  std::vector<Extent> pieces;  // of the file; empty for kCheck

  // Valid after wait().
  int error = 0;  // an errno; ENODATA: the file ended early
  uint64_t checksum = 0;

 private:
  friend class TransferThreads;
  std::vector<uint64_t> sums_;  // by chunk
  std::atomic<int> first_error_{0};
  size_t left_ = 0;  // chunks; under the mutex of TransferThreads
};

class TransferThreads {
 public:
  static constexpr size_t kChunkBytes = size_t{1} << 20;
  static constexpr size_t kAlignment = 4096;  // of buffers, offsets and lengths

  // `file` stays the caller's.
  TransferThreads(TransferFile& file, size_t threads);
  // Waits for what is under way.
  ~TransferThreads();
  TransferThreads(const TransferThreads&) = delete;
  TransferThreads& operator=(const TransferThreads&) = delete;

  // Begins a transfer, which has to live, as its memory has, until wait() has returned.
  void begin(Transfer& transfer);
  void wait(Transfer& transfer);
  void run(Transfer& transfer) {
    begin(transfer);
    wait(transfer);
  }

  // In a forked child, which has none of the threads: the calling thread does all the work.
  void become_forked_child() { forked_ = true; }

 private:
  struct Free {
    void operator()(char* buffer) const;
  };
  using Buffer = std::unique_ptr<char, Free>;
  struct Chunk {
    Transfer* transfer;
    size_t index;
  };

  static Buffer make_buffer();
  void work();
  // Waits for the next chunk to carry; nullopt once there will be none.
  std::optional<Chunk> take();
  void carry(const Chunk& chunk, char* buffer) const;
  int carry_piece(Transfer::Kind kind, uint64_t offset, char* buffer, size_t bytes) const;
  void finish(Transfer& transfer) const;

  TransferFile& file_;
  bool forked_ = false;
  Mutex mutex_;
  std::condition_variable_any work_to_do_, chunk_done_;
  std::deque<Chunk> queue_ ABSL_GUARDED_BY(mutex_);
  bool ends_ ABSL_GUARDED_BY(mutex_) = false;
  std::vector<std::thread> threads_;
};

}  // namespace tidepool::remat
