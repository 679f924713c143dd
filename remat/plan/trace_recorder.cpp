#include "remat/plan/trace_recorder.h"

#include <pthread.h>
#include <signal.h>

#include <chrono>
#include <exception>
#include <span>
#include <stdexcept>
#include <thread>
#include <utility>

#include "fmt/format.h"
#include "remat/lineage.h"
#include "remat/plan/merged_operands.h"
#include "remat/plan/trace_writer.h"
#include "remat/runtime.h"

namespace tidepool::plan {
namespace {

constexpr size_t kChunkEvents = 4096;
constexpr uint32_t kMostStorages = 0xf000'0000;
constexpr std::chrono::seconds kPatience{30};

const remat::RecordType kCut{"tidepool::cut"};

RootKind kind_of(remat::Role role) {
  switch (role) {
    case remat::Role::kParameter:
      return RootKind::kParameter;
    case remat::Role::kOptimizerState:
      return RootKind::kOptimizerState;
    case remat::Role::kInput:
      return RootKind::kInput;
    default:
      return RootKind::kOther;
  }
}

// Signals are for the job's threads, as long as this lives.
class NoSignals {
 public:
  NoSignals() {
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before_);
  }
  ~NoSignals() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  NoSignals(const NoSignals&) = delete;
  NoSignals& operator=(const NoSignals&) = delete;

 private:
  sigset_t before_;
};

}  // namespace

struct TraceRecorder::Event {
  EventKind kind = EventKind::kStep;
  RootKind root = RootKind::kOther;
  bool draws = false;
  bool recordable = true;
  uint32_t storage = 0;  // kRelease, kUse
  uint32_t stream = 0;
  uint32_t operands = 0, outputs = 0;  // of the chunk's lists, in their order
  const remat::RecordType* type = nullptr;
  uint64_t cost_ns = 0;
  uint64_t site = 0;
  size_t bytes = 0;  // of a root; of an operator's workspace
  uint32_t block = BlockChange::kNone;  // a root's
  uint32_t changes = 0;                 // of blocks, while an operator runs; of the chunk's list
};

struct TraceRecorder::Chunk {
  std::vector<Event> events;
  std::vector<MergedOperands::Operand> operands;
  std::vector<size_t> output_bytes;
  std::vector<uint32_t> output_blocks;  // likewise, or empty
  std::vector<BlockChange> changes;     // of operators, and of kBlock
  bool last = false;
};

struct TraceRecorder::Queue {
  std::mutex mutex;
  std::condition_variable changed;
  std::vector<std::unique_ptr<Chunk>> waiting;
  std::vector<std::unique_ptr<Chunk>> spare;  // empty ones, for their memory
  std::string given_up;                       // by the recorder, for this reason
  bool finished = false;                      // the thread has ended
};

// What the recorder's thread does.
class TraceRecorder::Writer {
 public:
  Writer(std::shared_ptr<Queue> queue, std::string path, TraceFacts facts,
         std::function<void(const std::string&)> say)
      : queue_(std::move(queue)),
        path_(std::move(path)),
        facts_(std::move(facts)),
        say_(std::move(say)) {}

  void run() {
    std::string error;
    try {
      TraceWriter file(path_, facts_);
      while (write_chunk(file)) {
      }
    } catch (const std::exception& exception) {
      error = exception.what();
    }
    if (!error.empty()) say_(fmt::format("no trace: {}", error));
    {
      std::lock_guard<std::mutex> guard(queue_->mutex);
      queue_->finished = true;
      queue_->waiting.clear();
    }
    queue_->changed.notify_all();
  }

 private:
  // False after the last one.
  bool write_chunk(TraceWriter& file) {
    std::unique_ptr<Chunk> chunk;
    {
      std::unique_lock<std::mutex> guard(queue_->mutex);
      queue_->changed.wait(
          guard, [&] { return !queue_->waiting.empty() || !queue_->given_up.empty(); });
      if (!queue_->given_up.empty()) throw std::runtime_error(queue_->given_up);
      chunk = std::move(queue_->waiting.front());
      queue_->waiting.erase(queue_->waiting.begin());
    }
    const MergedOperands::Operand* operand = chunk->operands.data();
    const size_t* output = chunk->output_bytes.data();
    const uint32_t* block = chunk->output_blocks.data();
    const BlockChange* change = chunk->changes.data();
    const bool has_blocks = !chunk->output_blocks.empty();
    for (const Event& event : chunk->events) {
      write(file, event,
            {{operand, event.operands},
             {output, event.outputs},
             {block, has_blocks ? event.outputs : 0},
             {change, event.changes}});
      operand += event.operands;
      output += event.outputs;
      block += has_blocks ? event.outputs : 0;
      change += event.changes;
    }
    if (chunk->last) {
      file.finish();
      return false;
    }
    chunk->events.clear();
    chunk->operands.clear();
    chunk->output_bytes.clear();
    chunk->output_blocks.clear();
    chunk->changes.clear();
    std::lock_guard<std::mutex> guard(queue_->mutex);
    queue_->spare.push_back(std::move(chunk));
    return true;
  }

