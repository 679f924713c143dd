#include "remat/trace/json_fields.h"

#include "remat/trace/trace.h"
#include "tests/support/catch.h"

namespace tidepool::remat {
namespace {

using Catch::Matchers::ContainsSubstring;

TEST_CASE("fields come with their types") {
  const auto object = parse_object(R"({"n":3,"d":1.5,"t":"x","b":true,"l":[1,2]})");
  JsonFields fields(object);
  CHECK(fields.count("n") == 3);
  CHECK(fields.number("d") == 1.5);
  CHECK(fields.text("t") == "x");
  CHECK(fields.flag_or("b", false));
  CHECK(fields.list("l").size() == 2);
  CHECK(fields.count_or("absent", 7) == 7);
  CHECK(fields.number_or("absent", 2.5) == 2.5);
  CHECK_FALSE(fields.flag_or("absent", false));
  CHECK(fields.list("absent").empty());
  fields.check_all_read();
}

TEST_CASE("a field of another type is refused by name, with what was expected") {
  const auto object =
      parse_object(R"({"minus":-1,"half":1.5,"text":"5","list":[],"big":99999999999999999999999})");
  JsonFields fields(object);
  CHECK_THROWS_WITH(fields.count("minus"), R"("minus" is -1; expected a whole number from 0)");
  CHECK_THROWS_AS(fields.count("half"), TraceError);
  CHECK_THROWS_AS(fields.count("text"), TraceError);
  CHECK_THROWS_AS(fields.count("big"), TraceError);
  CHECK_THROWS_AS(fields.number_or("minus", 0), TraceError);
  CHECK_THROWS_WITH(fields.number("missing"), R"("missing" is missing)");
  CHECK_THROWS_AS(fields.flag_or("half", true), TraceError);
  CHECK_THROWS_AS(fields.text("list"), TraceError);
  CHECK_THROWS_AS(fields.list("text"), TraceError);
  CHECK_THROWS_WITH(fields.text("absent"), R"("absent" is missing)");
  CHECK_THROWS_WITH(fields.count_or("half", 0), ContainsSubstring("half"));
}

TEST_CASE("a field that nobody asked for is named") {
  const auto object = parse_object(R"({"a":1,"surprise":2})");
  JsonFields fields(object);
  fields.count("a");
  CHECK_THROWS_WITH(fields.check_all_read(), R"(unknown field "surprise")");
}

TEST_CASE("what is no object is refused") {
  CHECK_THROWS_WITH(parse_object("{"), ContainsSubstring("not JSON"));
  CHECK_THROWS_WITH(parse_object(""), ContainsSubstring("not JSON"));
  CHECK_THROWS_AS(parse_object("[1]"), TraceError);
  CHECK_THROWS_WITH(parse_object(R"({"a":1e99999})"), ContainsSubstring("too large"));
  CHECK_THROWS_AS(parse_object("{} {}"), TraceError);
}

TEST_CASE("a count has a greatest value where one is given") {
  const auto object = parse_object(R"({"n":8})");
  JsonFields fields(object);
  CHECK_THROWS_WITH(fields.count_or("n", 0, 7), R"("n" is 8; at most 7)");
}

}  // namespace
}  // namespace tidepool::remat
