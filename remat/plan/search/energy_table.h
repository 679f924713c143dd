// EnergyTable: what operators of a job take in energy, by what a user has measured or knows: watts
// by the kind of operator, times how long the operator runs. A file of it is one JSON object:
//   {"watts":250,"operators":{"aten::convolution":320},"joules_per_byte":1e-10}
// where `watts` holds for all operators that have no entry, and `joules_per_byte` for what is
// copied. A value type. See docs/plans.md.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "remat/trace/trace.h"

namespace tidepool::remat {

class EnergyTable {
 public:
  // Nothing takes energy.
  EnergyTable() = default;
  // Throws: TraceError naming what is wrong with the text.
  explicit EnergyTable(const std::string& text);

  // What the operator takes when it runs once, in nanojoules: nanoseconds at one watt each.
  uint64_t nanojoules(const Trace& trace, const TraceOperator& op) const;
  double joules_per_byte() const { return joules_per_byte_; }

 private:
  double watts_ = 0, joules_per_byte_ = 0;
  std::map<std::string, double> operators_;
};

// Throws: TraceError naming the file and the reason.
EnergyTable read_energy_table(const std::string& path);

}  // namespace tidepool::remat
