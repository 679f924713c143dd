// A plugin without PyTorch, for tests of what surrounds it: it notes the calls that it gets.
// FAKE_PLUGIN_LOG names a file for one line per call; FAKE_PLUGIN_REFUSES is attach's refusal.
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifndef FAKE_VERSION
#define FAKE_VERSION (9 << 8 | 1)
#endif

static _Thread_local int thread_on;
static int attached, escapes, steps, threads_started;

static void note(const char* text, const char* detail) {
  const char* path = getenv("FAKE_PLUGIN_LOG");
  FILE* file = path ? fopen(path, "a") : NULL;
  if (!file) return;
  fprintf(file, "%s %s\n", text, detail);
  fclose(file);
}

uint32_t tidepool_built_for(void) { return FAKE_VERSION; }

int tidepool_attach(const char* settings, char* error, size_t error_bytes) {
  const char* refusal = getenv("FAKE_PLUGIN_REFUSES");
  note("attach", settings);
  if (refusal) {
    snprintf(error, error_bytes, "%s", refusal);
    return 1;
  }
  attached = thread_on = 1;
  return 0;
}

int tidepool_attached(void) { return attached; }

size_t tidepool_statistics(char* out, size_t capacity) {
  char text[40000];
  memset(text, ' ', sizeof text);  // longer than a first guess at the size
  int used = snprintf(text, sizeof text,
                      "{\"cpu\": {\"budget_bytes\": 1073741824, "
                      "\"reserved_peak_bytes\": 1610612736, \"evictions\": 3, "
                      "\"evicted_bytes\": 3145728, \"operators_replayed\": 4, "
                      "\"bookkeeping_bytes\": 2048, \"replay_ns\": "
                      "1500000000, \"escapes\": %d, \"steps\": %d, \"threads\": %d}",
                      escapes, steps, threads_started);
  text[used] = ' ';
  text[sizeof text - 2] = '}';
  text[sizeof text - 1] = '\0';
  if (capacity >= sizeof text) memcpy(out, text, sizeof text);
  return sizeof text;
}

int tidepool_thread(int on) {
  int before = thread_on;
  if (on && !before) __atomic_add_fetch(&threads_started, 1, __ATOMIC_RELAXED);
  thread_on = on;
  return before;
}

int tidepool_thread_is_on(void) { return thread_on; }
int tidepool_hold(void* s, void** h, char* e, size_t n) {
  return (void)s, (void)e, (void)n, *h = 0, 0;
}
int tidepool_hold_to_write(void* s, void** h, char* e, size_t n) {
  return (void)s, (void)e, (void)n, *h = 0, 0;
}
void tidepool_let_go(void* s, void* h) { (void)s, (void)h; }
int tidepool_make_resident(void* s, char* e, size_t n) { return (void)s, (void)e, (void)n, 0; }
int tidepool_escape(void* s, char* e, size_t n) { return (void)s, (void)e, (void)n, escapes++, 0; }
int tidepool_written(void* s, char* e, size_t n) { return (void)s, (void)e, (void)n, 0; }
void tidepool_gives_up(void* storage) { (void)storage; }
void* tidepool_data_ptr_method(const void* python) { return (void)python, NULL; }
void* tidepool_method_for(const void* python, void* f) { return (void)python, (void)f, NULL; }
void tidepool_address_place(void* c, int i, int k) { (void)c, (void)i, (void)k; }
int tidepool_state(void* storage) { return (void)storage, 0; }
int tidepool_evict(void* storage) { return (void)storage, 0; }
size_t tidepool_evict_all(void) { return 0; }
void tidepool_optimizer_scope(int entering) { steps += !entering; }
void tidepool_finish(void) {}
void tidepool_rescan_operators(void) {}
void tidepool_set_place_source(const char* (*source)(void)) { (void)source; }
int tidepool_begin_settling(void** k, char* e, size_t n) {
  return (void)e, (void)n, *k = 0, note("begin_settling", ""), 0;
}
void tidepool_end_settling(void* k) { (void)k, note("end_settling", ""); }
int tidepool_begin_keeping(void** k, char* e, size_t n) {
  return (void)e, (void)n, *k = 0, note("begin_keeping", ""), 0;
}
void tidepool_end_keeping(void* k) { (void)k, note("end_keeping", ""); }
int tidepool_set_limit(uint64_t bytes, char* error, size_t error_bytes) {
  char text[32];
  snprintf(text, sizeof text, "%llu", (unsigned long long)bytes);
  note("limit", text);
  if (bytes >= 1000) return 0;
  snprintf(error, error_bytes, "out of memory: what cannot be evicted takes more");
  return 1;
}
void tidepool_distrust(const char* name) { note("distrust", name); }
void tidepool_begin_routing(const char* name, int anew) { (void)anew, note("begin_routing", name); }
void tidepool_end_routing(const char* name) { note("end_routing", name); }
void tidepool_note_router(void) { note("router", ""); }
void tidepool_begin_own_kernel(void** k) { *k = NULL, note("begin_own_kernel", ""); }
void tidepool_end_own_kernel(void* k) { (void)k, note("end_own_kernel", ""); }
void tidepool_wrap_own_kernels(void) {}
void tidepool_note_libraries(void) {}
void tidepool_judge_operators(bool (*judge)(const char*, const char*, bool)) { (void)judge; }
size_t tidepool_kernel_library(const char* name, char* out, size_t capacity) {
  (void)name;
  if (capacity > 0) out[0] = '\0';
  return 1;
}
void tidepool_note_own_kernel(int of_pytorch) {
  note("own kernel", of_pytorch ? "of PyTorch" : "");
}
void tidepool_undisturbed(int what) { note("undisturbed", what == 1 ? "enter" : "leave"); }
int tidepool_defer_signal(int number) { return number == 10; }
void tidepool_begin_region(void** k) { *k = NULL, note("region", "enter"); }
void tidepool_end_region(void* k) { (void)k, note("region", "leave"); }
const void* tidepool_known_operator(const char* name, int draws) {
  return note(draws != 0 ? "known to draw" : "known", name), name;
}
int tidepool_are_as_known(const void* const* operators, size_t count) {
  return operators != NULL && count > 0;
}
int tidepool_hold_all(void* const* storages, size_t count, void** held, char* error,
                      size_t capacity) {
  *held = NULL;
  note("hold all", count > 0 && storages != NULL ? "some" : "none");
  return error == NULL || capacity == 0;
}
void tidepool_let_all_go(void* held) { note("let all go", held != NULL ? "held" : ""); }
void* tidepool_begin_draws(int device, uint64_t* seed, uint64_t* offset) {
  note("draws", device == 0 ? "of 0" : "of another");
  *seed = UINT64_MAX;
  *offset = 8;
  return seed;
}
int tidepool_end_draws(void* draws, uint64_t offset) {
  note("draws end", offset == 12 ? "at 12" : "elsewhere");
  return draws == NULL;
}
void tidepool_draw_from(int device, uint64_t seed, uint64_t offset) {
  note("draw from", device == 0 && seed == UINT64_MAX && offset == 8 ? "0, max, 8" : "elsewhere");
}
uint64_t tidepool_drawn(void) { return note("drawn", ""), 12; }
void tidepool_made_by_graph(void* const* storages, size_t count) {
  note("made by graph", count > 0 && storages != NULL ? "some" : "none");
}
void tidepool_recording(int on) { (void)on; }
