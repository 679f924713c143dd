// A watch on the budget from outside of Tidepool: preloaded into a job, it sees every system call
// that gives memory to, or takes it from, the ranges of addresses that Tidepool reserves, counts
// the committed bytes by itself, and ends the process at the first byte over the limit.
//
// BUDGET_WATCH_BYTES   the limit; without it nothing is watched
// BUDGET_WATCH_REPORT  file for what was seen, JSON, written at exit by a process with a range
// BUDGET_WATCH_PLANT   "call:N" or "hidden:N": at the N-th commit a page more is committed, by a
//                      call that is seen, or one that is not; the watch must catch either
//
// A page counts from the call that makes it accessible until it is inaccessible and its contents
// are dropped or moved away. An address that is still accessible after its page was moved counts
// again if it is made accessible anew; that it holds nothing is shown by the second check: pages
// that the kernel says are resident must be among the counted ones (after each kSampling commits).
// Thread safe: one lock around each call and its counting. A forked child is not watched.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#define EXPORT __attribute__((visibility("default")))

enum { kPage = 4096, kRanges = 4, kSampling = 8, kExitStatus = 97 };
enum { kOpen = 1, kHeld = 2, kVacated = 4 };  // accessible; may hold bytes; moved away, still open
enum { kPlantNothing, kPlantCall, kPlantHidden };

typedef struct {
  uintptr_t start, end;
  unsigned char* pages;     // a state for each page
  unsigned char* resident;  // what mincore says of each
} Range;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static Range ranges[kRanges];
static size_t range_count;
static size_t limit;
static size_t counted, counted_peak, resident_peak;
static size_t commits, releases, moves, samples;
static int plant;
static size_t plant_at;

static int is_counted(unsigned char state) {
  return (state & kHeld) || ((state & kOpen) && !(state & kVacated));
}

// ---- verdicts -----------------------------------------------------------------------------------

static _Noreturn void fail(const char* why, size_t bytes) {
  char text[256];
  int length = snprintf(text, sizeof text, "budget watch: %s: %zu bytes, the budget is %zu\n", why,
                        bytes, limit);
  if (write(STDERR_FILENO, text, (size_t)length) < 0) _exit(kExitStatus);
  _exit(kExitStatus);
}

static void check_count(void) {
  if (counted > counted_peak) counted_peak = counted;
  if (counted > limit) fail("committed", counted);
}

static void check_residency(void) {
  size_t total = 0;
  for (size_t r = 0; r < range_count; r++) {
    Range* range = &ranges[r];
    size_t bytes = range->end - range->start;
    size_t pages = bytes / kPage;
    if (syscall(SYS_mincore, range->start, bytes, range->resident)) {
      fail("mincore failed", bytes);
    }
    for (size_t k = 0; k < pages; k++) {
      if (!(range->resident[k] & 1)) continue;
      total += kPage;
      if (!is_counted(range->pages[k])) fail("a page holds memory behind the count", counted);
    }
  }
  if (total > resident_peak) resident_peak = total;
  if (total > limit) fail("resident", total);
  samples++;
}

// ---- pages --------------------------------------------------------------------------------------

// The part of [start, start + bytes) in a range, as page indices; 0 if there is none.
static int find(uintptr_t start, size_t bytes, Range** range, size_t* first, size_t* last) {
  for (size_t r = 0; r < range_count; r++) {
    uintptr_t from = start > ranges[r].start ? start : ranges[r].start;
    uintptr_t to = start + bytes < ranges[r].end ? start + bytes : ranges[r].end;
    if (from >= to) continue;
    *range = &ranges[r];
    *first = (from - ranges[r].start) / kPage;
    *last = (to - ranges[r].start + kPage - 1) / kPage;
    return 1;
  }
  return 0;
}

static void set_page(Range* range, size_t page, unsigned char state) {
  if (is_counted(range->pages[page])) counted -= kPage;
  range->pages[page] = state;
  if (is_counted(state)) counted += kPage;
}

