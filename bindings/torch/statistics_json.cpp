#include "bindings/torch/statistics_json.h"

#include "bindings/torch/device_json.h"

namespace tidepool::torch_glue {

std::string statistics_json(Engine& engine) {
  const nlohmann::json cpu =
      device_json(engine.allocator().statistics(), engine.runtime().statistics());
  return nlohmann::json{{"cpu", cpu}}.dump();
}

}  // namespace tidepool::torch_glue
