// Small traces for tests, made by hand or from a seed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "remat/trace/trace.h"

namespace tidepool::remat {

// A network of `layers` equal ones, forward and backward: every layer's output is read again in the
// backward pass, in reverse order. One root. The gradient of the first layer lives at the end.
// With a seed, sizes are up to four times and costs up to nine times as large.
Trace network_trace(size_t layers, size_t bytes, uint64_t cost_ns = 1000, uint64_t seed = 0);

// Two such networks in turn, of seeds `seed` and `seed` + 1, each in a step of its own; nothing but
// their inputs lives longer.
Trace two_networks_trace(size_t layers, size_t bytes, uint64_t cost_ns, uint64_t seed);

// A random valid trace: roots, operators of all kinds, writes, workspaces, deaths, uses, steps.
Trace random_trace(uint64_t seed, size_t events);

// Equality of all that a file keeps, as a text that shows the first difference; "" if equal.
std::string difference(const Trace& a, const Trace& b);

// The trace of lines in Tidepool's format, each ended by '\n'. Throws: TraceError "LINE: reason".
Trace trace_of(const std::string& text);
// The same of a log of DTR.
enum class DtrMutation : uint8_t;
Trace dtr_trace_of(const std::string& text, DtrMutation mutation);

// A file in the folder for temporary ones, removed at the end.
class TemporaryFile {
 public:
  // `name` ends the file's name.
  explicit TemporaryFile(const std::string& name);
  ~TemporaryFile();
  TemporaryFile(const TemporaryFile&) = delete;
  TemporaryFile& operator=(const TemporaryFile&) = delete;

  const std::string& path() const { return path_; }
  void write(const std::string& bytes) const;
  std::string read() const;

 private:
  std::string path_;
};

}  // namespace tidepool::remat
