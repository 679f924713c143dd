#include "tests/support/fake_cuda/core/captures.h"

#include <fmt/format.h>

namespace tidepool::fake_cuda {

Capture* Captures::of(const Stream& stream) {
  const auto found = captures_.find(stream.capture);
  return found == captures_.end() ? nullptr : &found->second;
}

void Captures::begin(Stream& stream, CaptureMode mode) {
  if (stream.is_legacy) {
    throw Refusal(Error::kCaptureUnsupported, "the legacy stream cannot be captured");
  }
  if (of(stream)) throw Refusal(Error::kInvalidValue, "the stream is capturing already");
  const CaptureId id = static_cast<CaptureId>(next_capture_++);
  Capture& capture = captures_[id];
  capture.id = id;
  capture.origin = &stream;
  capture.mode = mode;
  capture.thread = std::this_thread::get_id();
  capture.streams = {&stream};
  capture.graph = std::make_unique<Graph>();
  capture.graph->capture = id;
  capture.graph->streams = {stream.id};
  stream.capture = id;
}

void Captures::release(Capture& capture) {
  for (Stream* stream : capture.streams) stream->capture = CaptureId::kNone;
  captures_.erase(capture.id);
}

Graph& Captures::end(Stream& stream) {
  Capture* capture = of(stream);
  if (!capture) throw Refusal(Error::kInvalidValue, "the stream is not capturing");
  if (capture->origin != &stream) {
    throw Refusal(Error::kCaptureUnmatched, "the capture began on another stream");
  }
  if (capture->mode != CaptureMode::kRelaxed && capture->thread != std::this_thread::get_id()) {
    throw Refusal(Error::kCaptureWrongThread, "the capture began in another thread");
  }
  const bool is_spoiled = capture->is_spoiled;
  std::string unjoined;
  for (const Stream* other : capture->streams) {
    if (stream.clock.of(other->id) < other->operation_tick) {
      unjoined += fmt::format(" {}", static_cast<uint32_t>(other->id));
    }
  }
  std::unique_ptr<Graph> graph = std::move(capture->graph);
  release(*capture);
  if (is_spoiled) throw Refusal(Error::kCaptureInvalidated, "the capture was spoiled");
  if (!unjoined.empty()) {
    throw Refusal(Error::kCaptureUnjoined, "not joined into the origin: streams" + unjoined);
  }
  Graph& result = *graph;
  graphs_[&result] = std::move(graph);
  return result;
}

void Captures::on_wait(Stream& stream, const Event& event, bool is_external) {
  check_not_spoiled(stream);
  if (is_external || !event.is_recorded) return;
  if (event.capture == CaptureId::kNone) {
    if (stream.capture == CaptureId::kNone) return;
    of(stream)->is_spoiled = true;
    throw Refusal(Error::kCaptureIsolation, "a capturing stream waits for work not captured");
  }
  const auto found = captures_.find(event.capture);
  if (found == captures_.end()) {
    throw Refusal(Error::kCapturedEvent, "the event was recorded in a capture that has ended");
  }
  if (stream.capture == event.capture) return;
  if (Capture* other = of(stream)) {
    other->is_spoiled = found->second.is_spoiled = true;
    throw Refusal(Error::kCaptureMerge, "the stream is in another capture than the event");
  }
  if (stream.is_legacy) {
    found->second.is_spoiled = true;
    throw Refusal(Error::kCaptureImplicit, "the legacy stream cannot join a capture");
  }
  stream.capture = event.capture;
  found->second.streams.push_back(&stream);
  found->second.graph->streams.push_back(stream.id);
}

void Captures::on_operation(const Stream& stream, Call call, const char* name) {
  if (Capture* capture = of(stream))
    capture->graph->nodes.push_back({.call = call, .name = name, .stream = stream.id});
}

std::vector<StreamId> Captures::blocking_streams(int device) const {
  std::vector<StreamId> found;
  for (const auto& [id, capture] : captures_) {
    for (const Stream* stream : capture.streams) {
      if (stream->device == device && stream->blocks) found.push_back(stream->id);
    }
  }
  return found;
}

void Captures::check_unsafe(CaptureMode thread_mode, const char* function) {
  if (thread_mode == CaptureMode::kRelaxed) return;
  bool is_forbidden = false;
  for (auto& [id, capture] : captures_) {
    const bool is_ours = capture.thread == std::this_thread::get_id();
    const bool counts =
        is_ours ? capture.mode != CaptureMode::kRelaxed
                : capture.mode == CaptureMode::kGlobal && thread_mode == CaptureMode::kGlobal;
    if (!counts) continue;
    capture.is_spoiled = true;
    is_forbidden = true;
  }
  if (is_forbidden) {
    throw Refusal(Error::kCaptureUnsupported, fmt::format("{} during a capture", function));
  }
}

void Captures::check_not_capturing(const Stream& stream, const char* function) {
  if (Capture* capture = of(stream)) {
    capture->is_spoiled = true;
    throw Refusal(Error::kCaptureUnsupported, fmt::format("{} of a capturing stream", function));
  }
}

void Captures::check_not_spoiled(const Stream& stream) {
  const Capture* capture = of(stream);
  if (capture && capture->is_spoiled) {
    throw Refusal(Error::kCaptureInvalidated, "the capture was spoiled before");
  }
}

namespace {

Graph& alive(const std::map<void*, std::unique_ptr<Graph>>& graphs, void* handle) {
  const auto found = graphs.find(handle);
  if (found == graphs.end()) {
    throw Refusal(Error::kInvalidValue, fmt::format("{} is no graph", handle));
  }
  return *found->second;
}

}  // namespace

Graph& Captures::graph(void* handle) {
  for (auto& [id, capture] : captures_) {
    if (capture.graph.get() == handle) return *capture.graph;  // still being captured
  }
  return alive(graphs_, handle);
}

Graph& Captures::instantiated(void* handle) { return alive(instantiated_, handle); }

Graph& Captures::instantiate(const Graph& graph) {
  auto made = std::make_unique<Graph>(graph);
  Graph& result = *made;
  instantiated_[&result] = std::move(made);
  return result;
}

void Captures::destroy_graph(void* handle) {
  alive(graphs_, handle);
  graphs_.erase(handle);
}

void Captures::destroy_instantiated(void* handle) {
  alive(instantiated_, handle);
  instantiated_.erase(handle);
}

}  // namespace tidepool::fake_cuda
