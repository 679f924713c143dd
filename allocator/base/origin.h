// Origin: when an allocated block was handed out, and to which thread: whoever explains what memory
// is used for tells by it the temporaries of an operator from what was there before.
// Plain data. Both numbers wrap, which a report may survive.
#pragma once

#include <cstdint>

namespace tidepool {

struct Origin {
  uint32_t serial = 0;  // so many allocations came before it
  uint32_t thread = 0;  // number_of() the thread

  // The calling thread's identity; not a thread id, and reused after the thread's end.
  static const void* this_thread() { return __builtin_thread_pointer(); }
  static uint32_t number_of(const void* thread) {
    return static_cast<uint32_t>(reinterpret_cast<uintptr_t>(thread) >> 6);
  }

  // The thread got the block no earlier than the allocation number `since`.
  bool is_of(uint32_t thread_number, uint32_t since) const {
    return thread == thread_number && static_cast<int32_t>(serial - since) >= 0;
  }
};

}  // namespace tidepool
