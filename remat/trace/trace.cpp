#include "remat/trace/trace.h"

#include <algorithm>
#include <limits>

#include "absl/container/flat_hash_set.h"
#include "absl/container/inlined_vector.h"
#include "fmt/format.h"

namespace tidepool::remat {
namespace {

// A set of storages' numbers; an operator has a few mostly, and as many as it likes.
class Numbers {
 public:
  // False: it was there.
  bool insert(uint64_t storage) {
    if (has(storage)) return false;
    if (few_.size() < kFew) {
      few_.push_back(storage);
    } else {
      many_.insert(storage);
    }
    return true;
  }
  bool has(uint64_t storage) const {
    return std::find(few_.begin(), few_.end(), storage) != few_.end() ||
           (!many_.empty() && many_.contains(storage));
  }

 private:
  static constexpr size_t kFew = 16;
  absl::InlinedVector<uint64_t, kFew> few_;
  absl::flat_hash_set<uint64_t> many_;
};

}  // namespace

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
  if (storage.block != BlockChange::kNone) free_blocks_[storage.block] = 0;  // it is the storage's
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

// Blocks that storages are to lie in are allocated by then, or by the changes, and nobody else's.
void TraceBuilder::check_blocks(std::span<const BlockChange> changes,
                                std::span<const uint32_t> storages,
                                std::span<const size_t> bytes) const {
  if (!trace_.facts.blocks) {
    if (changes.empty() && storages.empty()) return;
    throw TraceError("blocks in a trace without");
  }
  std::vector<size_t> made;
  std::vector<uint32_t> gone;
  auto bytes_of = [&](uint32_t block) -> size_t {
    if (std::find(gone.begin(), gone.end(), block) != gone.end()) return 0;
    if (block < free_blocks_.size()) return free_blocks_[block];
    const size_t place = block - free_blocks_.size();
    return place < made.size() ? made[place] : 0;
  };
  for (const BlockChange& change : changes) {
    if (change.bytes > 0) {
      check_bytes("a block", change.bytes);
      const size_t next = free_blocks_.size() + made.size();
      if (change.block != next) {
        throw TraceError(fmt::format("block {} where {} is next", change.block, next));
      }
      made.push_back(change.bytes);
      continue;
    }
    if (bytes_of(change.block) == 0) {
      throw TraceError(
          fmt::format("block {} is freed, which is a storage's, freed or unknown", change.block));
    }
    gone.push_back(change.block);
  }
  if (storages.size() != bytes.size()) throw TraceError("a storage without a block");
  for (size_t k = 0; k < storages.size(); ++k) {
    if (bytes[k] > bytes_of(storages[k]) || bytes[k] == 0) {
      throw TraceError(fmt::format("a storage of {} bytes in block {}, which has {}", bytes[k],
                                   storages[k], bytes_of(storages[k])));
    }
    gone.push_back(storages[k]);
  }
}

void TraceBuilder::add_blocks(std::span<const BlockChange> changes) {
  for (const BlockChange& change : changes) {
    if (change.bytes > 0) {
      free_blocks_.push_back(change.bytes);
    } else {
      free_blocks_[change.block] = 0;
    }
    trace_.block_changes.push_back(change);
  }
}

void TraceBuilder::block(BlockChange change) {
  check_blocks({&change, 1}, {}, {});
  trace_.events.push_back(
      {EventKind::kBlock, static_cast<uint32_t>(trace_.block_changes.size()), 0});
  add_blocks({&change, 1});
}

uint64_t TraceBuilder::root(size_t bytes, RootKind kind, uint32_t block) {
  check_bytes("a root", bytes);
  const bool has_block = block != BlockChange::kNone;
  if (has_block || trace_.facts.blocks) check_blocks({}, {&block, 1}, {&bytes, 1});
  const StorageIndex index = add_storage({bytes, true, kind, block});
  trace_.events.push_back({EventKind::kRoot, static_cast<uint32_t>(index), 0});
  return number(index);
}

void TraceBuilder::check_call(const OperatorCallEntry& entry) const {
  constexpr size_t kMostOperands = std::numeric_limits<uint32_t>::max() - 1;
  if (entry.reads.size() + entry.writes.size() + entry.output_bytes.size() > kMostOperands) {
    throw TraceError(
        fmt::format("operator {} has more than {} operands", entry.name, kMostOperands));
  }
  if (entry.cost_ns > kMostNs) {
    throw TraceError(fmt::format("a cost of {} ns; at most {}", entry.cost_ns, kMostNs));
  }
  for (const uint64_t storage : entry.reads) check_alive(storage);
  Numbers listed;
  for (const TraceWrite& write : entry.writes) {
    const StorageIndex written = check_alive(number(write.storage));
    if (listed.insert(number(written))) continue;
    throw TraceError(fmt::format("storage {} is written twice", number(written)));
  }
  if (!entry.arguments.empty()) {
    for (const uint64_t storage : entry.reads) listed.insert(storage);
  }
  for (const TraceArgument& argument : entry.arguments) {
    const StorageIndex index = check_alive(number(argument.storage));
    if (listed.has(number(index))) continue;
    throw TraceError(fmt::format("argument {} is neither read nor written", number(index)));
  }
  if (!entry.arguments.empty() && !trace_.facts.blocks) {
    throw TraceError("arguments in a trace without blocks");
  }
  for (const size_t bytes : entry.output_bytes) check_bytes("an output", bytes);
  check_bytes("a workspace", entry.workspace_bytes);
  if (trace_.facts.blocks || !entry.output_blocks.empty()) {
    check_blocks(entry.block_changes, entry.output_blocks, entry.output_bytes);
  } else {
    check_blocks(entry.block_changes, {}, {});
  }
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
  Numbers written;
  for (const TraceWrite& write : entry.writes) written.insert(number(write.storage));
  Numbers reads;
  for (const uint64_t storage : entry.reads) {
    // Written storages are not listed as read, and nothing twice: an update reads what it writes,
    // and whoever overwrites what he reads updates it.
    if (!reads.insert(storage) || written.has(storage)) continue;
    trace_.operands.push_back(static_cast<StorageIndex>(storage));
    ++op.reads;
  }
  for (TraceWrite write : entry.writes) {
    const bool read = reads.has(number(write.storage));
    if (read && write.access == Access::kOverwrite) write.access = Access::kUpdate;
    trace_.write_list.push_back(write);
    ++op.writes;
  }
  const uint64_t first = next_storage();
  op.first_argument = static_cast<uint32_t>(trace_.argument_list.size());
  op.arguments = static_cast<uint32_t>(entry.arguments.size());
  trace_.argument_list.insert(trace_.argument_list.end(), entry.arguments.begin(),
                              entry.arguments.end());
  op.first_block_change = static_cast<uint32_t>(trace_.block_changes.size());
  op.block_changes = static_cast<uint32_t>(entry.block_changes.size());
  add_blocks(entry.block_changes);
  for (size_t k = 0; k < entry.output_bytes.size(); ++k) {
    const uint32_t block =
        entry.output_blocks.empty() ? BlockChange::kNone : entry.output_blocks[k];
    trace_.operands.push_back(add_storage({entry.output_bytes[k], false, RootKind::kOther, block}));
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

void TraceBuilder::role(uint64_t storage, RootKind role) {
  const StorageIndex index = check_alive(storage);
  trace_.events.push_back({EventKind::kRole, static_cast<uint32_t>(index), 0, role});
}

void TraceBuilder::step() { trace_.events.push_back({EventKind::kStep, 0, 0}); }

}  // namespace tidepool::remat
