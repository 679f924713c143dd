#include "bindings/cpp/sizes.h"

#include <algorithm>
#include <cctype>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <regex>
#include <sstream>
#include <stdexcept>
#include <vector>

#include "setting_names.h"

namespace tidepool::cpp {
namespace {

uint64_t bytes_of(const std::string& unit) {
  for (const auto& [name, bytes] : kUnits) {
    if (unit == name) return bytes;
  }
  return 0;
}

std::string lower(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return text;
}

std::string unknown_unit(const std::string& unit) {
  std::string near, known;
  for (const auto& [spelling, bytes] : kUnits) {
    const std::string name = lower(spelling);
    if (name == lower(unit)) near = spelling;
    if (near.empty() && unit.size() < 3 && name == lower(unit) + "ib") near = spelling;
    if (near.empty() && unit.size() == 2 && name == lower(unit) + "b") near = spelling;
    known += spelling + ", ";
  }
  const std::string hint = near.empty() ? "" : ", did you mean " + near + "?";
  return "unknown unit '" + unit + "'" + hint + " (known: " + known.substr(0, known.size() - 2) +
         " and %)";
}

uint64_t share(long double percent, std::optional<uint64_t> whole_bytes) {
  if (!whole_bytes) {
    throw std::invalid_argument("a percentage has no meaning here: expected a size such as 2MiB");
  }
  if (!(percent > 0 && percent <= 100)) {
    throw std::invalid_argument("a percentage must be above 0% and at most 100%");
  }
  return static_cast<uint64_t>(static_cast<long double>(*whole_bytes) * percent / 100);
}

// The bytes that the system reports under a name, such as MemTotal; 0 if it does not.
uint64_t meminfo(const std::string& root, const std::string& name) {
  std::ifstream file(root + "/proc/meminfo");
  for (std::string line; std::getline(file, line);) {
    if (!line.starts_with(name + ":")) continue;
    return std::strtoull(line.c_str() + name.size() + 1, nullptr, 10) * 1024;
  }
  return 0;
}

uint64_t read_number(const std::string& path) {
  std::ifstream file(path);
  uint64_t value = 0;
  return file >> value ? value : 0;  // there is no such group, or it says "max"
}

// Bytes of files that were not read lately, which the system takes when memory is wanted.
uint64_t inactive_files(const std::string& path) {
  std::ifstream file(path);
  uint64_t value = 0;
  for (std::string key; file >> key >> value;) {
    if (key == "inactive_file" || key == "total_inactive_file") return value;
  }
  return 0;
}

struct Limit {
  uint64_t bytes, used_bytes;
};

// Limits of this process's cgroup and of all above it, version 2 and version 1. In a container the
// path may be the host's, of which only the end exists: what does not exist is skipped.
std::vector<Limit> cgroup_limits(const std::string& root) {
  std::vector<Limit> limits;
  std::ifstream groups(root + "/proc/self/cgroup");
  for (std::string line; std::getline(groups, line);) {
    std::istringstream parts(line);
    std::string number, controllers, path;
    std::getline(parts, number, ':');
    std::getline(parts, controllers, ':');
    std::getline(parts, path);
    const bool is_second = controllers.empty();
    if (!is_second && ("," + controllers + ",").find(",memory,") == std::string::npos) continue;
    const std::string mount = root + (is_second ? "/sys/fs/cgroup" : "/sys/fs/cgroup/memory");
    while (true) {
      while (!path.empty() && path.back() == '/') path.pop_back();
      const std::string folder = mount + path + "/";
      const uint64_t limit =
          read_number(folder + (is_second ? "memory.max" : "memory.limit_in_bytes"));
      if (limit > 0) {
        const uint64_t used =
            read_number(folder + (is_second ? "memory.current" : "memory.usage_in_bytes"));
        limits.push_back({limit, used - std::min(used, inactive_files(folder + "memory.stat"))});
      }
      if (path.find('/') == std::string::npos) break;
      path.resize(path.rfind('/'));
    }
  }
  return limits;
}

}  // namespace

uint64_t parse_size(const std::string& text, std::optional<uint64_t> whole_bytes) {
  static const std::regex shape(R"(\s*([0-9]+(\.[0-9]+)?)\s*([A-Za-z]*|%)\s*)");
  std::smatch match;
  if (!std::regex_match(text, match, shape)) {
    throw std::invalid_argument("expected " + kExpected.at("SIZE"));
  }
  const std::string unit = match[3];
  const long double number = std::strtold(match[1].str().c_str(), nullptr);
  if (unit == "%") return share(number, whole_bytes);
  if (unit.empty() && match[2].matched) {
    std::ostringstream hint;
    if (number <= 1) hint << "; for a share of memory write " << number * 100 << "%";
    throw std::invalid_argument("plain bytes must be a whole number" + hint.str());
  }
  const uint64_t unit_bytes = unit.empty() ? 1 : bytes_of(unit);
  if (unit_bytes == 0) throw std::invalid_argument(unknown_unit(unit));
  const long double bytes = number * static_cast<long double>(unit_bytes);
  if (bytes >= 0x1p63L) throw std::invalid_argument("expected less than 8 EiB");
  return static_cast<uint64_t>(bytes);
}

std::string format_size(uint64_t bytes, bool exact) {
  constexpr const char* kNames[] = {"TiB", "TB", "GiB", "GB", "MiB", "MB", "KiB"};
  for (const char* name : kNames) {
    const uint64_t unit = bytes_of(name), count = bytes / unit;
    const bool whole = bytes % unit == 0 && count > 0 && count < 10240;
    if (whole && (exact || name[1] == 'i')) return std::to_string(count) + " " + name;
  }
  for (const char* name : {"TiB", "GiB", "MiB", "KiB"}) {
    const uint64_t unit = bytes_of(name);
    if (bytes < unit) continue;
    char text[64];
    std::snprintf(text, sizeof text, "%.2f %s", static_cast<double>(bytes) / unit, name);
    return text;
  }
  return std::to_string(bytes) + " B";
}

uint64_t cpu_memory_bytes(const std::string& root) {
  uint64_t least = meminfo(root, "MemTotal");
  for (const Limit& limit : cgroup_limits(root)) least = std::min(least, limit.bytes);
  return least;
}

uint64_t cpu_budget_bytes(const std::string& root) {
  uint64_t available = meminfo(root, "MemAvailable");
  for (const Limit& limit : cgroup_limits(root)) {
    available = std::min(available, limit.bytes - std::min(limit.bytes, limit.used_bytes));
  }
  return available - std::max(available / kReserveParts, std::min(kLeastReserve, available / 2));
}

}  // namespace tidepool::cpp
