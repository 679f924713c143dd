#include "remat/plan/chain/chain_plan.h"

#include <algorithm>
#include <map>
#include <optional>
#include <vector>

#include "allocator/base/splitmix.h"
#include "remat/trace/trace_peak.h"
#include "tests/remat/trace/sample_traces.h"
#include "tests/support/catch.h"

namespace tidepool::remat {
namespace {

// PlannedRun: does what a plan says, buffer by buffer. A value is a hash of its operator and of
// what that read, so that a wrong replay gives another one. What is not used any more goes, and so
// does what is dropped until it is made again. A storage that is there with other contents than a
// replay needs is made again beside itself, as a ghost.
class PlannedRun {
 public:
  PlannedRun(const Trace& trace, const ChainPlan& plan)
      : trace_(trace), plan_(plan), storages_(trace.storages.size()) {
    walk([&](Moment op, bool again) { note(op, again); });
    for (Storage& storage : storages_) storage.held.reset();
    bytes_ = peak_ = 0;
  }

  // Returns the hashes of what each operator has read the first time that it ran.
  std::vector<uint64_t> run() {
    walk([&](Moment op, bool again) { execute(op, again); });
    return seen_;
  }
  size_t peak() const { return peak_; }

 private:
  struct Contents {
    size_t version = 0;  // how often they were written
    uint64_t value = 0;
  };
  struct Use {
    size_t at = 0;
    bool makes = false, writes = false;
    size_t version = 0;  // that is needed, or made
    size_t group = 0;    // operators that run again before the same one
  };
  struct Storage {
    std::optional<Contents> held, ghost;
    size_t released = SIZE_MAX;
    size_t writes = 0;
    std::map<Moment, size_t> versions;  // by operator: the version that it found
    std::vector<Use> accesses;
  };

  template <typename Do>
  void walk(const Do& run_operator) {
    now_ = 0;
    size_t next = 0;
    const auto is_before = [&](size_t rerun, Moment op) {
      return rerun < plan_.reruns.size() && plan_.reruns[rerun].before == op;
    };
    for (const TraceEvent& event : trace_.events) {
      if (event.kind == EventKind::kRoot) begin(event.index);
      if (event.kind == EventKind::kRelease) {
        storages_[event.index].released = now_;
        leave(event.index);
      }
      if (event.kind != EventKind::kOperator) continue;
      group_end_ = now_;
      for (size_t k = next; is_before(k, event.index); ++k) ++group_end_;
      for (; is_before(next, event.index); ++next) {
        ++now_;
        run_operator(plan_.reruns[next].op, true);
      }
      ++now_;
      group_end_ = now_;
      run_operator(event.index, false);
    }
    CHECK(next == plan_.reruns.size());
  }

  void begin(uint32_t storage) {
    storages_[storage].held = Contents{0, mixed(storage + 1)};
    add_bytes(storage, 1);
  }
  void add_bytes(uint32_t storage, int sign) {
    const size_t bytes = trace_.aligned_bytes(static_cast<StorageIndex>(storage));
    bytes_ = sign > 0 ? bytes_ + bytes : bytes_ - bytes;
    peak_ = std::max(peak_, bytes_);
  }

  // All storages that an operator reads or writes, but by side writes, which its results do not
  // depend on, and which a replay does not repeat.
  template <typename Do>
  void for_operands(const TraceOperator& op, const Do& see) {
    for (const StorageIndex read : trace_.reads(op)) see(static_cast<uint32_t>(read), false);
    for (const TraceWrite& write : trace_.writes(op)) {
      if (write.access != Access::kSideWrite) see(static_cast<uint32_t>(write.storage), true);
    }
  }

  void note(Moment at, bool again) {
    const TraceOperator& op = trace_.operators[at];
    for_operands(op, [&](uint32_t index, bool writes) {
      Storage& storage = storages_[index];
      if (!again) storage.versions[at] = storage.writes;
      storage.accesses.push_back({now_, false, writes, storage.versions[at], group_end_});
      if (writes && !again) ++storage.writes;
    });
    for (const TraceWrite& write : trace_.writes(op)) {
      if (again || write.access != Access::kSideWrite) continue;
      Storage& storage = storages_[number(write.storage)];
      storage.accesses.push_back({now_, false, true, storage.writes++, group_end_});
    }
    for (const StorageIndex output : trace_.outputs(op)) {
      storages_[number(output)].accesses.push_back({now_, true, false, 0, group_end_});
    }
  }

  // Whether contents that are held are needed before, or although, they are made again.
  bool is_needed(uint32_t index, std::vector<Use>::const_iterator next) const {
    const Storage& storage = storages_[index];
    std::optional<size_t> made;  // the version that is made again, as far as that is for good
    size_t group = 0;
    for (; next != storage.accesses.end(); ++next) {
      if (made && !plan_.dropped[index] && next->group != group) made.reset();
      if (next->makes) {
        made = 0;
        group = next->group;
      } else if (made != next->version) {
        return true;
      } else if (next->writes) {
        ++*made;
      }
    }
    return false;
  }

  // Drops what is not needed before it is made again, if it is.
  void leave(uint32_t index) {
    Storage& storage = storages_[index];
    const auto& accesses = storage.accesses;
    const auto next = std::find_if(accesses.begin(), accesses.end(),
                                   [&](const Use& access) { return access.at > now_; });
    const auto needs_ghost = [&](const Use& access) {
      return access.at <= group_end_ && !access.makes && access.version == storage.ghost->version &&
             (!storage.held || storage.held->version != access.version);
    };
    if (storage.ghost && std::none_of(next, accesses.end(), needs_ghost)) {
      storage.ghost.reset();
      add_bytes(index, -1);
    }
    if (!storage.held || (trace_.storages[index].root && storage.released > now_)) return;
    if (is_needed(index, next)) return;
    storage.held.reset();
    add_bytes(index, -1);
  }

