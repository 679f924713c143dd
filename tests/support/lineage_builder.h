// LineageBuilder: storages, values and records built by hand on a real allocator, for tests of the
// parts of remat/ below the runtime. Is the backend of what it builds: operators never run.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "allocator/base/device_error.h"
#include "allocator/space/private_host_space.h"
#include "remat/limits.h"
#include "remat/restore/contents.h"

namespace tidepool {

class LineageBuilder final : public remat::Backend {
 public:
  explicit LineageBuilder(const std::string& policy_name = "needed-cost")
      : allocator(space, mutex, config()), contents(allocator, *this, policy_name) {}
  ~LineageBuilder() override {
    DeviceLock lock(mutex);
    contents.clear();
  }

  remat::Storage* root(size_t bytes = 64) {
    void* address = allocator.allocate(bytes);
    remat::Storage* storage =
        store.new_storage(nullptr, address, bytes, remat::RootReason::kUntracked);
    DeviceLock lock(mutex);
    allocator.set_owner(address, storage);
    return storage;
  }

  // The results of one record that reads `inputs`.
  std::vector<remat::Storage*> results(const std::vector<remat::Storage*>& inputs, size_t count,
                                       uint64_t cost_ns, size_t bytes = 64) {
    remat::Record* record = store.new_record(kType, inputs.size(), count, 0);
    record->cost_ns = cost_ns;
    record->depth = 1;
    for (size_t k = 0; k < inputs.size(); ++k) {
      store.set_edge(*record, k, *inputs[k]->current);
      record->depth = std::max(record->depth, inputs[k]->current->depth + 1);
    }
    std::vector<remat::Storage*> out;
    for (size_t k = 0; k < count; ++k) {
      out.push_back(root(bytes));
      store.set_producer(*out[k]->current, *record, static_cast<uint32_t>(k));
      residency.list(*out[k]);
    }
    store.link(*record);
    store.release(record);
    return out;
  }
  remat::Storage* result(const std::vector<remat::Storage*>& inputs, uint64_t cost_ns = 10,
                         size_t bytes = 64) {
    return results(inputs, 1, cost_ns, bytes)[0];
  }

  // What the policy charges where staleness does not matter: for most, a cost in ns.
  uint64_t cost(remat::Storage* storage) {
    return static_cast<uint64_t>(policy->price(*storage, {}));
  }

  bool evict(remat::Storage* storage) {
    DeviceLock lock(mutex);
    return residency.evict_and_free(*storage);
  }

  // Brings it back with whatever is in a fresh block.
  bool install(remat::Storage* storage) {
    void* address = allocator.allocate(storage->current->bytes);
    DeviceLock lock(mutex);
    if (residency.install(*storage, address)) return true;
    allocator.free_locked(address);
    return false;
  }

  // The storage dies; its bytes go unless `retained` says otherwise.
  bool die(remat::Storage* storage) {
    DeviceLock lock(mutex);
    residency.ends(*storage);
    remat::Value& value = *std::exchange(storage->current, nullptr);
    value.storage = nullptr;
    residency.unlist(*storage);
    bool kept = false;
    if (!storage->evicted) {
      allocator.set_owner(storage->address, nullptr);
      if (value.producer == nullptr && value.consumers != nullptr) {
        kept = dependent_cut.retain_or_cut(value, storage->address, storage->will_be_refilled);
      }
      if (!kept) allocator.free_locked(storage->address);
    }
    residency.availability_changed(value);
    store.release(&value);
    storage->dead = true;
    store.free_storage(storage);
    return kept;
  }

  void check() {
    DeviceLock lock(mutex);
    store.check_invariants(true);
    residency.check_invariants(store);
    dependent_cut.check_invariants();
    policy->check_invariants();
  }

  void execute(const remat::Replay&) override {}
  bool detach(remat::Storage&) override { return !refuse; }
  bool attach(remat::Storage&, void*) override { return !refuse; }
  void forget(remat::Storage&) override {}
  void copy(void*, const void*, size_t) override {}
  uint64_t fingerprint(const void*, size_t) const override {
    if (unreadable) throw DeviceError("contents cannot be read");
    return 0;
  }

  bool refuse = false;      // detach and attach say that the storage is dying
  bool unreadable = false;  // fingerprint throws

  PrivateHostSpace space{4096};
  DeviceMutex mutex;
  BudgetedAllocator allocator;
  remat::Contents contents;
  remat::Residency& residency = contents.residency;
  remat::LineageStore& store = contents.store;
  const std::unique_ptr<remat::Policy>& policy = contents.policy;
  remat::DependentCut& dependent_cut = contents.dependent_cut;

 private:
  static inline const remat::RecordType kType{"test::operator", nullptr};
  static AllocatorConfig config() {
    AllocatorConfig config;
    config.budget_bytes = 64 << 20;
    config.page_bytes = 4096;
    return config;
  }
};

}  // namespace tidepool