  struct Lists {
    std::span<const MergedOperands::Operand> operands;
    std::span<const size_t> output_bytes;
    std::span<const uint32_t> output_blocks;
    std::span<const BlockChange> changes;
  };

  void write(TraceWriter& file, const Event& event, const Lists& lists) {
    switch (event.kind) {
      case EventKind::kRoot:
        file.root(event.bytes, event.root, event.block);
        break;
      case EventKind::kOperator:
        merged_.merge(lists.operands);
        file.call({event.type->name, event.cost_ns, merged_.reads(), merged_.writes(),
                   lists.output_bytes, event.bytes, event.site, event.stream, event.draws,
                   event.recordable, lists.changes, lists.output_blocks, arguments()});
        break;
      case EventKind::kRelease:
        file.release(event.storage);
        break;
      case EventKind::kUse:
        file.use(event.storage, event.stream);
        break;
      case EventKind::kStep:
        file.step();
        break;
      case EventKind::kBlock:
        file.block(lists.changes[0]);
        break;
    }
  }

  // Only in a trace that is to repeat the job exactly.
  std::span<const TraceArgument> arguments() const {
    return facts_.blocks ? merged_.arguments() : std::span<const TraceArgument>();
  }

  const std::shared_ptr<Queue> queue_;
  const std::string path_;
  const TraceFacts facts_;
  const std::function<void(const std::string&)> say_;
  MergedOperands merged_;
};

TraceRecorder::TraceRecorder(const RecordingSettings& settings, const TraceFacts& facts,
                             std::function<void(const std::string&)> say)
    : settings_(settings),
      say_(std::move(say)),
      queue_(std::make_shared<Queue>()),
      filling_(std::make_unique<Chunk>()),
      has_blocks_(facts.blocks),
      on_(settings.first_step <= 1) {
  const NoSignals none;  // the thread inherits it
  std::thread([writer = std::make_shared<Writer>(queue_, settings.path, facts, say_)] {
    pthread_setname_np(pthread_self(), "tidepool-trace");
    writer->run();
  }).detach();
}

TraceRecorder::~TraceRecorder() { finish(); }

void TraceRecorder::finish() {
  if (forked_) return;
  if (!ended_) end();
  if (gave_up_) return;
  std::unique_lock<std::mutex> guard(queue_->mutex);
  if (queue_->changed.wait_for(guard, kPatience, [&] { return queue_->finished; })) return;
  gave_up_ = true;
  say_(fmt::format("no trace: {}: is still being written, and will be incomplete",
                   settings_.path));
}

TraceRecorder::Event& TraceRecorder::add(EventKind kind) {
  if (!in_operator_ && !blocks_.changes().empty()) add_blocks();
  return append(kind);
}

TraceRecorder::Event& TraceRecorder::append(EventKind kind) {
  if (filling_->events.size() >= kChunkEvents) hand_over();
  Event& event = filling_->events.emplace_back();
  event.kind = kind;
  return event;
}

void TraceRecorder::add_blocks() {
  for (const BlockChange& change : blocks_.changes()) {
    append(EventKind::kBlock).changes = 1;
    filling_->changes.push_back(change);
  }
  blocks_.clear();
}

void TraceRecorder::give_up(const char* why) {
  gave_up_ = true;
  queue_->given_up = fmt::format("{}: {}", settings_.path, why);
}

// The filling chunk is a fresh one afterwards.
void TraceRecorder::hand_over() {
  std::unique_ptr<Chunk> full = std::exchange(filling_, nullptr);
  {
    std::lock_guard<std::mutex> guard(queue_->mutex);
    gave_up_ = queue_->finished;
    if (queue_->waiting.size() >= settings_.most_waiting) give_up("it is slower than the job");
    if (storages_ >= kMostStorages) give_up("there are more storages than a trace can tell apart");
    if (!gave_up_) queue_->waiting.push_back(std::move(full));
    if (!queue_->spare.empty()) {
      filling_ = std::move(queue_->spare.back());
      queue_->spare.pop_back();
    }
  }
  queue_->changed.notify_all();
  if (filling_ == nullptr) filling_ = std::make_unique<Chunk>();
}

