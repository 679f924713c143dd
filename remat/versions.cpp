#include "remat/versions.h"

#include <utility>

#include "absl/cleanup/cleanup.h"
#include "remat/restore/storage_locks.h"

namespace tidepool::remat {

bool Versions::wait_until_unread(Storage& storage, DeviceLock& lock) {
  bool waited = false;
  while (!storage.dead && storage.current->uses > 0 && contents_.queue.is_taken() &&
         !contents_.queue.is_my_turn()) {
    contents_.queue.take_turn(lock);
    contents_.queue.end_turn();
    waited = true;
  }
  return waited;
}

void Versions::replace_value(Storage& storage, Value* fresh, void* snapshot) {
  Value* old = std::exchange(storage.current, fresh);
  fresh->hidden_use = old->hidden_use;  // of the bytes, which stay where they are
  old->storage = nullptr;
  fresh->storage = &storage;
  storage.above_generation = storage.below_generation = 0;
  if (snapshot != nullptr) contents_.residency.keep(*old, snapshot);
  if (old->consumers != nullptr && old->kept == nullptr)
    contents_.residency.availability_changed(*old);
  contents_.store.release(old);
}

void Versions::abandon_readers(Storage& storage) {
  const Value& present = *storage.current;
  if (present.producer != nullptr || present.consumers == nullptr) return;
  Dependents found = contents_.dependent_cut.dependents(present);
  found.evicted.clear();
  contents_.dependent_cut.cut_dependents(found, RootReason::kLostRoot);
}

void Versions::start_root_version(Storage& storage, RootReason reason) {
  if (storage.escaped) reason = RootReason::kEscaped;
  contents_.residency.unlist(storage);
  contents_.residency.pieces.forget(storage);
  storage.versions = 0;
  Value& present = *storage.current;
  if (present.producer == nullptr && present.references == 1) {  // nobody has read it
    contents_.residency.copies.drop(present);
    contents_.residency.watch.forget(present);
    contents_.residency.check.forget(present);
    present.reason = reason;
    return;
  }
  replace_value(storage, contents_.store.new_value(present.bytes, reason), nullptr);
}

void Versions::heed_unseen_write(Storage& storage, DeviceLock& lock) {
  ContentWatch& watch = contents_.residency.watch;
  if (!watch.is_changed(*storage.current)) return;
  if (wait_until_unread(storage, lock)) {
    if (storage.dead || !watch.is_changed(*storage.current)) return;
  }
  storage.written_unseen = true;
  give_up_written_unseen(storage);
  start_root_version(storage, RootReason::kRawWrite);
}

void Versions::link(Record& record) {
  contents_.store.link(record);
  for (size_t k = 0; k < record.edge_count; ++k) {
    // The input was freed or written by another thread while the operator ran.
    Value& input = *record.edges[k].value;
    if (!input.available()) [[unlikely]]
      contents_.residency.availability_changed(input);
  }
}

void Versions::start_recorded_version(Storage& storage, Record& record) {
  storage.versions = record.overwrites ? 0 : storage.versions + 1;
  Value* fresh = contents_.store.new_value(storage.current->bytes, RootReason::kNone);
  contents_.store.set_producer(*fresh, record, 0);
  link(record);
  contents_.residency.check.made(*record.type);
  if (!record.overwrites) contents_.residency.check.updated(*storage.current, *fresh);
  contents_.residency.check.made_by(record, *fresh);
  replace_value(storage, fresh, nullptr);
  contents_.residency.list(storage);
}

void Versions::start_piece(Storage& storage, Record& record, const ByteRanges& written) {
  Pieces& pieces = contents_.residency.pieces;
  const bool is_first_write = !pieces.meets(storage, written);
  const uint32_t before = storage.versions;
  start_recorded_version(storage, record);
  if (is_first_write && !record.overwrites) storage.versions = before;
  if (!pieces.add(storage, written)) start_root_version(storage, RootReason::kPartialWrite);
}

// Copies the contents to a block of their own, and has their readers read that from now on: the
// storage gets a fresh root for `reason`. False if it has other contents by then, which another
// thread has seen to: nothing is kept.
bool Versions::keep_snapshot(Storage& storage, RootReason reason, DeviceLock& lock) {
  Value& of = *storage.current;
  const StreamId stream = contents_.replay_order.stream();
  ++of.references;
  const absl::Cleanup release = [&] { contents_.store.release(&of); };
  void* copy = nullptr;
  try {
    contents_.replay_order.before_use(storage, stream, lock);
    const void* from = storage.address;
    {
      Unlocked unlocked(lock);
      copy = contents_.allocator.allocate(of.bytes, PlacementHint::kTransient, stream);
      contents_.backend.copy(copy, from, of.bytes);
    }
    contents_.replay_order.after_use(storage, stream, lock);
  } catch (...) {
    if (copy != nullptr) contents_.allocator.free_locked(copy);
    throw;
  }
  ++snapshots;
  // While the copy was made, another thread may have begun a replay that reads the present bytes.
  wait_until_unread(storage, lock);
  const bool is_current = !storage.dead && storage.current == &of;
  if (!is_current || of.consumers == nullptr) {
    contents_.allocator.free_locked(copy);
    return is_current;
  }
  contents_.residency.unlist(storage);
  contents_.residency.pieces.forget(storage);
  storage.versions = 0;
  replace_value(storage, contents_.store.new_value(of.bytes, reason), copy);
  contents_.dependent_cut.make_sweep_due();
  return true;
}

// Restores or cuts values until no live value depends on the contents, which are a root's. If
// memory does not suffice to restore them, keeps a copy of the contents for them. False: the
// contents are others by now. (Records that lead only to dying storages may be left.)
bool Versions::protect_dependents(Storage& storage, RootReason reason, DeviceLock& lock) {
  StorageLocks locks(contents_);
  while (!storage.dead && storage.current->producer == nullptr) {
    // They read the copy from now on.
    if (contents_.residency.copies.is_valid(*storage.current, storage.address)) return true;
    const Dependents found = contents_.dependent_cut.dependents(*storage.current);
    if (found.evicted.empty()) {
      contents_.dependent_cut.cut_dependents(found, RootReason::kLostRoot);
      return true;
    }
    for (Value* value : found.evicted) locks.add(*value->storage);
    // Whoever writes has ordered its stream after what reads the contents themselves: what they
    // were read together with may still be in the making on another one.
    contents_.replay_order.before_unasked_work(lock);
    try {
      restorer_.restore(locks.all(), lock);
    } catch (const OutOfMemory&) {
      locks.release();
      return keep_snapshot(storage, reason, lock);
    }
    wait_until_unread(storage, lock);
  }
  return true;
}

void Versions::cut(Storage& storage, RootReason reason, DeviceLock& lock) {
  const StreamId stream = contents_.replay_order.stream();
  do {
    do {
      contents_.replay_order.before_use(storage, stream, lock);
    } while (wait_until_unread(storage, lock));
    if (!storage.dead) heed_unseen_write(storage, lock);
    if (storage.dead) return;
  } while (storage.current->producer == nullptr && !protect_dependents(storage, reason, lock));
  if (!storage.dead) start_root_version(storage, reason);
  contents_.replay_order.before_use(storage, stream, lock);
}

// Notes that contents have been written unseen for which a storage stands no longer.
void Versions::give_up_written_unseen(Storage& storage) {
  abandon_readers(storage);
  Value& old = *storage.current;
  old.lost = old.producer == nullptr && old.consumers != nullptr;
  ++contents_.residency.watch.unseen_writes;
}

bool Versions::end_storage(Storage* storage, void* address) {
  contents_.residency.ends(*storage);
  contents_.residency.pieces.forget(*storage);
  if (address != nullptr && contents_.residency.watch.is_changed(*storage->current)) [[unlikely]]
    give_up_written_unseen(*storage);
  Value& value = *std::exchange(storage->current, nullptr);
  contents_.residency.unlist(*storage);
  storage->dead = true;
  bool kept = false;
  const bool was_available = address != nullptr && !storage->writing;
  value.storage = nullptr;
  if (was_available) {
    if (value.uses > 0) {
      contents_.residency.keep(value, address);
      kept = true;
    } else if (value.producer == nullptr && value.consumers != nullptr && !value.lost &&
               !contents_.residency.copies.is_valid(value, address)) {
      kept = contents_.dependent_cut.retain_or_cut(value, address, storage->will_be_refilled);
    }
  } else {
    // The kept bytes are left over from a move that found the storage dying.
    if (value.kept != nullptr && value.producer != nullptr && value.uses == 0 && value.locks == 0) {
      contents_.residency.free_kept(value);
    }
    contents_.dependent_cut.make_sweep_due();
  }
  if (!kept && value.consumers != nullptr) contents_.residency.availability_changed(value);
  if (!was_available && value.consumers == nullptr) contents_.residency.availability_changed(value);
  contents_.store.release(&value);
  if (storage->locks == 0) contents_.store.free_storage(storage);
  contents_.queue.something_changed();
  return kept;
}

}  // namespace tidepool::remat
