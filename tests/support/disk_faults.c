// Faults of a disk, preloaded into a job: chosen calls of pread() and pwrite(), counted from when
// they were chosen, go wrong. Only the job's tier makes such calls in these tests.
// Thread safe: one lock around counting; the calls themselves run side by side.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <unistd.h>

#define EXPORT __attribute__((visibility("default")))

enum { kUnit = 4096, kOddBytes = 100 };  // direct transfers go on from a multiple of the unit

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static char call[8];    // of which calls go wrong: "write", "read" or "file"
static char fault[16];  // what happens
static long first, last;
static long calls, hits;

// Chooses the calls first, first + 1, … `count` of them, of a kind, and forgets an earlier choice.
// Faults are the name of an errno below, "half", "odd", "nothing", "bits", "signal" and "kill".
EXPORT void disk_faults_choose(const char* kind, const char* what, long from, long count) {
  pthread_mutex_lock(&lock);
  strncpy(call, kind, sizeof call - 1);
  strncpy(fault, what, sizeof fault - 1);
  first = from;
  last = from + count - 1;
  calls = hits = 0;
  pthread_mutex_unlock(&lock);
}

// How many calls of the chosen kind there were since, and how many of them went wrong.
EXPORT long disk_faults_calls(void) { return calls; }
EXPORT long disk_faults_hits(void) { return hits; }

static int is_due(const char* kind) {
  pthread_mutex_lock(&lock);
  int due = 0;
  if (strcmp(kind, call) == 0) {
    ++calls;
    due = calls >= first && calls <= last;
    hits += due;
  }
  pthread_mutex_unlock(&lock);
  return due;
}

// Returns the errno that the fault is, or 0.
static int failure(void) {
  static const struct {
    const char* name;
    int number;
  } known[] = {{"EINTR", EINTR}, {"EIO", EIO}, {"ENOSPC", ENOSPC}, {"EOPNOTSUPP", EOPNOTSUPP}};
  for (size_t k = 0; k < sizeof known / sizeof *known; ++k) {
    if (strcmp(fault, known[k].name) == 0) return known[k].number;
  }
  return 0;
}

// What a call that is due does before it carries `bytes`; returns how many it carries, or -1.
static ssize_t begin(size_t bytes) {
  if ((errno = failure()) != 0) return -1;
  if (strcmp(fault, "nothing") == 0) return 0;
  if (strcmp(fault, "half") == 0 && bytes > kUnit) return (ssize_t)(bytes / 2 / kUnit * kUnit);
  if (strcmp(fault, "odd") == 0) return kOddBytes;
  if (strcmp(fault, "kill") == 0) kill(getpid(), SIGKILL);
  if (strcmp(fault, "signal") == 0) {
    kill(getpid(), SIGUSR1);
    usleep(2000);  // the job's thread takes it while the call goes on
  }
  return (ssize_t)bytes;
}

EXPORT ssize_t pwrite(int descriptor, const void* from, size_t bytes, off_t offset) {
  static ssize_t (*real)(int, const void*, size_t, off_t);
  if (real == NULL) real = dlsym(RTLD_NEXT, "pwrite");
  if (!is_due("write")) return real(descriptor, from, bytes, offset);
  const ssize_t carried = begin(bytes);
  if (carried <= 0) return carried;
  if (strcmp(fault, "bits") != 0 && strcmp(fault, "odd") != 0) {
    return real(descriptor, from, (size_t)carried, offset);
  }
  // A disk may write less than a unit; a direct transfer cannot, so that this one writes it all.
  char* changed = NULL;
  if (posix_memalign((void**)&changed, kUnit, bytes) != 0) return -1;
  memcpy(changed, from, bytes);
  if (strcmp(fault, "bits") == 0) changed[bytes / 2] ^= 4;
  const ssize_t written = real(descriptor, changed, bytes, offset);
  free(changed);
  return written < carried ? written : carried;
}

EXPORT ssize_t pread(int descriptor, void* to, size_t bytes, off_t offset) {
  static ssize_t (*real)(int, void*, size_t, off_t);
  if (real == NULL) real = dlsym(RTLD_NEXT, "pread");
  if (!is_due("read")) return real(descriptor, to, bytes, offset);
  const ssize_t carried = begin(bytes);
  if (carried <= 0) return carried;
  const ssize_t done = real(descriptor, to, bytes, offset);
  if (done > 0 && strcmp(fault, "bits") == 0) ((char*)to)[done / 2] ^= 4;
  return done < carried ? done : carried;
}

EXPORT int open(const char* path, int flags, ...) {
  static int (*real)(const char*, int, ...);
  if (real == NULL) real = dlsym(RTLD_NEXT, "open");
  va_list more;
  va_start(more, flags);
  const mode_t mode = va_arg(more, mode_t);
  va_end(more);
  if ((flags & O_TMPFILE) == O_TMPFILE && is_due("file") && (errno = failure()) != 0) return -1;
  return real(path, flags, mode);
}

EXPORT int mkostemp(char* path, int flags) {
  static int (*real)(char*, int);
  if (real == NULL) real = dlsym(RTLD_NEXT, "mkostemp");
  if (is_due("file") && (errno = failure()) != 0) return -1;
  return real(path, flags);
}
