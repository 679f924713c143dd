// Observation: knows who hears what the job does (JobObserver), and whether that observer listens
// now.
// Not thread safe: the device's lock is held.
#pragma once

#include <cstddef>

#include "remat/job_observer.h"
#include "remat/lineage/lineage_store.h"

namespace tidepool::remat {

class Observation {
 public:
  // Sets the observer; nullptr: nobody hears anything from now on.
  void set(JobObserver* observer) {
    observer_ = observer;
    listener_ = observer != nullptr && observer->listens() ? observer : nullptr;
  }
  bool has_observer() const { return observer_ != nullptr; }
  // The observer, while it wants to hear of more than the ends of steps.
  JobObserver* listener() const { return listener_; }

  // Tells of an operator that has run or failed. Requires: there is a listener.
  void ran(const ObservedCall& call) {
    listener_->ran(call);
    if (!listener_->listens()) listener_ = nullptr;
  }
  // Tells of the end of a step. If the observer begins to listen, it hears of all storages that
  // live. Requires: has_observer().
  void step_ended(const StepEnd& end, LineageStore& store) {
    const bool listened = listener_ != nullptr;
    listener_ = observer_->step_ended(end) ? observer_ : nullptr;
    if (listened || listener_ == nullptr) return;
    store.for_each_storage([&](Storage& storage) {
      if (!storage.dead) listener_->lives(storage);
    });
  }
  // Tells that the step under way is foreseen from here on.
  void foreseen(const StepHistory& history) {
    if (observer_ != nullptr) observer_->foreseen(history);
  }
  // Tells the observer that this is a forked child, and forgets it.
  void become_forked_child() {
    if (observer_ != nullptr) observer_->forked();
    observer_ = listener_ = nullptr;
  }

  size_t bookkeeping_bytes() const {
    return observer_ != nullptr ? observer_->bookkeeping_bytes() : 0;
  }

 private:
  JobObserver* observer_ = nullptr;
  JobObserver* listener_ = nullptr;
};

}  // namespace tidepool::remat
