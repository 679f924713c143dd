#include "remat/trace/dtr_log.h"

#include <algorithm>
#include <charconv>
#include <utility>

#include "fmt/format.h"
#include "nlohmann/json.hpp"
#include "remat/trace/json_fields.h"
#include "remat/trace/parse_lines.h"

namespace tidepool::remat {
namespace {

using Json = nlohmann::json;

// The log writes numbers as texts.
uint64_t number_in(const std::string& text, const char* field) {
  uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) {
    throw TraceError(fmt::format("\"{}\" is \"{}\"; expected a whole number from 0", field, text));
  }
  return value;
}

std::vector<std::string> names_in(const Json& list, const char* field) {
  std::vector<std::string> names;
  for (const Json& name : list) {
    if (!name.is_string()) {
      throw TraceError(fmt::format("\"{}\" has an entry that is no text", field));
    }
    names.push_back(name.get<std::string>());
  }
  return names;
}

TraceFacts facts_of(std::string name) {
  TraceFacts facts;
  facts.name = std::move(name);
  facts.device = "cuda";
  return facts;
}

}  // namespace

DtrLogParser::DtrLogParser(std::string name, DtrMutation mutation)
    : builder_(facts_of(std::move(name))), mutation_(mutation) {}

void DtrLogParser::add_line(std::string_view line) {
  const Json object = parse_object(line);
  JsonFields fields(object);
  const std::string instruction = fields.text("INSTRUCTION");
  if (!started_) {
    started_ = instruction == "ANNOTATE" && fields.text("ANNOTATION") == "START";
    return;
  }
  instruct(instruction, object);
}

void DtrLogParser::instruct(const std::string& instruction, const Json& line) {
  if (constant_ && instruction != "MEMORY") {
    throw TraceError(fmt::format("{} where MEMORY of {} is due", instruction, *constant_));
  }
  if (call_) {
    const char* due = call_->bytes.size() > call_->views.size() ? "ALIAS" : "MEMORY";
    if (instruction != due) {
      throw TraceError(fmt::format("{} where {} of {} is due", instruction, due,
                                   call_->results[call_->views.size()]));
    }
  }
  using Handler = void (DtrLogParser::*)(const Json&);
  static const std::map<std::string, Handler> handlers = {
      {"CONSTANT", &DtrLogParser::constant},   {"MEMORY", &DtrLogParser::memory},
      {"CALL", &DtrLogParser::call},           {"ALIAS", &DtrLogParser::alias},
      {"MUTATE", &DtrLogParser::mutate},       {"COPY", &DtrLogParser::copy},
      {"COPY_FROM", &DtrLogParser::copy_from}, {"RELEASE", &DtrLogParser::release}};
  if (instruction == "ANNOTATE") return;  // BACKWARD: for plots only
  const auto handler = handlers.find(instruction);
  if (handler == handlers.end()) {
    throw TraceError(fmt::format("unknown instruction {}", instruction));
  }
  (this->*handler->second)(line);
}

uint64_t DtrLogParser::storage_of(const std::string& name) const {
  const auto found = handles_.find(name);
  if (found == handles_.end()) throw TraceError(fmt::format("unknown tensor {}", name));
  return found->second;
}

void DtrLogParser::check_new(const std::string& name) const {
  if (handles_.count(name) > 0) throw TraceError(fmt::format("tensor {} exists already", name));
}

DtrLogParser::Stored& DtrLogParser::stored(uint64_t storage) {
  if (storage >= stored_.size()) stored_.resize(storage + 1);
  return stored_[storage];
}

void DtrLogParser::add_handle(const std::string& name, uint64_t storage) {
  handles_[name] = storage;
  ++stored(storage).handles;
}

void DtrLogParser::drop_handle(uint64_t storage) {
  Stored& entry = stored(storage);
  if (--entry.handles == 0 && !entry.constant) builder_.release(storage);
}

void DtrLogParser::constant(const Json& line) {
  std::string name = JsonFields(line).text("NAME");
  check_new(name);
  constant_ = std::move(name);
}

void DtrLogParser::memory(const Json& line) {
  JsonFields fields(line);
  const std::string& name = fields.text("NAME");
  const uint64_t bytes = number_in(fields.text("MEMORY"), "MEMORY");
  if (constant_) {
    if (name != *constant_) {
      throw TraceError(fmt::format("MEMORY of {} where that of {} is due", name, *constant_));
    }
    const uint64_t storage = builder_.root(bytes, RootKind::kOther);
    stored(storage).constant = true;
    add_handle(name, storage);
    constant_.reset();
    return;
  }
  if (!call_) throw TraceError(fmt::format("MEMORY of {} follows no CONSTANT or CALL", name));
  const std::string& due = call_->results[call_->bytes.size()];
  if (name != due) throw TraceError(fmt::format("MEMORY of {} where that of {} is due", name, due));
  call_->bytes.push_back(bytes);
}

void DtrLogParser::call(const Json& line) {
  JsonFields fields(line);
  Call call;
  call.name = fields.text("NAME");
  call.cost_ns = number_in(fields.text("TIME"), "TIME");
  for (const std::string& arg : names_in(fields.list("ARGS"), "ARGS")) {
    call.args.push_back(storage_of(arg));
  }
  call.results = names_in(fields.list("RESULT"), "RESULT");
  for (const std::string& result : call.results) check_new(result);
  call_ = std::move(call);
  if (call_->results.empty()) finish_call();
}

