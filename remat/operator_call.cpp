#include "remat/operator_call.h"

#include <algorithm>
#include <functional>
#include <string_view>
#include <utility>

#include "allocator/base/check.h"
#include "remat/call_context.h"

namespace tidepool::remat {

namespace {

// Whether the storage's contents may change unseen.
bool is_unstable(const Storage& storage) { return storage.escaped; }

}  // namespace

OperatorCall::OperatorCall(Runtime& runtime)
    : context_(runtime.call_context()), contents_(context_.contents) {}

OperatorCall::~OperatorCall() {
  if (finished_ || (operands_.empty() && record_ == nullptr)) return;
  DeviceLock lock(contents_.allocator.mutex());
  refuse(RootReason::kUnsupported);
  if (prepared_ && writes_) start_versions();
  if (prepared_ && context_.observation.listener() != nullptr) notify_observer({}, 0);
  if (record_ != nullptr) contents_.store.release(record_);
  release_operands();
}

void OperatorCall::add(Storage* storage, Access access) {
  if (operands_.empty()) {
    holder_.call = this;
    holder_.since = contents_.allocator.allocations();
    contents_.queue.enter(holder_);
  }
  contents_.lock(*storage);
  // Whoever was given its address has used the watch up, and it begins anew after this operator.
  if (storage->fixed) [[unlikely]]
    storage->unwatched = true;
  operands_.push_back({storage, access});
  writes_ |= access != Access::kRead;
  evicted_ |= storage->evicted;
  watched_ |= contents_.residency.watch.watches(*storage);
  edges_ += access == Access::kRead || access == Access::kUpdate;
}

void OperatorCall::begin_foreseen() {
  absl::InlinedVector<Storage*, 8> storages;
  for (const Operand& operand : operands_) storages.push_back(operand.storage);
  // The operator counts by its name, because what one device's runtime learns is told to others.
  const uint64_t type = type_ != nullptr ? std::hash<std::string_view>()(type_->name) : 0;
  const uint64_t site = type ^ site_ << 48;
  const std::span<Storage* const> met{storages.data(), storages.size()};
  const bool foresees = contents_.foreseen.enabled();
  if (foresees) context_.prefetcher.before_meeting(met);
  foreseen_ = context_.step_history->begin(site, met, contents_.residency.now());
  if (foresees) contents_.foreseen.after_meeting(met);
  tell_foreseen();
}

void OperatorCall::tell_foreseen() {
  if (context_.step_history->take_foreseen()) [[unlikely]]
    context_.observation.foreseen(*context_.step_history);
}

void OperatorCall::finish_foreseen(std::span<Storage* const> outputs) {
  const bool foresees = contents_.foreseen.enabled();
  if (foresees) context_.prefetcher.before_meeting(outputs);
  context_.step_history->finish(foreseen_, outputs);
  if (foresees) contents_.foreseen.after_meeting(outputs);
  tell_foreseen();
}

void OperatorCall::restore_operands(DeviceLock& lock) {
  absl::InlinedVector<Storage*, 8> evicted;
  for (const Operand& operand : operands_) {
    if (operand.storage->evicted) evicted.push_back(operand.storage);
  }
  if (!evicted.empty()) context_.restorer.make_resident({evicted.data(), evicted.size()}, lock);
}

// Protecting an operand may release the lock, and other threads may then read operands that were
// looked at before. So there are whole rounds over the operands, until one finds nothing to do. (To
// start again from the first operand after each that needed something would take time quadratic in
// their number.)
bool OperatorCall::protect_written(DeviceLock& lock) {
  bool any = false, again = true;
  while (again) {
    again = false;
    for (const Operand& operand : operands_) {
      Storage& storage = *operand.storage;
      ++context_.operand_checks;
      if (!writes(operand) || storage.dead || Versions::may_be_written(storage)) continue;
      if (storage.current->producer != nullptr) {
        again |= context_.versions.wait_until_unread(storage, lock);
      } else {
        const bool refused = reason_ != RootReason::kNone;
        context_.versions.cut(storage, refused ? reason_ : RootReason::kPartialWrite, lock);
        again = true;
      }
    }
    any |= again;
  }
  return any;
}

// Notices contents that were written unseen since an operator read them, and notes those that this
// one reads, if it will be recorded.
void OperatorCall::watch_operands(DeviceLock& lock) {
  ContentWatch& watch = contents_.residency.watch;
  for (const Operand& operand : operands_) {
    Storage& storage = *operand.storage;
    if (storage.dead || storage.evicted || storage.writing || !watch.watches(storage)) continue;
    context_.versions.heed_unseen_write(storage, lock);
    const bool is_recorded = reason_ == RootReason::kNone && operand.access != Access::kOverwrite;
    if (is_recorded && !storage.dead) watch.read(storage);
  }
}

// While the lock is released, another thread may have operands used in secret again.
bool OperatorCall::order_operands(DeviceLock& lock) {
  const StreamId stream = contents_.replay_order.stream();
  absl::InlinedVector<StreamUse, 8> ordered(operands_.size());
  bool any = false, again = true;
  while (again) {
    again = false;
    for (size_t k = 0; k < operands_.size(); ++k) {
      Storage& storage = *operands_[k].storage;
      if (storage.dead) continue;
      const StreamUse use = storage.current->hidden_use;
      if (use.epoch > 0 && use != std::exchange(ordered[k], use)) again |= use.stream != stream;
      contents_.replay_order.before_use(storage, stream, lock);
    }
    any |= again;
  }
  return any;
}

const OperatorCall::UsedBytes* OperatorCall::used_of(const Operand& operand) const {
  const size_t place = static_cast<size_t>(&operand - operands_.data());
  const auto found = std::find_if(used_.begin(), used_.end(),
                                  [&](const UsedBytes& used) { return used.operand == place; });
  return found != used_.end() ? &*found : nullptr;
}

void OperatorCall::end_pieces(DeviceLock& lock) {
  for (const Operand& operand : operands_) {
    Storage& storage = *operand.storage;
    if (!storage.in_pieces || storage.dead) [[likely]]
      continue;
    Pieces& pieces = contents_.residency.pieces;
    if (storage.current->producer == nullptr) {  // a limit, or a root that died, has made it one
      pieces.forget(storage);
      continue;
    }
    const UsedBytes* const used = used_of(operand);
    const bool goes_on =
        used != nullptr && (used->only_written || pieces.covers(storage, used->bytes));
    if (!goes_on) context_.versions.cut(storage, RootReason::kPartialWrite, lock);
  }
}

void OperatorCall::decide() {
  if (!context_.recording.load(std::memory_order_relaxed)) make_roots(RootReason::kRecordingOff);
  Operand* written = nullptr;
  for (Operand& operand : operands_) {
    if (operand.storage->dead || is_unstable(*operand.storage)) refuse(RootReason::kUnstableInput);
    if (operand.access != Access::kUpdate && operand.access != Access::kOverwrite) continue;
    if (written != nullptr) make_roots(RootReason::kListWrite);
    written = &operand;
  }
  if (written == nullptr || reason_ != RootReason::kNone) return;
  written_ = written->storage;
  if (written->access == Access::kUpdate) {
    if (written_->current->producer != nullptr) return;
    const UsedBytes* const used = used_of(*written);
    begins_pieces_ = used != nullptr && used->only_written && is_blank(*written_);
    if (!begins_pieces_) return make_roots(RootReason::kPartialWrite);
    written->access = Access::kOverwrite;
    --edges_;
  }
  for (const Operand& operand : operands_) {
    if (&operand != written && operand.storage == written_) make_roots(RootReason::kUnsupported);
  }
}

bool OperatorCall::prepare(DeviceLock& lock) {
  ++context_.operators_seen;
  settlements_ = context_.settlements;
  if (context_.step_history != nullptr) begin_foreseen();
  try {
    if (evicted_) [[unlikely]]
      restore_operands(lock);
    if (context_.prefetcher.enabled()) [[unlikely]]
      context_.prefetcher.advance(lock);
    if (watched_) [[unlikely]]
      watch_operands(lock);
    // Each may release the lock, and what the other has found may not hold any more: another thread
    // may restore something from what is about to be written.
    const bool has_streams = contents_.replay_order.has_streams();
    if (has_streams) order_operands(lock);
    end_pieces(lock);
    while (writes_ && protect_written(lock)) {
      if (!has_streams || !order_operands(lock)) break;
    }
  } catch (...) {
    if (context_.step_history != nullptr) context_.step_history->give_up();
    if (context_.observation.listener() != nullptr) notify_observer({}, 0);
    release_operands();
    finished_ = true;
    throw;
  }
  decide();
  if (writes_) {
    for (const Operand& operand : operands_) {
      if (!writes(operand)) continue;
      if (operand.storage->writing && is_written_elsewhere(*operand.storage)) [[unlikely]]
        operand.storage->written_by_several = true;
      operand.storage->writing = true;
      if (Value* const old = operand.storage->current;
          old != nullptr && old->consumers != nullptr) {
        contents_.residency.copies.left(*old);
      }
    }
  }
  prepared_ = true;
  if (context_.observation.listener() != nullptr && type_ != nullptr) [[unlikely]]
    context_.observation.listener()->begins();
  return reason_ == RootReason::kNone;
}

// Whether an operator of another thread that has not ended writes the storage.
bool OperatorCall::is_written_elsewhere(const Storage& storage) const {
  bool found = false;
  contents_.queue.for_each_holder([&](const RestorationQueue::Holder& holder) {
    const OperatorCall* const call = holder.call;
    if (call == nullptr || holder.thread == holder_.thread || !call->prepared_) return;
    for (const Operand& operand : call->operands_) {
      found |= operand.storage == &storage && writes(operand);
    }
  });
  return found;
}

bool OperatorCall::only_others_use(Runtime& runtime, const Storage& storage) {
  const RestorationQueue& queue = runtime.call_context().contents.queue;
  uint32_t locks = 0;
  queue.for_each_holder([&](const RestorationQueue::Holder& holder) {
    if (holder.call == nullptr || holder.thread == RestorationQueue::this_thread()) return;
    for (const Operand& operand : holder.call->operands_) locks += operand.storage == &storage;
  });
  return locks > 0 && locks == storage.locks;
}

Record* OperatorCall::begin_record(const RecordType& type, size_t body_bytes, size_t outputs) {
  TIDEPOOL_CHECK(prepared_ && reason_ == RootReason::kNone && record_ == nullptr,
                 "%s: not recordable, or recorded already", type.name);
  record_ = contents_.store.new_record(type, edges_, written_ != nullptr ? 1 : outputs, body_bytes);
  uint32_t k = 0;
  for (const Operand& operand : operands_) {
    if (operand.access == Access::kOverwrite) {
      record_->overwrites = true;
      record_->overwritten_bytes = operand.storage->current->bytes;
    }
    if (operand.access != Access::kRead && operand.access != Access::kUpdate) continue;
    if (operand.access == Access::kUpdate) record_->written_edge = k;
    contents_.store.set_edge(*record_, k++, *operand.storage->current);
  }
  return record_;
}

void OperatorCall::add_heap_bytes(size_t bytes) { contents_.store.add_heap_bytes(*record_, bytes); }

// Whether another thread has written what the kernel read, or is writing it. Then the kernel has
// read other bytes than those that the record names, which may still be had.
bool OperatorCall::read_what_others_write() const {
  const auto is_written_here = [this](const Storage* storage) {
    return std::any_of(operands_.begin(), operands_.end(), [&](const Operand& operand) {
      return operand.storage == storage && writes(operand);
    });
  };
  size_t edge = 0;
  for (const Operand& operand : operands_) {
    if (operand.access != Access::kRead && operand.access != Access::kUpdate) continue;
    const Value* const value = record_->edges[edge++].value;
    const Storage& storage = *operand.storage;
    if (storage.dead) continue;  // its bytes have stayed
    if (storage.current != value || storage.written_by_several) return true;
    if (storage.writing && !is_written_here(&storage)) return true;
  }
  return false;
}

// Checks whether the record is still valid now that the kernel has run. Other threads may have
// freed or written what it read, and limits apply.
void OperatorCall::check_record(uint64_t cost_ns, std::span<Storage* const> outputs) {
  Record& record = *record_;
  record.cost_ns = cost_ns;
  record.step = context_.step;
  for (size_t k = 0; k < record.edge_count; ++k) {
    const Value& value = *record.edges[k].value;
    if (value.producer != nullptr) continue;
    if (!value.available()) make_roots(RootReason::kLostInput);
    if (value.storage != nullptr && is_unstable(*value.storage)) {
      refuse(RootReason::kUnstableInput);
    }
  }
  if (record.written_edge != Record::kNoEdge &&
      record.edges[record.written_edge].value != written_->current) {
    make_roots(RootReason::kLostInput);
  }
  if (read_what_others_write()) make_roots(RootReason::kLostInput);
  if (settlements_ != context_.settlements) make_roots(RootReason::kSettled);
  if (written_ != nullptr && written_->dead) make_roots(RootReason::kUnsupported);
  if (reason_ != RootReason::kNone) return;
  size_t output_bytes = written_ != nullptr ? written_->current->bytes : 0;
  for (const Storage* output : outputs) {
    if (output != nullptr) output_bytes += output->current->bytes;
  }
  make_roots(context_.limits.admit(record, written_, output_bytes));
}

// Starts new versions of all written storages. The record, if it is valid, produces one of them.
void OperatorCall::start_versions() {
  for (const Operand& operand : operands_) {
    Storage& storage = *operand.storage;
    if (!writes(operand) || !storage.writing) continue;  // a storage may be an operand twice
    const bool several = storage.written_by_several;
    storage.writing = storage.written_by_several = several && is_written_elsewhere(storage);
    if (storage.dead) continue;
    context_.versions.abandon_readers(storage);
    if (several) {  // what each has written is there, but no record tells of all
      context_.versions.start_root_version(storage, RootReason::kLostInput);
    } else if (operand.access == Access::kSideWrite) {
      context_.versions.start_root_version(storage, RootReason::kUnsupported);
    } else if (record_ != nullptr && reason_ == RootReason::kNone && &storage == written_) {
      const UsedBytes* const used =
          begins_pieces_ || storage.in_pieces ? used_of(operand) : nullptr;
      if (used != nullptr && used->only_written) {
        context_.versions.start_piece(storage, *record_, used->bytes);
      } else {
        context_.versions.start_recorded_version(storage, *record_);
      }
    } else {
      context_.versions.start_root_version(
          storage, reason_ == RootReason::kNone ? RootReason::kUnsupported : reason_);
    }
  }
}

void OperatorCall::attach_record(std::span<Storage* const> outputs) {
  const bool recorded = record_ != nullptr && reason_ == RootReason::kNone && written_ == nullptr;
  for (size_t k = 0; k < outputs.size(); ++k) {
    if (outputs[k] == nullptr) continue;
    Storage& storage = *outputs[k];
    storage.last_access = contents_.residency.now();
    if (!recorded || k >= record_->output_count) {
      storage.current->reason = reason_ == RootReason::kNone ? RootReason::kUnsupported : reason_;
      continue;
    }
    contents_.store.set_producer(*storage.current, *record_, static_cast<uint32_t>(k));
    contents_.residency.check.made_by(*record_, *storage.current);
    contents_.residency.check.made(*record_->type);
    contents_.residency.list(storage);
  }
  if (recorded && record_->references > 1) context_.versions.link(*record_);
}

void OperatorCall::finish(DeviceLock& lock, std::span<Storage* const> outputs, uint64_t cost_ns) {
  TIDEPOOL_CHECK(prepared_ && !finished_ && lock.owns_lock(), "finish() out of order");
  finished_ = true;
  contents_.residency.tick(cost_ns);
  if (record_ != nullptr) check_record(cost_ns, outputs);
  if (writes_) start_versions();
  attach_record(outputs);
  if (context_.step_history != nullptr) finish_foreseen(outputs);
  if (context_.observation.listener() != nullptr) [[unlikely]]
    notify_observer(outputs, cost_ns);
  if (record_ != nullptr) {
    context_.operators_recorded += record_->linked;
    contents_.store.release(record_);
    record_ = nullptr;
  }
  for (const Operand& operand : operands_) {
    operand.storage->last_access = contents_.residency.now();
  }
  release_operands();
  contents_.dependent_cut.sweep_if_due();
  context_.chaos.at_operator(context_.operators_seen);
}

void OperatorCall::notify_observer(std::span<Storage* const> outputs, uint64_t cost_ns) const {
  if (type_ == nullptr) return;
  const StreamId stream = contents_.replay_order.stream();
  const std::span<const Operand> operands{operands_.data(), operands_.size()};
  const bool has_position = context_.step_history != nullptr;
  const uint32_t position = has_position ? foreseen_.position : ObservedCall::kNoPosition;
  context_.observation.ran(
      {*type_, site_, position, cost_ns, stream, !refused_, operands, outputs, place_});
}

void OperatorCall::release_operands() {
  for (const Operand& operand : operands_) contents_.unlock(*operand.storage);
  operands_.clear();
  contents_.queue.leave(holder_);
}

}  // namespace tidepool::remat
