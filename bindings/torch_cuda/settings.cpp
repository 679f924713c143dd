#include "bindings/torch_cuda/settings.h"

#include <stdexcept>

#include "remat/tier/private_file.h"

namespace tidepool::torch_cuda {

Settings Settings::parse(const std::string& text) {
  const torch_glue::SettingsReader reader(text);
  Settings settings;
  torch_glue::read_allocator_settings(reader, settings.allocator);
  settings.budget_share = reader.share("budget_share", 0);
  settings.budget_auto = reader.flag("budget_auto", false);
  const std::string allocator = reader.text("allocator", "arena");
  if (allocator != "arena" && allocator != "native") {
    throw std::invalid_argument("allocator: '" + allocator + "' is neither arena nor native");
  }
  settings.native = allocator == "native";
  settings.rematerialize = reader.flag("rematerialize", true) && !settings.native;
  if (settings.rematerialize) {
    torch_glue::read_runtime_settings(reader, settings.runtime, settings.allocator);
    const torch_glue::SettingsReader below = reader.part("offload").part("below");
    settings.below_host = {below.text("folder", ""), below.number("bytes", 0)};
    if (settings.below_host.capacity_bytes > 0) {
      const remat::PrivateFile probe(settings.below_host.folder);  // may throw, now and not later
    }
  }
  if (settings.allocator.budget_bytes == 0 && settings.budget_share == 0 && !settings.budget_auto) {
    throw std::invalid_argument(
        "budget_bytes: expected more than 0, a budget_share up to 1, or budget_auto");
  }
  return settings;
}

}  // namespace tidepool::torch_cuda
