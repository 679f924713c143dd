#include "bindings/torch/intercept/extension_addresses.h"

#include <ATen/Parallel.h>
#include <ATen/core/TensorBase.h>
#include <c10/core/ScalarType.h>
#include <dlfcn.h>

#include <bit>
#include <cstddef>
#include <string_view>

#include "absl/container/flat_hash_map.h"
#include "bindings/torch/base/devices.h"
#include "bindings/torch/engine/engine.h"
#include "bindings/torch/intercept/interception.h"
#include "bindings/torch/intercept/operands/argument_tracking.h"
#include "bindings/torch/storage/storage_access.h"
#include "bindings/torch/storage/tripwire.h"

namespace tidepool::torch_glue {
namespace {

void hand_out(Engine& engine, c10::StorageImpl* storage, bool may_write) {
  remat::Runtime& runtime = engine.runtime();
  DeviceLock lock(engine.mutex());
  remat::Storage* const tracked = find_tracked(engine, storage, remat::RootReason::kUntracked);
  if (tracked == nullptr || tripwire::is_accessible(runtime, *tracked, may_write)) return;
  restore_and_hand_out(runtime, tracked, false, lock);
}

void prepare(const at::TensorBase& tensor, bool may_write) {
  if (!tensor.defined() || is_below_interception()) return;
  c10::StorageImpl* const storage = storage_of(tensor.unsafeGetTensorImpl());
  Engine* const engine = storage == nullptr ? nullptr : engine_of(storage);
  if (engine == nullptr) return;
  const bool unwatched = !is_thread_intercepted();
  if (unwatched && at::in_parallel_region()) return;  // works for a kernel, which has its operands
  try {
    // On a thread that C++ has started, without the preload library, all is restored, and stays.
    if (unwatched && is_evicted(storage->_mutable_data_ptr_no_checks())) notice_thread();
    hand_out(*engine, storage, may_write);
  } catch (const OutOfMemory&) {
    rethrow_as_torch_error(*engine);
  }
}

template <auto kGetter, bool kMayWrite>
auto prepared(const at::TensorBase* tensor) {
  prepare(*tensor, kMayWrite);
  return (tensor->*kGetter)();
}

using Replacements = absl::flat_hash_map<std::string_view, void*>;

// The Itanium ABI has a pointer to a member function that is not virtual begin with its address.
struct MemberFunction {
  void* address;
  std::ptrdiff_t adjustment;
};

template <auto kGetter, bool kMayWrite>
void add(Replacements& replacements) {
  Dl_info found{};
  if (dladdr(std::bit_cast<MemberFunction>(kGetter).address, &found) == 0 || !found.dli_sname) {
    return;
  }
  replacements[found.dli_sname] = reinterpret_cast<void*>(&prepared<kGetter, kMayWrite>);
}

template <class T, class Pointer = T* (at::TensorBase::*)() const>
void add_type(Replacements& replacements) {
  using Reader = const T* (at::TensorBase::*)() const;
  add<static_cast<Pointer>(&at::TensorBase::data_ptr<T>), true>(replacements);
  add<static_cast<Pointer>(&at::TensorBase::mutable_data_ptr<T>), true>(replacements);
  add<static_cast<Reader>(&at::TensorBase::const_data_ptr<T>), false>(replacements);
  add<static_cast<Reader>(&at::TensorBase::const_data_ptr<const T>), false>(replacements);
}

Replacements make_replacements() {
  Replacements made;
#define TIDEPOOL_ADD(type, name) add_type<type>(made);
  AT_FORALL_SCALAR_TYPES_WITH_COMPLEX(TIDEPOOL_ADD)
  AT_FORALL_QINT_TYPES(TIDEPOOL_ADD)
#undef TIDEPOOL_ADD
  add_type<uint16_t>(made);
  add_type<uint32_t>(made);
  add_type<uint64_t>(made);
  return made;
}

}  // namespace

void* replacement_of_address_getter(const char* symbol) {
  constexpr std::string_view kClass = "_ZNK2at10TensorBase";
  const std::string_view name = symbol;
  if (!name.starts_with(kClass)) return nullptr;
  static const Replacements& replacements = *new Replacements(make_replacements());
  const auto found = replacements.find(name);
  return found == replacements.end() ? nullptr : found->second;
}

}  // namespace tidepool::torch_glue
