#include "remat/trace/trace_format.h"

#include <array>
#include <iterator>

#include "fmt/format.h"
#include "nlohmann/json.hpp"
#include "remat/trace/json_fields.h"
#include "remat/trace/parse_lines.h"
#include "remat/trace/trace_names.h"

namespace tidepool::remat {
namespace {

using Json = nlohmann::json;

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

RootKind as_kind(const Json& value) {
  return static_cast<RootKind>(index_of(kKinds, value, "kind"));
}

// The first of an entry [number, second] of the list `field`, or of one with `size` parts.
uint64_t first_number(const Json& entry, const char* field, size_t size = 2) {
  if (!entry.is_array() || entry.size() != size) {
    const char* expected = size == 2 ? "is no pair" : "has not three parts: number, bytes, block";
    throw TraceError(fmt::format("\"{}\" has an entry that {}", field, expected));
  }
  return as_count(entry[0], field);
}

uint32_t as_block(const Json& value, const char* field) {
  const uint64_t block = as_count(value, field);
  if (block >= BlockChange::kNone) throw TraceError(fmt::format("unknown block {}", block));
  return static_cast<uint32_t>(block);
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
  if (version != kTraceVersion && version != kBlocksVersion) {
    throw TraceError(fmt::format("unknown version {}; expected {} or {}", version, kTraceVersion,
                                 kBlocksVersion));
  }
  TraceFacts facts;
  facts.blocks = version == kBlocksVersion;
  facts.name = fields.text("name");
  facts.device = fields.text("device");
  facts.alignment = fields.count_or("alignment", 1);
  facts.copy_bytes_per_ns = fields.number_or("copy_bytes_per_ns", 0);
  facts.map_ns = fields.count_or("map_ns", 0, TraceBuilder::kMostNs);
  facts.drain_ns = fields.count_or("drain_ns", 0, TraceBuilder::kMostNs);
  builder_.emplace(std::move(facts));
}

void TraceParser::add_event(const Json& line) {
  JsonFields fields(line);
  if (line.contains("op")) {
    add_operator(line);
  } else if (line.contains("root")) {
    add_root(line);
  } else if (line.contains("at")) {
    const uint64_t place = fields.count("place");
    if (place != places_) {
      throw TraceError(fmt::format("place {} where {} is next", place, places_));
    }
    ++places_;
    fields.find("at");  // for reports; nothing here depends on it
    fields.check_all_read();
  } else if (line.contains("block")) {
    const uint32_t block = as_block(*fields.find("block"), "block");
    const uint64_t bytes = fields.count("bytes");
    if (bytes == 0) throw TraceError("a block of 0 bytes");
    builder_->block({block, bytes});
    fields.check_all_read();
  } else if (line.contains("free")) {
    builder_->block({as_block(*fields.find("free"), "free"), 0});
    fields.check_all_read();
  } else if (line.contains("release")) {
    builder_->release(fields.count("release"));
    fields.check_all_read();
  } else if (line.contains("use")) {
    const uint64_t storage = fields.count("use");
    builder_->use(storage, static_cast<uint32_t>(fields.count_or("stream", 0, kMostStreams)));
    fields.check_all_read();
  } else if (line.contains("role")) {
    const uint64_t storage = fields.count("role");
    builder_->role(storage, as_kind(fields.need("kind")));
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
        "no event: expected \"op\", \"root\", \"release\", \"use\", \"role\", \"step\", "
        "\"block\", \"free\", \"place\" or \"end\"");
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
    kind = as_kind(*named);
  }
  uint32_t block = BlockChange::kNone;
  if (const Json* place = fields.find("block")) block = as_block(*place, "block");
  fields.check_all_read();
  builder_->root(bytes, kind, block);
}

void TraceParser::read_outputs(const Json& list) {
  output_bytes_.clear();
  output_blocks_.clear();
  const bool blocks = builder_->has_blocks();
  for (const Json& pair : list) {
    const uint64_t number = first_number(pair, "out", blocks ? 3 : 2);
    const uint64_t next = builder_->next_storage() + output_bytes_.size();
    if (number != next) {
      throw TraceError(fmt::format("storage {} where {} is next", number, next));
    }
    output_bytes_.push_back(as_count(pair[1], "out"));
    if (blocks) output_blocks_.push_back(as_block(pair[2], "out"));
  }
}

void TraceParser::read_arguments(const Json& list) {
  arguments_.clear();
  for (const Json& entry : list) {
    const bool read = !entry.is_array();
    const uint64_t storage = read ? as_count(entry, "args") : first_number(entry, "args");
    if (!builder_->is_alive(storage)) {
      throw TraceError(fmt::format("\"args\" names storage {}, which is not there", storage));
    }
    const Access access =
        read ? Access::kRead : static_cast<Access>(index_of(kAccesses, entry[1], "args"));
    arguments_.push_back({static_cast<StorageIndex>(storage), access});
  }
}

void TraceParser::read_blocks(const Json& list) {
  block_changes_.clear();
  for (const Json& entry : list) {
    if (!entry.is_array()) {
      block_changes_.push_back({as_block(entry, "blocks"), 0});
      continue;
    }
    first_number(entry, "blocks");
    const uint64_t bytes = as_count(entry[1], "blocks");
    if (bytes == 0) throw TraceError("a block of 0 bytes");
    block_changes_.push_back({as_block(entry[0], "blocks"), bytes});
  }
}

void TraceParser::read_writes(const Json& list) {
  writes_.clear();
  for (const Json& pair : list) {
    const uint64_t number = first_number(pair, "write");
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
  read_blocks(fields.list("blocks"));
  read_arguments(fields.list("args"));
  entry.reads = reads_;
  entry.output_bytes = output_bytes_;
  entry.writes = writes_;
  entry.block_changes = block_changes_;
  entry.output_blocks = output_blocks_;
  entry.arguments = arguments_;
  entry.workspace_bytes = fields.count_or("workspace", 0);
  entry.site = fields.count_or("site", 0);
  entry.stream = static_cast<uint32_t>(fields.count_or("stream", 0, kMostStreams));
  entry.draws = fields.flag_or("draws", false);
  entry.recordable = fields.flag_or("recordable", true);
  if (fields.find("place") != nullptr) {
    const uint64_t place = fields.count("place");
    if (place >= places_) throw TraceError(fmt::format("unknown place {}", place));
  }
  fields.check_all_read();
  builder_->call(entry);
}

Trace TraceParser::finish() {
  if (!builder_) throw TraceError("the file is empty");
  if (!ended_) throw TraceError("the trace is cut short: there is no \"end\"");
  return builder_->take();
}

Trace read_trace(const std::string& path) { return parse_lines(path, TraceParser()); }

}  // namespace tidepool::remat
