#include "bindings/torch/state/thread_pool.h"

#include <ATen/Parallel.h>

#include <atomic>
#include <cstdint>
#include <optional>
#include <utility>

#include "bindings/torch/state/floating_point.h"

// Of OpenMP's library, which PyTorch has loaded.
extern "C" int omp_pause_resource_all(int kind) __attribute__((weak));

namespace tidepool::torch_glue {
namespace {

constexpr int kSoftPause = 1;  // omp_pause_soft

// How the threads rounded that have ended; nullopt: none have.
thread_local std::optional<uint32_t> t_ended;

}  // namespace

void end_thread_pool() {
  t_ended.reset();
  if (&omp_pause_resource_all == nullptr || at::in_parallel_region()) return;
  std::atomic<uint32_t> control{floating_point_control()};
  at::parallel_for(0, at::get_num_threads(), 1, [&](int64_t, int64_t) {
    if (at::get_thread_num() > 0) control.store(floating_point_control());
  });
  if (omp_pause_resource_all(kSoftPause) == 0) t_ended = control.load();
}

void restart_thread_pool() {
  const uint32_t own = floating_point_control();
  const std::optional<uint32_t> ended = std::exchange(t_ended, std::nullopt);
  if (!ended || *ended == own) return;
  set_floating_point_control(*ended);
  at::parallel_for(0, at::get_num_threads(), 1, [](int64_t, int64_t) {});
  set_floating_point_control(own);
}

}  // namespace tidepool::torch_glue