void DtrLogParser::alias(const Json& line) {
  JsonFields fields(line);
  const std::string& name = fields.text("NAME");
  const std::string& text = fields.text("ALIAS");
  if (!call_) throw TraceError(fmt::format("ALIAS of {} follows no MEMORY of a result", name));
  const std::string& due = call_->results[call_->views.size()];
  if (name != due) throw TraceError(fmt::format("ALIAS of {} where that of {} is due", name, due));
  if (text == "-1") {
    call_->views.emplace_back();
  } else {
    const uint64_t index = number_in(text, "ALIAS");
    if (index >= call_->args.size()) {
      throw TraceError(
          fmt::format("ALIAS of {} names argument {} of {}", name, index, call_->args.size()));
    }
    call_->views.emplace_back(index);
  }
  if (call_->views.size() == call_->results.size()) finish_call();
}

void DtrLogParser::finish_call() {
  const Call call = std::move(*call_);
  call_.reset();
  std::vector<size_t> fresh;
  for (size_t k = 0; k < call.results.size(); ++k) {
    if (!call.views[k]) fresh.push_back(call.bytes[k]);
  }
  OperatorCallEntry entry;
  entry.name = call.name;
  entry.cost_ns = call.cost_ns;
  entry.reads = call.args;
  entry.output_bytes = fresh;
  uint64_t next = builder_.call(entry);
  for (size_t k = 0; k < call.results.size(); ++k) {
    add_handle(call.results[k], call.views[k] ? call.args[*call.views[k]] : next++);
  }
}

void DtrLogParser::mutate(const Json& line) {
  JsonFields fields(line);
  const std::vector<std::string> args = names_in(fields.list("ARGS"), "ARGS");
  std::vector<uint64_t> reads;
  for (const std::string& arg : args) reads.push_back(storage_of(arg));
  std::vector<std::string> written;
  for (const Json& index : fields.list("MUTATE")) {
    const uint64_t k = as_count(index, "MUTATE");
    if (k >= args.size()) {
      throw TraceError(fmt::format("MUTATE names argument {} of {}", k, args.size()));
    }
    written.push_back(args[k]);
  }
  OperatorCallEntry entry;
  entry.name = fields.text("NAME");
  entry.cost_ns = number_in(fields.text("TIME"), "TIME");
  entry.reads = reads;
  if (mutation_ == DtrMutation::kCopy) {
    mutate_by_copy(entry, written);
  } else {
    mutate_in_place(entry, written);
  }
}

// Each tensor written is rebound to a new storage of the old one's size; other handles of the old
// one keep what it was.
void DtrLogParser::mutate_by_copy(OperatorCallEntry entry,
                                  const std::vector<std::string>& written) {
  std::vector<size_t> bytes;
  for (const std::string& name : written) bytes.push_back(builder_.bytes(storage_of(name)));
  entry.output_bytes = bytes;
  uint64_t next = builder_.call(entry);
  for (const std::string& name : written) {
    const uint64_t old = storage_of(name);
    add_handle(name, next++);
    drop_handle(old);
  }
}

void DtrLogParser::mutate_in_place(OperatorCallEntry entry,
                                   const std::vector<std::string>& written) {
  std::vector<TraceWrite> writes;
  for (const std::string& name : written) {
    const auto storage = static_cast<StorageIndex>(storage_of(name));
    if (std::none_of(writes.begin(), writes.end(),
                     [&](const TraceWrite& write) { return write.storage == storage; })) {
      writes.push_back({storage, Access::kUpdate});
    }
  }
  entry.writes = writes;
  builder_.call(entry);
}

void DtrLogParser::copy(const Json& line) {
  JsonFields fields(line);
  const uint64_t storage = storage_of(fields.text("SRC"));
  const std::string& name = fields.text("DST");
  check_new(name);
  add_handle(name, storage);
}

void DtrLogParser::copy_from(const Json& line) {
  JsonFields fields(line);
  const uint64_t storage = storage_of(fields.text("SRC"));
  const std::string& name = fields.text("DST");
  const uint64_t old = storage_of(name);
  add_handle(name, storage);
  drop_handle(old);
}

void DtrLogParser::release(const Json& line) {
  const std::string& name = JsonFields(line).text("NAME");
  const auto found = handles_.find(name);
  if (found == handles_.end()) return;  // as DTR's own reader does
  const uint64_t storage = found->second;
  handles_.erase(found);
  drop_handle(storage);
}

Trace DtrLogParser::finish() {
  if (!started_) throw TraceError("no log of DTR: there is no START");
  if (constant_) throw TraceError(fmt::format("the log is cut short: no MEMORY of {}", *constant_));
  if (call_) {
    throw TraceError(fmt::format("the log is cut short: {} results of {} are not described",
                                 call_->results.size() - call_->views.size(), call_->name));
  }
  return builder_.take();
}

Trace read_dtr_log(const std::string& path, DtrMutation mutation) {
  const size_t slash = path.rfind('/');
  std::string name = slash == std::string::npos ? path : path.substr(slash + 1);
  name = name.substr(0, name.find('.'));
  return parse_lines(path, DtrLogParser(std::move(name), mutation));
}

}  // namespace tidepool::remat
