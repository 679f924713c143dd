// RestorationQueue: decides who may restore, and who gives up when memory runs out while several
// threads hold operands locked. One thread restores at a time, in the order of tickets. Out of
// memory is final only if no other thread holds operands, or if all that do are waiting themselves;
// then the youngest ticket among those that wait for room gives up.
// Thread safe under the device's lock, which all functions require. While a thread waits, the lock
// is released, and Backend::begin_wait() and end_wait() stand around the wait.
// Invariants: (1) there is a restoring thread exactly while depth > 0; (2) every queued ticket
// belongs to a waiting thread or is the restorer's; (3) every wait is bounded: by the turn of the
// thread before, or by kPollMs. For how long a request waits in all, RoomMaker says.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <vector>

#include "allocator/base/origin.h"
#include "allocator/locks/device_mutex.h"
#include "remat/lineage/backend.h"

namespace tidepool::remat {

class OperatorCall;

class RestorationQueue {
 public:
  // A thread that holds operands locked; lives in the OperatorCall.
  struct Holder {
    const void* thread = nullptr;
    const OperatorCall* call = nullptr;
    uint32_t since = 0;  // as Origin::serial counts
    Holder* previous = nullptr;
    Holder* next = nullptr;
  };

  explicit RestorationQueue(Backend& backend);
  RestorationQueue(const RestorationQueue&) = delete;
  RestorationQueue& operator=(const RestorationQueue&) = delete;

  static const void* this_thread() { return Origin::this_thread(); }

  void enter(Holder& holder) {
    holder.thread = this_thread();
    if (holder.thread != last_thread_) [[unlikely]]
      note_thread(holder.thread);
    holder.next = holders_.next;
    holder.previous = &holders_;
    holders_.next->previous = &holder;
    holders_.next = &holder;
  }
  void leave(Holder& holder) {
    if (holder.next == nullptr) return;
    holder.previous->next = holder.next;
    holder.next->previous = holder.previous;
    holder.next = holder.previous = nullptr;
    something_changed();
  }

  // Says that locks ended or bytes were freed, so that those who wait for room should look again.
  void something_changed() {
    ++generation_;
    if (!waiters_.empty()) [[unlikely]]
      wake();
  }

  template <typename Visit>
  void for_each_holder(Visit&& visit) const {
    for (const Holder* holder = holders_.next; holder != &holders_; holder = holder->next) {
      visit(*holder);
    }
  }
  // How many threads have held operands so far, where kManyThreads stands for that many or more.
  static constexpr size_t kManyThreads = 3;
  size_t threads() const { return threads_.size(); }
  // The thread that restores; nullptr: none.
  const void* restorer() const { return restorer_; }

  // Waits for the calling thread's turn to restore. A thread whose turn it is may take another one
  // within it.
  void take_turn(DeviceLock& lock);
  void end_turn();
  bool is_my_turn() const { return depth_ > 0 && restorer_ == this_thread(); }
  bool is_taken() const { return depth_ > 0; }
  // Whether take_turn() would not wait.
  bool is_free() const { return depth_ == 0 && queue_.empty(); }

  // Whether no operator and no restoration is under way.
  bool is_quiet() const { return depth_ == 0 && holders_.next == &holders_; }

  // Waits for other threads to free something. True: something may have changed. False: no other
  // thread will free anything that this one may wait for.
  bool wait_for_room(DeviceLock& lock);

  // Drops, in a forked child, what the other threads held, which do not exist there.
  void become_forked_child();

  void check_invariants() const;

 private:
  enum class For : uint8_t { kTurn, kRoom };
  struct Waiter {
    const void* thread;
    uint64_t ticket;
    For what;
    uint64_t seen;  // kRoom: the generation it has seen
  };
  static constexpr int kPollMs = 5;

  void wake() { changed_.notify_all(); }
  bool is_stuck(const Waiter& waiter) const;
  bool others_hold() const;
  bool must_give_up(uint64_t ticket) const;
  void forget_waiter(uint64_t ticket);
  void note_thread(const void* thread);

  Backend& backend_;
  std::condition_variable_any changed_;
  Holder holders_;  // head of the ring
  std::deque<uint64_t> queue_;
  std::vector<Waiter> waiters_;
  std::vector<const void*> threads_;  // kManyThreads at most
  const void* last_thread_ = nullptr;
  const void* restorer_ = nullptr;
  uint32_t depth_ = 0;
  uint64_t next_ticket_ = 1;
  uint64_t generation_ = 0;
};

}  // namespace tidepool::remat
