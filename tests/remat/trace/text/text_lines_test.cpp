#include "remat/trace/text/text_lines.h"

#include <stdexcept>

#include "remat/trace/text/text_file.h"
#include "tests/remat/trace/sample_traces.h"
#include "tests/support/catch.h"

namespace tidepool::remat {
namespace {

std::vector<std::string> lines_of(const std::string& path) {
  TextLines lines(path);
  std::vector<std::string> out;
  std::string_view line;
  while (lines.next(&line)) {
    out.emplace_back(line);
    CHECK(lines.line_number() == out.size());
  }
  return out;
}

std::string many_lines() {
  std::string text;
  for (int i = 0; i < 50'000; ++i) text += "line " + std::to_string(i * 7919) + "\n";
  return text;
}

TEST_CASE("lines come whole, whatever the buffer") {
  const TemporaryFile file("lines.txt");
  const std::string longest(1'000'000, 'x');
  file.write("a\n\n" + longest + "\nlast");
  const std::vector<std::string> lines = lines_of(file.path());
  REQUIRE(lines.size() == 4);
  CHECK(lines[0] == "a");
  CHECK(lines[1].empty());
  CHECK(lines[2] == longest);
  CHECK(lines[3] == "last");
  file.write("");
  CHECK(lines_of(file.path()).empty());
}

TEST_CASE("a line without an end is told from one with it") {
  const TemporaryFile file("lines.txt");
  file.write("one\ntwo");
  TextLines lines(file.path());
  std::string_view line;
  REQUIRE(lines.next(&line));
  CHECK(lines.ended());
  REQUIRE(lines.next(&line));
  CHECK_FALSE(lines.ended());
}

TEST_CASE("a compressed file that is cut short or damaged is refused with its place") {
  const TemporaryFile file("lines.gz");
  {
    TextFile out(file.path());
    out.write(many_lines());
    out.close();
  }
  const std::string whole = file.read();
  file.write(whole.substr(0, whole.size() / 2));
  CHECK_THROWS_WITH(lines_of(file.path()),
                    Catch::Matchers::ContainsSubstring(file.path() + ":") &&
                        Catch::Matchers::ContainsSubstring("cannot be read on"));
  std::string damaged = whole;
  damaged[damaged.size() / 2] ^= 0x55;
  file.write(damaged);
  CHECK_THROWS_AS(lines_of(file.path()), std::runtime_error);
}

TEST_CASE("a file that is not there is named") {
  CHECK_THROWS_WITH(TextLines("no/such/file"), Catch::Matchers::ContainsSubstring("no/such/file"));
}

}  // namespace
}  // namespace tidepool::remat
