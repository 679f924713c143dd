// TraceRecorder: writes the trace of a job while it runs. What the runtime tells its observer goes
// into chunks, which a thread of the recorder turns into text and writes. The job never waits for
// the file: if that cannot be written, or not fast enough, the recorder says so once, gives up, and
// the job goes on.
// Owns its file and thread. The observer's functions require the device's lock. The others take no
// lock of anybody else's and may be called by any thread, but finish() only without the device's
// lock.
// Invariants: (1) those of EventRecorder; (2) events reach the file in their order; (3) no more
// chunks wait than the settings allow.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "remat/record/event_recorder.h"
#include "remat/record/recording_settings.h"
#include "remat/trace/trace.h"

namespace tidepool::remat {

class TraceRecorder final : public EventRecorder {
 public:
  // `say` tells a user what went wrong. It is called at most once, by any thread.
  // Throws: std::system_error if there can be no thread.
  TraceRecorder(const RecordingSettings& settings, const TraceFacts& facts,
                std::function<void(const std::string&)> say);
  ~TraceRecorder();
  TraceRecorder(const TraceRecorder&) = delete;
  TraceRecorder& operator=(const TraceRecorder&) = delete;

  // Completes the file; nothing is recorded afterwards. Waits for the file, for half a minute at
  // most, and not at all if it was given up.
  // Requires: the runtime does not know this observer any more.
  void finish();

  bool step_ended(const StepEnd& end) override;
  size_t bookkeeping_bytes() const override;
  void forked() override;

 private:
  class Writer;
  // What the recorder shares with its thread, which may outlive it if the file hangs.
  struct Queue;

  void before_event() override;
  void hand_over(bool last);
  void end();

  const RecordingSettings settings_;
  const std::function<void(const std::string&)> say_;
  std::shared_ptr<Queue> queue_;
  uint64_t steps_ = 0;
  bool gave_up_ = false;
  bool ended_ = false;
  bool forked_ = false;
};

}  // namespace tidepool::remat