// All pages of a run lose the bits of `cleared` and get those of `set`.
static int change(void* address, size_t bytes, unsigned char cleared, unsigned char set) {
  Range* range;
  size_t first, last;
  if (!find((uintptr_t)address, bytes, &range, &first, &last)) return 0;
  for (size_t k = first; k < last; k++) {
    set_page(range, k, (unsigned char)((range->pages[k] & ~cleared) | set));
  }
  return 1;
}

static void move_pages(void* from, void* to, size_t bytes, int keeps_addresses) {
  Range *source, *target;
  size_t first, last, at, end;
  int is_ours = find((uintptr_t)from, bytes, &source, &first, &last);
  if (!find((uintptr_t)to, bytes, &target, &at, &end)) {
    if (is_ours) fail("pages were moved out of the range", counted);
    return;
  }
  if (!is_ours) fail("pages were moved into the range", counted);
  moves++;
  for (size_t k = 0; k < last - first; k++) {
    unsigned char state = source->pages[first + k];
    unsigned char stays = keeps_addresses && (state & kOpen) ? kOpen | kVacated : 0;
    set_page(source, first + k, stays);
    set_page(target, at + k, (unsigned char)(state & ~kVacated));
  }
}

static void start_watching(uintptr_t start, size_t bytes) {
  size_t pages = bytes / kPage;
  if (range_count == kRanges) fail("too many ranges", bytes);
  Range* range = &ranges[range_count++];
  range->start = start;
  range->end = start + bytes;
  range->pages = calloc(pages, 1);
  range->resident = malloc(pages);
  if (!range->pages || !range->resident) fail("no memory for the states of pages", pages);
}

// [start, end) is not mapped any more: the watched range may begin later or end earlier.
static void trim(uintptr_t start, uintptr_t end) {
  for (size_t r = 0; r < range_count; r++) {
    Range* range = &ranges[r];
    if (start <= range->start && end > range->start && end < range->end) {
      range->pages += (end - range->start) / kPage;
      range->resident += (end - range->start) / kPage;
      range->start = end;
    }
    if (start > range->start && start < range->end && end >= range->end) range->end = start;
  }
}

// Commits the last page that nobody uses, as a faulty allocator would.
static void commit_planted_page(void) {
  int what = plant;
  plant = kPlantNothing;
  Range* range = &ranges[range_count - 1];
  size_t page = (range->end - range->start) / kPage;
  while (page-- > 0 && range->pages[page]) continue;
  if (page >= (range->end - range->start) / kPage) fail("no page left to plant", counted);
  void* address = (void*)(range->start + page * kPage);
  syscall(SYS_mprotect, address, kPage, PROT_READ | PROT_WRITE);
  if (what == kPlantCall) change(address, kPage, kVacated, kOpen | kHeld);
  *(volatile char*)address = 1;
}

// ---- the calls ----------------------------------------------------------------------------------

// Whether the code at `address` belongs to Tidepool's plugin.
static int is_plugin(void* address) {
  Dl_info where;
  return dladdr(address, &where) && where.dli_fname && strstr(where.dli_fname, "libtidepool_torch");
}

static void* map_and_count(void* caller, void* address, size_t bytes, int protection, int flags,
                           int file, off_t offset) {
  pthread_mutex_lock(&lock);
  long mapped = syscall(SYS_mmap, address, bytes, protection, flags, file, offset);
  int error = errno;
  if (mapped != -1 && limit) {
    unsigned char state = protection == PROT_NONE ? 0 : kOpen | kHeld;
    int is_ours = change((void*)mapped, bytes, kOpen | kHeld | kVacated, state);
    if (!is_ours && protection == PROT_NONE && !address && is_plugin(caller)) {
      start_watching((uintptr_t)mapped, bytes);
    }
    check_count();
  }
  pthread_mutex_unlock(&lock);
  errno = error;
  return (void*)mapped;
}

