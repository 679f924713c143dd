#include "tests/remat/trace/sample_traces.h"

#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <sstream>
#include <vector>

#include "fmt/format.h"
#include "remat/trace/dtr_log.h"
#include "remat/trace/trace_format.h"
#include "tests/support/random.h"

namespace tidepool::remat {
namespace {

template <typename Parser>
Trace parse_text(const std::string& text, Parser parser) {
  std::istringstream lines(text);
  std::string line;
  int number = 0;
  try {
    while (std::getline(lines, line)) {
      ++number;
      parser.add_line(line);
    }
    return parser.finish();
  } catch (const TraceError& error) {
    throw TraceError(fmt::format("{}: {}", number, error.what()));
  }
}

class RandomTrace {
 public:
  explicit RandomTrace(uint64_t seed) : random_(seed), builder_({"random", "cuda", 512, 100, 7}) {}

  Trace make(size_t events) {
    for (size_t k = 0; k < events; ++k) add_event();
    return builder_.take();
  }

 private:
  RootKind random_kind() { return static_cast<RootKind>(random_.below(6)); }

  void add_event() {
    const uint64_t kind = random_.below(21);
    if (alive_.empty() || kind == 0) {
      alive_.push_back(builder_.root(random_.below(5000), random_kind()));
    } else if (kind == 1) {
      builder_.step();
    } else if (kind == 2) {
      builder_.use(pick(), static_cast<uint32_t>(random_.below(3)));
    } else if (kind == 20) {
      builder_.role(pick(), random_kind());
    } else if (kind < 9) {
      const size_t at = random_.below(alive_.size());
      builder_.release(alive_[at]);
      alive_.erase(alive_.begin() + static_cast<std::ptrdiff_t>(at));
    } else {
      add_operator();
    }
  }

  uint64_t pick() { return alive_[random_.below(alive_.size())]; }

