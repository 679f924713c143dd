#include "tests/support/fake_cuda/core/settings.h"

#include <fmt/format.h>
#include <unistd.h>

#include <bit>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <map>
#include <string_view>

namespace tidepool::fake_cuda {
namespace {

constexpr std::string_view kPrefix = "FAKE_CUDA_";

uint64_t whole_number(const std::string& text, char** end) {
  errno = 0;
  const uint64_t value = std::strtoull(text.c_str(), end, 10);
  if (*end == text.c_str() || errno != 0 || text.front() == '-') {
    throw std::invalid_argument("not a number");
  }
  return value;
}

uint64_t count(const std::string& text) {
  char* end = nullptr;
  const uint64_t value = whole_number(text, &end);
  if (*end != 0) throw std::invalid_argument("not a number");
  return value;
}

size_t bytes(const std::string& text) {
  char* end = nullptr;
  const size_t value = whole_number(text, &end);
  const std::string_view unit = end;
  if (unit.empty()) return value;
  if (unit == "KiB") return value << 10;
  if (unit == "MiB") return value << 20;
  if (unit == "GiB") return value << 30;
  throw std::invalid_argument("not a size; its unit may be KiB, MiB or GiB");
}

std::vector<size_t> list_of_bytes(const std::string& text) {
  std::vector<size_t> list;
  for (size_t at = 0; at <= text.size();) {
    const size_t comma = std::min(text.find(',', at), text.size());
    list.push_back(bytes(text.substr(at, comma - at)));
    at = comma + 1;
  }
  return list;
}

bool yes_or_no(const std::string& text) {
  if (text != "0" && text != "1") throw std::invalid_argument("neither 0 nor 1");
  return text == "1";
}

using Reader = std::function<void(Settings&, const std::string&)>;

const std::map<std::string_view, Reader>& readers() {
  static const auto* table = new std::map<std::string_view, Reader>{
      {"DEVICES",
       [](Settings& s, const std::string& t) { s.devices = static_cast<int>(count(t)); }},
      {"MEMORY", [](Settings& s, const std::string& t) { s.memory_bytes = list_of_bytes(t); }},
      {"OUTSIDE", [](Settings& s, const std::string& t) { s.outside_bytes = bytes(t); }},
      {"OUTSIDE_EVERY",
       [](Settings& s, const std::string& t) { s.outside_changes_every = count(t); }},
      {"OUTSIDE_SEED", [](Settings& s, const std::string& t) { s.outside_seed = count(t); }},
      {"HOST_MEMORY", [](Settings& s, const std::string& t) { s.host_bytes = bytes(t); }},
      {"MAPPING_LIMIT", [](Settings& s, const std::string& t) { s.mapping_limit = count(t); }},
      {"LATE",
       [](Settings& s, const std::string& t) {
         s.late_queries = t == "asked" ? kOnlyWhenAsked : count(t);
       }},
      {"TOUCH", [](Settings& s, const std::string& t) { s.touch_memory = yes_or_no(t); }},
      {"PEERS", [](Settings& s, const std::string& t) { s.peers = yes_or_no(t); }},
      {"FATAL", [](Settings& s, const std::string& t) { s.races_are_fatal = yes_or_no(t); }},
      {"LOG", [](Settings& s, const std::string& t) { s.log_to_stderr = yes_or_no(t); }},
      {"LOG_ENTRIES", [](Settings& s, const std::string& t) { s.log_entries = count(t); }},
      {"BLAS_WORKSPACE",
       [](Settings& s, const std::string& t) { s.blas_workspace_bytes = bytes(t); }},
      {"DNN_WORKSPACE",
       [](Settings& s, const std::string& t) { s.dnn_workspace_bytes = bytes(t); }},
      {"GRANULARITY",
       [](Settings& s, const std::string& t) {
         s.granularity = bytes(t);
         if (!std::has_single_bit(s.granularity) || s.granularity < 4096) {
           throw std::invalid_argument("expected a power of two, 4KiB or more");
         }
       }},
      {"FAIL", [](Settings& s, const std::string& t) { s.failures = parse_failures(t); }},
      {"SPEED", [](Settings& s, const std::string& t) { s.speeds = parse_speeds(t); }},
      {"CLOCK", [](Settings& s, const std::string& t) { s.is_timed = yes_or_no(t); }},
      {"PRICE", [](Settings& s, const std::string& t) { s.prices = parse_prices(t); }},
  };
  return *table;
}

// How many devices a CUDA_VISIBLE_DEVICES leaves: the numbers up to the first that is none.
int visible(const char* list, int devices) {
  int count = 0;
  std::string_view rest = list;
  while (!rest.empty()) {
    const std::string item(rest.substr(0, rest.find(',')));
    rest.remove_prefix(std::min(item.size() + 1, rest.size()));
    char* end = nullptr;
    const long device = std::strtol(item.c_str(), &end, 10);
    if (item.empty() || *end != 0 || device < 0 || device >= devices) break;
    ++count;
  }
  return count;
}

}  // namespace

void apply_setting(Settings& settings, const std::string& name, const std::string& text) {
  const auto reader = readers().find(name);
  if (reader == readers().end()) {
    throw std::invalid_argument(
        fmt::format("{}{} is no setting of the stand-in device", kPrefix, name));
  }
  try {
    reader->second(settings, text);
  } catch (const std::invalid_argument& problem) {
    throw std::invalid_argument(fmt::format("{}{}={}: {}", kPrefix, name, text, problem.what()));
  }
}

Settings settings_from_environment() {
  Settings settings;
  for (char** entry = environ; entry && *entry; ++entry) {
    const std::string_view variable = *entry;
    if (!variable.starts_with(kPrefix)) continue;
    const size_t equals = variable.find('=');
    apply_setting(settings, std::string(variable.substr(kPrefix.size(), equals - kPrefix.size())),
                  std::string(variable.substr(equals + 1)));
  }
  if (const char* list = std::getenv("CUDA_VISIBLE_DEVICES")) {
    settings.devices = visible(list, settings.devices);
  }
  return settings;
}

}  // namespace tidepool::fake_cuda
