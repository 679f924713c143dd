// RecordingSettings: what of a job is recorded, and where. Plain data.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace tidepool::remat {

struct RecordingSettings {
  std::string path;
  // The first and the last step that are recorded, counted from 1.
  uint64_t first_step = 1;
  uint64_t last_step = UINT64_MAX;
  // How many chunks of 4096 events may wait for the file; 256 are about a million events, or 200
  // MiB.
  size_t most_waiting = 256;
};

}  // namespace tidepool::remat
