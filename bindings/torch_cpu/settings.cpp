#include "bindings/torch_cpu/settings.h"

#include <stdexcept>

namespace tidepool::torch_cpu {

Settings Settings::parse(const std::string& text) {
  const torch_glue::SettingsReader reader(text);
  Settings settings;
  const std::string device = reader.text("device", "cpu");
  if (device != "cpu") {
    throw std::invalid_argument("device: '" + device + "' is not this plugin's, only cpu is");
  }
  torch_glue::read_allocator_settings(reader, settings.allocator);
  if (settings.allocator.budget_bytes == 0) {
    throw std::invalid_argument("budget_bytes: expected more than 0");
  }
  torch_glue::read_runtime_settings(reader, settings.runtime, settings.allocator);
  const torch_glue::SettingsReader costs = reader.part("costs");
  settings.driven.costs_path = costs.text("path", "");
  settings.driven.log_path = costs.text("log", "");
  settings.logs_allocations = reader.flag("log_allocations", false);
  return settings;
}

}  // namespace tidepool::torch_cpu
