// WorkLog: a file with a line for each eviction, restoration, replay and copy that is done for a
// job. Storages are numbered as in the job's trace, and calls in the order in which they begin
// (contents that change unseen are no calls), so that the logs of a running job and of its
// simulation can be compared. A line is
//   CALL evict STORAGE OFFSET, CALL restore STORAGE OFFSET, CALL replay CALL, or CALL copy BYTES
// where the first CALL is the last one that has begun, and OFFSET is the block's distance from the
// start of the range. A block that is moved counts as evicted, copied and restored.
// Owns its file; each line is written out at once. Not thread safe. For tests and measurements.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <string>

namespace tidepool::plan {

class WorkLog {
 public:
  static constexpr uint32_t kUnknown = 0xffff'ffff;  // stands for a storage or call without number

  // Throws: std::runtime_error naming the file.
  explicit WorkLog(const std::string& path);

  void begin_call(uint32_t call) { call_ = call; }
  void evicted(uint32_t storage, size_t offset) { write("evict", storage, offset); }
  void restored(uint32_t storage, size_t offset) { write("restore", storage, offset); }
  void replayed(uint32_t call);
  void copied(size_t bytes);

 private:
  void write(const char* what, uint32_t storage, size_t offset);

  struct Close {
    void operator()(std::FILE* file) const { std::fclose(file); }
  };
  std::unique_ptr<std::FILE, Close> file_;
  uint32_t call_ = 0;
};

}  // namespace tidepool::plan