  void execute(Moment at, bool again) {
    const TraceOperator& op = trace_.operators[at];
    uint64_t hash = mixed(at + 1000);
    const auto found = [&](uint32_t index) -> Contents& {
      Storage& storage = storages_[index];
      const size_t version = storage.versions[at];
      if (storage.held && storage.held->version == version) return *storage.held;
      REQUIRE(storage.ghost);
      REQUIRE(storage.ghost->version == version);
      return *storage.ghost;
    };
    for_operands(op, [&](uint32_t index, bool) { hash = mixed(hash ^ found(index).value); });
    if (!again) seen_.push_back(hash);
    for (const StorageIndex output : trace_.outputs(op)) {
      Storage& storage = storages_[number(output)];
      (storage.held ? storage.ghost : storage.held) = Contents{0, mixed(hash ^ number(output))};
      add_bytes(static_cast<uint32_t>(output), 1);
    }
    peak_ = std::max(peak_, bytes_ + trace_.aligned(op.workspace_bytes));
    for_operands(op, [&](uint32_t index, bool writes) {
      if (!writes) return;
      Contents& contents = found(index);
      contents = {contents.version + 1, mixed(hash ^ index)};
    });
    for (const TraceWrite& write : trace_.writes(op)) {
      if (again || write.access != Access::kSideWrite) continue;
      Contents& contents = storages_[number(write.storage)].held.value();
      contents = {contents.version + 1, mixed(hash ^ number(write.storage))};
      leave(static_cast<uint32_t>(write.storage));
    }
    for_operands(op, [&](uint32_t index, bool) { leave(index); });
    for (const StorageIndex output : trace_.outputs(op)) leave(static_cast<uint32_t>(output));
  }

  const Trace& trace_;
  const ChainPlan& plan_;
  std::vector<Storage> storages_;
  std::vector<uint64_t> seen_;
  size_t now_ = 0, group_end_ = 0, bytes_ = 0, peak_ = 0;
};

ChainPlan no_plan(const Trace& trace) {
  ChainPlan plan;
  plan.dropped.resize(trace.storages.size());
  return plan;
}

// Checks that a plan computes what the trace does, in the bytes that it says.
ChainPlan checked_plan(const Trace& trace) {
  ChainPlan plan = plan_chain(trace);
  const ChainPlan none = no_plan(trace);
  PlannedRun planned(trace, plan), plain(trace, none);
  const bool same = planned.run() == plain.run();
  CHECK(same);
  CHECK(planned.peak() <= plan.bytes);
  CHECK(plan.bytes >= trace_peak(trace).floor_bytes);
  return plan;
}

TEST_CASE("plans of networks compute the same in the bytes that they say") {
  for (uint64_t seed = 1; seed <= 40; ++seed) {
    const Trace trace = network_trace(40, 1000, 1000, seed);
    const ChainPlan plan = checked_plan(trace);
    CHECK(plan.bytes * 2 < trace_peak(trace).peak_bytes);
    CHECK(plan.turns == 1);
    CHECK(plan.replay_ns < trace.baseline_ns() / 2);
  }
}

TEST_CASE("each step of a trace has a turn") {
  const Trace trace = two_networks_trace(40, 1000, 1000, 3);
  const ChainPlan plan = checked_plan(trace);
  CHECK(plan.turns == 2);
  CHECK(plan.bytes * 2 < trace_peak(trace).peak_bytes);
}

TEST_CASE("plans of random traces compute the same in the bytes that they say") {
  for (uint64_t seed = 1; seed <= 2000; ++seed) checked_plan(random_trace(seed, 60));
}

TEST_CASE("a network of equal layers takes what its chain takes") {
  const Trace trace = network_trace(100, 1000);
  const ChainPlan plan = checked_plan(trace);
  CHECK(plan.places > 90);
  CHECK(plan.widest_cut == 1);
  CHECK(plan.bytes < 1000 * 20);
}

// A chain whose first layer also makes a small result that the backward pass may read first.
Trace trace_of_layers(size_t layers, bool reads_early) {
  TraceBuilder builder({});
  std::vector<uint64_t> made{builder.root(1000, RootKind::kInput)};
  const auto call = [&](const char* name, std::vector<uint64_t> reads, std::vector<size_t> bytes) {
    OperatorCallEntry entry;
    entry.name = name;
    entry.reads = reads;
    entry.output_bytes = bytes;
    return builder.call(entry);
  };
  const uint64_t first = call("forward", {made[0]}, {1000, 10});
  made.push_back(first);
  for (size_t k = 1; k < layers; ++k) made.push_back(call("forward", {made.back()}, {1000}));
  std::vector<uint64_t> reads{made.back()};
  if (reads_early) reads.push_back(first + 1);
  uint64_t gradient = call("loss", reads, {1000});
  for (size_t k = layers; k > 0; --k) {
    const uint64_t next = call("backward", {made[k - 1], gradient}, {1000});
    builder.release(gradient);
    builder.release(made[k]);
    gradient = next;
  }
  return builder.take();
}

TEST_CASE("a small result that is read early does not have its segment run early") {
  const ChainPlan plan = checked_plan(trace_of_layers(100, true));
  const ChainPlan other = checked_plan(trace_of_layers(100, false));
  CHECK(plan.cuts > 5);
  CHECK(plan.bytes <= other.bytes + 100);
}

TEST_CASE("a trace without operators has an empty plan") { CHECK(plan_chain(Trace{}).bytes == 0); }

}  // namespace
}  // namespace tidepool::remat
