#include "remat/trace/text/text_file.h"

#include <stdexcept>
#include <string>

#include "remat/trace/text/text_lines.h"
#include "tests/remat/trace/sample_traces.h"
#include "tests/support/catch.h"

namespace tidepool::remat {
namespace {

using Catch::Matchers::ContainsSubstring;

std::string many_lines() {
  std::string text;
  for (int i = 0; i < 50'000; ++i) text += "line " + std::to_string(i * 7919) + "\n";
  return text;
}

TEST_CASE("what is written is read again, compressed where the name says so") {
  const std::string text = many_lines();
  for (const char* name : {"lines.txt", "lines.txt.gz"}) {
    const TemporaryFile file(name);
    {
      TextFile out(file.path());
      for (size_t at = 0; at < text.size(); at += 1000) out.write(text.substr(at, 1000));
      out.close();
    }
    const bool compressed = file.path().back() == 'z';
    CHECK((file.read().size() < text.size() / 2) == compressed);
    std::string again;
    TextLines lines(file.path());
    std::string_view line;
    while (lines.next(&line)) again += std::string(line) + "\n";
    CHECK(again == text);
  }
}

TEST_CASE("what is there is replaced") {
  const TemporaryFile file("lines.txt");
  file.write("a long text that was here before");
  TextFile out(file.path());
  out.write("short");
  out.close();
  CHECK(file.read() == "short");
}

TEST_CASE("a file that cannot be written is named, with the reason") {
  CHECK_THROWS_WITH(TextFile("no/such/file"), ContainsSubstring("no/such/file: cannot be written"));
  CHECK_THROWS_WITH(TextFile("no/such.gz"), ContainsSubstring("no/such.gz: cannot be written: No"));
  TextFile full("/dev/full");
  full.write("text");
  CHECK_THROWS_WITH(full.close(), ContainsSubstring("/dev/full: cannot be written: No space"));
}

}  // namespace
}  // namespace tidepool::remat
