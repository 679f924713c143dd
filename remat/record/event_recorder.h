// EventRecorder: writes down, as events, what the runtime tells its observer. Derived classes
// decide what becomes of the lists, and when it records: they set `recording`.
// Owns the list that is being filled. The observer's functions require the device's lock.
// Invariants: (1) storages are numbered in the order of the events that make them, and
// Storage::observer_number is the number + 1 for all that live while it records; (2) events are in
// the order in which they happened.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "absl/container/flat_hash_map.h"
#include "allocator/base/allocator_observer.h"
#include "remat/job_observer.h"
#include "remat/record/block_book.h"
#include "remat/record/job_events.h"
#include "remat/record/workspace_meter.h"

namespace tidepool::remat {

class EventRecorder : public JobObserver {
 public:
  // The observer that has to hear of all blocks, for the events that are written down.
  AllocatorObserver& allocator_observer() {
    if (has_blocks_) return blocks_;
    return meter_;
  }

  bool listens() const final { return recording_; }
  void begins() final;
  void ran(const ObservedCall& call) final;
  void cut(Storage& storage) final;
  void died(Storage& storage) final;
  void used(Storage& storage, StreamId stream) final;
  void lives(Storage& storage) final;
  size_t bookkeeping_bytes() const override {
    return filling_->bookkeeping_bytes() + bytes_of(calls_) + blocks_.bookkeeping_bytes();
  }

 protected:
  // `has_blocks`: what becomes of blocks is written down, too (block_book.h).
  explicit EventRecorder(bool has_blocks = false)
      : filling_(std::make_unique<JobEvents>()), has_blocks_(has_blocks) {}
  ~EventRecorder() = default;

  // Is called before an event is added to a list that is not empty. It may take the list, and then
  // leaves an empty one.
  virtual void before_event() {}
  // Is called when an operator's results have been written down.
  virtual void made(const ObservedCall& call) { (void)call; }

  bool recording() const { return recording_; }
  // Starts or stops recording. Operators that run at that moment are not measured.
  void set_recording(bool on) {
    recording_ = on;
    meter_.forget_all();
  }
  // Begins a step anew, by which calls of each kind of operator are counted.
  void start_step() { calls_.clear(); }
  JobEvent& add(EventKind kind);
  // A copy of the list with one more event: the operator of these operands that runs on this
  // thread, and asks for so many more bytes.
  JobEvents with_request(std::span<const Operand> operands, size_t bytes);
  std::unique_ptr<JobEvents>& filling() { return filling_; }
  // How many storages have been named so far.
  uint32_t storages() const { return storages_; }
  // The bytes of storages that lived and were resident when it began to listen.
  size_t resident_bytes() const { return resident_bytes_; }
  void forget_storages() { storages_ = 0, resident_bytes_ = 0; }

 private:
  // The number of a storage that an event is about to name. A storage that is not known becomes a
  // root.
  uint32_t number_of(Storage& storage);
  uint32_t make(Storage& storage);
  void make_output(Storage& storage);
  // Writes down the role of a storage that has a number, if it is another one than was written
  // down.
  void tell_role(Storage& storage);
  JobEvent& append(EventKind kind);
  // Writes down what has become of blocks outside of operators.
  void add_blocks();

  bool recording_ = false;
  std::unique_ptr<JobEvents> filling_;
  WorkspaceMeter meter_;
  const bool has_blocks_;
  BlockBook blocks_{meter_};
  bool in_operator_ = false;  // changes of blocks belong to an operator
  absl::flat_hash_map<const RecordType*, uint64_t> calls_;  // of this step, by operator
  uint32_t storages_ = 0;
  size_t resident_bytes_ = 0;
};

}  // namespace tidepool::remat
