#include "bindings/cpp/settings.h"

#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <optional>
#include <regex>
#include <string_view>
#include <vector>

#include "bindings/cpp/sizes.h"
#include "setting_names.h"

namespace tidepool::cpp {
namespace {

using Names = std::vector<std::string>;
using Source = std::pair<std::string, std::string>;  // where it was given, and the text

const std::string kPrefix = "TIDEPOOL_";

bool has(const Names& names, const std::string& name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

std::string in_case(std::string text, int (*convert)(int)) {
  for (char& c : text) c = static_cast<char>(convert(static_cast<unsigned char>(c)));
  return text;
}

std::string trimmed(const std::string& text) {
  const auto blank = " \t\r\n";
  const size_t first = text.find_first_not_of(blank);
  return first == std::string::npos ? ""
                                    : text.substr(first, text.find_last_not_of(blank) - first + 1);
}

std::string joined(const Names& names, const std::string& between = ", ") {
  std::string text;
  for (const std::string& each : names) text += (text.empty() ? "" : between) + each;
  return text;
}

// How alike two words are: twice their longest common subsequence by their lengths.
double likeness(const std::string& a, const std::string& b) {
  std::vector<size_t> row(b.size() + 1);
  for (const char c : a) {
    size_t diagonal = 0;
    for (size_t k = 1; k <= b.size(); ++k) {
      const size_t above = row[k];
      row[k] = c == b[k - 1] ? diagonal + 1 : std::max(row[k], row[k - 1]);
      diagonal = above;
    }
  }
  return 2.0 * static_cast<double>(row.back()) / static_cast<double>(a.size() + b.size());
}

// ", did you mean X?" for the valid word that is nearest, or nothing.
std::string nearest(const std::string& word, const Names& valid) {
  double best = 0.5;
  std::string found;
  for (const std::string& each : valid) {
    const double now = likeness(in_case(word, std::tolower), in_case(each, std::tolower));
    if (now > best || (now == best && found.empty())) {
      best = now;
      found = each;
    }
  }
  return found.empty() ? "" : ", did you mean " + found + "?";
}

[[noreturn]] void wrong(const Source& source, const std::string& reason) {
  throw SettingsError(source.first + " '" + source.second + "': " + reason);
}

// What has been given, each setting by its key.
class Given {
 public:
  Given(const Options& options, const Options& environment) {
    Names variables = kKeys;
    for (std::string& each : variables) each = kPrefix + in_case(each, std::toupper);
    for (const auto& [name, text] : environment) {
      const bool misspelt = name.starts_with(kPrefix);  // in another case, as it was given
      const std::string variable = misspelt ? name : kPrefix + in_case(name, std::toupper);
      const auto old = kOldKeys.find(name);
      const std::string key = old != kOldKeys.end() ? old->second : name;
      if (!has(kKeys, key) && !has(kReserved, key)) {
        throw SettingsError("unknown setting " + variable + nearest(variable, variables) +
                            " (known: " + joined(variables) + ")");
      }
      sources_[key] = {variable, trimmed(text)};
    }
    for (const auto& [key, text] : options) {
      if (!text.empty()) sources_[key] = {key, trimmed(text)};
    }
  }

  const Source* find(const std::string& key) const {
    const auto found = sources_.find(key);
    return found != sources_.end() ? &found->second : nullptr;
  }
  std::string text(const std::string& key) const {
    const Source* source = find(key);
    return source != nullptr ? source->second : "";
  }
  const std::map<std::string, Source>& sources() const { return sources_; }

  std::string one_of(const std::string& key, const Names& valid,
                     const std::string& otherwise) const {
    const Source* source = find(key);
    if (source == nullptr) return otherwise;
    if (has(valid, source->second)) return source->second;
    wrong(*source, "expected one of " + joined(valid) + nearest(source->second, valid));
  }

  bool flag(const std::string& key) const {
    const Source* source = find(key);
    if (source == nullptr) return false;
    const std::string text = in_case(source->second, std::tolower);
    if (has(kYes, text)) return true;
    if (has(kNo, text)) return false;
    wrong(*source, "expected " + kExpected.at("1 or 0"));
  }

  static uint64_t size(const Source& source, std::optional<uint64_t> whole_bytes) {
    uint64_t bytes = 0;
    try {
      bytes = parse_size(source.second, whole_bytes);
    } catch (const std::invalid_argument& error) {
      wrong(source, error.what());
    }
    if (bytes == 0) wrong(source, "expected more than zero bytes");
    return bytes;
  }

 private:
  std::map<std::string, Source> sources_;
};

std::string read_chaos(const Given& given) {
  const Source* source = given.find("chaos");
  if (source == nullptr) return "none";
  const std::string& text = source->second;
  const size_t colon = text.find(':');
  if (colon == std::string::npos && has(kChaos, text)) return text;
  const bool has_seed = std::regex_match(text, std::regex("[^:]+:[0-9]+"));
  if (has_seed && has(kChaos, text.substr(0, colon) + ":SEED")) return text;
  for (const std::string& form : kChaos) {
    const std::string mode = form.substr(0, form.find(':'));
    if (mode == form || !text.starts_with(mode)) continue;
    wrong(*source, "expected " + form + " with a whole number, such as " + mode + ":7");
  }
  wrong(*source, "expected one of " + joined(kChaos) + nearest(text, kChaos));
}

void read_room(const Given& given, nlohmann::json& plugin) {
  const Source* source = given.find("room");
  if (source == nullptr) return;
  Names ways;
  for (size_t at = 0, end = 0; end != std::string::npos; at = end + 1) {
    end = source->second.find('+', at);
    ways.push_back(source->second.substr(at, end == std::string::npos ? end : end - at));
    if (has(kRoom, ways.back())) continue;
    wrong(*source,
          "expected some of " + joined(kRoom) + ", joined by +" + nearest(ways.back(), kRoom));
  }
  const bool suffices = std::any_of(kSufficientRoom.begin(), kSufficientRoom.end(),
                                    [&](const std::string& way) { return has(ways, way); });
  if (!suffices) {
    wrong(*source, "expected " + joined(kSufficientRoom, " or ") + " among them");
  }
  for (const std::string& way : kRoom) {
    if (!has(ways, way)) plugin["allow_" + way] = false;
  }
}

uint64_t read_number(const Source& source) {
  const bool digits = std::regex_match(source.second, std::regex("[0-9]{1,18}"));
  const uint64_t value = digits ? std::stoull(source.second) : 0;
  if (value == 0) wrong(source, "expected " + kExpected.at("NUMBER"));
  return value;
}

// Reads the settings that go to the plugin as they are, but for those that have their defaults.
void read_entries(const Given& given, nlohmann::json& plugin) {
  for (const Entry& entry : kEntries) {
    const Source* source = given.find(entry.key);
    if (source == nullptr) continue;
    nlohmann::json value;
    if (!entry.choices.empty()) {
      value = given.one_of(entry.key, entry.choices, "");
      if (value == entry.choices.front()) continue;
    } else if (entry.value == "1 or 0") {
      if (!given.flag(entry.key)) continue;
      value = true;
    } else if (entry.value == "SIZE") {
      value = Given::size(*source, std::nullopt);
    } else {
      value = read_number(*source);
    }
    const size_t dot = entry.entry.find('.');
    if (dot == std::string::npos) {
      plugin[entry.entry] = value;
    } else {
      plugin[entry.entry.substr(0, dot)][entry.entry.substr(dot + 1)] = value;
    }
  }
}

// The text of a size. Throws: as wrong().
uint64_t offload_bytes(const Source& source, const std::string& text) {
  uint64_t bytes = 0;
  try {
    bytes = parse_size(text, std::nullopt);
  } catch (const std::invalid_argument& error) {
    wrong(source, error.what());
  }
  if (bytes == 0) wrong(source, "expected room for more than zero bytes");
  return bytes;
}

// Reads host:SIZE; returns it as a user writes it.
std::string read_host(const Source& source, const std::string& text, nlohmann::json& offload) {
  const uint64_t bytes = offload_bytes(source, text.substr(text.find(':') + 1));
  offload["bytes"] = bytes;
  return "host:" + format_size(bytes);
}

// Reads file:FOLDER:SIZE; returns it as a user writes it.
std::string read_file(const Source& source, const std::string& text, nlohmann::json& offload) {
  const size_t first = text.find(':'), last = text.rfind(':');
  if (!text.starts_with("file:") || last <= first + 1) {
    wrong(source, "expected " + kExpected.at("WHERE:SIZE"));
  }
  const uint64_t bytes = offload_bytes(source, text.substr(last + 1));
  const std::string folder = std::filesystem::absolute(text.substr(first + 1, last - first - 1));
  if (!std::filesystem::is_directory(folder)) wrong(source, "there is no folder " + folder);
  if (access(folder.c_str(), W_OK | X_OK) != 0) {
    wrong(source, "no file can be made in " + folder);
  }
  offload["folder"] = folder;
  offload["bytes"] = bytes;
  return "file:" + folder + ":" + format_size(bytes);
}

std::string read_offload(const Given& given, const std::string& device, nlohmann::json& plugin) {
  const Source* source = given.find("offload");
  if (source == nullptr || source->second == "none") return "";
  const std::string& text = source->second;
  const bool on_host = text.starts_with("host:");
  nlohmann::json& offload = plugin["offload"];
  std::string shown;
  if (const size_t comma = text.find(','); on_host && comma != std::string::npos) {
    shown = read_host(*source, text.substr(0, comma), offload);
    shown += "," + read_file(*source, text.substr(comma + 1), offload["below"]);
  } else {
    shown = on_host ? read_host(*source, text, offload) : read_file(*source, text, offload);
  }
  if (on_host != (device == "cuda")) {
    wrong(*source,
          "on " + device + " expected " + (device == "cpu" ? "file:FOLDER:SIZE" : "host:SIZE"));
  }
  return shown;
}

// The budget in `plugin`, and as a reader sees it.
std::string read_budget(const Given& given, const std::string& device, const std::string& chaos,
                        nlohmann::json& plugin) {
  const Source* source = given.find("budget");
  const bool on_cuda = device == "cuda";
  const bool needs_none = chaos != "none" || given.find("trace") != nullptr;
  plugin["budget_bytes"] = 0;
  if (on_cuda && (source != nullptr ? in_case(source->second, std::tolower) == kAuto
                                    : needs_none || given.find("backend") != nullptr)) {
    plugin["budget_auto"] = true;
    return kAuto;
  }
  if (source == nullptr && needs_none) {
    plugin["budget_bytes"] = cpu_memory_bytes();
  } else if (source == nullptr) {
    Names others;
    for (const auto& [key, each] : given.sources()) {
      if (!has(kPassive, key)) others.push_back(each.first);
    }
    throw SettingsError(
        "no budget given" +
        (others.empty() ? "" : " (" + joined(others) + " alone does not start Tidepool)") +
        ": expected --budget, TIDEPOOL_BUDGET or budget=, a size such as 8GiB or 80%, or auto");
  } else if (!on_cuda && in_case(source->second, std::tolower) == kAuto) {
    plugin["budget_bytes"] = cpu_budget_bytes();
    return kAuto + " (" + format_size(cpu_budget_bytes(), false) + ")";
  } else if (on_cuda && source->second.ends_with('%')) {
    constexpr uint64_t kParts = 1'000'000'000;  // of a device's memory, whose size is not known yet
    plugin["budget_share"] = static_cast<double>(Given::size(*source, kParts)) / kParts;
    return source->second;
  } else {
    plugin["budget_bytes"] = Given::size(*source, cpu_memory_bytes());
  }
  return format_size(plugin["budget_bytes"]);
}

void read_trace(const Given& given, Settings& settings) {
  settings.trace = given.text("trace");
  uint64_t first = 1, last = 0;
  if (const Source* source = given.find("trace_steps")) {
    std::smatch match;
    const bool shaped =
        std::regex_match(source->second, match, std::regex("([0-9]{1,18})(:([0-9]{0,18}))?"));
    first = shaped ? std::stoull(match[1]) : 0;
    if (shaped) last = match[2].matched ? (match[3].length() ? std::stoull(match[3]) : 0) : first;
    if (first == 0 || (last != 0 && last < first)) {
      wrong(*source, "expected " + kExpected.at("FIRST[:LAST]"));
    }
  }
  if (settings.trace.empty()) return;
  const std::string name = std::filesystem::path(settings.trace).filename();
  settings.plugin["trace"] = {{"name", name.substr(0, name.find('.'))}, {"first_step", first}};
  if (last != 0) settings.plugin["trace"]["last_step"] = last;
}

void read_record(const Given& given, Settings& settings) {
  const Source* size = given.find("record_size");
  const uint64_t bytes =
      size != nullptr ? Given::size(*size, std::nullopt) : parse_size(kRecordSize, std::nullopt);
  const std::string path = given.text("record");
  if (path.empty()) return;
  const std::filesystem::path whole = std::filesystem::absolute(path);
  const std::string name = whole.filename();
  settings.plugin["record"] = {
      {"path", whole.string()}, {"name", name.substr(0, name.find('.'))}, {"bytes", bytes}};
}

// Refuses what only a Python job can have.
void refuse_others(const Given& given) {
  for (const std::string& key : kPythonOnly) {
    const Source* source = given.find(key);
    if (source != nullptr) wrong(*source, "only in a Python job");
  }
}

std::string describe(const Settings& settings, const std::string& policy,
                     const std::string& offload, const std::string& chaos) {
  std::string text = "budget " + settings.budget + " on " +
                     (settings.device == "cuda" ? "each " : "") + settings.device +
                     (settings.device == "cuda" ? " device" : "");
  if (settings.plugin.value("allocator", kArena) == kNative) {
    text += ", by PyTorch's own allocator";
  }
  if (!settings.plugin.value("rematerialize", true)) return text + ", nothing is evicted";
  text += ", policy " + policy;
  if (!offload.empty()) text += ", offload " + offload;
  return chaos == "none" ? text : text + ", chaos " + chaos;
}

}  // namespace

Options options_of_environment() {
  Options found;
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    const std::string_view each = *entry;
    const size_t end = each.find('=');
    if (!each.starts_with(kPrefix) || end == std::string_view::npos) continue;
    const std::string text = trimmed(std::string(each.substr(end + 1)));
    const std::string name(each.substr(kPrefix.size(), end - kPrefix.size()));
    if (text.empty()) continue;
    const bool in_capitals = name == in_case(name, std::toupper);
    found[in_capitals ? in_case(name, std::tolower) : kPrefix + name] = text;
  }
  return found;
}

bool asks_for_tidepool(const Options& environment) {
  return std::any_of(environment.begin(), environment.end(), [](const auto& each) {
    const bool misspelt = each.first.starts_with(kPrefix);
    const std::string key =
        misspelt ? in_case(each.first.substr(kPrefix.size()), std::tolower) : each.first;
    if (has(kPassive, key)) return false;
    return has(kKeys, key) || has(kReserved, key) || kOldKeys.contains(key) ||
           !nearest(key, kKeys).empty();
  });
}

Settings resolve(const Options& options, const Options& environment, bool has_gpu) {
  const Given given(options, environment);
  Settings settings;
  nlohmann::json& plugin = settings.plugin;
  refuse_others(given);
  settings.device = given.one_of("device", kDevices, has_gpu ? "cuda" : "cpu");
  const bool on_cpu = settings.device == "cpu";
  Names policies = kPolicies;
  policies.insert(policies.end(), {kDefaultPolicy, kNoPolicy});
  const auto old = kOldPolicies.find(given.text("policy"));
  std::string policy =
      old != kOldPolicies.end() ? old->second : given.one_of("policy", policies, kDefaultPolicy);
  if (policy == kDefaultPolicy) policy = kPolicies.front();
  const std::string chaos = read_chaos(given);
  plugin = {{"device", settings.device}, {"chaos", chaos}};
  plugin["raw_access"] = true;
  settings.budget = read_budget(given, settings.device, chaos, plugin);
  read_entries(given, plugin);
  const std::string allocator = plugin.value("allocator", kArena);
  read_room(given, plugin);
  const std::string offload = read_offload(given, settings.device, plugin);
  read_trace(given, settings);
  read_record(given, settings);
  settings.stats = given.text("stats");
  settings.quiet = given.flag("quiet");
  given.flag("top");
  given.flag("required");
  if (policy == kNoPolicy || allocator == kNative) {
    for (const std::string& key : kNeedEviction) {
      const Source* source = given.find(key);
      if (source == nullptr || source->second == "none") continue;
      wrong(*source, "expected none where nothing is evicted: policy " + policy + ", allocator " +
                         allocator);
    }
    plugin["rematerialize"] = false;
  } else {
    plugin["policy"] = policy;
  }
  for (const auto& [key, other] : {std::pair{"trace_steps", "trace"}, {"record_size", "record"}}) {
    const Source* source = given.find(key);
    if (source == nullptr || given.find(other) != nullptr) continue;
    wrong(*source, std::string("expected the setting ") + other + " with it");
  }
  if (on_cpu && policy == kNoPolicy) {
    wrong(*given.find("policy"), "on cpu expected one that evicts, or device cuda");
  }
  if (chaos.starts_with("offload") && offload.empty()) {
    wrong(*given.find("chaos"), "expected the setting offload with it");
  }
  if (on_cpu && allocator != kArena) {
    wrong(*given.find("allocator"), "on cpu expected arena, or device cuda");
  }
  settings.description = describe(settings, policy, offload, chaos);
  return settings;
}

bool Settings::is_same_request(const Settings& other) const {
  nlohmann::json mine = plugin, others = other.plugin;
  if (budget.starts_with(kAuto) && other.budget.starts_with(kAuto)) {
    mine.erase("budget_bytes");
    others.erase("budget_bytes");
  }
  return mine == others && stats == other.stats && trace == other.trace && quiet == other.quiet;
}

uint64_t budget_bytes(const std::string& text) {
  return Given::size({"budget", trimmed(text)}, cpu_memory_bytes());
}

bool gpu_is_visible() {
  const char* devices = std::getenv("CUDA_VISIBLE_DEVICES");
  if (devices != nullptr && has({"", "-1", "NoDevFiles"}, trimmed(devices))) return false;
  std::error_code ignored;
  if (std::filesystem::exists("/dev/dxg", ignored)) return true;
  for (const auto& each : std::filesystem::directory_iterator("/dev", ignored)) {
    const std::string name = each.path().filename();
    if (name.starts_with("nvidia") && name.size() > 6 && std::isdigit(name[6])) return true;
  }
  return false;
}

}  // namespace tidepool::cpp
