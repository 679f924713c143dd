// Storages that are made, evicted, brought back and lost in any order, without a runtime: the
// lineage stays sound, whatever is evicted can be produced, and walks and prices are those of
// walks by plain recursion.
#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include "remat/lineage/neighbourhood.h"
#include "tests/support/catch.h"
#include "tests/support/lineage_builder.h"
#include "tests/support/operation_fuzz.h"

namespace tidepool {
namespace {

using remat::Record;
using remat::Storage;
using Spares = remat::DependentCut::Spares;
using remat::Value;
using test::expect;
using test::expect_equal;
using test::Operation;
using test::OperationKind;

constexpr const char* kPolicies[] = {"needed-cost", "dtr", "msps", "coop", "dtr-eq"};

class LineageModel {
 public:
  enum Kind { kRoot, kResult, kPair, kEvict, kInstall, kDie, kSweep, kPrice, kSearch };
  static constexpr OperationKind kKinds[] = {{"kRoot", 3},   {"kResult", 12}, {"kPair", 4},
                                             {"kEvict", 12}, {"kInstall", 6}, {"kDie", 8},
                                             {"kSweep", 1},  {"kPrice", 8},   {"kSearch", 1}};

  explicit LineageModel(uint64_t seed)
      : policy_(kPolicies[seed % std::size(kPolicies)]), built_(policy_) {}

  bool run(const Operation& op) {
    const bool had_effect = step(op);
    built_.check();
    compare(op);
    return had_effect;
  }

  void finish() {
    while (!live_.empty()) {
      built_.die(live_.back());
      live_.pop_back();
    }
    built_.dependent_cut.sweep(Spares::kStay);
    built_.check();
    expect_equal(built_.residency.kept().size(), size_t{0});
    expect_equal(built_.store.records() + built_.store.values(), size_t{0});
    expect_equal(built_.allocator.statistics().allocated_bytes, size_t{0});
  }

 private:
  static constexpr size_t kMost = 24;

  bool step(const Operation& op) {
    if (op.kind == kRoot || op.kind == kResult || op.kind == kPair) {
      if (live_.size() >= kMost) return false;
      make(op);
      return true;
    }
    if (op.kind == kSweep) {
      return built_.dependent_cut.sweep(op.a % 2 == 0 ? Spares::kStay : Spares::kGo) > 0;
    }
    if (op.kind == kSearch) return built_.policy->begin_search(), true;
    if (live_.empty()) return false;
    const auto at = live_.begin() + op.a % live_.size();
    Storage* storage = *at;
    switch (op.kind) {
      case kEvict: {
        const bool evictable = !storage->evicted && storage->current->producer != nullptr;
        expect_equal(built_.evict(storage), evictable);
        return evictable;
      }
      case kInstall:
        if (!storage->evicted) return false;
        expect(built_.install(storage));
        return true;
      case kDie:
        live_.erase(at);
        storage->will_be_refilled = op.b % 2 == 0;
        built_.die(storage);
        return true;
      default:
        return price(*storage);
    }
  }

  void make(const Operation& op) {
    if (op.kind == kRoot || live_.empty()) return live_.push_back(built_.root());
    std::vector<Storage*> inputs;
    for (uint32_t number : {op.a, op.b, op.c}) {
      Storage* input = live_[number % live_.size()];
      if (std::find(inputs.begin(), inputs.end(), input) == inputs.end()) inputs.push_back(input);
      if (number % 3 == 0) break;
    }
    const size_t outputs = op.kind == kPair ? 2 : 1;
    for (Storage* each : built_.results(inputs, outputs, 1 + op.a % 1000)) live_.push_back(each);
  }

