// The C functions of tidepool.h.
#include <algorithm>
#include <cstring>
#include <exception>
#include <string>
#include <utility>

#include "allocator/base/per_thread.h"
#include "bindings/cpp/include/tidepool/tidepool.h"
#include "bindings/cpp/program.h"

using namespace tidepool::cpp;

namespace {

std::string& last_error() { return tidepool::PerThread<std::string>::get(); }

int fail(int code, std::string message) {
  last_error() = std::move(message);
  return code;
}

// Runs `function` and turns what it throws into a code.
template <class Function>
int guarded(Function&& function) {
  try {
    return function();
  } catch (const SettingsError& error) {
    return fail(TIDEPOOL_WRONG_SETTING, error.what());
  } catch (const AttachError& error) {
    return fail(TIDEPOOL_CANNOT_ATTACH, error.what());
  } catch (const std::exception& error) {
    return fail(TIDEPOOL_FAILED, error.what());
  }
}

// Calls a function of the plugin's that takes room for a message at its end.
template <class Function, class... Arguments>
int call(Function function, Arguments... arguments) {
  std::string message(size_t{1} << 16, '\0');
  const int code = function(arguments..., message.data(), message.size());
  return code == 0 ? TIDEPOOL_OK : fail(code, message.c_str());
}

int not_attached() {
  return fail(TIDEPOOL_NOT_ATTACHED, "Tidepool is not attached to this process");
}

// A field of the options, if the caller's structure has it.
template <class Field>
Field field(const tidepool_options& options, Field tidepool_options::* member) {
  const auto at =
      reinterpret_cast<const char*>(&(options.*member)) - reinterpret_cast<const char*>(&options);
  return static_cast<size_t>(at) + sizeof(Field) <= options.size ? options.*member : Field();
}

Options read(const tidepool_options& options) {
  const std::pair<const char*, const char* tidepool_options::*> texts[] = {
      {"budget", &tidepool_options::budget},   {"policy", &tidepool_options::policy},
      {"device", &tidepool_options::device},   {"chaos", &tidepool_options::chaos},
      {"offload", &tidepool_options::offload}, {"stats", &tidepool_options::stats},
      {"trace", &tidepool_options::trace},     {"trace_steps", &tidepool_options::trace_steps}};
  Options found;
  for (const auto& [key, member] : texts) {
    const char* text = field(options, member);
    if (text != nullptr && text[0] != '\0') found[key] = text;
  }
  if (field(options, &tidepool_options::quiet) != 0) found["quiet"] = "1";
  return found;
}

tidepool_stats stats_of(const nlohmann::json& values) {
  const auto number = [&](const char* key) { return values.value(key, uint64_t{0}); };
  tidepool_stats found = {};
  found.budget_bytes = number("budget_bytes");
  found.limit_bytes = number("limit_bytes");
  found.reserved_bytes = number("reserved_bytes");
  found.reserved_peak_bytes = number("reserved_peak_bytes");
  found.allocated_bytes = number("allocated_bytes");
  found.allocated_peak_bytes = number("allocated_peak_bytes");
  found.evictions = number("evictions");
  found.evicted_bytes = number("evicted_bytes");
  found.rematerializations = number("rematerializations");
  found.operators_seen = number("operators_seen");
  found.operators_recorded = number("operators_recorded");
  found.operators_replayed = number("operators_replayed");
  found.replay_ns = number("replay_ns");
  found.search_ns = number("search_ns");
  found.bookkeeping_ns = number("bookkeeping_ns");
  found.offloads = number("offloads");
  found.fetches = number("fetches");
  found.exposed_ns = number("exposed_ns");
  return found;
}

}  // namespace

const char* tidepool_error() { return last_error().c_str(); }

int tidepool_enable(const tidepool_options* options) {
  return guarded([&] {
    Program::attach(options != nullptr ? read(*options) : Options());
    return TIDEPOOL_OK;
  });
}

int tidepool_enable_from_environment() {
  const int code = guarded([&] {
    if (asks_for_tidepool(options_of_environment())) Program::attach({});
    return TIDEPOOL_OK;
  });
  if (code == TIDEPOOL_OK) return code;
  const Options environment = options_of_environment();
  const auto found = environment.find("required");
  const bool ends = found != environment.end() && found->second != "0" && found->second != "no" &&
                    found->second != "false" && found->second != "off";
  say((ends ? "this process ends, as the budget cannot be kept (`tidepool run --if-possible` goes "
              "on without): "
            : "running without Tidepool: ") +
      last_error());
  return code;
}

int tidepool_read_stats(const char* device, tidepool_stats* stats) {
  Program* const program = Program::current();
  if (program == nullptr) return not_attached();
  return guarded([&] {
    const nlohmann::json devices = program->statistics();
    const auto found = device != nullptr ? devices.find(device) : devices.begin();
    if (found == devices.end()) {
      return fail(TIDEPOOL_FAILED, std::string(device != nullptr ? device : program->device()) +
                                       " has not been used");
    }
    const size_t size = std::min(stats->size, sizeof *stats);
    tidepool_stats values = stats_of(*found);
    values.size = stats->size;
    std::memcpy(stats, &values, size);
    return int{TIDEPOOL_OK};
  });
}

size_t tidepool_stats_json(char* out, size_t capacity) {
  Program* const program = Program::current();
  return program != nullptr ? program->plugin().statistics(out, capacity) : 0;
}

int tidepool_set_budget(const char* size) {
  Program* const program = Program::current();
  if (program == nullptr) return not_attached();
  return guarded([&] {
    constexpr uint64_t kNoLimit = uint64_t{1} << 63;  // more than any budget
    return call(program->plugin().set_limit, size != nullptr ? budget_bytes(size) : kNoLimit);
  });
}

int tidepool_keep(void* storage, void** kept) {
  *kept = nullptr;
  Program* const program = Program::current();
  return program != nullptr ? call(program->plugin().hold, storage, kept) : int{TIDEPOOL_OK};
}

void tidepool_release(void* storage, void* kept) {
  if (kept != nullptr) Program::current()->plugin().let_go(storage, kept);
}

int tidepool_begin_no_eviction(void** block) {
  *block = nullptr;
  Program* const program = Program::current();
  return program != nullptr ? call(program->plugin().begin_keeping, block) : int{TIDEPOOL_OK};
}

void tidepool_end_no_eviction(void* block) {
  if (block != nullptr) Program::current()->plugin().end_keeping(block);
}

void tidepool_step() {
  if (Program* const program = Program::current()) program->end_step();
}
