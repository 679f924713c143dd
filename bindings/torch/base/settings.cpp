#include "bindings/torch/base/settings.h"

#include <charconv>
#include <limits>
#include <stdexcept>
#include <string_view>
#include <utility>

namespace tidepool::torch_glue {
namespace {

remat::Chaos chaos_of(const std::string& text, uint64_t& seed) {
  if (text == "none" || text.empty()) return remat::Chaos::kNone;
  if (text == "op") return remat::Chaos::kOperator;
  if (text == "alloc") return remat::Chaos::kAllocation;
  if (text == "bounded") return remat::Chaos::kBounded;
  constexpr std::pair<std::string_view, remat::Chaos> kSeeded[] = {
      {"random:", remat::Chaos::kRandom},
      {"bounded:", remat::Chaos::kBounded},
      {"offload:", remat::Chaos::kOffload}};
  for (const auto& [front, chaos] : kSeeded) {
    if (!text.starts_with(front)) continue;
    const char* end = text.data() + text.size();
    const auto [used, error] = std::from_chars(text.data() + front.size(), end, seed);
    if (error == std::errc() && used == end) return chaos;
  }
  throw std::invalid_argument("chaos: '" + text +
                              "' is not one of none, op, alloc, random:SEED, bounded[:SEED], "
                              "offload:SEED");
}

void read_limits(const SettingsReader& reader, remat::Limits& limits) {
  auto narrow = [&](const char* name, uint32_t& limit) {
    limit = static_cast<uint32_t>(reader.number(name, limit, std::numeric_limits<uint32_t>::max()));
  };
  narrow("depth", limits.depth);
  narrow("versions", limits.versions);
  narrow("age_steps", limits.age_steps);
  limits.records = reader.number("records", limits.records);
  limits.bookkeeping_bytes = reader.number("bookkeeping_bytes", limits.bookkeeping_bytes);
}

Planning planning_of(const std::string& text) {
  if (text == "background") return Planning::kBackground;
  if (text == "wait") return Planning::kWait;
  if (text == "off") return Planning::kOff;
  throw std::invalid_argument("planning: '" + text + "' is not one of background, wait, off");
}

TraceSettings trace_settings(const SettingsReader& reader) {
  TraceSettings settings;
  remat::RecordingSettings& recording = settings.recording;
  recording.path = reader.text("path", "");
  recording.first_step = reader.number("first_step", recording.first_step);
  recording.last_step = reader.number("last_step", recording.last_step);
  settings.name = reader.text("name", "job");
  settings.blocks = reader.flag("blocks", false);
  if (settings.blocks && recording.first_step > 1) {
    throw std::invalid_argument("trace.blocks: expected the trace to begin with step 1");
  }
  return settings;
}

}  // namespace

void read_allocator_settings(const SettingsReader& reader, AllocatorConfig& config) {
  config.budget_bytes = reader.number("budget_bytes", 0);
  config.page_bytes = reader.number("page_bytes", config.page_bytes);
  config.poison = reader.flag("poison", false);
  config.allow_windows = reader.flag("allow_windows", config.allow_windows);
  config.allow_moves = reader.flag("allow_moves", config.allow_moves);
  config.allow_remap = reader.flag("allow_remap", config.allow_remap);
}

void read_runtime_settings(const SettingsReader& reader, RuntimeSettings& settings,
                           AllocatorConfig& allocator) {
  settings.recording = reader.flag("recording", true);
  settings.raw_access = reader.flag("raw_access", false);
  remat::RuntimeConfig& config = settings.config;
  config.policy = reader.text("policy", config.policy);
  if (const std::string path = reader.text("plan", ""); !path.empty()) {
    try {
      settings.plans = std::make_shared<const remat::PlanFile>(remat::read_plan_file(path));
    } catch (const remat::PlanFileError& error) {
      throw std::invalid_argument(std::string("plan: ") + error.what());
    }
  }
  config.step_history_at_once = settings.plans != nullptr;  // its steps are looked for at once
  config.compares_restored = reader.flag("compares_restored", false);
  settings.planning = planning_of(reader.text("planning", "background"));
  config.chaos = chaos_of(reader.text("chaos", "none"), config.seed);
  // So that bytes which an operator leaves alone are the same each time, and stale ones show.
  allocator.poison |= config.chaos != remat::Chaos::kNone;
  read_limits(reader.part("limits"), config.limits);
  settings.trace = trace_settings(reader.part("trace"));
  const SettingsReader offload = reader.part("offload");
  settings.offload.folder = offload.text("folder", "");
  settings.offload.capacity_bytes = offload.number("bytes", 0);
}

}  // namespace tidepool::torch_glue
