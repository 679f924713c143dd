// MemoryTier: a tier in the host's memory, with given prices and faults, for tests.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <optional>
#include <string>
#include <vector>

#include "remat/tier/tier.h"

namespace tidepool {

class MemoryTier final : public remat::Tier {
 public:
  struct Settings {
    size_t capacity = SIZE_MAX;
    double ns_per_byte = 0.1;              // in each direction
    uint64_t refuse_every = 0;             // each n-th store fails; 0: none
    uint64_t fail_load_at = 0;             // the n-th load throws; 0: none
    bool compares = true;                  // copies can be compared with contents
    bool runs_beside = false;              // loads that begin early cost less
    std::vector<uint64_t>* log = nullptr;  // the bytes of each store
  };

  // A link whose copies run beside operators, and cannot be compared with contents.
  static Settings beside(double ns_per_byte) {
    Settings settings;
    settings.ns_per_byte = ns_per_byte;
    settings.runs_beside = true;
    settings.compares = false;
    return settings;
  }

  explicit MemoryTier(const Settings& settings) : settings_(settings) {}

  std::string describe() const override { return "memory of a test"; }
  uint64_t most_bytes() const override { return settings_.capacity; }
  bool has_room(size_t bytes) const override {
    return counts_.held_bytes + bytes <= settings_.capacity;
  }
  std::optional<remat::TierSlot> store(const void* from, size_t bytes,
                                       std::span<const StreamId>) override {
    const bool refused = settings_.refuse_every > 0 && ++stores_ % settings_.refuse_every == 0;
    if (refused || forked_ || !has_room(bytes)) {
      ++counts_.refusals;
      return std::nullopt;
    }
    ++counts_.stores;
    counts_.stored_bytes += bytes;
    counts_.held_bytes += bytes;
    counts_.peak_bytes = std::max(counts_.peak_bytes, counts_.held_bytes);
    if (settings_.log != nullptr) settings_.log->push_back(bytes);
    const auto* const begin = static_cast<const char*>(from);
    auto* const copy = new std::vector<char>(begin, begin + bytes);
    return remat::TierSlot{reinterpret_cast<uintptr_t>(copy)};
  }
  void load(remat::TierSlot slot, void* to, StreamId) override {
    if (++counts_.loads == settings_.fail_load_at) throw remat::TierError("a fault of the test");
    const std::vector<char>& copy = copy_of(slot);
    std::memcpy(to, copy.data(), copy.size());
    counts_.loaded_bytes += copy.size();
  }
  bool runs_beside() const override { return settings_.runs_beside; }
  bool compares() const override { return settings_.compares; }
  bool matches(remat::TierSlot slot, const void* at) override {
    if (!settings_.compares) return false;
    const std::vector<char>& copy = copy_of(slot);
    return std::memcmp(at, copy.data(), copy.size()) == 0;
  }
  void drop(remat::TierSlot slot) override {
    counts_.held_bytes -= copy_of(slot).size();
    delete &copy_of(slot);
  }
  uint64_t store_ns(size_t bytes) const override { return ns(bytes); }
  uint64_t load_ns(size_t bytes) const override { return ns(bytes); }
  remat::TierStatistics statistics() const override { return counts_; }
  void become_forked_child() override { forked_ = true; }

 private:
  static std::vector<char>& copy_of(remat::TierSlot slot) {
    return *reinterpret_cast<std::vector<char>*>(slot);
  }
  uint64_t ns(size_t bytes) const {
    return 1 + static_cast<uint64_t>(static_cast<double>(bytes) * settings_.ns_per_byte);
  }

  const Settings settings_;
  remat::TierStatistics counts_;
  uint64_t stores_ = 0;
  bool forked_ = false;
};

}  // namespace tidepool
