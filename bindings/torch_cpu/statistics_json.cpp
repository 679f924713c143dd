#include "bindings/torch_cpu/statistics_json.h"

#include "bindings/torch/device_json.h"

namespace tidepool::torch_cpu {

std::string statistics_json(torch_glue::Engine& engine) {
  const nlohmann::json cpu =
      torch_glue::device_json(engine.allocator().statistics(), engine.runtime().statistics(),
                              engine.planning());
  return nlohmann::json{{"cpu", cpu}}.dump();
}

}  // namespace tidepool::torch_cpu
