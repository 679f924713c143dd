// Observation: who hears what the job does (JobObserver), and whether it listens now.
// Not thread safe: the device's lock is held.
#pragma once

#include <cstddef>

#include "remat/job_observer.h"
#include "remat/lineage/lineage_store.h"

namespace tidepool::remat {

class Observation {
 public:
  // Nullptr: nobody hears anything from now on.
  void set(JobObserver* observer) {
    observer_ = observer;
    listener_ = observer != nullptr && observer->listens() ? observer : nullptr;
  }
  bool has_observer() const { return observer_ != nullptr; }
  // The observer, while it wants to hear of more than the ends of steps.
  JobObserver* listener() const { return listener_; }

  // An operator has run, or failed. Requires: there is a listener.
  void ran(const ObservedCall& call) {
    listener_->ran(call);
    if (!listener_->listens()) listener_ = nullptr;
  }
  // The observer hears of all that lives where it begins to listen. Requires: has_observer().
  void step_ended(const StepEnd& end, LineageStore& store) {
    const bool listened = listener_ != nullptr;
    listener_ = observer_->step_ended(end) ? observer_ : nullptr;
    if (listened || listener_ == nullptr) return;
    store.for_each_storage([&](Storage& storage) {
      if (!storage.dead) listener_->lives(storage);
    });
  }
  // This is the forked child: nobody hears anything from now on.
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
