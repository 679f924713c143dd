// Engine: everything Tidepool has in this process, wired together: address space, allocator,
// runtime and PyTorch backend of the CPU. Made by attach(), never destroyed (storages outlive
// static destructors). Thread safe after attach().
#pragma once

#include <ATen/core/dispatch/Dispatcher.h>

#include <atomic>
#include <memory>

#include "allocator/address_space.h"
#include "allocator/budgeted_allocator.h"
#include "bindings/torch/settings.h"
#include "bindings/torch/torch_backend.h"
#include "remat/runtime.h"

namespace tidepool::torch_glue {

// The dispatch key we live on: no PyTorch component registers anything there (FACTS: free on 2.11
// to 2.15), it lies below autograd and above the backends.
inline constexpr c10::DispatchKey kInterceptionKey = c10::DispatchKey::CustomRNGKeyId;
inline constexpr c10::DispatchKeySet kBelowInterception =
    c10::DispatchKeySet(c10::DispatchKeySet::FULL_AFTER, kInterceptionKey);

class Engine {
 public:
  explicit Engine(const Settings& settings);

  // Installs the engine in PyTorch: allocator, interception, this thread. Called once.
  // Throws: std::runtime_error if PyTorch uses the key already.
  static void attach(const Settings& settings);

  BudgetedAllocator& allocator() { return *allocator_; }
  remat::Runtime& runtime() { return *runtime_; }
  DeviceMutex& mutex() { return mutex_; }
  TorchBackend& backend() { return *backend_; }
  const Settings& settings() const { return settings_; }

  // True where an allocation must offer the runtime a chance to evict at random.
  bool chaos_at_allocations() const { return chaos_at_allocations_; }

 private:
  static void become_forked_child();

  Settings settings_;
  bool chaos_at_allocations_ = false;
  std::unique_ptr<AddressSpace> space_;
  DeviceMutex mutex_;
  std::unique_ptr<BudgetedAllocator> allocator_;
  std::unique_ptr<TorchBackend> backend_;
  std::unique_ptr<remat::Runtime> runtime_;
};

namespace detail {
extern Engine* g_engine;
}
// The engine; nullptr before attach().
inline Engine* engine() { return detail::g_engine; }

// Rethrows our own out-of-memory error as PyTorch's exception type. Called in a catch block.
[[noreturn]] void rethrow_as_torch_error();
// The way back, for a kernel that ran within a restoration: throws our own error with the report of
// this thread's last one. Called in a catch block of c10::OutOfMemoryError.
[[noreturn]] void rethrow_as_our_error();

}  // namespace tidepool::torch_glue
