#include "remat/trace/trace_format.h"

#include "remat/trace/parse_lines.h"
#include "remat/trace/trace_writer.h"
#include "tests/remat/trace/sample_traces.h"
#include "tests/support/catch.h"
#include "tests/support/random.h"

namespace tidepool::remat {
namespace {

using Catch::Matchers::ContainsSubstring;

const std::string kHeader = R"({"tidepool_trace":1,"name":"t","device":"cpu"})"
                            "\n";
const std::string kTwo = kHeader + R"({"root":0,"bytes":8})"
                                   "\n"
                                   R"({"op":"f","ns":3,"in":[0],"out":[[1,16]]})"
                                   "\n";

TEST_CASE("every event is read as documented") {
  const Trace trace =
      trace_of(R"({"tidepool_trace":1,"name":"all","device":"cuda","alignment":512,)"
               R"("copy_bytes_per_ns":2.5,"map_ns":9,"drain_ns":70}
{"root":0,"bytes":1000,"kind":"parameter"}
{"root":1,"bytes":0}
{"op":"aten::mm","ns":120,"in":[0,1],"out":[[2,64],[3,0]],"workspace":77,)"
               R"("site":5,"stream":1,"draws":true,"recordable":false}
{"op":"aten::add_","ns":4,"in":[0],"write":[[2,"update"],[3,"overwrite"],[1,"side"]]}
{"use":2,"stream":1}
{"role":2,"kind":"optimizer_state"}
{"release":3}
{"step":1}
{"end":8}
)");
  CHECK(trace.facts.name == "all");
  CHECK(trace.facts.device == "cuda");
  CHECK(trace.facts.alignment == 512);
  CHECK(trace.facts.copy_bytes_per_ns == 2.5);
  CHECK(trace.facts.map_ns == 9);
  CHECK(trace.facts.drain_ns == 70);
  REQUIRE(trace.storages.size() == 4);
  CHECK(trace.storages[0].kind == RootKind::kParameter);
  CHECK(trace.storages[0].root);
  CHECK(trace.storages[1].kind == RootKind::kOther);
  CHECK_FALSE(trace.storages[2].root);
  REQUIRE(trace.operators.size() == 2);
  const TraceOperator& product = trace.operators[0];
  CHECK(trace.names[product.name] == "aten::mm");
  CHECK(product.cost_ns == 120);
  CHECK(trace.reads(product).size() == 2);
  CHECK(trace.outputs(product).size() == 2);
  CHECK(product.workspace_bytes == 77);
  CHECK(product.site == 5);
  CHECK(product.stream == 1);
  CHECK(product.draws);
  CHECK_FALSE(product.recordable);
  const TraceOperator& sum = trace.operators[1];
  CHECK(sum.recordable);
  REQUIRE(trace.writes(sum).size() == 3);
  CHECK(trace.writes(sum)[0].access == Access::kUpdate);
  CHECK(trace.writes(sum)[1].access == Access::kOverwrite);
  CHECK(trace.writes(sum)[2].access == Access::kSideWrite);
  CHECK(number(trace.writes(sum)[2].storage) == 1);
  REQUIRE(trace.events.size() == 8);
  CHECK(trace.events[4].kind == EventKind::kUse);
  CHECK(trace.events[4].stream == 1);
  CHECK(trace.events[5].kind == EventKind::kRole);
  CHECK(trace.events[5].index == 2);
  CHECK(trace.events[5].role == RootKind::kOptimizerState);
  CHECK(trace.events[6].kind == EventKind::kRelease);
  CHECK(trace.events[7].kind == EventKind::kStep);
}

TEST_CASE("a broken line is refused with its number and the reason") {
  struct Case {
    std::string lines, reason;
  };
  const Case cases[] = {
      {R"({"op":"g","ns":1,"in":[2]})", "4: unknown storage 2"},
      {R"({"op":"g","ns":1,"in":["1"]})", R"(4: "in" is "1"; expected a whole number from 0)"},
      {R"({"op":"g","ns":-1})", R"(4: "ns" is -1; expected a whole number from 0)"},
      {R"({"op":"g"})", R"(4: "ns" is missing)"},
      {R"({"op":5,"ns":1})", R"(4: "op" is 5; expected a text)"},
      {R"({"op":"g","ns":1,"out":[[2,-8]]})", R"(4: "out" is -8; expected a whole number from 0)"},
      {R"({"op":"g","ns":1,"out":[[7,8]]})", "4: storage 7 where 2 is next"},
      {R"({"op":"g","ns":1,"out":[2]})", R"(4: "out" has an entry that is no pair)"},
      {R"({"op":"g","ns":1,"out":5})", R"(4: "out" is 5; expected a list)"},
      {R"({"op":"g","ns":1,"draws":1})", R"(4: "draws" is 1; expected true or false)"},
      {R"({"op":"g","ns":1,"write":[[1,"half"]]})",
       R"(4: "write" is "half"; expected one of "update", "overwrite", "side")"},
      {R"({"op":"g","ns":1,"write":[[9,"update"]]})",
       "4: \"write\" names storage 9, which is unknown"},
      {R"({"op":"g","ns":1,"colour":1})", R"(4: unknown field "colour")"},
      {R"({"root":1,"bytes":8})", "4: storage 1 where 2 is next"},
      {R"({"root":2,"bytes":8,"kind":"tree"})", R"(4: "kind" is "tree"; expected one of "other",)"},
      {"{\"release\":1}\n{\"release\":1}", "5: storage 1 is dead already"},
      {R"({"release":5})", "4: unknown storage 5"},
      {R"({"release":1,"why":2})", R"(4: unknown field "why")"},
      {R"({"use":5,"stream":0})", "4: unknown storage 5"},
      {R"({"use":1,"stream":70000})", R"(4: "stream" is 70000; at most 65535)"},
      {R"({"role":5,"kind":"input"})", "4: unknown storage 5"},
      {R"({"role":1})", R"(4: "kind" is missing)"},
      {R"({"role":1,"kind":"tree"})", R"(4: "kind" is "tree"; expected one of "other",)"},
      {R"({"step":2})", "4: step 2 where 1 is next"},
      {R"({"end":3})", "4: the trace had 3 events, but 2 are here"},
      {"{\"end\":2}\n{\"step\":1}", "5: a line after the end"},
      {R"({"op":"g","ns":1,"place":0})", "4: unknown place 0"},
      {R"({"place":1,"at":{}})", "4: place 1 where 0 is next"},
      {R"({"what":1})", "4: no event"},
      {R"([1])", "4: not a JSON object"},
      {R"({"op":"g","ns":)", "4: not JSON"},
      {"", "4: not JSON"},
  };
  for (const Case& each : cases) {
    INFO(each.lines);
    CHECK_THROWS_WITH(trace_of(kTwo + each.lines + "\n{\"end\":3}\n"),
                      ContainsSubstring(each.reason));
  }
}

TEST_CASE("a trace that is cut short is refused") {
  CHECK_THROWS_WITH(trace_of(kTwo), ContainsSubstring("cut short"));
  CHECK_THROWS_WITH(trace_of(kTwo + R"({"op":"g","n)"), ContainsSubstring("not JSON"));
  CHECK_THROWS_WITH(trace_of(""), ContainsSubstring("empty"));
  CHECK(trace_of(kTwo + "{\"end\":2}\n").events.size() == 2);
}

TEST_CASE("other versions and other files are refused") {
  CHECK_THROWS_WITH(trace_of(R"({"tidepool_trace":3,"name":"t","device":"cpu"})"),
                    "1: unknown version 3; expected 1 or 2");
  CHECK_THROWS_WITH(trace_of(R"({"INSTRUCTION":"CALL"})"),
                    ContainsSubstring("no trace of Tidepool"));
  CHECK_THROWS_WITH(trace_of(R"({"tidepool_trace":1,"name":"t","device":"cpu","alignment":3})"),
                    ContainsSubstring("power of two"));
}

TEST_CASE("a file is named where it is broken") {
  const TemporaryFile file("broken.jsonl");
  file.write(kHeader + "{\"release\":0}\n");
  CHECK_THROWS_WITH(read_trace(file.path()), file.path() + ":2: unknown storage 0");
  file.write(kTwo + R"({"op":"g","n)");
  CHECK_THROWS_WITH(read_trace(file.path()),
                    file.path() + ":4: cut short: not JSON, at byte 13 of 12");
}

// Whatever bytes change, a reader accepts or refuses, and what it accepts is a valid trace.
TEST_CASE("random damage is refused or read, never more") {
  const TemporaryFile file("fuzz.jsonl");
  size_t refused = 0;
  for (uint64_t seed = 1; seed <= 1500; ++seed) {
    test::Random random(seed);
    if (seed % 50 == 1) write_trace(random_trace(seed, 40), file.path());
    std::string text = file.read();
    for (uint64_t k = random.between(1, 4); k > 0; --k) {
      const size_t at = random.below(text.size());
      switch (random.below(4)) {
        case 0:
          text[at] = static_cast<char>(random.below(256));
          break;
        case 1:
          text.erase(at, random.below(20));
          break;
        case 2:
          text.insert(at, text.substr(random.below(text.size()), random.below(30)));
          break;
        default:
          text[at] = "0123456789-[]{},\":"[random.below(18)];
      }
    }
    try {
      const Trace trace = trace_of(text);
      const TemporaryFile again("again.jsonl");
      write_trace(trace, again.path());
      CHECK(difference(trace, read_trace(again.path())) == "");
    } catch (const TraceError&) {
      ++refused;
    }
  }
  CHECK(refused > 1000);
  CHECK(refused < 1500);
}

const std::string kWithBlocks = R"({"tidepool_trace":2,"name":"t","device":"cpu","alignment":64}
{"block":0,"bytes":8}
{"block":1,"bytes":16}
{"root":0,"bytes":8,"block":0}
{"op":"f","ns":3,"in":[0],"out":[[1,16,1],[2,30,2]],"blocks":[[2,32],[3,8],3,[4,9]]}
{"op":"g","ns":3,"in":[0],"write":[[2,"update"]],"args":[0,[2,"update"],0]}
{"free":4}
{"end":6}
)";

TEST_CASE("a trace can say where its storages lie") {
  const Trace trace = trace_of(kWithBlocks);
  CHECK(trace.facts.blocks);
  CHECK(trace.storages[0].block == 0);
  CHECK(trace.storages[1].block == 1);
  CHECK(trace.storages[2].block == 2);
  REQUIRE(trace.events.size() == 6);
  CHECK(trace.events[0].kind == EventKind::kBlock);
  CHECK(trace.block_changes[trace.events[1].index].bytes == 16);
  const std::span<const BlockChange> changes = trace.changes(trace.operators[0]);
  REQUIRE(changes.size() == 4);
  CHECK((changes[0].block == 2 && changes[0].bytes == 32));
  CHECK((changes[2].block == 3 && changes[2].bytes == 0));
  CHECK(trace.arguments(trace.operators[0]).empty());
  const std::span<const TraceArgument> arguments = trace.arguments(trace.operators[1]);
  REQUIRE(arguments.size() == 3);
  CHECK((number(arguments[1].storage) == 2 && arguments[1].access == Access::kUpdate));
  CHECK((number(arguments[2].storage) == 0 && arguments[2].access == Access::kRead));
  const TraceEvent& last = trace.events.back();
  CHECK(last.kind == EventKind::kBlock);
  CHECK((trace.block_changes[last.index].block == 4 && trace.block_changes[last.index].bytes == 0));
  const TemporaryFile file("blocks.jsonl");
  write_trace(trace, file.path());
  CHECK(file.read() == kWithBlocks);
}

TEST_CASE("blocks that cannot be are refused") {
  struct Case {
    std::string line, reason;
  };
  const Case cases[] = {
      {R"({"block":6,"bytes":8})", "block 6 where 5 is next"},
      {R"({"block":5,"bytes":0})", "a block of 0 bytes"},
      {R"({"free":2})", "block 2 is freed, which is a storage's"},
      {R"({"free":3})", "block 3 is freed, which is a storage's, freed"},
      {R"({"free":9})", "block 9 is freed"},
      {R"({"root":3,"bytes":8})", "in block 4294967295, which has 0"},
      {R"({"root":3,"bytes":10,"block":4})", "a storage of 10 bytes in block 4, which has 9"},
      {R"({"root":3,"bytes":8,"block":1})", "in block 1, which has 0"},
      {R"({"op":"g","ns":1,"out":[[3,8]]})", "has not three parts"},
      {R"({"op":"g","ns":1,"out":[[3,8,4],[4,8,4]]})", "in block 4, which has 0"},
      {R"({"op":"g","ns":1,"in":[0],"args":[0,2]})", "argument 2 is neither read nor written"},
      {R"({"op":"g","ns":1,"in":[0],"args":[7]})", "\"args\" names storage 7, which is not there"},
      {R"({"op":"g","ns":1,"blocks":[4,4]})", "block 4 is freed"},
      {R"({"op":"g","ns":1,"blocks":[[5,0]]})", "a block of 0 bytes"},
      {R"({"op":"g","ns":1,"blocks":[[5,8,1]]})", R"("blocks" has an entry that is no pair)"},
  };
  const std::string before = kWithBlocks.substr(0, kWithBlocks.find("{\"free\""));
  for (const Case& each : cases) {
    INFO(each.line);
    CHECK_THROWS_WITH(trace_of(before + each.line + "\n{\"end\":6}\n"),
                      ContainsSubstring(each.reason));
  }
  CHECK_THROWS_WITH(trace_of(kTwo + "{\"block\":0,\"bytes\":8}\n{\"end\":3}\n"),
                    ContainsSubstring("blocks in a trace without"));
}

}  // namespace
}  // namespace tidepool::remat
