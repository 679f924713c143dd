// Settings: what a stand-in machine is like. From the environment for jobs, by hand for tests.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "tests/support/fake_cuda/core/call_book.h"

namespace tidepool::fake_cuda {

// An event that no query completes: only a synchronisation, or fake_cuda_complete().
constexpr uint64_t kOnlyWhenAsked = std::numeric_limits<uint64_t>::max();

struct Settings {
  int devices = 1;
  // By device; devices beyond the list have as much as the last of it.
  std::vector<size_t> memory_bytes = {size_t{8} << 30};
  size_t outside_bytes = 0;  // of each device, in use by others: contexts, libraries, processes
  // At one call in so many others begin to use another part of outside_bytes, which no call is told
  // of; 0: all of it, always. Which calls, and how much, the seed decides.
  uint64_t outside_changes_every = 0;
  uint64_t outside_seed = 0;                               // it counts from the start of a process
  size_t host_bytes = std::numeric_limits<size_t>::max();  // that can be page-locked
  size_t mapping_limit = std::numeric_limits<size_t>::max();
  // How often an event or stream whose work the host has not waited for answers "not ready".
  uint64_t late_queries = 0;
  // Virtual time: work is done when the host's time has come to its end, and programs that ask the
  // monotonic clock are told it. Else work is done when it is asked for.
  bool is_timed = false;
  bool touch_memory = true;  // false: copies and fills move no device byte, copies back give zeros
  bool peers = true;         // every device can reach every other's memory
  bool races_are_fatal = false;
  bool log_to_stderr = false;
  size_t log_entries = 1 << 16;  // the newest ones are kept
  size_t blas_workspace_bytes = 0;
  size_t dnn_workspace_bytes = 0;
  size_t granularity = size_t{2} << 20;  // of memory; it counts from the start of a process
  std::vector<FailureRule> failures = {};
  std::vector<Price> prices = {};
  Speeds speeds = {};

  size_t memory_of(int device) const {
    return memory_bytes[std::min(static_cast<size_t>(device), memory_bytes.size() - 1)];
  }
};

// Sets one of DEVICES, MEMORY, … (below) from text. Throws: std::invalid_argument.
void apply_setting(Settings& settings, const std::string& name, const std::string& text);

// Reads FAKE_CUDA_DEVICES, _MEMORY, _OUTSIDE, _OUTSIDE_EVERY, _OUTSIDE_SEED, _HOST_MEMORY,
// _MAPPING_LIMIT, _LATE (a number, or "asked"), _CLOCK, _SPEED, _TOUCH, _PEERS, _FATAL, _LOG,
// _LOG_ENTRIES, _BLAS_WORKSPACE, _DNN_WORKSPACE, _GRANULARITY, _FAIL and _PRICE. Sizes are bytes or
// end in KiB, MiB or GiB; _MEMORY takes several, with commas. CUDA_VISIBLE_DEVICES leaves out as
// many devices as it does not name. Throws: std::invalid_argument naming a variable that is unknown
// or wrong.
Settings settings_from_environment();

}  // namespace tidepool::fake_cuda
