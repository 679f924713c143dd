// OperatorCall: one operator of the job, from before its kernel runs to after it. It lives on the
// caller's stack, and its functions are called in this order:
//   DeviceLock lock(runtime.mutex());
//   call.add(storage, access) for each tensor argument, in argument order;
//   if (call.prepare(lock)) call.begin_record(type, body_bytes, outputs), and fill the body;
//   the lock is released, the kernel runs, and the lock is taken again;
//   call.finish(lock, fresh_outputs, cost_ns).
// If the kernel throws, the destructor abandons the call: written storages become roots, and
// nothing is recorded. It takes the lock, so the call has to be declared before the lock. Not
// thread safe: one thread owns it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "remat/restore/restoration_queue.h"
#include "remat/runtime.h"
#include "remat/steps/step_history.h"

namespace tidepool::remat {

class OperatorCall {
 public:
  explicit OperatorCall(Runtime& runtime);
  ~OperatorCall();
  OperatorCall(const OperatorCall&) = delete;
  OperatorCall& operator=(const OperatorCall&) = delete;

  // Locks `storage` and notes the access. Requires: lock held.
  void add(Storage* storage, Access access);

  // Whether it matters which bytes of an operand the operator uses: of one that is filled piece by
  // piece (Pieces), or may begin to be by an operator that only writes some.
  static bool asks_for_bytes(const Storage& storage, bool only_written) {
    return storage.in_pieces || (only_written && is_blank(storage));
  }
  // Says which bytes of the operand that was added last the operator uses. `only_written`: it
  // writes all of these, and reads nothing of the storage by this operand. Where nothing is said,
  // it may read all. Requires: lock held.
  void uses_bytes(ByteRanges bytes, bool only_written) {
    used_.push_back({operands_.size() - 1, std::move(bytes), only_written});
  }
  // Whether the operand that the call updates is now one that it overwrites, although it writes
  // only a part: it is the first piece. Requires: prepare() returned true.
  bool begins_pieces() const { return begins_pieces_; }

  // Says what tells this call apart from others on the same storages: the operator and, if the
  // caller knows it, the place in the program. A policy that looks ahead needs it, and an observer
  // hears only of calls whose operator is known.
  void set_type(const RecordType& type, uint64_t site = 0) {
    type_ = &type;
    site_ = site;
  }
  // Says where the job called the operator, as ObservedCall has it.
  void set_place(const char* place) { place_ = place; }

  // Makes the results roots, whatever else happens; the first of several reasons counts. The
  // caller's reasons concern the operator itself.
  void refuse(RootReason reason) {
    refused_ = true;
    make_roots(reason);
  }

  // Whether nothing has spoken against a record so far.
  bool may_be_recorded() const { return reason_ == RootReason::kNone; }

  // Restores evicted operands, protects what depends on contents that are about to be written, and
  // says whether the call can be recorded. It can if recording is on, no operand has escaped, at
  // most one operand is kUpdate or kOverwrite, an updated value has lineage or gets its first
  // piece, and an overwritten storage is no other operand. Throws: as Runtime::make_resident(); the
  // operator may be called again then.
  bool prepare(DeviceLock& lock);

  // Makes the record: one edge for each operand with kRead or kUpdate, in the order of add(), and
  // room for a body of `body_bytes` and for `outputs` outputs. The caller constructs the body
  // before it calls finish() or destroys the call. Requires: prepare() returned true; lock held.
  Record* begin_record(const RecordType& type, size_t body_bytes, size_t outputs);
  Record* record() const { return record_; }

  // Counts what the record's body keeps on the heap. Requires: there is a record; lock held; called
  // at most once.
  void add_heap_bytes(size_t bytes);

  // Completes the call after the kernel has run: outputs get their lineage, or the reason why they
  // have none, and written storages get new versions. outputs[k]: the storage that Runtime::track()
  // has made for the k-th output after the kernel, or nullptr if that is not fresh memory of ours.
  void finish(DeviceLock& lock, std::span<Storage* const> outputs, uint64_t cost_ns);

  // The operator's name, for reports; "" if the caller has not called set_type().
  const char* name() const { return type_ != nullptr ? type_->name : ""; }
  std::span<const Operand> operands() const { return {operands_.data(), operands_.size()}; }

  // Whether nothing but operators of other threads than the calling one has locked the storage.
  // Requires: lock held.
  static bool only_others_use(Runtime& runtime, const Storage& storage);

  // Why the results are roots; kNone if the call is recorded.
  RootReason reason() const { return reason_; }

 private:
  struct UsedBytes {
    size_t operand = 0;
    ByteRanges bytes;
    bool only_written = false;
  };
  static bool writes(const Operand& operand) { return operand.access != Access::kRead; }
  // Whether it is memory that no operator has filled yet, or read.
  static bool is_blank(const Storage& storage) {
    const Value& value = *storage.current;
    return value.producer == nullptr && value.reason == RootReason::kUntracked &&
           value.consumers == nullptr && storage.role == Role::kOther && !storage.escaped &&
           !storage.fixed;
  }
  // What was said of the operand; nullptr: nothing.
  const UsedBytes* used_of(const Operand& operand) const;
  // Makes operands roots that are filled piece by piece, and of which the operator reads more than
  // what has been written. May release the lock.
  void end_pieces(DeviceLock& lock);
  void make_roots(RootReason reason) {
    if (reason_ == RootReason::kNone) reason_ = reason;
  }
  void begin_foreseen();
  void finish_foreseen(std::span<Storage* const> outputs);
  void tell_foreseen();
  void notify_observer(std::span<Storage* const> outputs, uint64_t cost_ns) const;
  void restore_operands(DeviceLock& lock);
  // True: something was done for it, and the lock may have been released.
  bool protect_written(DeviceLock& lock);
  void watch_operands(DeviceLock& lock);
  // Makes the operator's stream wait for hidden work on the operands. True: there was some, and the
  // lock may have been released. Requires: there are streams.
  bool order_operands(DeviceLock& lock);
  void decide();
  bool read_what_others_write() const;
  void check_record(uint64_t cost_ns, std::span<Storage* const> outputs);
  void attach_record(std::span<Storage* const> outputs);
  bool is_written_elsewhere(const Storage& storage) const;
  void start_versions();
  void release_operands();

  CallContext& context_;
  Contents& contents_;  // of the context
  Record* record_ = nullptr;
  Storage* written_ = nullptr;  // the storage that the record writes
  RootReason reason_ = RootReason::kNone;
  const RecordType* type_ = nullptr;
  uint64_t site_ = 0;
  const char* place_ = nullptr;
  uint64_t settlements_ = 0;  // when the call was prepared
  StepHistory::Call foreseen_;
  size_t edges_ = 0;      // operands that are read or updated
  bool writes_ = false;   // one of the operands
  bool evicted_ = false;  // one of the operands, when it was added
  bool watched_ = false;  // one of the operands (ContentWatch)
  bool refused_ = false;  // by the caller, or because of an operand
  bool prepared_ = false;
  bool finished_ = false;
  bool begins_pieces_ = false;
  std::vector<UsedBytes> used_;  // for the few operands that it matters of
  absl::InlinedVector<Operand, 8> operands_;
  RestorationQueue::Holder holder_;
};

}  // namespace tidepool::remat
