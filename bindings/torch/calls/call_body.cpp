#include "bindings/torch/calls/call_body.h"

#include <c10/core/DispatchKeySet.h>

#include <algorithm>
#include <cstring>
#include <new>

#include "bindings/torch/base/devices.h"
#include "bindings/torch/storage/storage_access.h"

namespace tidepool::torch_glue {

namespace {
const uint64_t kReplayedKeys =
    c10::DispatchKeySet({c10::DispatchKey::CPU, c10::DispatchKey::CUDA, c10::DispatchKey::Conjugate,
                         c10::DispatchKey::Negative})
        .raw_repr();

constexpr size_t round_up(size_t bytes) { return (bytes + 15) & ~size_t{15}; }

// What an allocation takes from malloc: in steps of 16 bytes, 8 of them malloc's own.
constexpr size_t bytes_with_malloc(size_t bytes) {
  return std::max<size_t>(round_up(bytes + 8), 32);
}

// Mostly four numbers or fewer, for which a call of memcpy is a long way.
void copy_numbers(int64_t* to, const int64_t* from, size_t count) {
  switch (count) {
    case 4:
      to[3] = from[3];
      [[fallthrough]];
    case 3:
      to[2] = from[2];
      [[fallthrough]];
    case 2:
      to[1] = from[1];
      [[fallthrough]];
    case 1:
      to[0] = from[0];
      [[fallthrough]];
    case 0:
      return;
    default:
      std::memcpy(to, from, count * sizeof(int64_t));
  }
}
}  // namespace

size_t CallBody::bytes_for(const OperatorInfo& info, size_t slots, size_t dimensions,
                           size_t immediates) {
  return round_up(sizeof(CallBody)) + round_up(sizeof(c10::IValue) * info.argument_count) +
         round_up(sizeof(TensorSlot) * slots) + round_up(sizeof(int64_t) * 2 * dimensions) +
         TensorSlot::kImmediateBytes * immediates +
         (info.draws ? round_up(sizeof(RandomState)) : 0);
}

CallBody& CallBody::construct(void* memory, const OperatorInfo& info, size_t slots,
                              size_t dimensions) {
  char* at = static_cast<char*>(memory);
  CallBody* body = new (at) CallBody;
  at += round_up(sizeof(CallBody));
  if (info.draws) {
    body->random = new (at) RandomState;
    at += round_up(sizeof(RandomState));
  }
  body->info_ = &info;
  body->slot_capacity_ = static_cast<uint32_t>(slots);
  body->arguments_ = reinterpret_cast<c10::IValue*>(at);
  for (size_t k = 0; k < info.argument_count; ++k) new (&body->arguments_[k]) c10::IValue();
  at += round_up(sizeof(c10::IValue) * info.argument_count);
  body->slots_ = reinterpret_cast<TensorSlot*>(at);
  at += round_up(sizeof(TensorSlot) * slots);
  body->next_dimension_ = reinterpret_cast<int64_t*>(at);
  at += round_up(sizeof(int64_t) * 2 * dimensions);
  body->next_immediate_ = at;
  return *body;
}

void CallBody::destroy(void* memory) {
  CallBody* body = static_cast<CallBody*>(memory);
  for (size_t k = 0; k < body->info_->argument_count; ++k) body->arguments_[k].~IValue();
  if (body->random != nullptr) body->random->~RandomState();
  body->~CallBody();
}

// Which of these a list has room for is not known: as many as it has elements.
size_t CallBody::heap_bytes_of(const c10::IValue& value) {
  if (value.isList()) {
    const c10::ArrayRef<c10::IValue> elements = value.toListRef();
    size_t bytes = bytes_with_malloc(sizeof(c10::detail::ListImpl)) +
                   bytes_with_malloc(elements.size() * sizeof(c10::IValue));
    for (const c10::IValue& element : elements) {
      if (element.isPtrType()) bytes += heap_bytes_of(element);  // lists of lists, at most
    }
    return bytes;
  }
  if (value.isString()) {
    return bytes_with_malloc(sizeof(c10::ivalue::ConstantString)) +
           bytes_with_malloc(value.toStringRef().capacity());
  }
  return bytes_with_malloc(sizeof(c10::complex<double>) + sizeof(c10::intrusive_ptr_target));
}

void CallBody::forget_random() {
  random->~RandomState();
  random = nullptr;
}

void CallBody::add_slot(TensorSlot::Kind kind, const c10::TensorImpl* tensor, int64_t offset) {
  TORCH_INTERNAL_ASSERT_DEBUG_ONLY(slot_count_ < slot_capacity_);
  TensorSlot& slot = *new (&slots_[slot_count_++]) TensorSlot;
  slot.kind = kind;
  if (kind == TensorSlot::Kind::kAbsent) return;
  const size_t dimensions = static_cast<size_t>(tensor->dim());
  slot.dimensions = static_cast<uint32_t>(dimensions);
  slot.sizes = next_dimension_;
  copy_numbers(next_dimension_, tensor->sizes().data(), dimensions);
  copy_numbers(next_dimension_ + dimensions, tensor->strides().data(), dimensions);
  next_dimension_ += 2 * dimensions;
  slot.offset = offset;
  slot.keys = tensor->key_set().raw_repr() & kReplayedKeys;
  slot.scalar_type = static_cast<int8_t>(c10::typeMetaToScalarType(tensor->dtype()));
  slot.wrapped_number = tensor->is_wrapped_number();
  if (kind != TensorSlot::Kind::kImmediate) return;
  c10::StorageImpl* storage = storage_of(tensor);
  slot.storage_bytes = static_cast<uint32_t>(storage->nbytes());
  slot.immediate = next_immediate_;
  std::memcpy(next_immediate_, storage->_mutable_data_ptr_no_checks().get(), slot.storage_bytes);
  next_immediate_ += TensorSlot::kImmediateBytes;
}

}  // namespace tidepool::torch_glue
