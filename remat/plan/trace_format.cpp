#include "remat/plan/trace_format.h"

#include <array>
#include <iterator>

#include "fmt/format.h"
#include "nlohmann/json.hpp"
#include "remat/plan/json_fields.h"
#include "remat/plan/parse_lines.h"

namespace tidepool::plan {
namespace {

using Json = nlohmann::json;

constexpr std::array<const char*, 6> kKinds = {"other",  "parameter", "input",
                                               "buffer", "gradient",  "optimizer_state"};
// By Access; a read has no name.
constexpr std::array<const char*, 4> kAccesses = {"", "update", "overwrite", "side"};

template <size_t kCount>
size_t index_of(const std::array<const char*, kCount>& names, const Json& value,
                const char* field) {
  if (value.is_string()) {
    for (size_t k = 0; k < kCount; ++k) {
      if (*names[k] != '\0' && value.get_ref<const std::string&>() == names[k]) return k;
    }
  }
  std::string expected;
  for (const char* name : names) {
    if (*name != '\0') expected += fmt::format("{}\"{}\"", expected.empty() ? "" : ", ", name);
  }
  throw TraceError(fmt::format("\"{}\" is {}; expected one of {}", field,
                               value.dump(-1, ' ', false, Json::error_handler_t::replace),
                               expected));
}

// A pair [number, second] of the list `field`.
uint64_t pair_number(const Json& pair, const char* field) {
  if (!pair.is_array() || pair.size() != 2) {
    throw TraceError(fmt::format("\"{}\" has an entry that is no pair", field));
  }
  return as_count(pair[0], field);
}

}  // namespace

void TraceParser::add_line(std::string_view line) {
  if (ended_) throw TraceError("a line after the end");
  const Json object = parse_object(line);
  if (builder_) {
    add_event(object);
  } else {
    add_header(object);
  }
}

void TraceParser::add_header(const Json& line) {
  JsonFields fields(line);
  if (fields.find("tidepool_trace") == nullptr) {
    throw TraceError("no trace of Tidepool: the first line has no \"tidepool_trace\"");
  }
  const uint64_t version = fields.count("tidepool_trace");
  if (version != kTraceVersion) {
    throw TraceError(fmt::format("unknown version {}; expected {}", version, kTraceVersion));
  }
  TraceFacts facts;
  facts.name = fields.text("name");
  facts.device = fields.text("device");
  facts.alignment = fields.count_or("alignment", 1);
  facts.copy_bytes_per_ns = fields.number_or("copy_bytes_per_ns", 0);
  facts.map_ns = fields.count_or("map_ns", 0, TraceBuilder::kMostNs);
  builder_.emplace(std::move(facts));
}

void TraceParser::add_event(const Json& line) {
  JsonFields fields(line);
  if (line.contains("op")) {
    add_operator(line);
  } else if (line.contains("root")) {
    add_root(line);
  } else if (line.contains("release")) {
    builder_->release(fields.count("release"));
    fields.check_all_read();
  } else if (line.contains("use")) {
    const uint64_t storage = fields.count("use");
    builder_->use(storage, static_cast<uint32_t>(fields.count_or("stream", 0, kMostStreams)));
    fields.check_all_read();
  } else if (line.contains("step")) {
    const uint64_t step = fields.count("step");
    if (step != steps_ + 1) {
      throw TraceError(fmt::format("step {} where {} is next", step, steps_ + 1));
    }
    ++steps_;
    builder_->step();
    fields.check_all_read();
  } else if (line.contains("end")) {
    const uint64_t events = fields.count("end");
    if (events != events_) {
      throw TraceError(fmt::format("the trace had {} events, but {} are here", events, events_));
    }
    fields.check_all_read();
    ended_ = true;
    return;
  } else {
    throw TraceError(
        "no event: expected \"op\", \"root\", \"release\", \"use\", \"step\" or "
        "\"end\"");
  }
  ++events_;
}

void TraceParser::add_root(const Json& line) {
  JsonFields fields(line);
  const uint64_t number = fields.count("root");
  if (number != builder_->next_storage()) {
    throw TraceError(fmt::format("storage {} where {} is next", number, builder_->next_storage()));
  }
  RootKind kind = RootKind::kOther;
  const uint64_t bytes = fields.count("bytes");
  if (const Json* named = fields.find("kind")) {
    kind = static_cast<RootKind>(index_of(kKinds, *named, "kind"));
  }
  fields.check_all_read();
  builder_->root(bytes, kind);
}

void TraceParser::read_outputs(const Json& list) {
  output_bytes_.clear();
  for (const Json& pair : list) {
    const uint64_t number = pair_number(pair, "out");
    const uint64_t next = builder_->next_storage() + output_bytes_.size();
    if (number != next) {
      throw TraceError(fmt::format("storage {} where {} is next", number, next));
    }
    output_bytes_.push_back(as_count(pair[1], "out"));
  }
}

void TraceParser::read_writes(const Json& list) {
  writes_.clear();
  for (const Json& pair : list) {
    const uint64_t number = pair_number(pair, "write");
    if (!builder_->is_alive(number)) {
      throw TraceError(fmt::format("\"write\" names storage {}, which is {}", number,
                                   number < builder_->next_storage() ? "dead" : "unknown"));
    }
    writes_.push_back({static_cast<StorageIndex>(number),
                       static_cast<Access>(index_of(kAccesses, pair[1], "write"))});
  }
}

void TraceParser::add_operator(const Json& line) {
  JsonFields fields(line);
  OperatorCallEntry entry;
  entry.name = fields.text("op");
  entry.cost_ns = fields.count("ns");
  reads_.clear();
  for (const Json& number : fields.list("in")) reads_.push_back(as_count(number, "in"));
  read_outputs(fields.list("out"));
  read_writes(fields.list("write"));
  entry.reads = reads_;
  entry.output_bytes = output_bytes_;
  entry.writes = writes_;
  entry.workspace_bytes = fields.count_or("workspace", 0);
  entry.site = fields.count_or("site", 0);
  entry.stream = static_cast<uint32_t>(fields.count_or("stream", 0, kMostStreams));
  entry.draws = fields.flag_or("draws", false);
  entry.recordable = fields.flag_or("recordable", true);
  fields.check_all_read();
  builder_->call(entry);
}

Trace TraceParser::finish() {
  if (!builder_) throw TraceError("the file is empty");
  if (!ended_) throw TraceError("the trace is cut short: there is no \"end\"");
  return builder_->take();
}

Trace read_trace(const std::string& path) { return parse_lines(path, TraceParser()); }

TraceWriter::TraceWriter(const std::string& path, const TraceFacts& facts) : file_(path) {
  line_ =
      fmt::format(R"({{"tidepool_trace":{},"name":{},"device":{},"alignment":{})", kTraceVersion,
                  Json(facts.name).dump(), Json(facts.device).dump(), facts.alignment);
  auto out = std::back_inserter(line_);
  if (facts.copy_bytes_per_ns > 0) {
    fmt::format_to(out, R"(,"copy_bytes_per_ns":{})", facts.copy_bytes_per_ns);
  }
  if (facts.map_ns > 0) fmt::format_to(out, R"(,"map_ns":{})", facts.map_ns);
  file_.write(line_ + "}\n");
}

void TraceWriter::write_line() {
  line_ += "}\n";
  file_.write(line_);
  ++events_;
}

uint64_t TraceWriter::root(size_t bytes, RootKind kind) {
  line_ = fmt::format(R"({{"root":{},"bytes":{})", storages_, bytes);
  if (kind != RootKind::kOther) {
    fmt::format_to(std::back_inserter(line_), R"(,"kind":"{}")", kKinds[static_cast<size_t>(kind)]);
  }
  write_line();
  return storages_++;
}

uint64_t TraceWriter::call(const OperatorCallEntry& entry) {
  line_ = fmt::format(R"({{"op":{},"ns":{})", Json(entry.name).dump(), entry.cost_ns);
  auto out = std::back_inserter(line_);
  auto list = [&](const char* name, const auto& items, auto&& write) {
    if (items.empty()) return;
    fmt::format_to(out, R"(,"{}":[)", name);
    for (size_t k = 0; k < items.size(); ++k) {
      if (k > 0) line_ += ',';
      write(k);
    }
    line_ += ']';
  };
  list("in", entry.reads, [&](size_t k) { fmt::format_to(out, "{}", entry.reads[k]); });
  list("out", entry.output_bytes,
       [&](size_t k) { fmt::format_to(out, "[{},{}]", storages_ + k, entry.output_bytes[k]); });
  list("write", entry.writes, [&](size_t k) {
    fmt::format_to(out, R"([{},"{}"])", number(entry.writes[k].storage),
                   kAccesses[static_cast<size_t>(entry.writes[k].access)]);
  });
  if (entry.workspace_bytes > 0) fmt::format_to(out, R"(,"workspace":{})", entry.workspace_bytes);
  if (entry.site > 0) fmt::format_to(out, R"(,"site":{})", entry.site);
  if (entry.stream > 0) fmt::format_to(out, R"(,"stream":{})", entry.stream);
  if (entry.draws) line_ += R"(,"draws":true)";
  if (!entry.recordable) line_ += R"(,"recordable":false)";
  write_line();
  const uint64_t first = storages_;
  storages_ += entry.output_bytes.size();
  return first;
}

void TraceWriter::release(uint64_t storage) {
  line_ = fmt::format(R"({{"release":{})", storage);
  write_line();
}

void TraceWriter::use(uint64_t storage, uint32_t stream) {
  line_ = fmt::format(R"({{"use":{},"stream":{})", storage, stream);
  write_line();
}

void TraceWriter::step() {
  line_ = fmt::format(R"({{"step":{})", ++steps_);
  write_line();
}

void TraceWriter::finish() {
  file_.write(fmt::format("{{\"end\":{}}}\n", events_));
  file_.close();
}

void write_trace(const Trace& trace, const std::string& path) {
  TraceWriter writer(path, trace.facts);
  std::vector<uint64_t> reads;
  std::vector<size_t> output_bytes;
  auto write_call = [&](const TraceOperator& op) {
    reads.clear();
    output_bytes.clear();
    for (const StorageIndex read : trace.reads(op)) reads.push_back(number(read));
    for (const StorageIndex output : trace.outputs(op)) {
      output_bytes.push_back(trace.storages[number(output)].bytes);
    }
    writer.call({trace.names[op.name], op.cost_ns, reads, trace.writes(op), output_bytes,
                 op.workspace_bytes, op.site, op.stream, op.draws, op.recordable});
  };
  for (const TraceEvent& event : trace.events) {
    switch (event.kind) {
      case EventKind::kRoot:
        writer.root(trace.storages[event.index].bytes, trace.storages[event.index].kind);
        break;
      case EventKind::kOperator:
        write_call(trace.operators[event.index]);
        break;
      case EventKind::kRelease:
        writer.release(event.index);
        break;
      case EventKind::kUse:
        writer.use(event.index, event.stream);
        break;
      case EventKind::kStep:
        writer.step();
        break;
    }
  }
  writer.finish();
}

}  // namespace tidepool::plan
