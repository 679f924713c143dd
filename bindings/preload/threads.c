// Threads: new ones start with interception on if the thread that creates them has it on, because
// this library's pthread_create comes before the C library's. Part of the preload shim and of the
// library for C++ programs. Thread safe: the functions are published by release and acquire.
// Invariant: without a registered plugin pthread_create does nothing but forward.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "bindings/preload/shim.h"

typedef int (*CreateThread)(pthread_t*, const pthread_attr_t*, void* (*)(void*), void*);
typedef int (*SwitchThread)(int on);
typedef int (*ThreadIsOn)(void);

static _Atomic(SwitchThread) switch_thread;
static _Atomic(ThreadIsOn) thread_is_on;

// Registers the plugin's `tidepool_thread` and `tidepool_thread_is_on`: from now on a thread starts
// with interception on if the thread that creates it has it on. NULL switches that off again.
TIDEPOOL_EXPORT void tidepool_preload_set_thread_start(SwitchThread start, ThreadIsOn is_on) {
  atomic_store_explicit(&thread_is_on, is_on, memory_order_relaxed);
  atomic_store_explicit(&switch_thread, start, memory_order_release);
}

typedef struct {
  void* (*start)(void*);
  void* argument;
  SwitchThread on;
} ThreadStart;

static void* start_switched_on(void* argument) {
  ThreadStart start = *(ThreadStart*)argument;
  free(argument);
  start.on(1);
  return start.start(start.argument);
}

static CreateThread real_create_thread(void) {
  static _Atomic(CreateThread) known;
  CreateThread real = atomic_load_explicit(&known, memory_order_relaxed);
  if (!real) {
    void* symbol = dlsym(RTLD_NEXT, "pthread_create");
    memcpy(&real, &symbol, sizeof symbol);
    atomic_store_explicit(&known, real, memory_order_relaxed);
  }
  return real;
}

TIDEPOOL_EXPORT int pthread_create(pthread_t* thread, const pthread_attr_t* attributes,
                                   void* (*start)(void*), void* argument) {
  CreateThread real = real_create_thread();
  if (!real) return EAGAIN;
  SwitchThread on = atomic_load_explicit(&switch_thread, memory_order_acquire);
  ThreadIsOn is_on = atomic_load_explicit(&thread_is_on, memory_order_relaxed);
  if (!on || !is_on || !is_on()) return real(thread, attributes, start, argument);
  ThreadStart* ours = malloc(sizeof *ours);
  if (!ours) return EAGAIN;  // a thread with interception off would be a silent miss
  *ours = (ThreadStart){start, argument, on};
  int failure = real(thread, attributes, start_switched_on, ours);
  if (failure) free(ours);
  return failure;
}
