// Stream calls: streams, events, captures and graphs as the driver and the runtime both have them.
// `function` is the name under which a misuse is noted; handles are CUDA's opaque pointers, null
// for the current device's legacy stream. Thread safe; each returns what CUDA would.
#pragma once

#include <cstddef>
#include <memory>

#include "tests/support/fake_cuda/core/error.h"
#include "tests/support/fake_cuda/core/remote_work.h"

namespace tidepool::fake_cuda::calls {

Error stream_create(const char* function, void** stream, unsigned flags, int priority);
Error stream_destroy(const char* function, void* stream);
Error stream_query(const char* function, void* stream);
Error stream_synchronize(const char* function, void* stream);
Error stream_wait(const char* function, void* stream, void* event, unsigned flags);
Error stream_priority(const char* function, void* stream, int* priority);
Error stream_flags(const char* function, void* stream, unsigned* flags);
Error stream_device(const char* function, void* stream, int* device);
Error stream_id(const char* function, void* stream, unsigned long long* id);
// Runs the callback at once, after the work that is enqueued, which is done by then.
Error host_function(const char* function, void* stream, void (*callback)(void*), void* data);
Error device_synchronize(const char* function);
Error launch(const char* function, void* stream, const char* kernel,
             unsigned long long threads = 0);
// Enqueues work that others will do, and adds to `earlier` what it comes after and is not done.
Error launch_remote(const char* function, void* stream, const std::shared_ptr<RemoteWork>& work,
                    Works* earlier);

Error event_create(const char* function, void** event, unsigned flags);
Error event_destroy(const char* function, void* event);
Error event_record(const char* function, void* event, void* stream);
Error event_query(const char* function, void* event);
Error event_synchronize(const char* function, void* event);
Error event_elapsed(const char* function, float* milliseconds, void* start, void* end);

struct CaptureInfo {
  int status = 0;  // none, active, spoiled
  unsigned long long id = 0;
  void* graph = nullptr;
};
Error capture_begin(const char* function, void* stream, int mode);
Error capture_end(const char* function, void* stream, void** graph);
Error capture_info(const char* function, void* stream, CaptureInfo* info);
Error capture_exchange_mode(const char* function, int* mode);
Error graph_instantiate(const char* function, void** executable, void* graph);
Error graph_launch(const char* function, void* executable, void* stream);
Error graph_node_count(const char* function, void* graph, size_t* count);
Error graph_destroy(const char* function, void* graph);
Error graph_destroy_instantiated(const char* function, void* executable);

}  // namespace tidepool::fake_cuda::calls
