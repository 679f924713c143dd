#include "bindings/torch_cpu/statistics_json.h"

#include "bindings/torch/plugin/device_json.h"

namespace tidepool::torch_cpu {

std::string statistics_json(torch_glue::Engine& engine) {
  nlohmann::json cpu = torch_glue::device_json(engine.allocator().statistics(),
                                               engine.runtime().statistics(), engine.planning());
  const torch_glue::ForeignCopyStatistics copies = engine.foreign_copies().statistics();
  cpu["foreign_copies"] = copies.copies;
  cpu["foreign_copy_uses"] = copies.uses;
  cpu["foreign_copy_bytes"] = copies.bytes;
  cpu["foreign_changed"] = copies.changed;
  cpu["foreign_given_up"] = copies.given_up;
  return nlohmann::json{{"cpu", cpu}}.dump();
}

}  // namespace tidepool::torch_cpu
