// Which files of its own an attached program writes: its statistics, and where its trace goes. A
// job may have several processes with the same settings: the first one takes a path as it was
// given, others put their process id into the name, as the package's _stats_file.py and
// _trace_file.py do, with whose files these get along.
#pragma once

#include <string>

#include "nlohmann/json.hpp"

namespace tidepool::cpp {

// The statistics file of this process. Not thread safe.
class StatsFile {
 public:
  // Takes a file name, and writes that the job is running.
  // Throws: std::runtime_error where the folder cannot be written, or the file is there and has no
  // statistics.
  explicit StatsFile(const std::string& path);

  // Replaces the file as a whole. Throws: std::runtime_error.
  void write(nlohmann::json content) const;
  // Removes the file, as the process did not attach after all.
  void discard() const;

 private:
  std::string path_;
  std::string job_;
};

// The absolute path that this process writes its trace to. Throws: std::runtime_error if a file is
// there that is no trace.
std::string claim_trace(const std::string& path);

}  // namespace tidepool::cpp
