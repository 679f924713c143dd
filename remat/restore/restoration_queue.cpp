#include "remat/restore/restoration_queue.h"

#include <algorithm>
#include <chrono>

#include "allocator/base/check.h"
#include "allocator/locks/waits.h"

namespace tidepool::remat {
namespace {

// A scope around a wait, which tells the backend of both ends; for that the lock is released.
class WaitScope {
 public:
  WaitScope(Backend& backend, DeviceLock& lock) : backend_(backend), lock_(lock) {
    const Unlocked unlocked(lock_);
    token_ = backend_.begin_wait();
  }
  ~WaitScope() {
    const Unlocked unlocked(lock_);
    backend_.end_wait(token_);
  }
  WaitScope(const WaitScope&) = delete;
  WaitScope& operator=(const WaitScope&) = delete;

 private:
  Backend& backend_;
  DeviceLock& lock_;
  void* token_ = nullptr;
};

}  // namespace

RestorationQueue::RestorationQueue(Backend& backend) : backend_(backend) {
  holders_.previous = holders_.next = &holders_;
}

void RestorationQueue::note_thread(const void* thread) {
  last_thread_ = thread;
  const bool known = std::find(threads_.begin(), threads_.end(), thread) != threads_.end();
  if (!known && threads_.size() < kManyThreads) threads_.push_back(thread);
}

void RestorationQueue::forget_waiter(uint64_t ticket) {
  std::erase_if(waiters_, [&](const Waiter& waiter) { return waiter.ticket == ticket; });
}

void RestorationQueue::take_turn(DeviceLock& lock) {
  if (is_my_turn()) {
    ++depth_;
    return;
  }
  if (depth_ > 0 || !queue_.empty()) {
    const uint64_t ticket = next_ticket_++;
    queue_.push_back(ticket);
    waiters_.push_back({this_thread(), ticket, For::kTurn, 0});
    wake();  // one that waits for room may be the last thread now that could run
    {
      const WaitScope waiting(backend_, lock);
      wait(changed_, lock, [&] { return depth_ == 0 && queue_.front() == ticket; });
    }
    queue_.pop_front();
    forget_waiter(ticket);
  }
  restorer_ = this_thread();
  depth_ = 1;
}

void RestorationQueue::end_turn() {
  if (--depth_ > 0) return;
  restorer_ = nullptr;
  something_changed();
}

bool RestorationQueue::is_stuck(const Waiter& waiter) const {
  if (waiter.what == For::kTurn) return depth_ > 0 || queue_.front() != waiter.ticket;
  return waiter.seen == generation_;
}

bool RestorationQueue::others_hold() const {
  const void* me = this_thread();
  if (depth_ > 0 && restorer_ != me) return true;
  for (const Holder* holder = holders_.next; holder != &holders_; holder = holder->next) {
    if (holder->thread != me) return true;
  }
  return false;
}

bool RestorationQueue::must_give_up(uint64_t ticket) const {
  const void* me = this_thread();
  auto stuck = [&](const void* thread) {
    return thread == me || std::any_of(waiters_.begin(), waiters_.end(), [&](const Waiter& waiter) {
             return waiter.thread == thread && is_stuck(waiter);
           });
  };
  if (depth_ > 0 && !stuck(restorer_)) return false;
  for (const Holder* holder = holders_.next; holder != &holders_; holder = holder->next) {
    if (!stuck(holder->thread)) return false;
  }
  return std::none_of(waiters_.begin(), waiters_.end(), [&](const Waiter& waiter) {
    return waiter.what == For::kRoom && waiter.ticket > ticket;
  });
}

bool RestorationQueue::wait_for_room(DeviceLock& lock) {
  if (!others_hold()) return false;
  const uint64_t ticket = next_ticket_++;
  const uint64_t seen = generation_;
  waiters_.push_back({this_thread(), ticket, For::kRoom, seen});
  wake();
  const WaitScope waiting(backend_, lock);
  bool give_up = false;
  wait_for(changed_, lock, std::chrono::milliseconds(kPollMs), [&] {
    if (generation_ != seen) return true;
    give_up = must_give_up(ticket);
    return give_up;
  });
  forget_waiter(ticket);
  if (give_up) wake();  // the next youngest may have to give up, too
  return !give_up;
}

void RestorationQueue::become_forked_child() {
  become_unused(changed_);
  queue_.clear();
  waiters_.clear();
  for (Holder* holder = holders_.next; holder != &holders_;) {
    Holder* const next = holder->next;
    if (holder->thread != this_thread()) leave(*holder);
    holder = next;
  }
  if (!is_my_turn()) {
    depth_ = 0;
    restorer_ = nullptr;
  }
}

void RestorationQueue::check_invariants() const {
  TIDEPOOL_CHECK((restorer_ != nullptr) == (depth_ > 0), "invariant 1: depth %u", depth_);
  size_t waiting = 0;
  for (const Waiter& waiter : waiters_) waiting += waiter.what == For::kTurn;
  TIDEPOOL_CHECK(queue_.size() == waiting, "invariant 2: %zu tickets, %zu waiting", queue_.size(),
                 waiting);
}

}  // namespace tidepool::remat
