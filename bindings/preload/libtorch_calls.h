// Who is told of calls of LibTorch's functions that go past the dispatcher.
#pragma once

#include "bindings/preload/shim.h"

enum {
  TIDEPOOL_STEP = 0,  // of an optimizer
  TIDEPOOL_STEP_WITH_CLOSURE = 1,
  TIDEPOOL_READER = 2,   // reads tensors by their addresses
  TIDEPOOL_SWITCH = 3,   // changes a switch of the process that decides bits
  TIDEPOOL_PRINTER = 4,  // reads by their addresses what it computes by operators
};

// `begin` may throw what the caller of LibTorch's function then gets instead of the call; `end`
// must not throw.
typedef struct {
  void (*begin)(int kind);
  void (*end)(int kind, int returned);  // 0: the function threw
  // Code that is not PyTorch's asks for the address of a tensor (an at::TensorBase*), to write
  // there perhaps. May throw.
  void (*address)(void* tensor, int may_write);
} TidepoolCallObserver;

#ifdef __cplusplus
extern "C" {
#endif
// Registers an observer for good. Returns NULL; or, with nothing done, the first of the functions
// that LibTorch's callers do not reach through this library, because LibTorch's own comes before
// it.
TIDEPOOL_EXPORT const char* tidepool_observe_libtorch_calls(const TidepoolCallObserver* observer);
#ifdef __cplusplus
}
#endif
