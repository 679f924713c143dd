#include "bindings/cpp/program.h"

#include <dlfcn.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <mutex>
#include <stdexcept>
#include <utility>
#include <vector>

#include "bindings/cpp/sizes.h"
#include "bindings/preload/libtorch_calls.h"

namespace tidepool::cpp {
namespace {

enum { kEndStep = 0, kEnter = 1, kLeave = 2 };  // what the plugin's optimizer_scope takes

std::atomic<Program*> g_program{nullptr};
std::atomic<bool> g_names_its_steps{false};
thread_local int t_steps_inside = 0;  // how deep the thread is in optimizers' steps

// The function of this name that comes first in this process: the preload shim has the same ones.
template <class Function>
Function first_of(const char* name, Function otherwise) {
  void* symbol = dlsym(RTLD_DEFAULT, name);
  if (symbol != nullptr) std::memcpy(&otherwise, &symbol, sizeof symbol);
  return otherwise;
}

// The line at exit.
std::string summary(const nlohmann::json& values, const std::string& budget) {
  const auto number = [&](const char* key) { return values.value(key, uint64_t{0}); };
  const auto seconds = [](uint64_t ns) {
    char text[32];
    std::snprintf(text, sizeof text, "%.1f s", static_cast<double>(ns) / 1e9);
    return std::string(text);
  };
  std::string text = "peak " + format_size(number("reserved_peak_bytes"), false) + " of " + budget +
                     ", " + std::to_string(number("evictions")) + " evictions";
  if (number("evicted_bytes") > 0) text += " (" + format_size(number("evicted_bytes"), false) + ")";
  if (number("offloaded_bytes") > 0) {
    text += ", " + format_size(number("offloaded_bytes"), false) + " offloaded and " +
            format_size(number("fetched_bytes"), false) + " fetched in " +
            seconds(number("exposed_ns"));
  }
  text += ", " + std::to_string(number("operators_replayed")) + " operators replayed in " +
          seconds(number("replay_ns"));
  if (number("bookkeeping_bytes") > 0) {
    text += ", " + format_size(number("bookkeeping_bytes"), false) + " of bookkeeping";
  }
  return text;
}

}  // namespace

Program::Program(const Settings& settings)
    : settings_(settings), plugin_(settings.device), process_(getpid()) {
  try {
    if (!settings_.stats.empty()) stats_file_.emplace(settings_.stats);
  } catch (const std::exception& error) {
    throw SettingsError("stats '" + settings_.stats + "': " + error.what());
  }
  try {
    attach_plugin();
  } catch (...) {
    if (stats_file_) stats_file_->discard();
    throw;
  }
}

void Program::attach_plugin() {
  static const TidepoolCallObserver observer = {&begin_call, &end_call, &take_address};
  const auto observe =
      first_of("tidepool_observe_libtorch_calls", &tidepool_observe_libtorch_calls);
  if (const char* call = observe(&observer)) {
    throw AttachError(std::string("LibTorch comes before Tidepool in this program (") + call +
                      "): link Tidepool before LibTorch, or use LD_PRELOAD");
  }
  nlohmann::json values = settings_.plugin;
  try {
    if (!settings_.trace.empty()) values["trace"]["path"] = claim_trace(settings_.trace);
  } catch (const std::runtime_error& error) {
    throw SettingsError("trace '" + settings_.trace + "': " + error.what());
  }
  std::string message(size_t{1} << 16, '\0');
  if (plugin_.attach(values.dump().c_str(), message.data(), message.size()) != 0) {
    throw AttachError(message.c_str());
  }
  using Register = void (*)(int (*)(int), int (*)());
  if (const auto set = first_of<Register>("tidepool_preload_set_thread_start", nullptr)) {
    set(plugin_.thread, plugin_.thread_is_on);
  }
}

void Program::attach(const Options& options) {
  static std::mutex mutex;
  const std::lock_guard<std::mutex> guard(mutex);
  Options given = options;
  const Options environment = options_of_environment();
  const bool has_gpu = torch_has_cuda() && gpu_is_visible();
  const auto on_cuda = given.contains("device")         ? given["device"] == "cuda"
                       : environment.contains("device") ? environment.at("device") == "cuda"
                                                        : has_gpu;
  if (on_cuda && !given.contains("budget") && !environment.contains("budget")) {
    given["budget"] = "auto";
  }
  const Settings settings = resolve(given, environment, has_gpu);
  if (Program* before = current()) {
    if (settings.is_same_request(before->settings_)) return;
    throw AttachError("already attached with " + before->settings_.description +
                      ": that cannot be changed to " + settings.description);
  }
  g_program.store(new Program(settings), std::memory_order_release);
  std::atexit([] { current()->finish(); });
  if (!settings.quiet) say("attached, " + settings.description);
}

Program* Program::current() { return g_program.load(std::memory_order_acquire); }

nlohmann::json Program::statistics() const {
  std::string text(1 << 14, '\0');
  for (size_t needed; (needed = plugin_.statistics(text.data(), text.size())) > text.size();) {
    text.resize(2 * needed);
  }
  return nlohmann::json::parse(text.c_str());
}

void Program::end_step() {
  g_names_its_steps.store(true, std::memory_order_relaxed);
  plugin_.optimizer_scope(kEndStep);
}

// A forked child is not this program.
void Program::finish() {
  if (getpid() != process_) return;
  try {
    plugin_.finish();
    const nlohmann::json devices = statistics();
    std::string line;
    for (const auto& [name, values] : devices.items()) {
      line += (line.empty() ? "" : "; ") + (settings_.device == "cuda" ? name + ": " : "") +
              summary(values, settings_.budget);
    }
    if (!settings_.quiet) say(line.empty() ? "no CUDA memory was asked for" : line);
    if (!stats_file_) return;
    stats_file_->write({{"state", "finished"},
                        {"version", TIDEPOOL_VERSION},
                        {"torch", torch_version()},
                        {"devices", devices}});
  } catch (const std::exception& error) {  // at exit there is nobody left to handle it
    say(std::string("no summary: ") + error.what());
  }
}

void Program::begin_call(int kind) {
  Program* const program = current();
  if (program == nullptr) return;
  if (kind == TIDEPOOL_READER) program->plugin_.enter_reader();
  if (kind == TIDEPOOL_PRINTER) {
    void* begun = nullptr;
    program->plugin_.begin_region(&begun);
  }
  if (kind == TIDEPOOL_SWITCH) program->plugin_.enter_switch();
  if (kind == TIDEPOOL_STEP && t_steps_inside++ == 0) {
    program->plugin_.rescan_operators();
    program->plugin_.optimizer_scope(kEnter);
  }
}

// What a closure computes is not the optimizer's, and it cannot be told apart here: such a step is
// noticed by its end alone.
void Program::end_call(int kind, int returned) {
  Program* const program = current();
  if (program == nullptr) return;
  if (kind == TIDEPOOL_READER) program->plugin_.leave_reader();
  if (kind == TIDEPOOL_PRINTER) program->plugin_.end_region(program);  // any pointer but null
  if (kind == TIDEPOOL_SWITCH) program->plugin_.leave_switch();
  if (kind == TIDEPOOL_STEP && --t_steps_inside > 0) return;
  if (kind == TIDEPOOL_STEP || kind == TIDEPOOL_STEP_WITH_CLOSURE) {
    const bool ends = returned != 0 && !g_names_its_steps.load(std::memory_order_relaxed);
    program->plugin_.optimizer_scope(ends ? kEndStep : kLeave);
  }
}

void Program::take_address(void* tensor, int may_write) {
  if (Program* const program = current()) program->plugin_.take_address(tensor, may_write);
}

void say(const std::string& line) {
  std::fprintf(stderr, "tidepool: %s\n", line.c_str());
  std::fflush(stderr);
}

}  // namespace tidepool::cpp
