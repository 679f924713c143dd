#include "remat/record/trace_recorder.h"

#include <chrono>
#include <condition_variable>
#include <exception>
#include <stdexcept>
#include <utility>

#include "allocator/locks/mutex.h"
#include "fmt/format.h"
#include "remat/record/service_thread.h"
#include "remat/trace/trace_writer.h"

namespace tidepool::remat {
namespace {

constexpr size_t kChunkEvents = 4096;
constexpr uint32_t kMostStorages = 0xf000'0000;
constexpr std::chrono::seconds kPatience{30};

}  // namespace

struct TraceRecorder::Queue {
  using Chunks = std::vector<std::unique_ptr<JobEvents>>;

  Mutex mutex;
  std::condition_variable_any changed;
  Chunks waiting ABSL_GUARDED_BY(mutex);
  Chunks spare ABSL_GUARDED_BY(mutex);           // empty ones, for their memory
  bool last ABSL_GUARDED_BY(mutex) = false;      // nothing comes after those that wait
  std::string given_up ABSL_GUARDED_BY(mutex);   // by the recorder, for this reason
  bool finished ABSL_GUARDED_BY(mutex) = false;  // the thread has ended
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
      const MutexLock guard(queue_->mutex);
      queue_->finished = true;
      queue_->waiting.clear();
    }
    queue_->changed.notify_all();
  }

 private:
  // False after the last one.
  bool write_chunk(TraceWriter& file) {
    std::unique_ptr<JobEvents> chunk;
    bool last = false;
    {
      const MutexLock guard(queue_->mutex);
      while (queue_->waiting.empty() && queue_->given_up.empty()) {
        queue_->changed.wait(queue_->mutex);
      }
      if (!queue_->given_up.empty()) throw std::runtime_error(queue_->given_up);
      chunk = std::move(queue_->waiting.front());
      queue_->waiting.erase(queue_->waiting.begin());
      last = queue_->last && queue_->waiting.empty();
    }
    play(*chunk, file, facts_.blocks);
    if (last) {
      file.finish();
      return false;
    }
    chunk->clear();
    const MutexLock guard(queue_->mutex);
    queue_->spare.push_back(std::move(chunk));
    return true;
  }

  const std::shared_ptr<Queue> queue_;
  const std::string path_;
  const TraceFacts facts_;
  const std::function<void(const std::string&)> say_;
};

TraceRecorder::TraceRecorder(const RecordingSettings& settings, const TraceFacts& facts,
                             std::function<void(const std::string&)> say)
    : EventRecorder(facts.blocks),
      settings_(settings),
      say_(std::move(say)),
      queue_(std::make_shared<Queue>()) {
  set_recording(settings_.first_step <= 1);
  start_service_thread(
      "tidepool-trace",
      [writer = std::make_shared<Writer>(queue_, settings.path, facts, say_)] { writer->run(); });
}

TraceRecorder::~TraceRecorder() { finish(); }

void TraceRecorder::finish() {
  if (forked_) return;
  if (!ended_) end();
  if (gave_up_) return;
  {
    const MutexLock guard(queue_->mutex);
    const auto end = std::chrono::steady_clock::now() + kPatience;
    while (!queue_->finished) {
      if (queue_->changed.wait_until(queue_->mutex, end) == std::cv_status::timeout) break;
    }
    if (queue_->finished) return;
  }
  gave_up_ = true;
  say_(fmt::format("no trace: {}: is still being written, and will be incomplete", settings_.path));
}

void TraceRecorder::before_event() {
  if (filling()->events.size() >= kChunkEvents) hand_over(false);
}

// The filling chunk is a fresh one afterwards.
void TraceRecorder::hand_over(bool last) {
  std::unique_ptr<JobEvents> full = std::exchange(filling(), nullptr);
  {
    const MutexLock guard(queue_->mutex);
    const char* why = nullptr;
    if (queue_->waiting.size() >= settings_.most_waiting) why = "it is slower than the job";
    if (storages() >= kMostStorages) why = "there are more storages than a trace can tell apart";
    if (why != nullptr) queue_->given_up = fmt::format("{}: {}", settings_.path, why);
    gave_up_ = queue_->finished || why != nullptr;
    if (!gave_up_) queue_->waiting.push_back(std::move(full));
    queue_->last = last;
    if (!queue_->spare.empty()) {
      filling() = std::move(queue_->spare.back());
      queue_->spare.pop_back();
    }
  }
  queue_->changed.notify_all();
  if (filling() == nullptr) filling() = std::make_unique<JobEvents>();
  if (gave_up_) set_recording(false);
}

void TraceRecorder::end() {
  ended_ = true;
  set_recording(false);
  if (!gave_up_) hand_over(true);
}

bool TraceRecorder::step_ended(const StepEnd&) {
  ++steps_;
  start_step();
  if (recording()) {
    add(EventKind::kStep);
    if (steps_ >= settings_.last_step) end();
  } else {
    set_recording(!ended_ && !forked_ && !gave_up_ && steps_ + 1 >= settings_.first_step);
  }
  return recording();
}

// What the thread is writing just now aside.
size_t TraceRecorder::bookkeeping_bytes() const {
  size_t bytes = EventRecorder::bookkeeping_bytes();
  if (forked_) return bytes;
  const MutexLock guard(queue_->mutex);
  for (const auto& chunk : queue_->waiting) bytes += chunk->bookkeeping_bytes();
  for (const auto& chunk : queue_->spare) bytes += chunk->bookkeeping_bytes();
  return bytes;
}

// The thread is in the parent.
void TraceRecorder::forked() {
  set_recording(false);
  forked_ = true;
}

}  // namespace tidepool::remat
