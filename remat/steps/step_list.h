// StepList: what a step did, call by call, with storages numbered in the order in which the step
// met them. Steps that do the same have the same list, whatever addresses and objects they use.
// Steps of one form have lists that differ in bytes and times only. Plain data.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "remat/lineage/container_bytes.h"

namespace tidepool::remat {

// An output of a step: which call made it, and its storage's number.
struct StepOutput {
  uint32_t position = 0;
  uint32_t number = 0;
  size_t bytes = 0;
  bool operator==(const StepOutput&) const = default;
};

struct StepList {
  struct Entry {
    uint64_t site = 0;
    uint64_t start_ns = 0;  // since the step's start
    uint32_t first_operand = 0;
    uint32_t operands = 0;
  };

  std::vector<Entry> entries;
  std::vector<uint32_t> operands;  // numbers of storages
  std::vector<StepOutput> outputs;
  std::vector<size_t> bytes;  // by storage, when the step met it
  uint64_t start_ns = 0, length_ns = 0;
  uint64_t fingerprint = 0;  // a hash of all but times
  uint64_t form = 0;         // a hash of all but times and bytes
  size_t slack = 0;          // of a foreseen list: bytes that are off by so much do not matter
  bool complete = true;

  uint32_t numbers() const { return static_cast<uint32_t>(bytes.size()); }

  // These add to the hashes a word of what the step does, an output, and bytes.
  void mix(uint64_t word) {
    mix_bytes(word);
    form = mixed(form, word);
  }
  void mix_output(const StepOutput& output) {
    mix(uint64_t{output.position} << 32 | output.number);
    mix_bytes(output.bytes);
  }
  void mix_bytes(uint64_t word) { fingerprint = mixed(fingerprint, word); }

  // Whether it begins with all that `other` has, whose outputs have bytes of which `alike(own,
  // other's)` holds.
  template <typename Alike>
  bool begins_like(const StepList& other, const Alike& alike) const {
    const auto same_call = [](const Entry& a, const Entry& b) {
      return a.site == b.site && a.first_operand == b.first_operand && a.operands == b.operands;
    };
    const auto same_output = [&](const StepOutput& theirs, const StepOutput& own) {
      return theirs.position == own.position && theirs.number == own.number &&
             alike(own.bytes, theirs.bytes);
    };
    return other.entries.size() <= entries.size() && other.operands.size() <= operands.size() &&
           other.outputs.size() <= outputs.size() &&
           std::equal(other.outputs.begin(), other.outputs.end(), outputs.begin(), same_output) &&
           std::equal(other.operands.begin(), other.operands.end(), operands.begin()) &&
           std::equal(other.entries.begin(), other.entries.end(), entries.begin(), same_call);
  }

  // When the call at `position` begins, since the step's start. Positions from the number of calls
  // on are those of another such step that follows.
  uint64_t start_ns_of(size_t position) const {
    if (position < entries.size()) return entries[position].start_ns;
    return length_ns + entries[position - entries.size()].start_ns;
  }

  // The time of each call: until the next one began, or the step ended.
  std::vector<uint64_t> call_ns() const {
    std::vector<uint64_t> times;
    times.reserve(entries.size());
    for (size_t k = 0; k < entries.size(); ++k) {
      const uint64_t end_ns = k + 1 < entries.size() ? entries[k + 1].start_ns : length_ns;
      times.push_back(end_ns - entries[k].start_ns);
    }
    return times;
  }

  size_t bookkeeping_bytes() const {
    return bytes_of(entries) + bytes_of(operands) + bytes_of(outputs) + bytes_of(bytes);
  }
  size_t length() const { return entries.size() + operands.size() + outputs.size(); }
  void clear() {
    entries.clear();
    operands.clear();
    outputs.clear();
    bytes.clear();
    start_ns = length_ns = fingerprint = form = slack = 0;
    complete = true;
  }

 private:
  static uint64_t mixed(uint64_t hash, uint64_t word) {
    hash = ((hash ^ word) + 1) * 0x9E3779B97F4A7C15u;
    return hash ^ hash >> 29;
  }
};

}  // namespace tidepool::remat
