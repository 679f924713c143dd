#include "remat/plan/follow/step_digest.h"

#include <algorithm>
#include <string>

#include "tests/remat/trace/sample_traces.h"
#include "tests/support/catch.h"

namespace tidepool::remat {
namespace {

Trace step(const std::string& lines) {
  return trace_of("{\"tidepool_trace\":1,\"name\":\"step\",\"device\":\"cpu\"}\n" + lines +
                  "{\"step\":1}\n{\"end\":" +
                  std::to_string(std::count(lines.begin(), lines.end(), '\n') + 1) + "}\n");
}

const std::string kFirst = "{\"root\":0,\"bytes\":100,\"kind\":\"input\"}\n";
const std::string kCall = "{\"op\":\"a\",\"ns\":5,\"in\":[0],\"out\":[[1,200]]}\n";

TEST_CASE("a digest tells operators and sizes apart, but not times and numbers of storages") {
  const uint64_t digest = step_digest(step(kFirst + kCall), 1);
  const auto differs = [&](const std::string& lines) {
    return step_digest(step(lines), 1) != digest;
  };
  CHECK(!differs(kFirst + "{\"op\":\"a\",\"ns\":9,\"in\":[0],\"out\":[[1,200]]}\n"));
  CHECK(
      !differs("{\"root\":0,\"bytes\":7,\"kind\":\"other\"}\n"
               "{\"root\":1,\"bytes\":100,\"kind\":\"other\"}\n"
               "{\"op\":\"a\",\"ns\":5,\"in\":[1],\"out\":[[2,200]]}\n"));
  CHECK(differs(kFirst + "{\"op\":\"b\",\"ns\":5,\"in\":[0],\"out\":[[1,200]]}\n"));
  CHECK(differs(kFirst + "{\"op\":\"a\",\"ns\":5,\"in\":[0],\"out\":[[1,201]]}\n"));
  CHECK(differs(kFirst + "{\"op\":\"a\",\"ns\":5,\"out\":[[1,200]],\"write\":[[0,\"update\"]]}\n"));
  CHECK(differs(kFirst + "{\"op\":\"a\",\"ns\":5,\"out\":[[1,200]]}\n"));
  CHECK(differs(kFirst + kCall + "{\"op\":\"a\",\"ns\":5,\"in\":[1]}\n"));
}

TEST_CASE("sizes count rounded up") {
  const Trace exact = step(kFirst + kCall);
  const Trace laid_out = step(
      "{\"root\":0,\"bytes\":128,\"kind\":\"input\"}\n"
      "{\"op\":\"a\",\"ns\":5,\"in\":[0],\"out\":[[1,256]]}\n");
  CHECK(step_digest(exact, 64) == step_digest(laid_out, 64));
  CHECK(step_digest(exact, 1) != step_digest(laid_out, 1));
}

// A recording of one step knows a storage from before only once the step has met it.
TEST_CASE("a digest passes over what says that contents change unseen") {
  const std::string cut = R"({"op":"tidepool::cut","ns":0,"write":[[0,"update"]]})";
  const Trace seen = step(kFirst + cut + "\n" + kCall);
  const Trace unseen = step(kFirst + kCall);
  CHECK(step_digest(seen, 1) == step_digest(unseen, 1));
  CHECK(digested_operators(seen) == 1);
  CHECK(digested_operators(unseen) == 1);
}

}  // namespace
}  // namespace tidepool::remat
