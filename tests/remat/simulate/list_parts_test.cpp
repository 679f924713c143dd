#include "remat/simulate/list_parts.h"

#include <string>
#include <vector>

#include "remat/plan/simulator.h"
#include "remat/trace/trace_format.h"
#include "tests/remat/trace/sample_traces.h"
#include "tests/support/catch.h"

namespace tidepool::remat {
namespace {

// What an operator reads, writes and makes, as text.
std::string operands(const Trace& trace, const TraceOperator& op) {
  std::string text;
  for (const TraceWrite& write : trace.writes(op)) {
    text += "w" + std::to_string(number(write.storage)) + " ";
  }
  for (const StorageIndex read : trace.reads(op)) text += "r" + std::to_string(number(read)) + " ";
  for (const StorageIndex output : trace.outputs(op)) {
    text += "o" + std::to_string(number(output)) + " ";
  }
  return text + std::to_string(op.cost_ns);
}

std::vector<std::string> all_operands(const Trace& trace) {
  std::vector<std::string> all;
  for (const TraceOperator& op : trace.operators) all.push_back(operands(trace, op));
  return all;
}

// The trace with the operators on lists in parts of at most `most_bytes`, as with a tier.
Trace in_parts(const Trace& trace, size_t most_bytes) {
  constexpr size_t kOffloadedShare = 4;
  return with_list_parts(trace, kOffloadedShare * most_bytes, true);
}

// Storages of 100, 200 and 300 bytes, `lists` times, and one of 4 bytes; and one operator, with
// `more_entries` behind it.
Trace lists_trace(int lists, const std::string& op, int more_entries = 0) {
  std::string text = "{\"tidepool_trace\":1,\"name\":\"lists\",\"device\":\"cpu\"}\n";
  int storage = 0;
  for (; storage < 3 * lists; ++storage) {
    text += "{\"root\":" + std::to_string(storage) +
            ",\"bytes\":" + std::to_string(100 * (storage % 3 + 1)) + "}\n";
  }
  text += "{\"root\":" + std::to_string(storage) + ",\"bytes\":4}\n" + op + "\n";
  text += "{\"release\":0}\n{\"step\":1}\n{\"end\":" + std::to_string(storage + 4 + more_entries) +
          "}\n";
  return trace_of(text);
}

TEST_CASE("an operator on lists runs on parts that are small enough, and takes as long") {
  const Trace trace = lists_trace(2, R"({"op":"aten::_foreach_add_.List","ns":60,)"
                                     R"("write":[[0,"update"],[1,"update"],[2,"update"]],)"
                                     R"("in":[3,4,5]})");
  CHECK(difference(in_parts(trace, 1200), trace).empty());
  // An element's operands take 200, 400 and 600 bytes.
  CHECK(all_operands(in_parts(trace, 1199)) ==
        std::vector<std::string>{"w0 w1 r3 r4 30", "w2 r5 30"});
  CHECK(all_operands(in_parts(trace, 1)) ==
        std::vector<std::string>{"w0 r3 10", "w1 r4 20", "w2 r5 30"});
}

TEST_CASE("all parts read what is no list, and results keep their numbers") {
  const Trace trace = lists_trace(2, R"({"op":"aten::_foreach_mul.Tensor","ns":60,)"
                                     R"("in":[0,1,2,6],"out":[[7,100],[8,200],[9,300]]})");
  CHECK(all_operands(in_parts(trace, 300)) ==
        std::vector<std::string>{"r0 r1 r6 o7 o8 30", "r2 r6 o9 30"});
}

TEST_CASE("the lists of a fused optimizer are found by the sizes of what it writes") {
  const std::string op =
      R"({"op":"aten::_fused_sgd_","ns":60,"write":[[0,"update"],[1,"update"],[2,"update"],)"
      R"([3,"update"],[4,"update"],[5,"update"],[6,"update"],[7,"update"],[8,"update"]],)"
      R"("in":[9]})";
  CHECK(all_operands(in_parts(lists_trace(3, op), 900)) ==
        std::vector<std::string>{"w0 w1 w3 w4 w6 w7 r9 30", "w2 w5 w8 r9 30"});
}

TEST_CASE("an operator whose lists are not known stays whole") {
  for (const char* const op :
       {R"({"op":"aten::add_.Tensor","ns":60,"write":[[0,"update"],[1,"update"]]})",
        // Elements of the second list share a storage.
        R"({"op":"aten::_foreach_add_.List","ns":60,)"
        R"("write":[[0,"update"],[1,"update"],[2,"update"]],"in":[3,4]})"}) {
    const Trace trace = lists_trace(2, op);
    CHECK(difference(in_parts(trace, 1), trace).empty());
  }
}

TEST_CASE("without a tier each element is a part once not all that lives has room") {
  const Trace trace = lists_trace(1, R"({"op":"aten::_foreach_mul.Tensor","ns":60,)"
                                     R"("in":[0,1,2,3],"out":[[4,100],[5,200],[6,300]]})");
  constexpr size_t kBudget = (604 + 600) * 16 / 15;  // a sixteenth of it is no room
  CHECK(difference(with_list_parts(trace, kBudget, false), trace).empty());
  CHECK(all_operands(with_list_parts(trace, kBudget - 1, false)) ==
        std::vector<std::string>{"r0 r3 o4 10", "r1 r3 o5 20", "r2 r3 o6 30"});
  // Two storages of 100 and 300 bytes are small beside a large one, and stay together.
  const Trace with_large = trace_of(
      R"({"tidepool_trace":1,"name":"lists","device":"cpu"})"
      "\n{\"root\":0,\"bytes\":100}\n{\"root\":1,\"bytes\":300}\n{\"root\":2,\"bytes\":1000000}\n"
      R"({"op":"aten::_foreach_neg","ns":60,"in":[0,1,2],"out":[[3,100],[4,300],[5,1000000]]})"
      "\n{\"step\":1}\n{\"end\":5}\n");
  CHECK(all_operands(with_list_parts(with_large, 1500000, false)) ==
        std::vector<std::string>{"r0 r1 o3 o4 0", "r2 o5 60"});
}

// Two roots of 100 and 200 bytes and an operator on them, in blocks; `blocks` are those that it
// allocates and frees.
Trace blocks_trace(const std::string& blocks) {
  return trace_of(R"({"tidepool_trace":2,"name":"blocks","device":"cpu"}
{"block":0,"bytes":128}
{"block":1,"bytes":256}
{"root":0,"bytes":100,"block":0}
{"root":1,"bytes":200,"block":1}
{"op":"aten::_foreach_neg","ns":60,"in":[0,1],"out":[[2,100,2],[3,200,3]],"blocks":)" +
                  blocks + R"(}
{"release":0}
{"end":6}
)");
}

TEST_CASE("in a trace with blocks each part allocates those of its results") {
  const Trace trace = blocks_trace("[[2,128],[3,256]]");
  constexpr size_t kBudget = 2 * (128 + 256) * 16 / 15;
  CHECK(difference(with_list_parts(trace, kBudget, false), trace).empty());
  const Trace parts = with_list_parts(trace, kBudget - 1, false);
  CHECK(all_operands(parts) == std::vector<std::string>{"r0 o2 20", "r1 o3 40"});
  for (const TraceOperator& op : parts.operators) {
    REQUIRE(parts.changes(op).size() == 1);
    CHECK(parts.changes(op)[0].block == parts.storages[number(parts.outputs(op)[0])].block);
  }
}

TEST_CASE("in a trace with blocks an operator that allocates others than its results stays whole") {
  const Trace trace = blocks_trace("[[2,128],[3,256],[4,64],4]");
  CHECK(difference(with_list_parts(trace, 1, false), trace).empty());
}

TEST_CASE("what is no operator on lists is the same in parts") {
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    const Trace trace = random_trace(seed, 200);
    CHECK(difference(in_parts(trace, 1), trace).empty());
  }
}

TEST_CASE("with a tier a job runs whose operator on lists is larger than the budget") {
  const Trace trace = lists_trace(2, R"({"op":"aten::_foreach_add_.List","ns":60,)"
                                     R"("write":[[0,"update"],[1,"update"],[2,"update"]],)"
                                     R"("in":[3,4,5]})");
  SimulationConfig config;
  config.memory = MemoryModel::kExact;
  config.budget_bytes = 1000;
  config.most_overhead = 1e6;  // a copy takes much longer than the operator
  CHECK(simulate(trace, config).status == SimulationStatus::kOutOfMemory);
  config.tier = {.capacity_bytes = 10'000, .gb_per_second = 10};
  CHECK(simulate(trace, config).status == SimulationStatus::kOk);
}

// As Adam makes and uses the square roots of its second moments, for three parameters.
TEST_CASE("what an operator on lists has written can be made again without a tier") {
  const Trace trace = lists_trace(
      2,
      R"({"op":"aten::_foreach_sqrt","ns":60,"in":[3,4,5],"out":[[7,100],[8,200],[9,300]]})"
      "\n"
      R"({"op":"aten::_foreach_div_.Scalar","ns":60,)"
      R"("write":[[7,"update"],[8,"update"],[9,"update"]],"in":[6]})"
      "\n"
      R"({"op":"aten::_foreach_addcdiv_.Scalar","ns":60,)"
      R"("write":[[0,"update"],[1,"update"],[2,"update"]],"in":[7,8,9]})"
      "\n{\"release\":7}\n{\"release\":8}\n{\"release\":9}",
      5);
  SimulationConfig config;
  config.memory = MemoryModel::kExact;
  config.budget_bytes = 1204 + 300;  // half of the results
  config.most_overhead = 1e6;
  const SimulationResult result = simulate(trace, config);
  CHECK(result.status == SimulationStatus::kOk);
  CHECK(result.evictions > 0);
}

}  // namespace
}  // namespace tidepool::remat
