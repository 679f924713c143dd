#include "bindings/torch/engine/job_record.h"

#include <pthread.h>

#include <cstdio>
#include <exception>
#include <memory>
#include <utility>
#include <vector>

#include "bindings/torch/base/settings_reader.h"
#include "bindings/torch/engine/job_trace.h"

namespace tidepool::torch_glue {

namespace detail {
constinit DeviceTable<JobRecord> g_records;
constinit std::atomic<bool> g_recording{false};
constinit thread_local const char* t_operator = nullptr;
}  // namespace detail

namespace {

struct RecordSettings {
  std::string path, name;  // without a path nothing is recorded
  size_t bytes = 0;
};

RecordSettings& record_settings() {
  static auto* settings = new RecordSettings;  // engines are made until the process ends
  return *settings;
}

const char* maker_of(const remat::Storage& storage) {
  const remat::Record* record = storage.current->producer;
  return record != nullptr ? record->type->name : nullptr;
}

void forked() {
  detail::g_records.for_each([](JobRecord& record) { record.become_forked_child(); });
}

}  // namespace

JobRecord::JobRecord(const std::string& path, size_t bytes, const plan::WorkRingFacts& facts,
                     BudgetedAllocator& allocator, AllocatorObserver* next)
    : ring_(path, bytes, facts), allocator_(allocator), next_(next) {}

void JobRecord::evicted(const remat::Storage& storage, const void* address) {
  ring_.evicted(allocator_.offset(address), storage.current->bytes, &storage, maker_of(storage),
                storage.current->copied);
}

void JobRecord::restored(const remat::Storage& storage, const void* address) {
  ring_.restored(allocator_.offset(address), storage.current->bytes, &storage, maker_of(storage),
                 storage.current->copied, detail::t_operator);
}

void JobRecord::step_ended(remat::Runtime& runtime) {
  const std::vector<BlockView> blocks = allocator_.blocks();
  {
    DeviceLock lock(allocator_.mutex());
    for (const BlockView& block : blocks) {
      // A block may have been freed meanwhile: find() knows.
      if (block.use != BlockUse::kAllocated) continue;
      const remat::Storage* storage = runtime.find(block.address);
      if (storage == nullptr || storage->evicted) continue;
      ring_.owned(allocator_.offset(block.address), storage, maker_of(*storage),
                  static_cast<uint8_t>(storage->role),
                  static_cast<uint8_t>(storage->current->reason));
    }
  }
  const AllocatorStatistics statistics = allocator_.statistics();
  ring_.step_ended(statistics.search_ns, statistics.prices);
}

void JobRecord::allocated(const BlockView& block) {
  ring_.taken(allocator_.offset(block.address), block.bytes, detail::t_operator);
  if (next_ != nullptr) next_->allocated(block);
}

void JobRecord::freed(const BlockView& block, bool still_used) {
  ring_.freed(allocator_.offset(block.address), block.bytes);
  if (next_ != nullptr) next_->freed(block, still_used);
}

void JobRecord::awaiting(const BlockView& block, bool starts) {
  if (next_ != nullptr) next_->awaiting(block, starts);
}

void JobRecord::reserved(size_t bytes) {
  ring_.held(bytes);
  if (next_ != nullptr) next_->reserved(bytes);
}

void JobRecord::page(const void* address, size_t bytes, bool usable) {
  if (next_ != nullptr) next_->page(address, bytes, usable);
}

void read_record_settings(const char* text) {
  const SettingsReader settings(text);
  const SettingsReader reader = settings.part("record");
  RecordSettings read;
  read.path = reader.text("path", "");
  read.name = reader.text("name", "job");
  read.bytes = reader.number("bytes", 0);
  record_settings() = std::move(read);
}

void tell_records_of_limit(size_t bytes) {
  detail::g_records.for_each([&](JobRecord& record) { record.limited(bytes); });
}

void start_record(c10::Device device, BudgetedAllocator& allocator, AllocatorObserver* next) {
  const RecordSettings& settings = record_settings();
  if (settings.path.empty()) return;
  const plan::WorkRingFacts facts{settings.name, device.str(), allocator.statistics().budget_bytes};
  try {
    const std::string path = numbered_path(settings.path, device.has_index() ? device.index() : 0);
    auto record = std::make_unique<JobRecord>(path, settings.bytes, facts, allocator, next);
    static const int followed = pthread_atfork(nullptr, nullptr, &forked);
    static_cast<void>(followed);
    detail::g_records.add(device, *record.release());
    detail::g_recording.store(true, std::memory_order_relaxed);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "tidepool: nothing is recorded: %s\n", error.what());
  }
}

}  // namespace tidepool::torch_glue