void TraceRecorder::end() {
  ended_ = true;
  on_ = false;
  if (gave_up_) return;
  filling_->last = true;
  hand_over();
}

uint32_t TraceRecorder::make(remat::Storage& storage) {
  storage.observed = ++storages_;
  return storages_ - 1;
}

uint32_t TraceRecorder::number_of(remat::Storage& storage) {
  if (storage.observed != 0) return storage.observed - 1;
  Event& root = add(EventKind::kRoot);
  root.bytes = storage.current->bytes;
  root.root = kind_of(storage.role);
  if (has_blocks_) root.block = blocks_.give(storage.address);
  return make(storage);
}

void TraceRecorder::make_output(remat::Storage& storage) {
  make(storage);
  filling_->output_bytes.push_back(storage.current->bytes);
  if (has_blocks_) filling_->output_blocks.push_back(blocks_.give(storage.address));
}

void TraceRecorder::begins() {
  if (!is_on()) return;
  meter_.begin();
  if (!has_blocks_) return;
  add_blocks();
  in_operator_ = true;
}

void TraceRecorder::ran(const remat::ObservedCall& call) {
  const size_t workspace_bytes = meter_.end();
  if (!is_on()) return;
  for (const remat::Operand& operand : call.operands) {
    // Contents that an operator makes in memory which nobody has seen: a result.
    const bool fresh = operand.access == remat::Access::kOverwrite;
    if (!operand.storage->dead && !fresh) number_of(*operand.storage);
  }
  Event event;
  event.type = &call.type;
  event.draws = call.type.draws;
  event.recordable = call.recordable;
  event.cost_ns = call.cost_ns;
  event.stream = static_cast<uint32_t>(call.stream);
  event.bytes = workspace_bytes;
  event.site = ++calls_[&call.type];
  if (std::exchange(in_operator_, false)) {
    event.changes = static_cast<uint32_t>(blocks_.changes().size());
  } else {
    add_blocks();
  }
  Event& added = append(EventKind::kOperator);
  event.kind = EventKind::kOperator;
  const uint32_t first_output = storages_;
  for (const remat::Operand& operand : call.operands) {
    remat::Storage& storage = *operand.storage;
    if (storage.dead || storage.observed > first_output) continue;
    if (storage.observed == 0) {
      make_output(storage);
      ++event.outputs;
      continue;
    }
    filling_->operands.push_back({storage.observed - 1, operand.access});
    ++event.operands;
  }
  for (remat::Storage* output : call.outputs) {
    if (output == nullptr || output->dead) continue;
    make_output(*output);
    ++event.outputs;
  }
  filling_->changes.insert(filling_->changes.end(), blocks_.changes().begin(),
                           blocks_.changes().end());
  blocks_.clear();
  added = event;
}

void TraceRecorder::cut(remat::Storage& storage) {
  if (!is_on() || storage.observed == 0) return;
  const remat::Operand written{&storage, remat::Access::kUpdate};
  ran({.type = kCut, .recordable = false, .operands = {&written, 1}});
}

void TraceRecorder::died(remat::Storage& storage) {
  if (!is_on() || storage.observed == 0) return;
  add(EventKind::kRelease).storage = storage.observed - 1;
}

void TraceRecorder::used(remat::Storage& storage, StreamId stream) {
  if (!is_on() || storage.observed == 0) return;
  Event& event = add(EventKind::kUse);
  event.storage = storage.observed - 1;
  event.stream = static_cast<uint32_t>(stream);
}

bool TraceRecorder::step_ended() {
  ++steps_;
  calls_.clear();
  if (is_on()) {
    add(EventKind::kStep);
    if (steps_ >= settings_.last_step) end();
    return false;
  }
  on_ = !ended_ && !forked_ && !gave_up_ && steps_ + 1 >= settings_.first_step;
  return on_;
}

void TraceRecorder::lives(remat::Storage& storage) { number_of(storage); }

// The thread is in the parent.
void TraceRecorder::forked() {
  on_ = false;
  forked_ = true;
}

}  // namespace tidepool::plan
