// TraceRecorder: writes the trace of a job while it runs: what the runtime tells its observer goes
// into chunks, which a thread of the recorder turns into text and writes. The job never waits for
// the file: where that cannot be written, or not fast enough, the recorder says so once, gives up,
// and the job goes on without.
// Owns its file and thread. The observer's functions need the device's lock; the others take none
// of anybody's and may be called by any thread, but finish() only without the device's lock.
// Invariants: (1) storages are numbered in the order of the events that make them, and
// Storage::observed is a number + 1, or 0; (2) events reach the file in the order in which they
// happened; (3) no more chunks wait than the settings allow.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "allocator/allocator_observer.h"
#include "remat/job_observer.h"
#include "remat/plan/block_book.h"
#include "remat/plan/recording_settings.h"
#include "remat/plan/trace.h"
#include "remat/plan/workspace_meter.h"

namespace tidepool::plan {

class TraceRecorder final : public remat::JobObserver {
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

  // To be told of all blocks.
  AllocatorObserver& meter() {
    if (has_blocks_) return blocks_;
    return meter_;
  }

  void begins() override;
  void ran(const remat::ObservedCall& call) override;
  void cut(remat::Storage& storage) override;
  void died(remat::Storage& storage) override;
  void used(remat::Storage& storage, StreamId stream) override;
  bool step_ended() override;
  void lives(remat::Storage& storage) override;
  void forked() override;

 private:
  struct Event;
  struct Chunk;
  class Writer;
  // Shared with the thread, which may outlive the recorder if the file hangs.
  struct Queue;

  bool is_on() const { return on_ && !gave_up_; }
  Event& add(EventKind kind);
  Event& append(EventKind kind);
  // The number of a storage that an event is about to name; one that is not known becomes a root.
  uint32_t number_of(remat::Storage& storage);
  uint32_t make(remat::Storage& storage);
  void make_output(remat::Storage& storage);
  // Writes down what has become of blocks outside of operators.
  void add_blocks();
  void hand_over();
  void end();
  void give_up(const char* why);

  const RecordingSettings settings_;
  const std::function<void(const std::string&)> say_;
  std::shared_ptr<Queue> queue_;
  std::unique_ptr<Chunk> filling_;
  WorkspaceMeter meter_;
  const bool has_blocks_;
  BlockBook blocks_{meter_};
  bool in_operator_ = false;  // what becomes of blocks is an operator's
  absl::flat_hash_map<const remat::RecordType*, uint64_t> calls_;  // of this step, by operator
  uint64_t steps_ = 0;
  uint32_t storages_ = 0;
  bool on_ = false;
  bool gave_up_ = false;
  bool ended_ = false;
  bool forked_ = false;
};

}  // namespace tidepool::plan
