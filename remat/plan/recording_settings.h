// RecordingSettings: what of a job is recorded, and where. Plain data.
#pragma once

#include <cstdint>
#include <string>

namespace tidepool::plan {

struct RecordingSettings {
  std::string path;
  // Steps that are recorded, counted from 1; before the first and after the last nothing is.
  uint64_t first_step = 1;
  uint64_t last_step = UINT64_MAX;
};

}  // namespace tidepool::plan
