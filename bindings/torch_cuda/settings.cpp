#include "bindings/torch_cuda/settings.h"

#include <stdexcept>
namespace tidepool::torch_cuda {

Settings Settings::parse(const std::string& text) {
  const torch_glue::SettingsReader reader(text);
  Settings settings;
  torch_glue::read_allocator_settings(reader, settings.allocator);
  settings.budget_share = reader.share("budget_share", 0);
  const std::string allocator = reader.text("allocator", "arena");
  if (allocator != "arena" && allocator != "native") {
    throw std::invalid_argument("allocator: '" + allocator + "' is neither arena nor native");
  }
  settings.native = allocator == "native";
  settings.rematerialize = reader.flag("rematerialize", true) && !settings.native;
  if (settings.rematerialize) {
    torch_glue::read_runtime_settings(reader, settings.runtime, settings.allocator);
  }
  if (settings.allocator.budget_bytes == 0 && settings.budget_share == 0) {
    throw std::invalid_argument("budget_bytes: expected more than 0, or a budget_share up to 1");
  }
  return settings;
}

}  // namespace tidepool::torch_cuda
