// TraceRecorder: writes the trace of a job while it runs: what the runtime tells its observer goes
// into chunks, which a thread of the recorder turns into text and writes. The job never waits for
// the file: where that cannot be written, or not fast enough, the recorder says so once, gives up,
// and the job goes on without.
// Owns its file and thread. The observer's functions need the device's lock; the others take none
// of anybody's and may be called by any thread, but finish() only without the device's lock.
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

namespace tidepool::plan {

class TraceRecorder final : public EventRecorder {
 public:
  // `say` tells a user what went wrong; called by any thread, once at most.
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

  bool step_ended(const remat::StepEnd& end) override;
  size_t bookkeeping_bytes() const override;
  void forked() override;

 private:
  class Writer;
  // Shared with the thread, which may outlive the recorder if the file hangs.
  struct Queue;

  void before_event() override;
  void hand_over(bool last);
  void end();
  void give_up(const char* why);

  const RecordingSettings settings_;
  const std::function<void(const std::string&)> say_;
  std::shared_ptr<Queue> queue_;
  uint64_t steps_ = 0;
  bool gave_up_ = false;
  bool ended_ = false;
  bool forked_ = false;
};

}  // namespace tidepool::plan
