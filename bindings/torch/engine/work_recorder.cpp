#include "bindings/torch/engine/work_recorder.h"

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
constinit DeviceTable<WorkRecorder> g_work_recorders;
constinit std::atomic<bool> g_recording{false};
constinit thread_local const char* t_operator = nullptr;
}  // namespace detail

namespace {

struct RecorderSettings {
  std::string path, name;  // without a path nothing is recorded
  size_t bytes = 0;
};

RecorderSettings& recorder_settings() {
  static auto* settings = new RecorderSettings;  // engines are made until the process ends
  return *settings;
}

const char* maker_of(const remat::Storage& storage) {
  const remat::Record* record = storage.current->producer;
  return record != nullptr ? record->type->name : nullptr;
}

void forked() {
  detail::g_work_recorders.for_each([](WorkRecorder& recorder) { recorder.become_forked_child(); });
}

}  // namespace

WorkRecorder::WorkRecorder(const std::string& path, size_t bytes, const remat::WorkRingFacts& facts,
                           BudgetedAllocator& allocator, AllocatorObserver* next)
    : RelayingObserver(next), ring_(path, bytes, facts), allocator_(allocator) {}

void WorkRecorder::evicted(const remat::Storage& storage, const void* address) {
  ring_.evicted(allocator_.offset(address), storage.current->bytes, &storage, maker_of(storage),
                storage.current->copied);
}

void WorkRecorder::restored(const remat::Storage& storage, const void* address) {
  ring_.restored(allocator_.offset(address), storage.current->bytes, &storage, maker_of(storage),
                 storage.current->copied, detail::t_operator);
}

void WorkRecorder::step_ended(remat::Runtime& runtime) {
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

void WorkRecorder::allocated(const BlockView& block) {
  ring_.taken(allocator_.offset(block.address), block.bytes, detail::t_operator);
  RelayingObserver::allocated(block);
}

void WorkRecorder::freed(const BlockView& block, bool still_used) {
  ring_.freed(allocator_.offset(block.address), block.bytes);
  RelayingObserver::freed(block, still_used);
}

void WorkRecorder::reserved(size_t bytes) {
  ring_.held(bytes);
  RelayingObserver::reserved(bytes);
}

void read_work_recorder_settings(const char* text) {
  const SettingsReader settings(text);
  const SettingsReader reader = settings.part("record");
  RecorderSettings read;
  read.path = reader.text("path", "");
  read.name = reader.text("name", "job");
  read.bytes = reader.number("bytes", 0);
  recorder_settings() = std::move(read);
}

void tell_work_recorders_of_limit(size_t bytes) {
  detail::g_work_recorders.for_each([&](WorkRecorder& recorder) { recorder.limited(bytes); });
}

void start_work_recorder(c10::Device device, BudgetedAllocator& allocator,
                         AllocatorObserver* next) {
  const RecorderSettings& settings = recorder_settings();
  if (settings.path.empty()) return;
  const remat::WorkRingFacts facts{settings.name, device.str(),
                                   allocator.statistics().budget_bytes};
  try {
    const std::string path = numbered_path(settings.path, device.has_index() ? device.index() : 0);
    auto recorder = std::make_unique<WorkRecorder>(path, settings.bytes, facts, allocator, next);
    static const int followed = pthread_atfork(nullptr, nullptr, &forked);
    static_cast<void>(followed);
    detail::g_work_recorders.add(device, *recorder.release());
    detail::g_recording.store(true, std::memory_order_relaxed);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "tidepool: nothing is recorded: %s\n", error.what());
  }
}

}  // namespace tidepool::torch_glue
