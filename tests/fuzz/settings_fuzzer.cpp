// Settings of both plugins: refused by std::invalid_argument with a reason, or within their bounds,
// and the same when they are written out and read again.
#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <stdexcept>
#include <string>

#include "allocator/base/check.h"
#include "bindings/torch_cpu/settings.h"
#include "bindings/torch_cuda/settings.h"

namespace {

using tidepool::AllocatorConfig;
using CpuSettings = tidepool::torch_cpu::Settings;
using CudaSettings = tidepool::torch_cuda::Settings;

template <typename Settings>
std::optional<Settings> parsed(const std::string& text) {
  try {
    return Settings::parse(text);
  } catch (const std::invalid_argument& error) {
    const std::string reason = error.what();
    TIDEPOOL_CHECK(reason.find(": ") != std::string::npos, "names no entry: %s", error.what());
    return std::nullopt;
  }
}

nlohmann::json written(const AllocatorConfig& config) {
  return {{"budget_bytes", config.budget_bytes},
          {"page_bytes", config.page_bytes},
          {"poison", config.poison}};
}

std::string written(const CpuSettings& settings) {
  nlohmann::json json = written(settings.allocator);
  const tidepool::remat::Limits& limits = settings.runtime.config.limits;
  const char* const chaos[] = {"none", "op", "alloc", "random:"};
  std::string name = chaos[static_cast<size_t>(settings.runtime.config.chaos)];
  if (name == "random:") name += std::to_string(settings.runtime.config.seed);
  json["policy"] = settings.runtime.config.policy;
  json["chaos"] = name;
  json["recording"] = settings.runtime.recording;
  json["log_allocations"] = settings.logs_allocations;
  json["limits"] = {{"depth", limits.depth},
                    {"versions", limits.versions},
                    {"age_steps", limits.age_steps},
                    {"records", limits.records},
                    {"bookkeeping_bytes", limits.bookkeeping_bytes}};
  return json.dump();
}

std::string written(const CudaSettings& settings) {
  nlohmann::json json = written(settings.allocator);
  json["budget_share"] = settings.budget_share;
  json["allocator"] = settings.native ? "native" : "arena";
  return json.dump();
}

template <typename Settings>
void check(const std::string& text) {
  const std::optional<Settings> settings = parsed<Settings>(text);
  if (!settings) return;
  const std::string once = written(*settings);
  const std::optional<Settings> again = parsed<Settings>(once);
  TIDEPOOL_CHECK(again && written(*again) == once, "not the same again: %s", once.c_str());
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  check<CpuSettings>(text);
  check<CudaSettings>(text);
  return 0;
}
