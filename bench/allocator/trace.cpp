#include "bench/allocator/trace.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <fstream>
#include <map>
#include <span>
#include <stdexcept>
#include <string_view>
#include <unordered_map>

namespace tidepool::bench {
namespace {

constexpr std::string_view kRmmHeader = "Thread,Time,Action,Pointer,Size,Stream";
constexpr std::string_view kSnapshotHeader = "Device,Action,Address,Size,Stream";
constexpr size_t kGreatestBytes = size_t{1} << 44;  // of one request
constexpr size_t kMostFields = 6;
enum class Format : uint8_t { kRmm, kSnapshot };

class LogParser {
 public:
  explicit LogParser(const std::string& name) : name_(name) {}

  std::vector<Trace> parse(std::istream& log) {
    std::string line;
    if (!next_line(log, line)) refuse("the file is empty");
    const Format format = format_of(line);
    while (next_line(log, line)) {
      if (line.empty()) continue;
      if (format == Format::kRmm) {
        take_rmm(split(line, 6));
      } else {
        take_snapshot(split(line, 5));
      }
    }
    if (log.bad()) refuse("cannot be read");
    std::vector<Trace> traces;
    for (auto& [device, state] : devices_) {
      if (state.trace.events.empty()) continue;
      state.trace.streams = state.streams.size();
      state.trace.name = name_ + (devices_.size() > 1 ? fmt::format("[{}]", device) : "");
      traces.push_back(std::move(state.trace));
    }
    if (traces.empty()) refuse("there is no request in it");
    return traces;
  }

 private:
  struct Device {
    Trace trace;
    std::unordered_map<uint64_t, uint32_t> live;  // blocks by address
    std::unordered_map<uint64_t, StreamId> streams;
  };
  using Fields = std::array<std::string_view, kMostFields>;

  [[noreturn]] void refuse(const std::string& why) const {
    throw std::runtime_error(fmt::format("{}:{}: {}", name_, line_, why));
  }

  bool next_line(std::istream& log, std::string& line) {
    ++line_;
    if (!std::getline(log, line)) return false;
    if (!line.empty() && line.back() == '\r') line.pop_back();
    return true;
  }

  Format format_of(const std::string& line) const {
    if (line == kRmmHeader) return Format::kRmm;
    if (line == kSnapshotHeader) return Format::kSnapshot;
    refuse(fmt::format("expected the header '{}' or '{}', found '{:.80}'", kRmmHeader,
                       kSnapshotHeader, line));
  }

  Fields split(std::string_view line, size_t count) const {
    Fields fields;
    size_t found = 0;
    while (true) {
      const size_t comma = line.find(',');
      if (found < kMostFields) fields[found] = line.substr(0, comma);
      ++found;
      if (comma == std::string_view::npos) break;
      line.remove_prefix(comma + 1);
    }
    if (found != count) refuse(fmt::format("expected {} fields, found {}", count, found));
    return fields;
  }

  // `what`: the field's name, for the error. Also takes "0x…".
  uint64_t number(std::string_view field, const char* what) const {
    std::string_view digits = field;
    int base = 10;
    if (digits.starts_with("0x") || digits.starts_with("0X")) {
      digits.remove_prefix(2);
      base = 16;
    }
    uint64_t value = 0;
    const auto [end, error] =
        std::from_chars(digits.data(), digits.data() + digits.size(), value, base);
    if (error != std::errc() || end != digits.data() + digits.size() || digits.empty()) {
      refuse(fmt::format("{}: '{:.40}' is no number", what, field));
    }
    return value;
  }

  size_t bytes(std::string_view field) const {
    const uint64_t value = number(field, "Size");
    if (value > kGreatestBytes) refuse(fmt::format("Size: {} is more than 16 TiB", value));
    return value;
  }

  StreamId stream(Device& device, std::string_view field) const {
    const uint64_t value = number(field, "Stream");
    const auto next = static_cast<StreamId>(device.streams.size());
    return device.streams.try_emplace(value, next).first->second;
  }

  void take_rmm(const Fields& fields) {
    const std::string_view action = fields[2];
    Device& device = devices_[0];
    if (action == "allocate failure") return;
    if (action == "allocate") {
      allocate(device, fields[3], fields[4], fields[5]);
    } else if (action == "free") {
      if (!free(device, fields[3])) {
        refuse(fmt::format("free of {}, which is not allocated", fields[3]));
      }
    } else {
      refuse(
          fmt::format("Action: '{:.40}' is neither allocate, allocate failure nor free", action));
    }
  }

  void take_snapshot(const Fields& fields) {
    // Memory can be used again when a free is completed: until then another stream uses it.
    constexpr std::string_view kOthers[] = {
        "free_requested", "segment_alloc", "segment_free", "segment_map",
        "segment_unmap",  "snapshot",      "oom",          "user_defined"};
    const std::string_view action = fields[1];
    Device& device = devices_[number(fields[0], "Device")];
    if (action == "alloc") {
      allocate(device, fields[2], fields[3], fields[4]);
    } else if (action == "free_completed") {
      if (!free(device, fields[2])) ++device.trace.unknown_frees;
    } else if (std::find(std::begin(kOthers), std::end(kOthers), action) == std::end(kOthers)) {
      refuse(fmt::format("Action: '{:.40}' is none of a snapshot's", action));
    }
  }

  void allocate(Device& device, std::string_view address, std::string_view size,
                std::string_view stream_field) const {
    const uint64_t key = number(address, "address");
    const size_t wanted = bytes(size);
    const StreamId user = stream(device, stream_field);
    if (wanted == 0) return;  // and its free, if there is one, is ours to forget
    if (device.live.contains(key)) {
      refuse(fmt::format("{} is allocated again before it was freed", address));
    }
    device.live[key] = device.trace.allocate(wanted, user);
  }

  bool free(Device& device, std::string_view address) const {
    const uint64_t key = number(address, "address");
    auto found = device.live.find(key);
    if (found == device.live.end()) return key == 0;  // of an allocation of no bytes
    device.trace.free(found->second);
    device.live.erase(found);
    return true;
  }

  const std::string& name_;
  size_t line_ = 0;
  std::map<uint64_t, Device> devices_;
};

}  // namespace

uint32_t Trace::allocate(size_t bytes, StreamId stream) {
  const auto block = static_cast<uint32_t>(blocks++);
  events.push_back({true, block, bytes, stream});
  allocations_.push_back(events.back());
  live_bytes_ += bytes;
  live_peak_bytes = std::max(live_peak_bytes, live_bytes_);
  streams = std::max(streams, static_cast<size_t>(stream) + 1);
  return block;
}

void Trace::free(uint32_t block) {
  TraceEvent event = allocations_.at(block);
  event.allocates = false;
  live_bytes_ -= event.bytes;
  events.push_back(event);
}

std::vector<Trace> parse_log(std::istream& log, const std::string& name) {
  return LogParser(name).parse(log);
}

std::vector<Trace> read_log(const std::string& path) {
  std::ifstream file(path);
  if (!file) throw std::runtime_error(fmt::format("{}:0: cannot be opened", path));
  return parse_log(file, path);
}

}  // namespace tidepool::bench
