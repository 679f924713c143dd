#include "remat/plan/trace.h"

#include <algorithm>
#include <limits>

#include "fmt/format.h"

namespace tidepool::plan {

uint64_t Trace::baseline_ns() const {
  uint64_t sum = 0;
  for (const TraceOperator& op : operators) sum += op.cost_ns;
  return sum;
}

TraceBuilder::TraceBuilder(TraceFacts facts) {
  const size_t alignment = facts.alignment;
  if (alignment == 0 || (alignment & (alignment - 1)) != 0 || alignment > (1u << 21)) {
    throw TraceError(
        fmt::format("an alignment of {}; expected a power of two up to 2 MiB", alignment));
  }
  if (!(facts.copy_bytes_per_ns >= 0)) throw TraceError("a copy speed below 0");
  trace_.facts = std::move(facts);
}

void TraceBuilder::check_bytes(const char* what, uint64_t bytes) {
  if (bytes <= kMostBytes) return;
  throw TraceError(fmt::format("{} of {} bytes; at most {}", what, bytes, kMostBytes));
}

StorageIndex TraceBuilder::check_alive(uint64_t storage) const {
  if (storage >= alive_.size()) throw TraceError(fmt::format("unknown storage {}", storage));
  if (!alive_[storage]) throw TraceError(fmt::format("storage {} is dead already", storage));
  return static_cast<StorageIndex>(storage);
}

StorageIndex TraceBuilder::add_storage(const TraceStorage& storage) {
  const auto index = static_cast<StorageIndex>(trace_.storages.size());
  trace_.storages.push_back(storage);
  alive_.push_back(true);
  return index;
}

uint32_t TraceBuilder::name_index(std::string_view name) {
  const auto found = names_.find(name);
  if (found != names_.end()) return found->second;
  const auto index = static_cast<uint32_t>(trace_.names.size());
  trace_.names.emplace_back(name);
  names_.emplace(name, index);
  return index;
}

uint64_t TraceBuilder::root(size_t bytes, RootKind kind) {
  check_bytes("a root", bytes);
  const StorageIndex index = add_storage({bytes, true, kind});
  trace_.events.push_back({EventKind::kRoot, static_cast<uint32_t>(index), 0});
  return number(index);
}

void TraceBuilder::check_call(const OperatorCallEntry& entry) const {
  constexpr size_t kMostOperands = std::numeric_limits<uint16_t>::max() - 1;
  if (entry.reads.size() + entry.writes.size() + entry.output_bytes.size() > kMostOperands) {
    throw TraceError(
        fmt::format("operator {} has more than {} operands", entry.name, kMostOperands));
  }
  if (entry.cost_ns > kMostNs) {
    throw TraceError(fmt::format("a cost of {} ns; at most {}", entry.cost_ns, kMostNs));
  }
  for (const uint64_t storage : entry.reads) check_alive(storage);
  for (size_t k = 0; k < entry.writes.size(); ++k) {
    const StorageIndex written = check_alive(number(entry.writes[k].storage));
    for (size_t n = 0; n < k; ++n) {
      if (entry.writes[n].storage != written) continue;
      throw TraceError(fmt::format("storage {} is written twice", number(written)));
    }
  }
  for (const size_t bytes : entry.output_bytes) check_bytes("an output", bytes);
  check_bytes("a workspace", entry.workspace_bytes);
}

uint64_t TraceBuilder::call(const OperatorCallEntry& entry) {
  check_call(entry);
  TraceOperator op;
  op.name = name_index(entry.name);
  op.stream = entry.stream;
  op.cost_ns = entry.cost_ns;
  op.site = entry.site;
  op.workspace_bytes = entry.workspace_bytes;
  op.draws = entry.draws;
  op.recordable = entry.recordable;
  op.first_operand = static_cast<uint32_t>(trace_.operands.size());
  op.first_write = static_cast<uint32_t>(trace_.write_list.size());
  for (const uint64_t storage : entry.reads) {
    const auto index = static_cast<StorageIndex>(storage);
    // Written storages are not listed as read, and nothing twice: an update reads what it writes,
    // and whoever overwrites what he reads updates it.
    const auto begin = trace_.operands.begin() + op.first_operand;
    if (std::find(begin, trace_.operands.end(), index) != trace_.operands.end()) continue;
    if (std::any_of(entry.writes.begin(), entry.writes.end(),
                    [&](const TraceWrite& write) { return write.storage == index; })) {
      continue;
    }
    trace_.operands.push_back(index);
    ++op.reads;
  }
  for (TraceWrite write : entry.writes) {
    const bool read = std::find(entry.reads.begin(), entry.reads.end(), number(write.storage)) !=
                      entry.reads.end();
    if (read && write.access == Access::kOverwrite) write.access = Access::kUpdate;
    trace_.write_list.push_back(write);
    ++op.writes;
  }
  const uint64_t first = next_storage();
  for (const size_t bytes : entry.output_bytes) {
    trace_.operands.push_back(add_storage({bytes, false, RootKind::kOther}));
    ++op.outputs;
  }
  trace_.events.push_back(
      {EventKind::kOperator, static_cast<uint32_t>(trace_.operators.size()), 0});
  trace_.operators.push_back(op);
  return first;
}

void TraceBuilder::release(uint64_t storage) {
  const StorageIndex index = check_alive(storage);
  alive_[storage] = false;
  trace_.events.push_back({EventKind::kRelease, static_cast<uint32_t>(index), 0});
}

void TraceBuilder::use(uint64_t storage, uint32_t stream) {
  const StorageIndex index = check_alive(storage);
  trace_.events.push_back({EventKind::kUse, static_cast<uint32_t>(index), stream});
}

void TraceBuilder::step() { trace_.events.push_back({EventKind::kStep, 0, 0}); }

}  // namespace tidepool::plan
