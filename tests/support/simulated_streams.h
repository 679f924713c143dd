// SimulatedStreams: StreamOrder over streams that are clocks and nothing else, with an oracle for
// races: which use of memory surely happens before which, by vector clocks over streams and host.
// A stream's work runs when progress() says so: fences pass late, or not at all until waited for.
// Owns nothing of the allocator's. Thread safe, but for the functions of the oracle.
#pragma once

#include <functional>
#include <mutex>
#include <string>
#include <vector>

#include "allocator/space/address_space.h"
#include "allocator/streams/stream_order.h"

namespace tidepool::test {

class SimulatedStreams final : public StreamOrder {
 public:
  explicit SimulatedStreams(size_t streams);

  std::shared_ptr<Fence> record(StreamId stream) override;
  void wait(StreamId stream, Fence& fence) override;
  void finish() override;

  // From now on the stream records no more: it is gone, once its work has run.
  void destroy(StreamId stream) { queues_.at(static_cast<size_t>(stream)).gone = true; }
  // The n-th call from now on (record, wait, finish, a host's wait for a fence) throws, and so do
  // those after it, `times` in all; 0: none.
  void fail_at(size_t n, size_t times = 1) {
    fail_in_ = n;
    fail_times_ = times;
  }
  bool failed() const { return failed_; }

  // Called once, right after the next fence has been recorded: what other threads do just then.
  std::function<void()> after_record;

  // Work on the stream that uses the bytes. "" if every earlier use of them by another stream
  // happens before it, else what races. Uses that race stay, for the next to race with.
  std::string launch(StreamId stream, Address address, size_t bytes);
  // The bytes lose their memory, or it goes elsewhere. "" if the host knows that every use is over.
  std::string take_away(Address address, size_t bytes);
  // Lets the stream's next work run, if what it waits for has run. True if there was any.
  bool progress(StreamId stream);
  void progress_all();

  size_t records = 0, waits = 0, host_waits = 0, queries = 0, finishes = 0;

 private:
  using Clock = std::vector<uint64_t>;  // per stream: how much of its work is known to be before
  struct Queue {
    Clock issued;             // before the next work of this stream
    std::vector<Clock> work;  // what each piece of work has before it, itself included
    uint64_t done = 0;
    bool gone = false;
  };
  struct Use {
    uintptr_t begin = 0, end = 0;
    size_t stream = 0;
    uint64_t time = 0;
  };
  class SimulatedFence;

  void throw_if_failing(const char* call);
  static void join(Clock& clock, const Clock& other);
  bool has_run(const Clock& clock) const;
  // Cuts [begin, end) out of all uses that are before `clock`.
  void forget(const Clock& clock, uintptr_t begin, uintptr_t end);
  std::string first_use_outside(const Clock& clock, uintptr_t begin, uintptr_t end,
                                const std::string& by) const;

  mutable std::mutex mutex_;
  std::vector<Queue> queues_;
  Clock host_;  // what the host knows to be over
  std::vector<Use> uses_;
  size_t fail_in_ = 0;  // 1: the next one
  size_t fail_times_ = 0;
  bool failed_ = false;
};

}  // namespace tidepool::test
