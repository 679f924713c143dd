// Captures: stream capture, and the graphs that come of it.
// Streams join a capture by waiting for an event recorded in it, and must be joined again into its
// origin before it ends. Potentially unsafe calls during a capture spoil it, as CUDA's modes say.
// Owns captures, graphs and instantiated graphs. Not thread safe: the machine's lock is held.
// Invariants: (1) a stream that names a capture is one of its streams, and the other way round.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "tests/support/fake_cuda/core/order.h"

namespace tidepool::fake_cuda {

enum class CaptureMode : int { kGlobal = 0, kThreadLocal = 1, kRelaxed = 2 };

struct GraphNode {
  Call call;
  const char* name;
  StreamId stream;
  void (*work)(void*) = nullptr;  // of the host's, for a device that computes nothing by itself
  std::shared_ptr<void> data = nullptr;
};

struct Graph {
  CaptureId capture = CaptureId::kNone;
  std::vector<GraphNode> nodes;
  std::vector<StreamId> streams;  // captured
};

struct Capture {
  CaptureId id = CaptureId::kNone;
  Stream* origin = nullptr;
  CaptureMode mode = CaptureMode::kGlobal;
  std::thread::id thread;
  std::vector<Stream*> streams;
  bool is_spoiled = false;
  std::unique_ptr<Graph> graph;
};

class Captures {
 public:
  bool any() const { return !captures_.empty(); }
  // nullptr where the stream is not capturing.
  Capture* of(const Stream& stream);

  // Throws: Refusal, as all below.
  void begin(Stream& stream, CaptureMode mode);
  // The graph, which stays owned here. A spoiled or unjoined capture ends with the refusal.
  Graph& end(Stream& stream);
  // Before a stream waits for an event: lets it join the event's capture, or refuses.
  void on_wait(Stream& stream, const Event& event, bool is_external);
  // An operation was enqueued on a stream; remembered if it is captured.
  void on_operation(const Stream& stream, Call call, const char* name);

  // Streams under capture that are ordered with the device's legacy stream.
  std::vector<StreamId> blocking_streams(int device) const;

  // Refuses a call that is not allowed now in a thread of this mode, and spoils captures.
  void check_unsafe(CaptureMode thread_mode, const char* function);
  // Refuses to wait for, or ask about, work that is captured and not run.
  void check_not_capturing(const Stream& stream, const char* function);
  // Refuses to add to a capture that is spoiled.
  void check_not_spoiled(const Stream& stream);

  Graph& graph(void* handle);
  Graph& instantiated(void* handle);
  Graph& instantiate(const Graph& graph);
  void destroy_graph(void* handle);
  void destroy_instantiated(void* handle);
  size_t live_graphs() const { return graphs_.size() + instantiated_.size(); }

 private:
  void release(Capture& capture);

  std::map<CaptureId, Capture> captures_;
  std::map<void*, std::unique_ptr<Graph>> graphs_;
  std::map<void*, std::unique_ptr<Graph>> instantiated_;
  uint64_t next_capture_ = 1;
};

}  // namespace tidepool::fake_cuda
