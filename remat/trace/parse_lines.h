// parse_lines: feeds a file to a parser that takes lines, and adds file and line to what it throws.
#pragma once

#include <string>

#include "fmt/format.h"
#include "remat/trace/text/text_lines.h"
#include "remat/trace/trace.h"

namespace tidepool::remat {

template <typename Parser>
Trace parse_lines(const std::string& path, Parser parser) {
  TextLines lines(path);
  auto place = [&] { return fmt::format("{}:{}: ", path, lines.line_number()); };
  try {
    std::string_view line;
    while (lines.next(&line)) parser.add_line(line);
    Trace trace = parser.finish();
    return trace;
  } catch (const TraceError& error) {
    throw TraceError(place() + (lines.ended() ? "" : "cut short: ") + error.what());
  }
}

}  // namespace tidepool::remat
