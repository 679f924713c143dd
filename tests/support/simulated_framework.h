// SimulatedFramework: the framework and backend of the simulator: storages with reference counts
// behind real blocks of the allocator, and operators that hash (contents.h). Each storage carries
// beside its bytes the contents that an unlimited run without eviction would have.
// Thread safe as far as a real framework is: storages may be dropped on any thread; operators on
// shared storages may read at the same time, not write.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <mutex>
#include <stdexcept>
#include <string_view>
#include <vector>

#include "absl/hash/hash.h"
#include "allocator/budgeted_allocator.h"
#include "remat/lineage/backend.h"
#include "remat/operator_call.h"
#include "remat/runtime.h"
#include "tests/support/contents.h"

namespace tidepool::sim {

class SimulatedFramework;

// The framework's storage. Its address changes under the device's lock only.
struct SimulatedStorage {
  SimulatedFramework* framework = nullptr;
  std::atomic<uint32_t> references{0};
  void* address = nullptr;  // nullptr while evicted
  remat::Storage* tracked = nullptr;
  std::vector<uint64_t> expected;  // contents of the unlimited run
  bool evicted = false;

  size_t bytes() const { return expected.size() * sizeof(uint64_t); }
  Words words() const { return {static_cast<uint64_t*>(address), expected.size()}; }
};

// Part of a storage.
struct Slice {
  uint32_t first = 0;
  uint32_t count = 0;

  template <typename T>
  std::span<T> of(std::span<T> words) const {
    return words.subspan(first, count);
  }
};

struct Argument {
  SimulatedStorage* storage = nullptr;
  Slice slice;
};

// One operator with its arguments: also the body of its record.
struct OperatorBody {
  static constexpr size_t kMostInputs = 4;
  static constexpr size_t kMostOutputs = 2;

  uint64_t scalar = 0;
  uint64_t draw = 0;
  uint32_t inputs = 0;  // slices[0 .. inputs): what it reads, apart from the target
  uint32_t outputs = 0;
  Slice slices[kMostInputs];
  Slice target;
  uint32_t output_words[kMostOutputs] = {};
  uint32_t workspace_words = 0;
  bool reads_target = false;

  uint64_t hash(const ConstWords* words) const;
};

// What an operator threw on purpose.
class SimulatedFault : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

class SimulatedFramework final : public remat::Backend {
 public:
  SimulatedFramework(BudgetedAllocator& allocator, DeviceMutex& mutex);
  void set_runtime(remat::Runtime* runtime) { runtime_ = runtime; }

  // A storage with one reference and contents from outside.
  SimulatedStorage* new_input(uint32_t words, uint64_t seed);
  void take_reference(SimulatedStorage* storage) { ++storage->references; }
  void drop_reference(SimulatedStorage* storage);
  // Takes away the last reference without reporting the death: it is for report_death() to do.
  bool drop_reference_silently(SimulatedStorage* storage);
  void report_death(SimulatedStorage* storage);
  // Gives a resident storage other bytes; frees the old ones as a framework would.
  void replace_bytes(SimulatedStorage* storage, uint64_t seed);

  // Writes a storage's bytes (and what is expected of them) as a kernel would.
  static void scribble(SimulatedStorage* storage, uint64_t seed);

  // Runs an operator under interception. `inputs` are read; `target` (storage may be null) is
  // accessed as `access` (one that is overwritten in part is a piece); `second` is a second target
  // (list writes). `fail`: throw midway. Returns the outputs, each with one reference. Throws:
  // SimulatedFault, OutOfMemory, ...
  std::vector<SimulatedStorage*> run(OperatorBody body, const std::vector<Argument>& inputs,
                                     Argument target, remat::Access access, Argument second,
                                     uint64_t cost_ns, bool supported, bool fail);

  // Requires: lock held.
  remat::Storage* tracked(SimulatedStorage* storage);

  // Makes the storage resident and returns whether its bytes are the expected ones.
  bool read_matches(SimulatedStorage* storage);

  // A lock that a thread may hold while it calls in, as Python's: begin_wait() lets go of it.
  void enter_interpreter();
  void leave_interpreter();

  // The n-th replay from now throws; 0: none.
  void fail_execute_at(uint64_t n) { fail_at_ = n == 0 ? 0 : executed_ + n; }

  // The stream of all work from now on; several need an allocator with an order of streams.
  void set_stream(StreamId stream) { stream_ = stream; }
  bool has_streams() const override { return true; }
  StreamId current_stream() const override { return stream_; }
  // Called for every block that a kernel or a copy uses, on the current stream.
  std::function<void(StreamId, const void*, size_t)> on_use;

  void execute(const remat::Replay& replay) override;
  bool detach(remat::Storage& storage) override;
  bool attach(remat::Storage& storage, void* address) override;
  void forget(remat::Storage& storage) override;
  remat::Storage* gradient_of(const remat::Storage& storage, size_t threads) override {
    const auto found = gradients.find(&storage);
    return found != gradients.end() && threads == 1 ? found->second : nullptr;
  }
  // What gradient_of() answers, by parameter, while one thread runs operators.
  std::map<const remat::Storage*, remat::Storage*> gradients;

  size_t shared_bytes() const override { return shared_bytes_kept; }
  size_t shared_bytes_kept = 0;

  uint64_t fingerprint(const void* address, size_t bytes) const override {
    return absl::HashOf(std::string_view(static_cast<const char*>(address), bytes));
  }
  bool host_reads_contents() const override { return true; }
  void copy(void* to, const void* from, size_t bytes) override;
  void* begin_wait() override;
  void end_wait(void* token) override;

 private:
  // Adds an argument, if there is one.
  void add(remat::OperatorCall& call, const Argument& argument, remat::Access access);
  SimulatedStorage* new_storage(uint32_t words);
  void* allocate(size_t bytes);
  void free_bytes(void* address);
  void use(const void* address, size_t bytes) {
    if (on_use) on_use(stream_, address, bytes);
  }
  bool take_reference_if_alive(SimulatedStorage* storage);
  static void write(const OperatorBody& body, uint64_t hash, remat::Access access, Words target,
                    size_t count);

  BudgetedAllocator& allocator_;
  DeviceMutex& mutex_;
  remat::Runtime* runtime_ = nullptr;
  std::mutex interpreter_;
  std::mutex storages_mutex_;
  std::deque<SimulatedStorage> storages_;
  std::atomic<uint64_t> executed_{0};
  uint64_t fail_at_ = 0;
  StreamId stream_ = StreamId::kDefault;
};

}  // namespace tidepool::sim
