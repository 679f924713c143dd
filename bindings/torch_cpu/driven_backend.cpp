#include "bindings/torch_cpu/driven_backend.h"

#include <utility>

namespace tidepool::torch_cpu {
namespace {

// The storage's number in the trace, or kUnknown. The observer keeps the number + 1 in `observed`,
// and 0 there for a storage that it does not know.
uint32_t number_in_trace(const remat::Storage& storage) { return storage.observer_number - 1; }
static_assert(remat::WorkLog::kUnknown == uint32_t{0} - 1);

}  // namespace

DrivenBackend::DrivenBackend(BudgetedAllocator& allocator, remat::RecordedCosts costs,
                             std::unique_ptr<remat::WorkLog> log)
    : CpuBackend(allocator.mutex()),
      allocator_(allocator),
      costs_(std::move(costs)),
      log_(std::move(log)) {}

DrivenBackend::Call DrivenBackend::begin(const remat::RecordType& type, const remat::Record* record,
                                         uint64_t) {
  cost_ns_ = costs_.begin_call(type.name);
  if (log_ != nullptr) log_->begin_call(costs_.call());
  if (record != nullptr) calls_[record] = costs_.call();  // may replace a record that has died
  return {};
}

void DrivenBackend::execute(const remat::Replay& replay) {
  if (log_ != nullptr) {
    const auto found = calls_.find(replay.record);
    log_->replayed(found == calls_.end() ? remat::WorkLog::kUnknown : found->second);
  }
  CpuBackend::execute(replay);
}

bool DrivenBackend::detach(remat::Storage& storage) {
  const void* address = storage.address;
  if (!CpuBackend::detach(storage)) return false;
  if (log_ != nullptr) log_->evicted(number_in_trace(storage), allocator_.offset(address));
  return true;
}

bool DrivenBackend::attach(remat::Storage& storage, void* address) {
  if (!CpuBackend::attach(storage, address)) return false;
  if (log_ != nullptr) log_->restored(number_in_trace(storage), allocator_.offset(address));
  return true;
}

void DrivenBackend::copy(void* to, const void* from, size_t bytes) {
  if (log_ != nullptr) log_->copied(bytes);
  CpuBackend::copy(to, from, bytes);
}

}  // namespace tidepool::torch_cpu
