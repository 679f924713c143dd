// Patterns and jobs (bench/allocator/patterns.h, synthetic_traces.h) through PyTorch's CUDA
// allocator class: PyTorch's own allocator and Tidepool's, in one process. Prints a line of JSON
// for each pattern and allocator.
//   cuda_patterns PLUGIN RUNS [LOG...]: times each pattern so often; replays logs as well.
// bench/cuda_patterns.py runs it on the stand-in CUDA device. Times are of the host's thread.
#include <c10/cuda/CUDAFunctions.h>
#include <c10/cuda/CUDAStream.h>

#include <cstdio>
#include <cstdlib>
#include <exception>
#include <string>
#include <vector>

#include "bench/allocator/patterns.h"
#include "bench/allocator/replay.h"
#include "bench/allocator/synthetic_traces.h"
#include "bench/torch/cuda_session.h"

namespace tidepool::bench {
namespace {

constexpr size_t kStep = size_t{2} << 20;

// One of PyTorch's allocators with nothing cached, on a part of the device. It gives back what it
// has cached at its end.
class TorchPeer final : public Peer {
 public:
  TorchPeer(CUDAAllocator& allocator, size_t device_bytes, size_t all_bytes)
      : allocator_(allocator) {
    allocator_.emptyCache();
    allocator_.resetPeakStats(0);
    allocator_.setMemoryFraction(static_cast<double>(device_bytes) / static_cast<double>(all_bytes),
                                 0);
  }
  ~TorchPeer() override {
    allocator_.emptyCache();
    allocator_.setMemoryFraction(1.0, 0);
  }

  void* allocate(size_t bytes, StreamId stream) override {
    try {
      return allocator_.raw_alloc_with_stream(bytes, handle(stream));
    } catch (const c10::OutOfMemoryError&) {
      return nullptr;
    }
  }
  void free(void* address, size_t, StreamId) override { allocator_.raw_delete(address); }
  size_t reserved_peak_bytes() const override {
    return static_cast<size_t>(allocator_.getDeviceStats(0).reserved_bytes[0].peak);
  }

 private:
  static cudaStream_t handle(StreamId stream) {
    static std::vector<cudaStream_t> streams{nullptr};
    while (streams.size() <= static_cast<size_t>(stream)) {
      streams.push_back(c10::cuda::getStreamFromPool().stream());
    }
    return streams[static_cast<size_t>(stream)];
  }

  CUDAAllocator& allocator_;
};

void print(const char* kind, const std::string& name, const char* allocator, double reserved,
           size_t refused, const std::vector<double>& samples) {
  std::printf(
      "{\"kind\": \"%s\", \"name\": \"%s\", \"allocator\": \"%s\", \"reserved\": %.5f, "
      "\"refused\": %zu, \"ns\": [",
      kind, name.c_str(), allocator, reserved, refused);
  for (size_t k = 0; k < samples.size(); ++k) std::printf("%s%.0f", k ? ", " : "", samples[k]);
  std::printf("]}\n");
  std::fflush(stdout);
}

void run_pattern(const Pattern& pattern, const CudaSession& session, size_t all_bytes,
                 size_t runs) {
  for (CUDAAllocator* allocator : {session.native, session.ours}) {
    TorchPeer peer(*allocator, pattern.device_bytes, all_bytes);
    Workload first(peer);
    pattern.run(first);
    const double reserved = static_cast<double>(peer.reserved_peak_bytes()) /
                            static_cast<double>(first.live_peak_bytes());
    std::vector<double> samples;
    for (size_t k = 0; k < runs; ++k) {
      Workload again(peer);
      const double start = thread_ns();
      pattern.run(again);
      samples.push_back((thread_ns() - start) / static_cast<double>(again.requests()));
    }
    print("pattern", pattern.name, allocator == session.ours ? "tidepool" : "native", reserved,
          first.refused(), samples);
  }
}

// `reserved`: the smallest device per byte alive at most, or 0 if no device does.
void run_trace(const Trace& trace, const CudaSession& session, size_t all_bytes) {
  for (CUDAAllocator* allocator : {session.native, session.ours}) {
    const size_t smallest = smallest_device(
        trace,
        [&](size_t bytes) { return std::make_unique<TorchPeer>(*allocator, bytes, all_bytes); },
        kStep);
    print("replay", trace.name, allocator == session.ours ? "tidepool" : "native",
          static_cast<double>(smallest) / static_cast<double>(trace.live_peak_bytes), 0, {});
  }
}

}  // namespace
}  // namespace tidepool::bench

int main(int argc, char** argv) {
  using namespace tidepool::bench;
  const size_t runs = argc < 3 ? 0 : std::strtoul(argv[2], nullptr, 10);
  if (runs == 0) die("usage: cuda_patterns PLUGIN RUNS [LOG...]");
  std::vector<Trace> traces{training_trace(), varying_trace()};
  try {
    for (int k = 3; k < argc; ++k) {
      for (Trace& trace : read_log(argv[k])) traces.push_back(std::move(trace));
    }
  } catch (const std::exception& error) {
    die(error.what());
  }
  const CudaSession session = start_cuda(argv[1]);
  size_t free_bytes = 0;
  size_t all_bytes = 0;
  if (cudaMemGetInfo(&free_bytes, &all_bytes) != cudaSuccess) die("no CUDA device");
  for (const Pattern& pattern : patterns()) run_pattern(pattern, session, all_bytes, runs);
  for (const Trace& trace : traces) run_trace(trace, session, all_bytes);
  std::fflush(stdout);
  _Exit(0);  // as Python jobs end: PyTorch's statics are not torn down under our blocks
}
