#include "remat/trace/trace_writer.h"

#include <algorithm>
#include <iterator>

#include "fmt/format.h"
#include "nlohmann/json.hpp"
#include "remat/trace/trace_names.h"

namespace tidepool::remat {
namespace {

using Json = nlohmann::json;

// As JSON writes a text.
std::string json_text(std::string_view text) {
  const bool plain = std::all_of(text.begin(), text.end(), [](unsigned char c) {
    return c >= ' ' && c < 0x7f && c != '"' && c != '\\';
  });
  if (plain) return fmt::format("\"{}\"", text);
  return Json(text).dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace

TraceWriter::TraceWriter(const std::string& path, const TraceFacts& facts) : file_(path) {
  line_ = fmt::format(R"({{"tidepool_trace":{},"name":{},"device":{},"alignment":{})",
                      facts.blocks ? kBlocksVersion : kTraceVersion, json_text(facts.name),
                      json_text(facts.device), facts.alignment);
  auto out = std::back_inserter(line_);
  if (facts.copy_bytes_per_ns > 0) {
    fmt::format_to(out, R"(,"copy_bytes_per_ns":{})", facts.copy_bytes_per_ns);
  }
  if (facts.map_ns > 0) fmt::format_to(out, R"(,"map_ns":{})", facts.map_ns);
  if (facts.drain_ns > 0) fmt::format_to(out, R"(,"drain_ns":{})", facts.drain_ns);
  file_.write(line_ + "}\n");
}

void TraceWriter::write_line() {
  line_ += "}\n";
  file_.write(line_);
  ++events_;
}

uint64_t TraceWriter::root(size_t bytes, RootKind kind, uint32_t block) {
  line_ = fmt::format(R"({{"root":{},"bytes":{})", storages_, bytes);
  if (kind != RootKind::kOther) {
    fmt::format_to(std::back_inserter(line_), R"(,"kind":"{}")", kKinds[static_cast<size_t>(kind)]);
  }
  if (block != BlockChange::kNone) {
    fmt::format_to(std::back_inserter(line_), R"(,"block":{})", block);
  }
  write_line();
  return storages_++;
}

uint32_t TraceWriter::number_of(const char* place) {
  const auto [found, is_new] = places_.emplace(place, places_.size());
  if (is_new) {
    line_ = fmt::format(R"({{"place":{},"at":{})", found->second, place);
    write_line();
  }
  return found->second;
}

uint64_t TraceWriter::call(const OperatorCallEntry& entry) {
  const uint32_t place = entry.place != nullptr ? number_of(entry.place) : 0;
  line_ = fmt::format(R"({{"op":{},"ns":{})", json_text(entry.name), entry.cost_ns);
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
  list("out", entry.output_bytes, [&](size_t k) {
    fmt::format_to(out, "[{},{}", storages_ + k, entry.output_bytes[k]);
    if (!entry.output_blocks.empty()) fmt::format_to(out, ",{}", entry.output_blocks[k]);
    line_ += ']';
  });
  list("write", entry.writes, [&](size_t k) {
    fmt::format_to(out, R"([{},"{}"])", number(entry.writes[k].storage),
                   kAccesses[static_cast<size_t>(entry.writes[k].access)]);
  });
  list("args", entry.arguments, [&](size_t k) {
    const TraceArgument& argument = entry.arguments[k];
    if (argument.access == Access::kRead) {
      fmt::format_to(out, "{}", number(argument.storage));
    } else {
      fmt::format_to(out, R"([{},"{}"])", number(argument.storage),
                     kAccesses[static_cast<size_t>(argument.access)]);
    }
  });
  list("blocks", entry.block_changes, [&](size_t k) {
    const BlockChange& change = entry.block_changes[k];
    if (change.bytes > 0) {
      fmt::format_to(out, "[{},{}]", change.block, change.bytes);
    } else {
      fmt::format_to(out, "{}", change.block);
    }
  });
  if (entry.workspace_bytes > 0) fmt::format_to(out, R"(,"workspace":{})", entry.workspace_bytes);
  if (entry.site > 0) fmt::format_to(out, R"(,"site":{})", entry.site);
  if (entry.stream > 0) fmt::format_to(out, R"(,"stream":{})", entry.stream);
  if (entry.draws) line_ += R"(,"draws":true)";
  if (!entry.recordable) line_ += R"(,"recordable":false)";
  if (entry.place != nullptr) fmt::format_to(out, R"(,"place":{})", place);
  write_line();
  const uint64_t first = storages_;
  storages_ += entry.output_bytes.size();
  return first;
}

void TraceWriter::block(BlockChange change) {
  line_ = change.bytes > 0 ? fmt::format(R"({{"block":{},"bytes":{})", change.block, change.bytes)
                           : fmt::format(R"({{"free":{})", change.block);
  write_line();
}

void TraceWriter::release(uint64_t storage) {
  line_ = fmt::format(R"({{"release":{})", storage);
  write_line();
}

void TraceWriter::use(uint64_t storage, uint32_t stream) {
  line_ = fmt::format(R"({{"use":{},"stream":{})", storage, stream);
  write_line();
}

void TraceWriter::role(uint64_t storage, RootKind role) {
  line_ = fmt::format(R"({{"role":{},"kind":"{}")", storage, kKinds[static_cast<size_t>(role)]);
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
  std::vector<uint32_t> output_blocks;
  auto write_call = [&](const TraceOperator& op) {
    reads.clear();
    output_bytes.clear();
    output_blocks.clear();
    for (const StorageIndex read : trace.reads(op)) reads.push_back(number(read));
    for (const StorageIndex output : trace.outputs(op)) {
      output_bytes.push_back(trace.storages[number(output)].bytes);
      if (trace.facts.blocks) output_blocks.push_back(trace.storages[number(output)].block);
    }
    writer.call({trace.names[op.name], op.cost_ns, reads, trace.writes(op), output_bytes,
                 op.workspace_bytes, op.site, op.stream, op.draws, op.recordable, trace.changes(op),
                 output_blocks, trace.arguments(op)});
  };
  for (const TraceEvent& event : trace.events) {
    switch (event.kind) {
      case EventKind::kRoot:
        writer.root(trace.storages[event.index].bytes, trace.storages[event.index].kind,
                    trace.storages[event.index].block);
        break;
      case EventKind::kBlock:
        writer.block(trace.block_changes[event.index]);
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
      case EventKind::kRole:
        writer.role(event.index, event.role);
        break;
      case EventKind::kStep:
        writer.step();
        break;
    }
  }
  writer.finish();
}

}  // namespace tidepool::remat
