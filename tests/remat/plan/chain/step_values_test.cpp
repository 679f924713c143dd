#include "remat/plan/chain/step_values.h"

#include "tests/remat/trace/sample_traces.h"
#include "tests/support/catch.h"

namespace tidepool::remat {
namespace {

constexpr auto kInput = StorageIndex{0}, kFirst = StorageIndex{1}, kSecond = StorageIndex{2};

// An operator on a root makes storage 1; one on that makes storage 2; `more` follows.
Trace trace_with(const std::string& more) {
  return trace_of(
      "{\"tidepool_trace\":1,\"name\":\"t\",\"device\":\"cpu\",\"alignment\":64}\n"
      "{\"root\":0,\"bytes\":10}\n"
      "{\"op\":\"a\",\"ns\":1,\"in\":[0],\"out\":[[1,100]]}\n"
      "{\"op\":\"b\",\"ns\":1,\"in\":[1],\"out\":[[2,100]]}\n" +
      more);
}

const std::string kRead = R"({"op":"c","ns":1,"in":[1,2]})"
                          "\n";

TEST_CASE("storages know when they are made, used and given up") {
  const Trace trace = trace_with(kRead + "{\"release\":1}\n{\"end\":5}\n");
  const StepValues values(trace);
  CHECK(values[kInput].root);
  CHECK(!values[kInput].replayable);
  CHECK(values[kFirst].bytes == 128);
  CHECK(values[kSecond].made == 1);
  CHECK(values[kFirst].released == 3);
  CHECK(values[kSecond].released == kNeverUsed);
  CHECK(values.uses(kFirst).size() == 2);
  CHECK(values.last_use(kFirst) == 2);
  CHECK(values[kFirst].replayable);
  CHECK(values[kSecond].replayable);
}

TEST_CASE("what was made of a root cannot be made again once the root is written") {
  const std::string write = R"({"op":"w","ns":1,"write":[[0,"update"]]})"
                            "\n";
  const Trace later = trace_with(kRead + write + "{\"end\":5}\n");
  CHECK(StepValues(later)[kFirst].replayable);
  const Trace before = trace_with(write + kRead + "{\"end\":5}\n");
  const StepValues values(before);
  CHECK(!values[kFirst].replayable);
  CHECK(values[kSecond].replayable);  // of storage 1, which stays as it is
}

TEST_CASE("a storage that is written long after it was made is not replayable") {
  const std::string write = R"({"op":"w","ns":1,"write":[[1,"update"]]})"
                            "\n";
  CHECK(StepValues(trace_with(write + "{\"end\":4}\n"))[kFirst].replayable);
  std::string many;
  for (int k = 0; k < 20; ++k) many += "{\"op\":\"c\",\"ns\":1,\"in\":[0]}\n";
  CHECK(!StepValues(trace_with(many + write + "{\"end\":24}\n"))[kFirst].replayable);
}

TEST_CASE("a storage that is settled limits what is made of it") {
  const Trace trace = trace_with(kRead + "{\"end\":4}\n");
  StepValues values(trace);
  values.settle(kFirst);
  values.find_replayable();
  CHECK(!values[kFirst].replayable);
  CHECK(values[kSecond].replayable);
  values.settle(kFirst, 2);  // it goes before the last operator, which reads storage 2
  values.find_replayable();
  CHECK(!values[kSecond].replayable);
}

}  // namespace
}  // namespace tidepool::remat
