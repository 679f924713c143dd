/* Tidepool in a C++ (or C) program that uses LibTorch without Python.

     #include <tidepool/tidepool.h>
     tidepool::enable({.budget = "8GiB"});

   The C functions are stable: structures carry their size, and only grow at their ends. The C++
   below them is inline. Every function may be called from any thread. Link Tidepool before LibTorch
   (CMake: Tidepool::tidepool before ${TORCH_LIBRARIES}), or preload libtidepool_preload.so: calls
   of LibTorch's that the dispatcher does not show go through it. Needs PyTorch 2.13 or newer. */
#ifndef TIDEPOOL_TIDEPOOL_H
#define TIDEPOOL_TIDEPOOL_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif
#ifndef TIDEPOOL_API
#define TIDEPOOL_API __attribute__((visibility("default")))
#endif

/* What the functions that may fail return. Why they did says tidepool_error(). */
enum {
  TIDEPOOL_OK = 0,
  TIDEPOOL_OUT_OF_MEMORY = 1, /* what cannot be evicted does not fit */
  TIDEPOOL_FAILED = 2,
  TIDEPOOL_WRONG_SETTING = 3, /* the message names it */
  TIDEPOOL_CANNOT_ATTACH = 4, /* no plugin for this PyTorch, or attached otherwise already */
  TIDEPOOL_NOT_ATTACHED = 5
};

/* The message of the calling thread's last failure; "" if it has had none. It holds until the next
   one. */
TIDEPOOL_API const char* tidepool_error(void);

/* Settings, as `tidepool run` has them; NULL or "" leaves one to its TIDEPOOL_ variable. */
typedef struct tidepool_options {
  size_t size;             /* sizeof(tidepool_options) */
  const char* budget;      /* "8GiB", "60%", "auto" */
  const char* policy;      /* "planned", ... */
  const char* device;      /* "cpu" or "cuda"; else cuda if LibTorch has it and a GPU is visible */
  const char* chaos;       /* "op", ...: evicts on purpose, for tests */
  const char* offload;     /* "file:FOLDER:SIZE" on cpu, "host:SIZE" on cuda */
  const char* stats;       /* a file for statistics at exit */
  const char* trace;       /* a file for what the program does from now on */
  const char* trace_steps; /* which steps that records: "3", "2:4" or "2:" */
  int quiet;               /* no lines on standard error */
} tidepool_options;

/* Attaches to this process. Memory allocated before is never evicted, and threads that exist
   already are not watched, so call it first in main(). With the same settings again it does
   nothing. TIDEPOOL_WRONG_SETTING, TIDEPOOL_CANNOT_ATTACH: nothing has changed. */
TIDEPOOL_API int tidepool_enable(const tidepool_options* options);
/* The same by variables alone; 0 if they ask for nothing. Says on standard error why it fails. */
TIDEPOOL_API int tidepool_enable_from_environment(void);

/* Numbers of one device, in bytes, nanoseconds, or calls. docs/guide.md explains them. */
typedef struct tidepool_stats {
  size_t size; /* sizeof(tidepool_stats) */
  uint64_t budget_bytes, limit_bytes;
  uint64_t reserved_bytes, reserved_peak_bytes;
  uint64_t allocated_bytes, allocated_peak_bytes;
  uint64_t evictions, evicted_bytes, rematerializations;
  uint64_t operators_seen, operators_recorded, operators_replayed;
  uint64_t replay_ns, search_ns, bookkeeping_ns;
  uint64_t offloads, fetches, exposed_ns;
} tidepool_stats;

/* Fills `stats`, whose `size` the caller has set. `device`: "cpu", "cuda:0", ...; NULL is the only
   or first one. */
TIDEPOOL_API int tidepool_read_stats(const char* device, tidepool_stats* stats);
/* Writes all statistics as JSON, by device. Returns the bytes needed including the NUL, and writes
   nothing if `capacity` is smaller; 0 where Tidepool is not attached. */
