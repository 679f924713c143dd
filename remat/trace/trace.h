// Trace: what a job did, in its order: operators with their costs and storages, deaths, steps. It
// is all that a simulation or a planner needs to know of a job, and says nothing of how it was
// recorded.
// Storages are numbered from 0 in the order in which they appear. Views are no storages: an
// operator that reads or writes a view reads or writes its storage. A trace is plain data; every
// reader makes it by TraceBuilder, so that none is malformed.
// Invariants of a built trace: (1) an event names only storages that are alive by then; (2) a
// storage dies at most once; (3) an operator's lists are slices of the trace's own; (4) what an
// operator writes is listed once, and not among what it reads; (5) blocks are numbered in the order
// in which they are allocated, and a storage has a block that is allocated and no other storage's.
// See docs/trace-format.md.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "remat/lineage/labels.h"

namespace tidepool::remat {

// Index of a storage in its trace.
enum class StorageIndex : uint32_t {};
constexpr size_t number(StorageIndex index) { return static_cast<size_t>(index); }

// What a storage is to the job. It decides, for instance, what may be moved
// (remat/restore/mover.h).
enum class RootKind : uint8_t { kOther, kParameter, kInput, kBuffer, kGradient, kOptimizerState };

// A change of a block of memory: it is allocated with `bytes`, or freed if these are 0. Blocks of
// storages are freed by the storages' deaths.
struct BlockChange {
  static constexpr uint32_t kNone = 0xffff'ffff;  // no block

  uint32_t block = kNone;
  size_t bytes = 0;
};

struct TraceStorage {
  size_t bytes = 0;
  bool root = false;  // its first contents come from outside
  RootKind kind = RootKind::kOther;
  uint32_t block = BlockChange::kNone;  // where it lies, in a trace that has blocks
};

struct TraceWrite {
  StorageIndex storage{};
  Access access = Access::kUpdate;  // not kRead
};

// One tensor argument of an operator.
struct TraceArgument {
  StorageIndex storage{};
  Access access = Access::kRead;
};

struct TraceOperator {
  uint32_t name = 0;  // index into Trace::names
  uint32_t stream = 0;
  uint64_t cost_ns = 0;
  uint64_t site = 0;  // its place in the program, equal for calls that do the same; 0: unknown
  size_t workspace_bytes = 0;
  bool draws = false;      // whether it draws from a random generator
  bool recordable = true;  // if not, its results are roots
  // These are slices of Trace::operands (reads, then outputs), Trace::writes, Trace::argument_list
  // and Trace::block_changes.
  uint32_t first_operand = 0, first_write = 0, first_argument = 0, first_block_change = 0;
  uint32_t block_changes = 0, arguments = 0;
  uint32_t reads = 0, outputs = 0, writes = 0;
};

enum class EventKind : uint8_t { kRoot, kOperator, kRelease, kUse, kStep, kBlock, kRole };

struct TraceEvent {
  EventKind kind = EventKind::kStep;
  uint32_t index = 0;   // of the operator, of the change of a block, or else of the storage
  uint32_t stream = 0;  // for kUse: a stream that uses the storage beside its own
  RootKind role = RootKind::kOther;  // for kRole: what the storage is from here on
};

// What holds for the whole trace.
struct TraceFacts {
  std::string name;
  std::string device = "cpu";
  size_t alignment = 1;          // a power of two; sizes of storages are rounded up to it
  double copy_bytes_per_ns = 0;  // how fast the device copies; 0: unknown, copies are free
  uint64_t map_ns = 0;           // what mapping one page elsewhere costs
  uint64_t drain_ns = 0;         // what waiting for the device costs, each time before pages move
  bool blocks = false;           // where each storage lies is in the trace

  uint64_t copy_ns(size_t bytes) const {
    return copy_bytes_per_ns > 0
               ? static_cast<uint64_t>(static_cast<double>(bytes) / copy_bytes_per_ns)
               : 0;
  }
};

struct Trace {
  TraceFacts facts;
  std::vector<std::string> names;
  std::vector<TraceStorage> storages;
  std::vector<TraceOperator> operators;
  std::vector<StorageIndex> operands;
  std::vector<TraceWrite> write_list;
  std::vector<TraceArgument> argument_list;
  std::vector<BlockChange> block_changes;
  std::vector<TraceEvent> events;

