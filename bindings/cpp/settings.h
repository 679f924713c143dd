// The settings of a program without Python: from its options and, behind them, TIDEPOOL_*
// variables. The names, the words and what is said of a wrong value come from the package's catalog
// (_catalog.py); a test compares what is refused with the package's _settings.py. Stateless.
#pragma once

#include <map>
#include <stdexcept>
#include <string>

#include "nlohmann/json.hpp"

namespace tidepool::cpp {

// A setting that cannot be used; the message names it and what would be right.
struct SettingsError : std::invalid_argument {
  using std::invalid_argument::invalid_argument;
};

// Settings as they were given: by key, in lower case, without the prefix.
using Options = std::map<std::string, std::string>;

struct Settings {
  std::string device;       // cpu or cuda
  nlohmann::json plugin;    // what tidepool_attach() of the plugin reads, but for the trace's path
  std::string budget;       // as a reader sees it
  std::string description;  // budget, device, policy, and chaos, as one phrase
  std::string stats;        // a file for statistics at exit; may be empty
  std::string trace;        // a file for the trace; may be empty
  bool quiet = false;

  // Whether these ask for the same as others, which were resolved at another time: what `auto`
  // gives varies.
  bool is_same_request(const Settings& other) const;
};

// All TIDEPOOL_* variables that are not empty.
Options options_of_environment();
// Whether those ask for Tidepool, or try to, misspelt.
bool asks_for_tidepool(const Options& environment);

// Throws: SettingsError.
Settings resolve(const Options& given, const Options& environment, bool has_gpu);

// Throws: SettingsError. The bytes that a budget given later means.
uint64_t budget_bytes(const std::string& text);

// Whether a CUDA program would find a GPU here, without loading CUDA.
bool gpu_is_visible();

}  // namespace tidepool::cpp
