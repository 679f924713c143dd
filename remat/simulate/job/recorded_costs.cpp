#include "remat/simulate/job/recorded_costs.h"

#include <fstream>
#include <stdexcept>

#include "fmt/format.h"
#include "nlohmann/json.hpp"
#include "remat/trace/json_fields.h"

namespace tidepool::remat {

RecordedCosts::RecordedCosts(const std::string& path) : path_(path) {
  std::ifstream file(path);
  if (!file) throw std::runtime_error(fmt::format("{}: cannot be read", path));
  std::string line;
  for (size_t number = 1; std::getline(file, line); ++number) {
    try {
      read_line(line);
    } catch (const TraceError& error) {
      throw std::runtime_error(fmt::format("{}:{}: {}", path, number, error.what()));
    }
  }
}

void RecordedCosts::read_line(const std::string& line) {
  const nlohmann::json object = parse_object(line);
  JsonFields fields(object);
  if (fields.find("tidepool_trace") != nullptr) {
    facts_.copy_bytes_per_ns = fields.number_or("copy_bytes_per_ns", 0);
    facts_.map_ns = fields.count_or("map_ns", 0);
    facts_.drain_ns = fields.count_or("drain_ns", 0);
  }
  if (fields.find("op") == nullptr || fields.text("op") == kCutName) return;
  calls_.push_back({fields.text("op"), fields.count("ns")});
}

uint64_t RecordedCosts::begin_call(std::string_view name) {
  if (next_ >= calls_.size()) {
    throw std::runtime_error(fmt::format("{}: has {} calls, and the job makes one more, of {}",
                                         path_, calls_.size(), name));
  }
  const Call& call = calls_[next_];
  if (call.name != name) {
    throw std::runtime_error(
        fmt::format("{}: call {} is {}, but the job calls {}", path_, next_, call.name, name));
  }
  ++next_;
  return call.cost_ns;
}

}  // namespace tidepool::remat