  std::span<const StorageIndex> reads(const TraceOperator& op) const {
    return {operands.data() + op.first_operand, op.reads};
  }
  std::span<const StorageIndex> outputs(const TraceOperator& op) const {
    return {operands.data() + op.first_operand + op.reads, op.outputs};
  }
  std::span<const TraceWrite> writes(const TraceOperator& op) const {
    return {write_list.data() + op.first_write, op.writes};
  }
  // The operator's arguments in its own order, if that is known; a storage may be there several
  // times, for views. If it is empty, writes come first and then reads, each once.
  std::span<const TraceArgument> arguments(const TraceOperator& op) const {
    return {argument_list.data() + op.first_argument, op.arguments};
  }
  // What the operator allocates and frees while it runs, in its order.
  std::span<const BlockChange> changes(const TraceOperator& op) const {
    return {block_changes.data() + op.first_block_change, op.block_changes};
  }
  // The size of a storage in the memory that is modelled.
  size_t aligned_bytes(StorageIndex storage) const {
    return aligned(storages[number(storage)].bytes);
  }
  size_t aligned(size_t bytes) const {
    return (bytes + facts.alignment - 1) & ~(facts.alignment - 1);
  }
  uint64_t baseline_ns() const;  // the cost of all operators, each once
};

// One operator call, as a reader found it. Outputs are new storages.
struct OperatorCallEntry {
  std::string_view name;
  uint64_t cost_ns = 0;
  std::span<const uint64_t> reads;
  std::span<const TraceWrite> writes;
  std::span<const size_t> output_bytes;
  size_t workspace_bytes = 0;
  uint64_t site = 0;
  uint32_t stream = 0;
  bool draws = false;
  bool recordable = true;
  std::span<const BlockChange> block_changes = {};
  std::span<const uint32_t> output_blocks = {};   // by output; empty in a trace without blocks
  std::span<const TraceArgument> arguments = {};  // empty: as in Trace::arguments()
  // Where the job called it, as JSON; equal places have equal addresses. A trace in memory does not
  // keep it. nullptr: not known.
  const char* place = nullptr;
};

// The error of an entry that is wrong. Readers add the file and the line.
class TraceError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// Makes a trace, entry by entry. An entry that throws TraceError has changed nothing.
class TraceBuilder {
 public:
  // Throws: TraceError if the alignment is no power of two.
  explicit TraceBuilder(TraceFacts facts);

  // Each of these returns the number of the first storage that it makes.
  uint64_t root(size_t bytes, RootKind kind, uint32_t block = BlockChange::kNone);
  uint64_t call(const OperatorCallEntry& entry);

  // Adds a change of a block outside of operators.
  void block(BlockChange change);

  void release(uint64_t storage);
  void use(uint64_t storage, uint32_t stream);
  void role(uint64_t storage, RootKind role);
  void step();

  bool has_blocks() const { return trace_.facts.blocks; }
  uint64_t next_storage() const { return trace_.storages.size(); }
  bool is_alive(uint64_t storage) const { return storage < alive_.size() && alive_[storage]; }
  size_t bytes(uint64_t storage) const { return trace_.storages[storage].bytes; }

  // Returns the trace; the builder is empty afterwards.
  Trace take() { return std::move(trace_); }

  // No storage, no operator's workspace, and no sum of costs may be larger, so that sums do not
  // overflow.
  static constexpr uint64_t kMostBytes = uint64_t{1} << 44;
  static constexpr uint64_t kMostNs = uint64_t{1} << 44;

 private:
  StorageIndex check_alive(uint64_t storage) const;
  static void check_bytes(const char* what, uint64_t bytes);
  void check_call(const OperatorCallEntry& entry) const;
  void check_blocks(std::span<const BlockChange> changes, std::span<const uint32_t> storages,
                    std::span<const size_t> bytes) const;
  void add_blocks(std::span<const BlockChange> changes);
  StorageIndex add_storage(const TraceStorage& storage);
  uint32_t name_index(std::string_view name);

  Trace trace_;
  std::vector<bool> alive_;
  std::vector<size_t> free_blocks_;  // bytes of blocks that no storage has, by number; 0: freed
  std::map<std::string, uint32_t, std::less<>> names_;
};

}  // namespace tidepool::remat