TIDEPOOL_API size_t tidepool_stats_json(char* out, size_t capacity);

/* Another budget from now on, at most that of the start; NULL is that one again. A smaller one
   holds when the call returns. TIDEPOOL_OUT_OF_MEMORY: what cannot be evicted takes more, and the
   budget is what it was. */
TIDEPOOL_API int tidepool_set_budget(const char* size);

/* Restores a storage (a c10::StorageImpl*), which stays where it is until it is released. The
   storage must live until then. `*kept` may be NULL: then there is nothing to release. */
TIDEPOOL_API int tidepool_keep(void* storage, void** kept);
TIDEPOOL_API void tidepool_release(void* storage, void* kept);

/* Restores everything, and evicts nothing until the block ends. Blocks nest and may overlap. */
TIDEPOOL_API int tidepool_begin_no_eviction(void** block);
TIDEPOOL_API void tidepool_end_no_eviction(void* block);

/* A step of a training loop ends. Steps of torch::optim's optimizers are noticed without it; once
   it has been called, only its calls count. */
TIDEPOOL_API void tidepool_step(void);

#ifdef __cplusplus
}

#include <stdexcept>
#include <string>
#include <utility>

namespace tidepool {

struct Error : std::runtime_error {
  explicit Error(int given) : std::runtime_error(tidepool_error()), code(given) {}
  int code;  // TIDEPOOL_OUT_OF_MEMORY, ...
};

inline void check(int code) {
  if (code != TIDEPOOL_OK) throw Error(code);
}

struct Options {
  std::string budget, policy, device, chaos, offload, stats, trace, trace_steps;
  bool quiet = false;
};

inline void enable(const Options& options) {
  check([&] {
    const tidepool_options given = {sizeof(tidepool_options),    options.budget.c_str(),
                                    options.policy.c_str(),      options.device.c_str(),
                                    options.chaos.c_str(),       options.offload.c_str(),
                                    options.stats.c_str(),       options.trace.c_str(),
                                    options.trace_steps.c_str(), options.quiet};
    return tidepool_enable(&given);
  }());
}

using Statistics = tidepool_stats;
inline Statistics statistics(const char* device = nullptr) {
  Statistics found = {};
  found.size = sizeof found;
  check(tidepool_read_stats(device, &found));
  return found;
}

// All statistics as JSON; "" where Tidepool is not attached.
inline std::string statistics_json() {
  std::string text;
  for (size_t needed; (needed = tidepool_stats_json(text.data(), text.size())) > text.size();) {
    text.resize(needed);
  }
  while (!text.empty() && text.back() == '\0') text.pop_back();
  return text;
}

inline void set_budget(const std::string& size) { check(tidepool_set_budget(size.c_str())); }
inline void reset_budget() { check(tidepool_set_budget(nullptr)); }
inline void step() { tidepool_step(); }

// Keeps a tensor from being evicted while it lives, so that its address may be used.
template <class Tensor>
class Kept {
 public:
  explicit Kept(const Tensor& tensor) : tensor_(tensor) { check(tidepool_keep(storage(), &kept_)); }
  ~Kept() { tidepool_release(storage(), kept_); }
  Kept(const Kept&) = delete;
  Kept& operator=(const Kept&) = delete;

 private:
  void* storage() const { return tensor_.storage().unsafeGetStorageImpl(); }
  Tensor tensor_;
  void* kept_ = nullptr;
};

// Nothing is evicted while it lives.
class NoEviction {
 public:
  NoEviction() { check(tidepool_begin_no_eviction(&block_)); }
  ~NoEviction() { tidepool_end_no_eviction(block_); }
  NoEviction(const NoEviction&) = delete;
  NoEviction& operator=(const NoEviction&) = delete;

 private:
  void* block_ = nullptr;
};

}  // namespace tidepool
#endif
#endif
