// What policies cost themselves: a price, as a search asks for it of everything that could go, and
// a change of availability, on lineages of 1,000 to 100,000 values.
// --smoke   runs each benchmark for a moment only, to show that it works
// A lineage is that of training: a chain forward in which every fourth operator reads an earlier
// result, too, and a chain backward that reads it in reverse. Every 96th forward value is a root,
// as limits on depth have it.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "remat/policies/table/policy_table.h"

namespace tidepool::bench {
namespace {

using remat::Circumstances;
using remat::Storage;
using remat::Value;

class Random {
 public:
  uint64_t below(uint64_t bound) {
    state_ = state_ * 6364136223846793005u + 1442695040888963407u;
    return (state_ >> 33) % bound;
  }

 private:
  uint64_t state_ = 1;
};

// How much is evicted: every other forward value; or all but one in sixteen, the long regions of
// tight budgets; or nothing.
enum Evicted : int64_t { kNothing, kHalf, kMost };

class Lineage final : public remat::LineageStore::Observer {
 public:
  Lineage(const std::string& name, size_t values, int64_t evicted)
      : store_(*this), policy(remat::make_policy(name, store_)) {
    forward(values / 2);
    backward(values - values / 2);
    for (size_t k = 0; k < values / 2; ++k) {
      Storage& storage = *storages_[k];
      if (storage.current->producer == nullptr) continue;
      movable.push_back(&storage);
      if (evicted == kHalf ? random_.below(2) == 0 : evicted == kMost && k % 16 != 0) {
        set_evicted(storage, true);
      }
    }
  }
  ~Lineage() override {
    for (Storage* storage : storages_) {
      Value* value = std::exchange(storage->current, nullptr);
      value->storage = nullptr;
      store_.release(value);
    }
  }
  Lineage(const Lineage&) = delete;
  Lineage& operator=(const Lineage&) = delete;

  void set_evicted(Storage& storage, bool evicted) {
    storage.evicted = evicted;
    storage.address = evicted ? nullptr : this;  // anything
    policy->availability_changed(*storage.current);
  }
  // One there is brought back, or one that is resident goes, so that as much is evicted as before
  // after two.
  void change(bool evict) {
    for (int tries = 0; tries < 64; ++tries) {
      Storage& storage = *movable[random_.below(movable.size())];
      if (storage.evicted != evict) return set_evicted(storage, evict);
    }
  }
  // Prices everything that could be evicted. Returns how many.
  size_t search() {
    policy->begin_search();
    size_t count = 0;
    Circumstances now;
    for (Storage* storage : storages_) {
      if (storage->evicted || storage->current->producer == nullptr) continue;
      now.staleness_ns = 1000 + count;
      benchmark::DoNotOptimize(policy->fixed(policy->price(*storage, now)));
      ++count;
    }
    return count;
  }

  void value_dies(Value& value) override {
    if (value.component != 0 || value.changed_slot != 0) policy->value_dies(value);
  }

 private:
  void forward(size_t count) {
    constexpr size_t kDepthLimit = 96;
    for (size_t k = 0; k < count; ++k) {
      if (k % kDepthLimit == 0) {
        storages_.push_back(store_.new_storage(nullptr, this, 64, remat::RootReason::kDepthLimit));
      } else if (k % 4 == 0) {
        add({storages_[k - 1], storages_[k - 4]});
      } else {
        add({storages_[k - 1]});
      }
    }
  }
  void backward(size_t count) {
    for (size_t k = 0; k < count && k + 1 < count; ++k) {
      add({storages_.back(), storages_[count - 1 - k]});
    }
  }
  void add(const std::vector<Storage*>& inputs) {
    remat::Record* record = store_.new_record(kType, inputs.size(), 1, 0);
    record->cost_ns = 1000 + random_.below(100'000);
    for (size_t k = 0; k < inputs.size(); ++k) {
      store_.set_edge(*record, k, *inputs[k]->current);
      record->depth = std::max(record->depth, inputs[k]->current->depth + 1);
    }
    Storage* storage =
        store_.new_storage(nullptr, this, 64 << random_.below(16), remat::RootReason::kNone);
    store_.set_producer(*storage->current, *record, 0);
    store_.link(*record);
    store_.release(record);
    storages_.push_back(storage);
  }

  static inline const remat::RecordType kType{"bench::operator", nullptr};
  remat::LineageStore store_;
  std::vector<Storage*> storages_;
  Random random_;

 public:
  std::unique_ptr<remat::Policy> policy;
  std::vector<Storage*> movable;  // forward values with a producer
};

// A search after a few evictions and returns: time by price.
void price(benchmark::State& state, const std::string& name) {
  Lineage lineage(name, static_cast<size_t>(state.range(0)), state.range(1));
  lineage.search();
  size_t prices = 0;
  for (auto _ : state) {
    state.PauseTiming();
    for (int k = 0; k < 4; ++k) lineage.change(k % 2 == 0);
    state.ResumeTiming();
    prices += lineage.search();
  }
  state.SetItemsProcessed(static_cast<int64_t>(prices));
  state.counters["price_ns"] =
      benchmark::Counter(static_cast<double>(prices) * 1e-9,
                         benchmark::Counter::kIsRate | benchmark::Counter::kInvert);
}

// Evictions and returns between two searches: time by change.
void change(benchmark::State& state, const std::string& name) {
  constexpr int kChanges = 64;
  Lineage lineage(name, static_cast<size_t>(state.range(0)), state.range(1));
  for (auto _ : state) {
    state.PauseTiming();
    lineage.search();
    state.ResumeTiming();
    for (int k = 0; k < kChanges; ++k) lineage.change(k % 2 == 0);
  }
  state.SetItemsProcessed(state.iterations() * kChanges);
  state.counters["change_ns"] =
      benchmark::Counter(static_cast<double>(state.iterations()) * kChanges * 1e-9,
                         benchmark::Counter::kIsRate | benchmark::Counter::kInvert);
}

void register_all(const std::vector<int64_t>& sizes) {
  for (const std::string& name : remat::policy_names()) {
    for (const bool of_price : {true, false}) {
      const std::string full = (of_price ? "price/" : "change/") + name;
      auto* family = benchmark::RegisterBenchmark(full.c_str(), of_price ? price : change, name);
      family->ArgNames({"values", "evicted"});
      for (const int64_t values : sizes) {
        for (const Evicted evicted : {kNothing, kHalf, kMost}) family->Args({values, evicted});
      }
    }
  }
}

}  // namespace
}  // namespace tidepool::bench

int main(int argc, char** argv) {
  char shortest[] = "--benchmark_min_time=0.001";
  std::vector<int64_t> sizes{1'000, 10'000, 100'000};
  std::vector<char*> arguments(argv, argv + argc);
  for (char*& argument : arguments) {
    if (std::string_view(argument) != "--smoke") continue;
    argument = shortest;
    sizes = {1'000};
  }
  tidepool::bench::register_all(sizes);
  int count = static_cast<int>(arguments.size());
  arguments.push_back(nullptr);
  benchmark::Initialize(&count, arguments.data());
  if (benchmark::ReportUnrecognizedArguments(count, arguments.data())) return 1;
  benchmark::RunSpecifiedBenchmarks();
  benchmark::Shutdown();
  return 0;
}
