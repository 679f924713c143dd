#include "remat/plan/follow/plan_file.h"

#include <algorithm>
#include <array>
#include <bit>
#include <charconv>
#include <fstream>
#include <iterator>
#include <string_view>
#include <utility>

#include "fmt/format.h"
#include "nlohmann/json.hpp"
#include "remat/plan/follow/step_digest.h"
#include "remat/plan/search/planner.h"
#include "remat/policies/planned.h"
#include "remat/trace/json_fields.h"

namespace tidepool::remat {
namespace {

using Json = nlohmann::ordered_json;

constexpr uint64_t kVersion = 1;
constexpr std::array<const char*, 4> kPreferences = {"cheapest", "pages", "moves", "places"};
constexpr std::array<const char*, 3> kWaysToDrop = {"drop", "drop-once", "drop-after"};
constexpr size_t kOnce = 1, kAfter = 2;  // of these

// The checksum of zlib and of PNG. Plugins read plan files, too, and need no zlib.
uint32_t crc32(std::string_view text) {
  uint32_t sum = UINT32_MAX;
  for (const char c : text) {
    sum ^= static_cast<unsigned char>(c);
    for (int bit = 0; bit < 8; ++bit) sum = sum >> 1 ^ (sum & 1 ? 0xEDB88320u : 0);
  }
  return ~sum;
}

Json json_of(const PlannedStep& step) {
  const StepPlan& plan = step.plan;
  Json out;
  out["digest"] = fmt::format("{:016x}", step.digest);
  out["operators"] = step.operators;
  out["outputs"] = step.outputs;
  out["policy"] = plan.policy;
  out["use_share"] = plan.use_share;
  if (plan.copies.use_share > 0) out["copy_share"] = plan.copies.use_share;
  if (plan.copies.factor != 1) out["copy_factor"] = plan.copies.factor;
  if (plan.copies.root_factor != 1) out["root_copy_factor"] = plan.copies.root_factor;
  out["preference"] = kPreferences[static_cast<size_t>(plan.preference)];
  if (!plan.weights.empty()) out["weights"] = plan.weights;
  if (!plan.gaps) return out;
  Json gaps = Json::array();
  for (const DroppedGap& gap : *plan.gaps) {
    const size_t how = gap.after ? kAfter : gap.stays ? kOnce : 0;
    Json& entry = gaps.emplace_back(Json::array({gap.output, gap.gap, kWaysToDrop[how]}));
    if (gap.after) entry.push_back(*gap.after);
  }
  out["gaps"] = gaps;
  return out;
}

// `size` hexadecimal digits.
uint64_t as_hexadecimal(const std::string& text, const char* name, size_t size) {
  uint64_t value = 0;
  const char* const end = text.data() + text.size();
  const auto [used, error] = std::from_chars(text.data(), end, value, 16);
  if (error != std::errc() || used != end || text.size() != size) {
    throw TraceError(fmt::format("\"{}\" is no {} hexadecimal digits", name, size));
  }
  return value;
}

template <size_t kCount>
size_t index_of(const std::array<const char*, kCount>& names, const std::string& text,
                const char* field) {
  const auto found = std::find(names.begin(), names.end(), text);
  if (found == names.end()) throw TraceError(fmt::format("\"{}\": unknown '{}'", field, text));
  return static_cast<size_t>(found - names.begin());
}

uint32_t as_output(const nlohmann::json& entry, size_t outputs) {
  const uint64_t output = as_count(entry, "gaps");
  if (output >= outputs) {
    throw TraceError(fmt::format("\"gaps\" names result {} of {}", output, outputs));
  }
  return static_cast<uint32_t>(output);
}

DroppedGap as_gap(const nlohmann::json& entry, size_t outputs) {
  if (!entry.is_array() || entry.size() < 3 || !entry[2].is_string()) {
    throw TraceError("\"gaps\" has an entry that is not [result, gap, how]");
  }
  const uint64_t gap = as_count(entry[1], "gaps");
  if (gap > UINT32_MAX) throw TraceError("\"gaps\" has a gap that is too large");
  const size_t how = index_of(kWaysToDrop, entry[2].get<std::string>(), "gaps");
  DroppedGap found{as_output(entry[0], outputs), static_cast<uint32_t>(gap), how == kOnce};
  const size_t fields = how == kAfter ? 4 : 3;
  if (entry.size() != fields) {
    throw TraceError(fmt::format("\"gaps\" has an entry of {} fields for '{}'; expected {}",
                                 entry.size(), kWaysToDrop[how], fields));
  }
  if (how == kAfter) found.after = as_output(entry[3], outputs);
  return found;
}

double as_share(JsonFields& fields, const char* name, double otherwise) {
  constexpr std::array kShares = {0.0, 0.25, 0.5, 0.75, 1.0};
  const double share = fields.number_or(name, otherwise);
  if (std::find(kShares.begin(), kShares.end(), share) == kShares.end()) {
    throw TraceError(fmt::format("\"{}\" is no number of quarters up to 1", name));
  }
  return share;
}

double as_factor(JsonFields& fields, const char* name) {
  const double factor = fields.number_or(name, 1);
  if (!(factor > 0)) throw TraceError(fmt::format("\"{}\" is no number above 0", name));
  return factor;
}

PlannedStep as_step(const nlohmann::json& object) {
  JsonFields fields(object);
  PlannedStep step;
  step.digest = as_hexadecimal(fields.text("digest"), "digest", 16);
  step.operators = fields.count("operators");
  step.outputs = fields.count("outputs");
  StepPlan& plan = step.plan;
  const auto names = PlannedPolicy::candidates();
  plan.policy = fields.text("policy");
  if (std::find(names.begin(), names.end(), plan.policy) == names.end()) {
    throw TraceError(fmt::format("\"policy\": unknown '{}'", plan.policy));
  }
  plan.use_share = as_share(fields, "use_share", plan.use_share);
  plan.copies.use_share = as_share(fields, "copy_share", plan.copies.use_share);
  plan.copies.factor = as_factor(fields, "copy_factor");
  plan.copies.root_factor = as_factor(fields, "root_copy_factor");
  plan.preference =
      static_cast<Preference>(index_of(kPreferences, fields.text("preference"), "preference"));
  for (const auto& weight : fields.list("weights")) {
    if (!weight.is_number() || !(weight.get<float>() > 0)) {
      throw TraceError("\"weights\" has an entry that is no number above 0");
    }
    plan.weights.push_back(weight.get<float>());
  }
  if (!plan.weights.empty() && plan.weights.size() != step.outputs) {
    throw TraceError(
        fmt::format("{} \"weights\" for {} results", plan.weights.size(), step.outputs));
  }
  if (object.contains("gaps")) {
    plan.gaps.emplace();
    for (const auto& gap : fields.list("gaps")) plan.gaps->push_back(as_gap(gap, step.outputs));
  }
  fields.check_all_read();
  return step;
}

PlanFile parse_heading(std::string_view line) {
  const nlohmann::json object = parse_object(line);
  JsonFields fields(object);
  if (fields.find("tidepool_plan") == nullptr) throw TraceError("this is no plan file");
  if (const uint64_t version = fields.count("tidepool_plan"); version != kVersion) {
    throw TraceError(fmt::format("version {} of plan files; expected {}", version, kVersion));
  }
  PlanFile file;
  file.trace = fields.text("trace");
  file.solver = fields.text("solver");
  file.budget_bytes = fields.count("budget_bytes");
  file.alignment = fields.count("alignment");
  if (!std::has_single_bit(file.alignment)) throw TraceError("\"alignment\" is no power of two");
  fields.check_all_read();
  return file;
}

// Takes the next line, which has to be complete, from the text.
std::string_view take_line(std::string_view& text) {
  const size_t end = text.find('\n');
  if (end == std::string_view::npos) throw TraceError("cut short");
  const std::string_view line = text.substr(0, end);
  text.remove_prefix(end + 1);
  return line;
}

PlanFile parse_plan(std::string_view text, size_t& line) {
  const std::string_view whole = text;
  line = 1;
  PlanFile file = parse_heading(take_line(text));
  for (;;) {
    const std::string_view before = whole.substr(0, whole.size() - text.size());
    ++line;
    const nlohmann::json object = parse_object(take_line(text));
    if (!object.contains("end")) {
      file.steps.push_back(as_step(object));
      continue;
    }
    JsonFields fields(object);
    if (fields.count("end") != file.steps.size()) throw TraceError("steps are missing");
    if (as_hexadecimal(fields.text("crc32"), "crc32", 8) != crc32(before)) {
      throw TraceError("damaged: another checksum than that of the lines before");
    }
    fields.check_all_read();
    if (!text.empty()) throw TraceError("a line after the end");
    return file;
  }
}

}  // namespace

const PlannedStep* PlanFile::find(const Trace& step) const {
  const uint64_t digest = step_digest(step, alignment);
  const auto found = std::find_if(steps.begin(), steps.end(), [&](const PlannedStep& each) {
    return each.digest == digest && each.operators == digested_operators(step) &&
           each.outputs == weighted_outputs(step).size();
  });
  return found == steps.end() ? nullptr : &*found;
}

std::string plan_text(const PlanFile& file) {
  Json heading;
  heading["tidepool_plan"] = kVersion;
  heading["trace"] = file.trace;
  heading["solver"] = file.solver;
  heading["budget_bytes"] = file.budget_bytes;
  heading["alignment"] = file.alignment;
  const auto line = [](const Json& object) {
    return object.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
  };
  std::string text = line(heading);
  for (const PlannedStep& step : file.steps) text += line(json_of(step));
  Json end;
  end["end"] = file.steps.size();
  end["crc32"] = fmt::format("{:08x}", crc32(text));
  return text + line(end);
}

PlanFile read_plan_file(const std::string& path) {
  constexpr size_t kMostBytes = size_t{1} << 28;
  std::ifstream file(path, std::ios::binary | std::ios::ate);
  if (!file) throw PlanFileError(fmt::format("{}: cannot be read", path));
  if (file.tellg() < 0 || static_cast<size_t>(file.tellg()) > kMostBytes) {
    throw PlanFileError(fmt::format("{}: is no plan file", path));
  }
  std::string text(static_cast<size_t>(file.tellg()), '\0');
  file.seekg(0);
  if (!file.read(text.data(), static_cast<std::streamsize>(text.size()))) {
    throw PlanFileError(fmt::format("{}: cannot be read", path));
  }
  size_t line = 0;
  try {
    return parse_plan(text, line);
  } catch (const TraceError& error) {
    throw PlanFileError(fmt::format("{}:{}: {}", path, line, error.what()));
  }
}

}  // namespace tidepool::remat
