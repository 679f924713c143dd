#include "remat/plan/chain/turn.h"

#include <algorithm>

#include "tests/remat/trace/sample_traces.h"
#include "tests/support/catch.h"

namespace tidepool::remat {
namespace {

constexpr size_t kLayers = 12;

// The turn of a network of equal layers: between its forward and its backward pass.
struct Network {
  Trace trace = network_trace(kLayers, 1000);
  StepValues values{trace};
  Held others{trace.operators.size()};
  std::vector<Moment> held_until = std::vector<Moment>(trace.storages.size(), kNeverUsed);

  Turn turn() const {
    std::vector<Turned> results;
    for (size_t k = 0; k < values.size(); ++k) {
      const auto storage = static_cast<StorageIndex>(k);
      const auto uses = values.uses(storage);
      const auto next = std::lower_bound(uses.begin(), uses.end(), Moment{kLayers});
      if (!values[storage].replayable || values[storage].made >= kLayers) continue;
      if (next != uses.end()) results.push_back({storage, *next, uses.back()});
    }
    return {trace, values, kLayers, std::move(results), others, held_until};
  }
};

TEST_CASE("held bytes are counted by operator") {
  Held held(4);
  held.add(1, 2, 10);
  held.add(2, kNeverUsed, 5);
  CHECK(held.by_operator() == std::vector<size_t>{0, 10, 15, 5});
  held.add(1, 2, 10, -1);
  CHECK(held.by_operator() == std::vector<size_t>{0, 0, 5, 5});
}

TEST_CASE("the chain of a network of equal layers has one result at each cut") {
  const Network network;
  const Chain chain = network.turn().chain();
  CHECK(chain.spans.empty());
  REQUIRE(chain.layers.size() > kLayers - 3);
  for (size_t k = 0; k + 1 < chain.layers.size(); ++k) CHECK(chain.layers[k].kept == 1000);
}

TEST_CASE("a schedule drops what lies between its cuts, and runs that once more") {
  const Network network;
  const Turn turn = network.turn();
  CHECK(turn.schedule({}).dropped.empty());
  CHECK(turn.schedule({}).reruns.empty());
  const std::vector<uint32_t> cuts{3, 7};
  CHECK(turn.widest(cuts) == 1);
  const Schedule schedule = turn.schedule(cuts);
  CHECK(!schedule.dropped.empty());
  CHECK(schedule.dropped.size() == schedule.reruns.size());
  CHECK(schedule.replays.size() == 2);
  uint64_t ns = 0;
  for (const Rerun& rerun : schedule.reruns) {
    CHECK(rerun.before >= kLayers);
    CHECK(rerun.op < kLayers);
    ns += network.trace.operators[rerun.op].cost_ns;
  }
  CHECK(schedule.replay_ns == ns);
}

}  // namespace
}  // namespace tidepool::remat
