// OperatorCall: one intercepted operator, from before its kernel to after it. Lives on the caller's
// stack. The order of calls:
//   DeviceLock lock(runtime.mutex());
//   call.add(storage, access) for each tensor argument, in argument order;
//   if (call.prepare(lock, recordable)) call.begin_record(type, body_bytes, outputs) -> fill body;
//   lock released; the kernel runs; lock taken;
//   call.finish(lock, fresh_outputs, cost_ns).
// If the kernel throws, the destructor (which takes the lock: declare the call before the lock)
// abandons the call: written storages become roots, nothing is recorded.
// Not thread safe: one thread owns it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "absl/container/inlined_vector.h"
#include "remat/policies/step_history.h"
#include "remat/restore/restoration_queue.h"
#include "remat/runtime.h"

namespace tidepool::remat {

class OperatorCall {
 public:
  explicit OperatorCall(Runtime& runtime);
  ~OperatorCall();
  OperatorCall(const OperatorCall&) = delete;
  OperatorCall& operator=(const OperatorCall&) = delete;

  // Locks `storage` and notes the access. Requires: lock held.
  void add(Storage* storage, Access access);

  // What tells this call apart from others on the same storages: the operator and, where the caller
  // knows it, the place in the program. For a policy that looks ahead, and for an observer, which
  // hears of no call whose operator it has not been told.
  void set_type(const RecordType& type, uint64_t site = 0) {
    type_ = &type;
    site_ = site;
  }

  // Results will be roots for this reason, whatever else happens (first reason wins). The caller's
  // reasons concern the operator itself.
  void refuse(RootReason reason) {
    refused_ = true;
    make_roots(reason);
  }

  // Nothing has spoken against a record so far.
  bool may_be_recorded() const { return reason_ == RootReason::kNone; }

  // Restores evicted operands; protects what depends on contents about to be written; decides
  // whether the call can be recorded: at most one kUpdate or kOverwrite operand, an updated value
  // that has lineage, an overwritten storage that is no other operand, no operand escaped
  // (kUnstableInput), recording on. False: not recordable.
  // Throws: as Runtime::make_resident; the operator has not run then and may be run again.
  bool prepare(DeviceLock& lock);

  // Makes the record: one edge per added operand with kRead or kUpdate, in order of add(), and
  // room for `body_bytes` of body and `outputs` outputs. Requires: prepare() returned true, lock
  // held. The caller constructs the body before it calls finish() or lets the call be destroyed.
  Record* begin_record(const RecordType& type, size_t body_bytes, size_t outputs);
  Record* record() const { return record_; }

  // What the record's body keeps on the heap. Requires: a record, lock held; called once.
  void add_heap_bytes(size_t bytes);

  // The kernel has run. outputs[k]: the storage tracked for the k-th output (by Runtime::track,
  // after the kernel, with `kNone`... its reason is replaced), or nullptr where the output is not
  // fresh memory of ours. Written storages get their new versions; then chaos, if it is on.
  void finish(DeviceLock& lock, std::span<Storage* const> outputs, uint64_t cost_ns);

  // For reports; "" where the caller has told no type.
  const char* name() const { return type_ != nullptr ? type_->name : ""; }
  std::span<const Operand> operands() const { return {operands_.data(), operands_.size()}; }

  // Why results are roots; kNone if recorded.
  RootReason reason() const { return reason_; }

 private:
  static bool writes(const Operand& operand) { return operand.access != Access::kRead; }
  void make_roots(RootReason reason) {
    if (reason_ == RootReason::kNone) reason_ = reason;
  }
  void begin_foreseen();
  void notify_observer(std::span<Storage* const> outputs, uint64_t cost_ns) const;
  void restore_operands(DeviceLock& lock);
  void protect_written(DeviceLock& lock);
  // The operator's stream comes after hidden work on what it uses. Requires: there are streams.
  void order_operands(DeviceLock& lock);
  void decide();
  void check_record(uint64_t cost_ns, std::span<Storage* const> outputs);
  void attach_record(std::span<Storage* const> outputs);
  void start_versions();
  void release_operands();

  CallContext& context_;
  Contents& contents_;  // of the context
  Record* record_ = nullptr;
  Storage* written_ = nullptr;  // the storage that the record writes
  RootReason reason_ = RootReason::kNone;
  const RecordType* type_ = nullptr;
  uint64_t site_ = 0;
  uint64_t settlements_ = 0;  // when the call was prepared
  StepHistory::Call foreseen_;
  size_t edges_ = 0;       // operands that are read or updated
  bool writes_ = false;    // one of the operands
  bool evicted_ = false;   // one of the operands, when it was added
  bool refused_ = false;  // by the caller, or for what it reads
  bool prepared_ = false;
  bool finished_ = false;
  absl::InlinedVector<Operand, 8> operands_;
  RestorationQueue::Holder holder_;
};

}  // namespace tidepool::remat
