#include "remat/replay/graph_text.h"

#include "allocator/base/steady_clock.h"
#include "fmt/format.h"
#include "nlohmann/json.hpp"
#include "remat/plan/follow/step_digest.h"
#include "remat/plan/follow/trace_plans.h"
#include "remat/plan/search/gap_search.h"
#include "remat/plan/search/planner.h"

namespace tidepool::remat {
namespace {

using Json = nlohmann::ordered_json;

// A way to drop with the value that has to be made again before, as one number.
uint32_t code_of(const GapModel& model, size_t gap, GapChoice choice) {
  if (choice != GapChoice::kDroppedAfter) return static_cast<uint32_t>(choice);
  const auto reader = model.reader(gap);
  return reader ? static_cast<uint32_t>(choice) + *reader : 0;  // else it is kept
}

Json json_of(const Trace& step, const GapSearchConfig& search, const EnergyTable& energy) {
  GapModel model(step, energy);
  const uint64_t begin_ns = steady_now_ns();
  const auto found = find_gaps(model, search);
  const uint64_t search_ns = steady_now_ns() - begin_ns;
  Json out;
  out["digest"] = fmt::format("{:016x}", step_digest(step, step.facts.alignment));
  out["operators"] = digested_operators(step);
  out["outputs"] = weighted_outputs(step).size();
  out["costs_ns"] = model.costs_ns();
  out["energies_nj"] = model.energies_nj();
  out["fixed"] = model.fixed_bytes();
  out["values"] = Json::array();
  for (const GapModel::Value& value : model.values()) {
    out["values"].push_back(
        Json::array({value.bytes, value.cost_ns, value.energy_nj, value.temporary_bytes, value.made,
                     value.result, value.inputs, value.uses, value.lives_on}));
  }
  out["gaps"] = Json::array();
  for (const GapModel::Gap& gap : model.gaps()) {
    out["gaps"].push_back(Json::array({gap.value, gap.number, gap.begin, gap.end}));
  }
  out["found_ns"] = found ? Json(found->outcome.time_ns) : Json(nullptr);
  out["found_nj"] = found ? Json(found->outcome.energy_nj) : Json(nullptr);
  out["search_ns"] = search_ns;
  out["evaluations"] = found ? found->evaluations : 0;
  out["found"] = Json::array();
  if (!found) return out;
  model.evaluate(found->choices, SIZE_MAX);
  for (size_t k = 0; k < found->choices.size(); ++k) {
    out["found"].push_back(code_of(model, k, found->choices[k]));
  }
  return out;
}

}  // namespace

std::string graph_text(const Trace& trace, const GapSearchConfig& search,
                       const EnergyTable& energy) {
  Json heading;
  heading["trace"] = trace.facts.name;
  heading["budget_bytes"] = search.budget_bytes;
  heading["joules_per_byte"] = energy.joules_per_byte();
  heading["alignment"] = trace.facts.alignment;
  std::string text = heading.dump() + "\n";
  for (const Trace& step : distinct_steps(trace)) {
    text += json_of(step, search, energy).dump() + "\n";
  }
  return text;
}

}  // namespace tidepool::remat