  void add_operator() {
    std::vector<uint64_t> reads;
    std::vector<size_t> outputs;
    std::vector<TraceWrite> writes;
    for (uint64_t k = random_.below(4); k > 0; --k) reads.push_back(pick());
    for (uint64_t k = random_.below(3); k > 0; --k) outputs.push_back(random_.below(9000));
    if (random_.chance(20)) {
      writes.push_back(
          {static_cast<StorageIndex>(pick()), static_cast<Access>(random_.between(1, 3))});
    }
    OperatorCallEntry entry;
    const std::string name = fmt::format("op \"{}\"", random_.below(9));
    entry.name = name;
    entry.cost_ns = random_.below(100'000);
    entry.reads = reads;
    entry.output_bytes = outputs;
    entry.writes = writes;
    entry.workspace_bytes = random_.chance(10) ? random_.below(4000) : 0;
    entry.site = random_.below(50);
    entry.stream = static_cast<uint32_t>(random_.below(2));
    entry.draws = random_.chance(10);
    entry.recordable = !random_.chance(5);
    const uint64_t first = builder_.call(entry);
    for (size_t k = 0; k < outputs.size(); ++k) alive_.push_back(first + k);
  }

  test::Random random_;
  TraceBuilder builder_;
  std::vector<uint64_t> alive_;
};

// Returns the gradient of the first layer.
uint64_t add_network(TraceBuilder& builder, size_t layers, size_t bytes, uint64_t cost_ns,
                     uint64_t seed) {
  test::Random random(seed);
  auto times = [&](uint64_t most) { return seed == 0 ? 1 : random.between(1, most); };
  std::vector<uint64_t> forward = {builder.root(bytes, RootKind::kInput)};
  auto call = [&](const char* name, const std::vector<uint64_t>& reads) {
    OperatorCallEntry entry;
    entry.name = name;
    entry.cost_ns = cost_ns * times(9);
    entry.reads = reads;
    const std::vector<size_t> one = {bytes * times(4)};
    entry.output_bytes = one;
    return builder.call(entry);
  };
  for (size_t k = 0; k < layers; ++k) forward.push_back(call("forward", {forward.back()}));
  uint64_t gradient = call("loss", {forward.back()});
  for (size_t k = layers; k > 0; --k) {
    const uint64_t next = call("backward", {gradient, forward[k]});
    builder.release(gradient);
    builder.release(forward[k]);
    gradient = next;
  }
  return gradient;
}

}  // namespace

Trace network_trace(size_t layers, size_t bytes, uint64_t cost_ns, uint64_t seed) {
  TraceBuilder builder({"network", "cpu", 1, 0, 0});
  add_network(builder, layers, bytes, cost_ns, seed);
  return builder.take();
}

Trace two_networks_trace(size_t layers, size_t bytes, uint64_t cost_ns, uint64_t seed) {
  TraceBuilder builder({"two networks", "cpu", 1, 0, 0});
  for (const uint64_t each : {seed, seed + 1}) {
    builder.release(add_network(builder, layers, bytes, cost_ns, each));
    builder.step();
  }
  return builder.take();
}

Trace random_trace(uint64_t seed, size_t events) { return RandomTrace(seed).make(events); }

std::string difference(const Trace& a, const Trace& b) {
  auto text = [](const Trace& trace) {
    std::vector<std::string> lines = {fmt::format("{} {} {} {} {} {} {}", trace.facts.name,
                                                  trace.facts.device, trace.facts.alignment,
                                                  trace.facts.copy_bytes_per_ns, trace.facts.map_ns,
                                                  trace.facts.drain_ns, trace.facts.blocks)};
    for (const TraceEvent& event : trace.events) {
      std::string line = fmt::format("{} {} {}", static_cast<int>(event.kind), event.stream,
                                     static_cast<int>(event.role));
      if (event.kind == EventKind::kBlock) {
        const BlockChange& change = trace.block_changes[event.index];
        line += fmt::format(" b{}={}", change.block, change.bytes);
      } else if (event.kind != EventKind::kOperator && event.kind != EventKind::kStep) {
        const TraceStorage& storage = trace.storages[event.index];
        line += fmt::format(" #{} {} {} {} {}", event.index, storage.bytes, storage.root,
                            static_cast<int>(storage.kind), storage.block);
      } else if (event.kind == EventKind::kOperator) {
        const TraceOperator& op = trace.operators[event.index];
        line += fmt::format(" {} {} {} {} {} {} {}:", trace.names[op.name], op.cost_ns, op.stream,
                            op.site, op.workspace_bytes, op.draws, op.recordable);
        for (const StorageIndex read : trace.reads(op)) line += fmt::format(" r{}", number(read));
        for (const TraceWrite& write : trace.writes(op)) {
          line += fmt::format(" w{}/{}", number(write.storage), static_cast<int>(write.access));
        }
        for (const StorageIndex output : trace.outputs(op)) {
          const TraceStorage& made = trace.storages[number(output)];
          line += fmt::format(" o{}={}/{}", number(output), made.bytes, made.block);
        }
        for (const TraceArgument& argument : trace.arguments(op)) {
          line +=
              fmt::format(" a{}/{}", number(argument.storage), static_cast<int>(argument.access));
        }
        for (const BlockChange& change : trace.changes(op)) {
          line += fmt::format(" b{}={}", change.block, change.bytes);
        }
      }
      lines.push_back(std::move(line));
    }
    return lines;
  };
  const std::vector<std::string> first = text(a);
  const std::vector<std::string> second = text(b);
  for (size_t k = 0; k < std::max(first.size(), second.size()); ++k) {
    const std::string x = k < first.size() ? first[k] : "(nothing)";
    const std::string y = k < second.size() ? second[k] : "(nothing)";
    if (x != y) return fmt::format("{}: {} | {}", k, x, y);
  }
  return "";
}

Trace trace_of(const std::string& text) { return parse_text(text, TraceParser()); }

Trace dtr_trace_of(const std::string& text, DtrMutation mutation) {
  return parse_text(text, DtrLogParser("log", mutation));
}

TemporaryFile::TemporaryFile(const std::string& name) {
  static int count = 0;
  path_ = (std::filesystem::temp_directory_path() /
           fmt::format("tidepool-{}-{}-{}", getpid(), ++count, name))
              .string();
}

TemporaryFile::~TemporaryFile() {
  std::error_code ignored;
  std::filesystem::remove(path_, ignored);
}

void TemporaryFile::write(const std::string& bytes) const {
  std::ofstream(path_, std::ios::binary) << bytes;
}

std::string TemporaryFile::read() const {
  std::ifstream file(path_, std::ios::binary);
  std::ostringstream bytes;
  bytes << file.rdbuf();
  return bytes.str();
}

}  // namespace tidepool::remat