  bool price(Storage& storage) {
    if (storage.evicted || storage.current->producer == nullptr) return false;
    const uint64_t cost = built_.cost(&storage);
    const uint64_t own = storage.current->producer->cost_ns;
    expect(cost >= own);
    if (policy_ == "needed-cost") {
      expect_equal(cost, own + ancestors(*storage.current) + descendants(*storage.current));
    }
    if (policy_ != "dtr" && policy_ != "msps") return true;
    std::set<const Value*> near;
    add_values_above(*storage.current, near);
    if (policy_ == "dtr") add_values_below(*storage.current, near);
    uint64_t sum = own;
    for (const Value* value : near) sum += value->producer->cost_ns;
    expect_equal(cost, sum);
    return true;
  }

  void compare(const Operation& op) {
    for (const Storage* storage : live_) {
      std::set<const Value*> seen;
      if (storage->evicted) expect(can_be_produced(*storage->current, seen));
    }
    if (live_.empty()) return;
    const Value& value = *live_[op.b % live_.size()]->current;
    expect_equal(near_.ancestors_ns(value), ancestors(value));
    expect_equal(near_.needed_descendants_ns(value), descendants(value));
  }

  static bool can_be_produced(const Value& value, std::set<const Value*>& seen) {
    if (value.available() || !seen.insert(&value).second) return true;
    if (value.producer == nullptr) return false;
    for (size_t k = 0; k < value.producer->edge_count; ++k) {
      if (!can_be_produced(*value.producer->edges[k].value, seen)) return false;
    }
    return true;
  }

  static uint64_t sum_of(const std::set<const Record*>& records) {
    uint64_t sum = 0;
    for (const Record* record : records) sum += record->cost_ns;
    return sum;
  }
  static uint64_t ancestors(const Value& value) {
    std::set<const Record*> found;
    if (value.producer != nullptr) add_above(*value.producer, found);
    return sum_of(found);
  }
  static void add_above(const Record& record, std::set<const Record*>& found) {
    for (size_t k = 0; k < record.edge_count; ++k) {
      const Value& input = *record.edges[k].value;
      if (input.available() || input.producer == nullptr) continue;
      if (found.insert(input.producer).second) add_above(*input.producer, found);
    }
  }
  static void add_values_above(const Value& value, std::set<const Value*>& found) {
    if (value.producer == nullptr) return;
    for (size_t k = 0; k < value.producer->edge_count; ++k) {
      const Value& input = *value.producer->edges[k].value;
      if (input.available() || input.producer == nullptr) continue;
      if (found.insert(&input).second) add_values_above(input, found);
    }
  }
  static void add_values_below(const Value& value, std::set<const Value*>& found) {
    for (const remat::Edge* edge = value.consumers; edge != nullptr; edge = edge->next) {
      for (size_t k = 0; k < edge->record->output_count; ++k) {
        const Value* output = edge->record->outputs[k];
        if (output == nullptr || output->available()) continue;
        if (found.insert(output).second) add_values_below(*output, found);
      }
    }
  }
  static uint64_t descendants(const Value& value) {
    std::set<const Record*> found;
    add_needed_below(value, found);
    return sum_of(found);
  }
  // True if any record below is needed.
  static bool add_needed_below(const Value& value, std::set<const Record*>& found) {
    bool any = false;
    for (const remat::Edge* edge = value.consumers; edge != nullptr; edge = edge->next) {
      bool needed = false;
      for (size_t k = 0; k < edge->record->output_count; ++k) {
        const Value* output = edge->record->outputs[k];
        if (output == nullptr || output->available()) continue;
        needed |= output->live_and_evicted();
        needed |= add_needed_below(*output, found);
      }
      if (needed) found.insert(edge->record);
      any |= needed;
    }
    return any;
  }

  const std::string policy_;
  LineageBuilder built_;
  remat::Neighbourhood near_{built_.store};
  std::vector<Storage*> live_;
};

TEST_CASE("whatever is evicted can be produced, and costs what a plain walk says") {
  test::fuzz<LineageModel>("LineageModel", 150);
}

}  // namespace
}  // namespace tidepool
