// Program: Tidepool in this process, which has no Python: attaches once, is told of LibTorch's
// calls that go past the dispatcher, prints the two lines on standard error, and writes the
// statistics. There is at most one, which lives until the process ends. Thread safe.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "bindings/cpp/output_files.h"
#include "bindings/cpp/plugin.h"
#include "bindings/cpp/settings.h"
#include "nlohmann/json.hpp"

namespace tidepool::cpp {

class Program {
 public:
  // Attaches with these options and the environment's; with the same settings again, nothing is
  // done. Throws: SettingsError, AttachError.
  static void attach(const Options& options);
  // nullptr where Tidepool is not attached.
  static Program* current();

  const Plugin& plugin() const { return plugin_; }
  const std::string& device() const { return settings_.device; }

  // Statistics by device.
  nlohmann::json statistics() const;
  // A step of the program's ends; from now on those of optimizers do not count.
  void end_step();

 private:
  explicit Program(const Settings& settings);
  void attach_plugin();
  void finish();

  static void begin_call(int kind);
  static void end_call(int kind, int returned);
  static void take_address(void* tensor, int may_write);

  const Settings settings_;
  const Plugin plugin_;
  std::optional<StatsFile> stats_file_;
  const int process_;
};

// Prints a line on standard error.
void say(const std::string& line);

}  // namespace tidepool::cpp