EXPORT void* mmap(void* address, size_t bytes, int protection, int flags, int file, off_t offset) {
  return map_and_count(__builtin_return_address(0), address, bytes, protection, flags, file,
                       offset);
}

EXPORT void* mmap64(void* address, size_t bytes, int protection, int flags, int file,
                    off64_t offset) {
  return map_and_count(__builtin_return_address(0), address, bytes, protection, flags, file,
                       offset);
}

EXPORT int munmap(void* address, size_t bytes) {
  pthread_mutex_lock(&lock);
  int result = (int)syscall(SYS_munmap, address, bytes);
  int error = errno;
  if (result == 0) {
    change(address, bytes, kOpen | kHeld | kVacated, 0);
    trim((uintptr_t)address, (uintptr_t)address + bytes);
  }
  pthread_mutex_unlock(&lock);
  errno = error;
  return result;
}

EXPORT int mprotect(void* address, size_t bytes, int protection) {
  pthread_mutex_lock(&lock);
  int result = (int)syscall(SYS_mprotect, address, bytes, protection);
  int error = errno;
  if (result == 0 && protection == PROT_NONE) change(address, bytes, kOpen | kVacated, 0);
  if (result == 0 && protection != PROT_NONE && change(address, bytes, kVacated, kOpen | kHeld)) {
    commits++;
    if (plant && commits >= plant_at) commit_planted_page();
    check_count();
    if (commits % kSampling == 0) check_residency();
  }
  pthread_mutex_unlock(&lock);
  errno = error;
  return result;
}

EXPORT int madvise(void* address, size_t bytes, int advice) {
  pthread_mutex_lock(&lock);
  int result = (int)syscall(SYS_madvise, address, bytes, advice);
  int error = errno;
  if (result == 0 && advice == MADV_DONTNEED && change(address, bytes, kHeld, 0)) releases++;
  pthread_mutex_unlock(&lock);
  errno = error;
  return result;
}

EXPORT void* mremap(void* from, size_t bytes, size_t new_bytes, int flags, ...) {
  va_list more;
  va_start(more, flags);
  void* to = flags & MREMAP_FIXED ? va_arg(more, void*) : NULL;
  va_end(more);
  pthread_mutex_lock(&lock);
  long moved = syscall(SYS_mremap, from, bytes, new_bytes, flags, to);
  int error = errno;
  if (moved != -1 && range_count > 0 && (void*)moved != from) {
    move_pages(from, (void*)moved, new_bytes, flags & 4 /* MREMAP_DONTUNMAP */);
    check_count();
  }
  pthread_mutex_unlock(&lock);
  errno = error;
  return (void*)moved;
}

// ---- start and end ------------------------------------------------------------------------------

static void stop_watching(void) {
  range_count = 0;
  limit = 0;
}

__attribute__((constructor)) static void start(void) {
  const char* bytes = getenv("BUDGET_WATCH_BYTES");
  const char* planted = getenv("BUDGET_WATCH_PLANT");
  if (bytes) limit = strtoull(bytes, NULL, 10);
  if (planted) {
    plant = strncmp(planted, "call:", 5) == 0 ? kPlantCall : kPlantHidden;
    plant_at = strtoull(strchr(planted, ':') + 1, NULL, 10);
  }
  pthread_atfork(NULL, NULL, stop_watching);
}

__attribute__((destructor)) static void report(void) {
  const char* path = getenv("BUDGET_WATCH_REPORT");
  if (range_count == 0) return;
  pthread_mutex_lock(&lock);
  check_residency();
  pthread_mutex_unlock(&lock);
  FILE* file = path ? fopen(path, "w") : NULL;
  if (!file) return;
  fprintf(file,
          "{\"ranges\": %zu, \"peak_bytes\": %zu, \"resident_peak_bytes\": %zu, "
          "\"commits\": %zu, \"releases\": %zu, \"moves\": %zu, \"samples\": %zu}\n",
          range_count, counted_peak, resident_peak, commits, releases, moves, samples);
  fclose(file);
}
