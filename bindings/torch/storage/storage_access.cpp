#include "bindings/torch/storage/storage_access.h"

#include <ATen/detail/CUDAHooksInterface.h>
#include <c10/util/intrusive_ptr.h>

#include <optional>
#include <string>
#include <utility>

#include "allocator/locks/interpreter_lock.h"
#include "bindings/torch/base/devices.h"
#include "bindings/torch/storage/tripwire.h"
#include "remat/locked_storage.h"

namespace tidepool::torch_glue {
namespace {

const char* const kEvictedMessage =
    "Tidepool has evicted this tensor's bytes, and a raw pointer to them was asked for in a way "
    "that Tidepool cannot see. Read the tensor with an operator first (for example clone()).";

#if TIDEPOOL_TORCH_MINOR < 12
// PyTorch 2.11 has no clear_data_ptr_access_error_msg_(). The flag is reached by the rule that
// explicit instantiations may name private members.
template <bool c10::StorageImpl::* Member>
struct ThrowFlag {
  friend bool c10::StorageImpl::* throw_flag() { return Member; }
};
bool c10::StorageImpl::* throw_flag();
template struct ThrowFlag<&c10::StorageImpl::throw_on_immutable_data_ptr_>;

// Has to be called before set_data_ptr_noswap(), which recomputes the storage's summary flag.
void clear_access_error_before(c10::StorageImpl* storage) {
  storage->*throw_flag() = false;
  storage->get_extra_meta().custom_data_ptr_error_msg_ = std::nullopt;
}
void clear_access_error_after(c10::StorageImpl*) {}
#else
void clear_access_error_before(c10::StorageImpl*) {}
void clear_access_error_after(c10::StorageImpl* storage) {
  storage->clear_data_ptr_access_error_msg_();
}
#endif

void drop_strong(void* storage) {
  c10::raw::intrusive_ptr::decref(static_cast<c10::StorageImpl*>(storage));
}

// Takes a strong reference for the length of a change, so that a last owner cannot free the storage
// meanwhile. False if the storage is dying.
bool hold_strongly(c10::StorageImpl* storage, DeviceMutex& mutex) {
  // PyTorch takes Python's lock where only Python holds the storage.
  std::optional<InterpreterLock::Wanted> wanted;
  if (storage->pyobj_slot()->load_pyobj() != nullptr) [[unlikely]]
    wanted.emplace();
  c10::intrusive_ptr_target* locked = c10::raw::weak_intrusive_ptr::lock(storage);
  if (locked == nullptr) return false;
  mutex.drop_later(storage, &drop_strong);
  return true;
}

}  // namespace

void hand_out_address(remat::Runtime& runtime, remat::Storage* storage, bool kept,
                      DeviceLock& lock) {
  if (kept) {
    runtime.escape(storage, lock);
  } else {
    runtime.cut(storage, remat::RootReason::kRawWrite, lock);
    storage->fixed = true;
  }
  tripwire::disarm(static_cast<c10::StorageImpl*>(storage->framework_storage));
  storage->unwatched = false;  // whoever asked for the address uses it now; an operator begins anew
}

void restore_and_hand_out(remat::Runtime& runtime, remat::Storage* storage, bool kept,
                          DeviceLock& lock) {
  const remat::LockedStorage locked(runtime, storage);
  runtime.make_resident({&storage, 1}, lock);
  hand_out_address(runtime, storage, kept, lock);
}

void delete_evicted(void* pointer) {
  auto* storage = static_cast<remat::Storage*>(pointer);
  const c10::Device device = device_of(static_cast<c10::StorageImpl*>(storage->framework_storage));
  g_runtimes.of(device)->on_evicted_storage_freed(storage);
}

bool is_pinned(const c10::TensorImpl& tensor) {
  if (tensor.is_wrapped_number()) return false;  // of the call's own making
  return at::detail::getCUDAHooks().isPinnedPtr(storage_of(&tensor)->data());
}

void hold_weakly(c10::StorageImpl* storage) { c10::raw::weak_intrusive_ptr::incref(storage); }
void drop_weak_hold(c10::StorageImpl* storage) { c10::raw::weak_intrusive_ptr::decref(storage); }

remat::Storage* start_tracking(remat::Runtime& runtime, c10::StorageImpl* storage,
                               remat::RootReason reason) {
  void* address = storage->_mutable_data_ptr_no_checks().get();
  remat::Storage* tracked = runtime.track(storage, address, storage->nbytes(), reason);
  if (tracked == nullptr) return nullptr;
  hold_weakly(storage);
  tripwire::arm(storage);
  return tracked;
}

bool take_bytes(c10::StorageImpl* storage, void* address, remat::Storage* tracking,
                DeviceMutex& mutex) {
  c10::DataPtr& data = storage->_mutable_data_ptr_no_checks();
  if (data.get() != address || !holds_block(data)) return false;
  if (!hold_strongly(storage, mutex)) return false;
  data.release_context();
  storage->set_data_ptr_noswap(c10::DataPtr(nullptr, tracking, &delete_evicted, data.device()));
  storage->release_data_and_set_meta_custom_data_ptr_error_msg_(std::string(kEvictedMessage));
  return true;
}

bool give_bytes(c10::StorageImpl* storage, void* address, remat::Storage* tracking,
                DeviceMutex& mutex) {
  c10::DataPtr& data = storage->_mutable_data_ptr_no_checks();
  if (data.get_context() != tracking || data.get_deleter() != &delete_evicted) return false;
  if (!hold_strongly(storage, mutex)) return false;
  const c10::Device device = data.device();
  data.release_context();
  clear_access_error_before(storage);
  storage->set_data_ptr_noswap(c10::DataPtr(address, address, &delete_block, device));
  clear_access_error_after(storage);
  return true;
}

}  // namespace tidepool::torch_glue
