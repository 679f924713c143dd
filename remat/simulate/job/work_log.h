// WorkLog: a file with a line for each eviction, restoration, replay and copy that is done for a
// job. Storages are numbered as in the job's trace, and calls in the order in which they begin
// (contents that change unseen are no calls), so that the logs of a running job and of its
// simulation can be compared. A line is
//   CALL evict STORAGE OFFSET, CALL restore STORAGE OFFSET, CALL replay CALL, or CALL copy BYTES
// where the first CALL is the last one that has begun, and OFFSET is the block's distance from the
// start of the range. A block that is moved counts as evicted, copied and restored.
// A log with blocks has these lines, too (BlockLog says when):
//   iteration N, CALL place STORAGE OFFSET, CALL allocate OFFSET BYTES, CALL free OFFSET,
//   CALL hold BYTES, CALL map OFFSET BYTES, and CALL unmap OFFSET BYTES
// where `place` says where a storage lies that has just begun, and `hold` how much is held from the
// device. Lines of blocks come before those of the storages that lie in them.
// Owns its file; each line is written out at once, in a log without blocks. Not thread safe. For
// reports, tests and measurements.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <string>

namespace tidepool::remat {

class WorkLog {
 public:
  static constexpr uint32_t kUnknown = 0xffff'ffff;  // stands for a storage or call without number

  // Throws: std::runtime_error naming the file.
  explicit WorkLog(const std::string& path, bool has_blocks = false);

  bool has_blocks() const { return has_blocks_; }

  void begin_call(uint32_t call) { call_ = call; }
  void evicted(uint32_t storage, size_t offset) { write("evict", storage, offset); }
  void restored(uint32_t storage, size_t offset) { write("restore", storage, offset); }
  void replayed(uint32_t call);
  void copied(size_t bytes);

  // These are for logs with blocks.
  void begin_iteration(uint32_t iteration);
  void placed(uint32_t storage, size_t offset) { write("place", storage, offset); }
  void allocated(size_t offset, size_t bytes);
  void freed(size_t offset);
  void held(size_t bytes);
  void mapped(size_t offset, size_t bytes, bool usable);

 private:
  void write(const char* what, uint32_t storage, size_t offset);

  struct Close {
    void operator()(std::FILE* file) const { std::fclose(file); }
  };
  std::unique_ptr<std::FILE, Close> file_;
  const bool has_blocks_;
  uint32_t call_ = 0;
};

}  // namespace tidepool::remat
