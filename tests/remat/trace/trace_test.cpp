#include "remat/trace/trace.h"

#include "tests/remat/trace/sample_traces.h"
#include "tests/support/catch.h"

namespace tidepool::remat {
namespace {

TEST_CASE("a builder numbers storages and keeps what operators do") {
  TraceBuilder builder({"t", "cpu", 64, 0, 0});
  const uint64_t root = builder.root(100, RootKind::kParameter);
  const std::vector<uint64_t> reads = {root, root};
  const std::vector<size_t> outputs = {10, 20};
  OperatorCallEntry entry;
  entry.name = "split";
  entry.cost_ns = 5;
  entry.reads = reads;
  entry.output_bytes = outputs;
  CHECK(builder.call(entry) == 1);
  CHECK(builder.next_storage() == 3);
  entry.output_bytes = {};
  builder.call(entry);
  builder.release(2);
  CHECK(builder.is_alive(1));
  CHECK_FALSE(builder.is_alive(2));
  const Trace trace = builder.take();
  REQUIRE(trace.operators.size() == 2);
  const TraceOperator& op = trace.operators[0];
  CHECK(trace.names[op.name] == "split");
  CHECK(trace.reads(op).size() == 1);  // nothing is listed twice
  CHECK(number(trace.outputs(op)[1]) == 2);
  CHECK(trace.operators[1].name == op.name);
  CHECK(trace.baseline_ns() == 10);
  CHECK(trace.aligned_bytes(StorageIndex{0}) == 128);
  CHECK(trace.aligned(0) == 0);
  CHECK(trace.events.size() == 4);
}

TEST_CASE("what is overwritten and read is updated") {
  TraceBuilder builder({"t", "cpu", 1, 0, 0});
  builder.root(8, RootKind::kOther);
  const std::vector<uint64_t> reads = {0};
  const std::vector<TraceWrite> writes = {{StorageIndex{0}, Access::kOverwrite}};
  OperatorCallEntry entry;
  entry.writes = writes;
  builder.call(entry);
  entry.reads = reads;
  builder.call(entry);
  const Trace trace = builder.take();
  CHECK(trace.writes(trace.operators[0])[0].access == Access::kOverwrite);
  CHECK(trace.writes(trace.operators[1])[0].access == Access::kUpdate);
  CHECK(trace.reads(trace.operators[1]).empty());
}

TEST_CASE("a builder refuses what no job can do, and stays as it was") {
  TraceBuilder builder({"t", "cpu", 1, 0, 0});
  builder.root(8, RootKind::kOther);
  builder.root(8, RootKind::kOther);
  builder.release(1);
  const std::vector<uint64_t> unknown = {2};
  const std::vector<uint64_t> dead = {1};
  const std::vector<TraceWrite> twice = {{StorageIndex{0}, Access::kUpdate},
                                         {StorageIndex{0}, Access::kSideWrite}};
  const std::vector<size_t> one = {8};
  const std::vector<size_t> huge = {TraceBuilder::kMostBytes + 1};
  OperatorCallEntry entry;
  CHECK_THROWS_WITH(builder.role(1, RootKind::kInput), "storage 1 is dead already");
  entry.output_bytes = one;
  entry.reads = unknown;
  CHECK_THROWS_WITH(builder.call(entry), "unknown storage 2");
  entry.reads = dead;
  CHECK_THROWS_WITH(builder.call(entry), "storage 1 is dead already");
  entry.reads = {};
  entry.writes = twice;
  CHECK_THROWS_WITH(builder.call(entry), "storage 0 is written twice");
  entry.writes = {};
  entry.output_bytes = huge;
  CHECK_THROWS_AS(builder.call(entry), TraceError);
  entry.output_bytes = one;
  entry.cost_ns = TraceBuilder::kMostNs + 1;
  CHECK_THROWS_AS(builder.call(entry), TraceError);
  CHECK_THROWS_WITH(builder.release(1), "storage 1 is dead already");
  CHECK_THROWS_WITH(builder.use(7, 0), "unknown storage 7");
  CHECK_THROWS_AS(builder.root(TraceBuilder::kMostBytes + 1, RootKind::kOther), TraceError);
  CHECK(builder.next_storage() == 2);
  const Trace trace = builder.take();
  CHECK(trace.operators.empty());
  CHECK(trace.operands.empty());
  CHECK(trace.events.size() == 3);
}

TEST_CASE("an alignment is a power of two") {
  CHECK_THROWS_AS(TraceBuilder({"t", "cpu", 0, 0, 0}), TraceError);
  CHECK_THROWS_AS(TraceBuilder({"t", "cpu", 48, 0, 0}), TraceError);
  CHECK_THROWS_AS(TraceBuilder({"t", "cpu", 64, -1, 0}), TraceError);
}

TEST_CASE("an operator of more operands than 16 bits count") {
  constexpr size_t kMany = 70000;
  TraceBuilder builder({"t", "cpu", 64, 0, 0});
  std::vector<uint64_t> reads;
  std::vector<TraceWrite> writes;
  for (size_t k = 0; k < kMany; ++k) reads.push_back(builder.root(64, RootKind::kOther));
  for (size_t k = 0; k < kMany; ++k) {
    writes.push_back(
        {static_cast<StorageIndex>(builder.root(64, RootKind::kOther)), Access::kUpdate});
  }
  const std::vector<size_t> bytes(kMany, 64);
  OperatorCallEntry entry;
  entry.name = "many";
  entry.reads = reads;
  entry.writes = writes;
  entry.output_bytes = bytes;
  builder.call(entry);
  const Trace trace = builder.take();
  CHECK(trace.operators[0].reads == kMany);
  CHECK(trace.operators[0].writes == kMany);
  CHECK(trace.operators[0].outputs == kMany);
}

}  // namespace
}  // namespace tidepool::remat
