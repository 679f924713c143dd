// Sizes as a user writes them, and how much memory a process may use: what the package's _sizes.py
// does, for programs without Python. Stateless.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace tidepool::cpp {

// The bytes that `text` means: a number with a unit (KiB is 1024, KB is 1000), plain bytes, or a
// percentage of `whole_bytes`, which nullopt refuses.
// Throws: std::invalid_argument that says what is wrong, without naming the setting.
uint64_t parse_size(const std::string& text, std::optional<uint64_t> whole_bytes);

// Bytes for a reader: a whole number of the unit that divides them, or two decimals. `exact`
// prefers the dividing unit even where it is a decimal one.
std::string format_size(uint64_t bytes, bool exact = true);

// What this process may use: the machine's memory, or its cgroup's limit if that is smaller. `root`
// stands for the file system's root.
uint64_t cpu_memory_bytes(const std::string& root = "");
// What of it nobody uses now, less a reserve for what is no tensor.
uint64_t cpu_budget_bytes(const std::string& root = "");

}  // namespace tidepool::cpp
