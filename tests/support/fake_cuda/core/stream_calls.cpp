#include "tests/support/fake_cuda/core/stream_calls.h"

#include <fmt/format.h>

#include <vector>

#include "tests/support/fake_cuda/core/machine.h"

namespace tidepool::fake_cuda::calls {
namespace {

Stream& resolve(Machine& machine, void* stream) {
  return machine.order.stream(stream, current_device());
}

Error ready(bool is_done) { return is_done ? Error::kSuccess : Error::kNotReady; }

}  // namespace

Error stream_create(const char* function, void** stream, unsigned flags, int priority) {
  return run(Call::kStreamCreate, function, [&](Machine& m) {
    *stream = &m.order.create_stream(current_device(), flags, priority);
    return Error::kSuccess;
  });
}

Error stream_destroy(const char* function, void* stream) {
  return run(Call::kOther, function, [&](Machine& m) {
    m.captures.check_not_capturing(resolve(m, stream), function);
    m.order.destroy_stream(stream);
    return Error::kSuccess;
  });
}

Error stream_query(const char* function, void* stream) {
  return run(Call::kStreamQuery, function, [&](Machine& m) {
    Stream& asked = resolve(m, stream);
    m.captures.check_not_capturing(asked, function);
    return ready(m.poll(asked));
  });
}

Error stream_synchronize(const char* function, void* stream) {
  return run(Call::kSynchronize, function, [&](Machine& m) {
    Stream& waited = resolve(m, stream);
    m.captures.check_not_capturing(waited, function);
    m.synchronize(waited);
    return Error::kSuccess;
  });
}

Error stream_wait(const char* function, void* stream, void* event, unsigned flags) {
  return run(Call::kStreamWait, function, [&](Machine& m) {
    const Event& awaited = m.order.event(event);
    m.wait(resolve(m, stream), awaited, (flags & 1) != 0);
    return Error::kSuccess;
  });
}

Error stream_priority(const char* function, void* stream, int* priority) {
  return run(Call::kOther, function, [&](Machine& m) {
    *priority = resolve(m, stream).priority;
    return Error::kSuccess;
  });
}

Error stream_flags(const char* function, void* stream, unsigned* flags) {
  return run(Call::kOther, function, [&](Machine& m) {
    *flags = resolve(m, stream).flags;
    return Error::kSuccess;
  });
}

Error stream_device(const char* function, void* stream, int* device) {
  return run(Call::kOther, function, [&](Machine& m) {
    *device = resolve(m, stream).device;
    return Error::kSuccess;
  });
}

Error stream_id(const char* function, void* stream, unsigned long long* id) {
  return run(Call::kOther, function, [&](Machine& m) {
    *id = static_cast<unsigned long long>(resolve(m, stream).id);
    return Error::kSuccess;
  });
}

Error host_function(const char* function, void* stream, void (*callback)(void*), void* data) {
  bool is_captured = false;
  const Error error = run(Call::kLaunch, function, [&](Machine& m) {
    Stream& used = resolve(m, stream);
    m.operate(used, Call::kLaunch, function);
    is_captured = m.captures.of(used) != nullptr;
    return Error::kSuccess;
  });
  if (error == Error::kSuccess && !is_captured) callback(data);
  return error;
}

Error device_synchronize(const char* function) {
  return run_unsafe(Call::kSynchronize, function, [&](Machine& m) {
    m.synchronize_device(current_device());
    return Error::kSuccess;
  });
}

Error launch(const char* function, void* stream, const char* kernel, unsigned long long threads) {
  return run(Call::kLaunch, function, [&](Machine& m) {
    m.launch(resolve(m, stream), kernel, threads);
    return Error::kSuccess;
  });
}

Error launch_remote(const char* function, void* stream, const std::shared_ptr<RemoteWork>& work,
                    Works* earlier) {
  return run(Call::kLaunch, function, [&](Machine& m) {
    Works found = m.launch_remote(resolve(m, stream), function, work);
    earlier->insert(earlier->end(), found.begin(), found.end());
    return Error::kSuccess;
  });
}

Error event_create(const char* function, void** event, unsigned flags) {
  return run(Call::kEventCreate, function, [&](Machine& m) {
    *event = &m.order.create_event(current_device(), flags);
    return Error::kSuccess;
  });
}

Error event_destroy(const char* function, void* event) {
  return run(Call::kOther, function, [&](Machine& m) {
    m.order.destroy_event(event);
    return Error::kSuccess;
  });
}

Error event_record(const char* function, void* event, void* stream) {
  return run(Call::kEventRecord, function, [&](Machine& m) {
    Event& recorded = m.order.event(event);
    Stream& on = resolve(m, stream);
    if (recorded.device != on.device) {
      throw Refusal(Error::kInvalidHandle,
                    fmt::format("an event of device {} on a stream of device {}", recorded.device,
                                on.device));
    }
    m.record(recorded, on);
    return Error::kSuccess;
  });
}

Error event_query(const char* function, void* event) {
  return run_unsafe(Call::kEventQuery, function, [&](Machine& m) {
    Event& asked = m.order.event(event);
    if (asked.capture != CaptureId::kNone) {
      throw Refusal(Error::kCapturedEvent, "the event was recorded in a capture");
    }
    return ready(m.poll(asked));
  });
}

Error event_synchronize(const char* function, void* event) {
  return run_unsafe(Call::kSynchronize, function, [&](Machine& m) {
    const Event& awaited = m.order.event(event);
    if (awaited.capture != CaptureId::kNone) {
      throw Refusal(Error::kCapturedEvent, "the event was recorded in a capture");
    }
    m.synchronize(awaited);
    return Error::kSuccess;
  });
}

Error event_elapsed(const char* function, float* milliseconds, void* start, void* end) {
  return run(Call::kOther, function, [&](Machine& m) {
    const Event& first = m.order.event(start);
    const Event& second = m.order.event(end);
    if (((first.flags | second.flags) & kDisableTiming) != 0 || !first.is_recorded ||
        !second.is_recorded) {
      throw Refusal(Error::kInvalidHandle, "an event without timing, or not recorded");
    }
    const double nanoseconds =
        static_cast<double>(second.time_ns) - static_cast<double>(first.time_ns);
    *milliseconds = static_cast<float>(nanoseconds / 1e6);
    return Error::kSuccess;
  });
}

Error capture_begin(const char* function, void* stream, int mode) {
  return run(Call::kCapture, function, [&](Machine& m) {
    if (mode < 0 || mode > 2) throw Refusal(Error::kInvalidValue, "no such mode");
    m.captures.begin(resolve(m, stream), static_cast<CaptureMode>(mode));
    return Error::kSuccess;
  });
}

Error capture_end(const char* function, void* stream, void** graph) {
  if (graph) *graph = nullptr;
  return run(Call::kCapture, function, [&](Machine& m) {
    Graph& captured = m.captures.end(resolve(m, stream));
    if (graph) *graph = &captured;
    return Error::kSuccess;
  });
}

Error capture_info(const char* function, void* stream, CaptureInfo* info) {
  return run(Call::kOther, function, [&](Machine& m) {
    *info = {};
    const Stream& asked = resolve(m, stream);
    const Capture* capture = m.captures.of(asked);
    if (!capture) {
      if (asked.is_legacy && !m.captures.blocking_streams(asked.device).empty()) {
        throw Refusal(Error::kCaptureImplicit, "a blocking stream is capturing");
      }
      return Error::kSuccess;
    }
    info->status = capture->is_spoiled ? 2 : 1;
    info->id = static_cast<unsigned long long>(capture->id);
    info->graph = capture->graph.get();
    return Error::kSuccess;
  });
}

Error capture_exchange_mode(const char* function, int* mode) {
  return run(Call::kOther, function, [&](Machine&) {
    if (*mode < 0 || *mode > 2) throw Refusal(Error::kInvalidValue, "no such mode");
    const CaptureMode wanted = static_cast<CaptureMode>(*mode);
    *mode = static_cast<int>(current_capture_mode());
    current_capture_mode() = wanted;
    return Error::kSuccess;
  });
}

Error graph_instantiate(const char* function, void** executable, void* graph) {
  return run(Call::kOther, function, [&](Machine& m) {
    *executable = &m.captures.instantiate(m.captures.graph(graph));
    return Error::kSuccess;
  });
}

Error graph_launch(const char* function, void* executable, void* stream) {
  std::vector<GraphNode> work;
  const Error error = run(Call::kGraphLaunch, function, [&](Machine& m) {
    const Graph& launched = m.captures.instantiated(executable);
    Stream& on = resolve(m, stream);
    m.launch_graph(launched, on, function);
    if (m.captures.of(on)) return Error::kSuccess;
    for (const GraphNode& node : launched.nodes) {
      if (node.work) work.push_back(node);
    }
    return Error::kSuccess;
  });
  for (const GraphNode& node : work) node.work(node.data.get());
  return error;
}

Error graph_node_count(const char* function, void* graph, size_t* count) {
  return run(Call::kOther, function, [&](Machine& m) {
    *count = m.captures.graph(graph).nodes.size();
    return Error::kSuccess;
  });
}

Error graph_destroy(const char* function, void* graph) {
  return run(Call::kOther, function, [&](Machine& m) {
    m.captures.destroy_graph(graph);
    return Error::kSuccess;
  });
}

Error graph_destroy_instantiated(const char* function, void* executable) {
  return run(Call::kOther, function, [&](Machine& m) {
    m.captures.destroy_instantiated(executable);
    return Error::kSuccess;
  });
}

}  // namespace tidepool::fake_cuda::calls
