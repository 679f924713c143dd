#include "remat/plan/search/energy_table.h"

#include <cmath>
#include <fstream>
#include <iterator>

#include "fmt/format.h"
#include "remat/trace/json_fields.h"

namespace tidepool::remat {

EnergyTable::EnergyTable(const std::string& text) {
  const nlohmann::json object = parse_object(text);
  JsonFields fields(object);
  watts_ = fields.number("watts");
  joules_per_byte_ = fields.number_or("joules_per_byte", 0);
  if (const nlohmann::json* operators = fields.find("operators")) {
    if (!operators->is_object()) {
      throw TraceError("\"operators\" is no object of watts by operator");
    }
    for (const auto& [name, watts] : operators->items()) {
      operators_[name] = as_number(watts, name.c_str());
    }
  }
  fields.check_all_read();
}

uint64_t EnergyTable::nanojoules(const Trace& trace, const TraceOperator& op) const {
  const auto found = operators_.find(trace.names[op.name]);
  const double watts = found == operators_.end() ? watts_ : found->second;
  return static_cast<uint64_t>(std::llround(watts * static_cast<double>(op.cost_ns)));
}

EnergyTable read_energy_table(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  const std::string text((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  if (!file) throw TraceError(fmt::format("{}: cannot be read", path));
  try {
    return EnergyTable(text);
  } catch (const TraceError& error) {
    throw TraceError(fmt::format("{}: {}", path, error.what()));
  }
}

}  // namespace tidepool::remat
