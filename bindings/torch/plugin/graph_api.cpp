// The functions of the C interface for compiled graphs, which reach memory beside the dispatcher.
#include <ATen/core/dispatch/Dispatcher.h>
#include <c10/core/StorageImpl.h>

#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "allocator/base/per_thread.h"
#include "bindings/torch/calls/operator_info.h"
#include "bindings/torch/engine/engine.h"
#include "bindings/torch/intercept/operands/argument_tracking.h"
#include "bindings/torch/plugin/api.h"
#include "bindings/torch/plugin/c_results.h"
#include "bindings/torch/state/default_generator.h"
#include "bindings/torch/state/random_state.h"
#include "remat/locked_storage.h"

using namespace tidepool;
using namespace tidepool::torch_glue;

namespace {

// What the thread's kernels draw from in a compiled graph. A graph may run within another one: what
// Python does in between may restore results of graphs.
struct GraphDraw {
  explicit GraphDraw(c10::Device device) : generator(new_generator(device)), scope(generator) {}

  const at::Generator generator;
  const DefaultGeneratorScope scope;
};
std::vector<std::unique_ptr<GraphDraw>>& graph_draws() {
  return tidepool::PerThread<std::vector<std::unique_ptr<GraphDraw>>>::get();
}

c10::Device cuda_device(int index) { return {c10::kCUDA, static_cast<c10::DeviceIndex>(index)}; }

}  // namespace

const void* tidepool_known_operator(const char* name, int draws) {
  const auto op = operator_named(name);
  if (!op || !op->hasSchema()) return nullptr;
  const OperatorInfo& info = info_of(*op);
  bool hides_writes = false;
  for (const TensorArgument& argument : info.tensors) hides_writes |= argument.side_writes;
  // What varies by switches of PyTorch's does so depending on what they are at each call.
  const bool by_default = info.draws_by_default_only && host_is_foreign() &&
                          DefaultGeneratorScope::is_possible(cuda_device(0));
  const bool as_told = !info.draws || (info.draw_argument >= 0 && (draws == 0 || by_default));
  const bool known = info.is_trusted() && info.replayable && as_told && !hides_writes &&
                     !info.is_metadata && !depends_on_places(info.varies);
  return known ? &info : nullptr;
}

int tidepool_are_as_known(const void* const* operators, size_t count) {
  for (const void* each : std::span(operators, count)) {
    const auto& info = *static_cast<const OperatorInfo*>(each);
    const bool by_switch =
        info.varies == Variation::kAlgorithms || info.varies == Variation::kConvolution;
    if (!info.is_trusted() || (by_switch && may_vary(info.varies))) return 0;
  }
  return 1;
}

int tidepool_hold_all(void* const* storages, size_t count, void** held, char* error,
                      size_t error_bytes) {
  *held = nullptr;
  if (!engines_installed()) return 0;
  auto locks = std::make_unique<std::vector<remat::HeldStorage>>();
  return report_errors(error, error_bytes, [&] {
    const std::span wanted(reinterpret_cast<c10::StorageImpl* const*>(storages), count);
    for_each_engine([&](Engine& engine) { hold_on(engine, wanted, *locks); });
    *held = locks.release();
  });
}

void* tidepool_begin_draws(int device, uint64_t* seed, uint64_t* offset) {
  const Engine* const engine = engine_of(cuda_device(device));
  if (engine == nullptr || engine->capturing() || TurnToDraw::is_taken_by_this_thread()) {
    return nullptr;
  }
  auto draws = std::make_unique<SeriesOfDraws>(cuda_device(device));
  *seed = draws->seed();
  *offset = draws->offset();
  return draws.release();
}

int tidepool_end_draws(void* draws, uint64_t offset) {
  const std::unique_ptr<SeriesOfDraws> ended(static_cast<SeriesOfDraws*>(draws));
  return ended->end(engine_of(ended->device())->backend(), offset) ? 0 : 1;
}

void tidepool_draw_from(int device, uint64_t seed, uint64_t offset) {
  RandomState state;
  state.seed = seed;
  state.offset = offset;
  auto draw = std::make_unique<GraphDraw>(cuda_device(device));
  state.load_into(*draw->generator.unsafeGetGeneratorImpl());
  graph_draws().push_back(std::move(draw));
}

uint64_t tidepool_drawn() {
  const uint64_t offset = graph_draws().back()->generator.get_offset();
  graph_draws().pop_back();
  return offset;
}

void tidepool_let_all_go(void* held) { delete static_cast<std::vector<remat::HeldStorage>*>(held); }

void tidepool_made_by_graph(void* const* storages, size_t count) {
  if (!engines_installed()) return;
  for (void* pointer : std::span(storages, count)) {
    auto* storage = static_cast<c10::StorageImpl*>(pointer);
    Engine* engine = storage != nullptr ? engine_of(storage) : nullptr;
    if (engine == nullptr) continue;
    DeviceLock lock(engine->mutex());
    find_tracked(*engine, storage, remat::RootReason::kCompiled);
  }
}
