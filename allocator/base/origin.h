// Origin: when an allocated block was handed out, and to which thread. A report of what memory is
// used for tells by it the temporaries of an operator from what was there before.
// Plain data. Both numbers wrap around; a wrong line in a report is the worst that can come of it.
#pragma once

#include <cstdint>

namespace tidepool {

struct Origin {
  uint32_t serial = 0;  // how many allocations came before this one
  uint32_t thread = 0;  // number_of() the thread

  // The calling thread's identity, or that of the thread that it works for; not a thread id, and
  // reused after the thread's end.
  static const void* this_thread() {
    return t_works_for != nullptr ? t_works_for : __builtin_thread_pointer();
  }
  // The calling thread works for another one, which waits for it meanwhile.
  class WorksFor {
   public:
    explicit WorksFor(const void* thread) { t_works_for = thread; }
    WorksFor(const WorksFor&) = delete;
    ~WorksFor() { t_works_for = nullptr; }
  };
  static uint32_t number_of(const void* thread) {
    return static_cast<uint32_t>(reinterpret_cast<uintptr_t>(thread) >> 6);
  }

  // Whether that thread got the block, no earlier than by the allocation number `since`.
  bool is_of(uint32_t thread_number, uint32_t since) const {
    return thread == thread_number && static_cast<int32_t>(serial - since) >= 0;
  }

 private:
  static inline constinit thread_local const void* t_works_for = nullptr;
};

}  // namespace tidepool
