#include "remat/plan/chain/chain.h"

#include <algorithm>
#include <optional>
#include <vector>

#include "allocator/base/splitmix.h"
#include "tests/support/catch.h"

namespace tidepool::remat {
namespace {

// Layers: the sizes of a simple chain.
struct Layers {
  size_t input = 0;
  std::vector<size_t> outputs, workspaces;

  Chain chain() const { return simple_chain(input, outputs, workspaces); }
};

// StepModel: one step of a chain, event by event, with a set of checkpoints: what is held is
// counted buffer by buffer, and nothing of it is derived from formulas.
class StepModel {
 public:
  StepModel(const Layers& layers, uint32_t checkpoints)
      : layers_(layers), checkpoints_(checkpoints), held_(layers.outputs.size()) {}

  size_t peak() {
    const size_t count = layers_.outputs.size();
    size_t last_cut = 0;  // the first layer after the last checkpoint
    for (size_t k = 0; k + 1 < count; ++k) last_cut = is_checkpoint(k) ? k + 1 : last_cut;
    for (size_t k = 0; k < count; ++k) {
      run(k);
      if (k > 0 && k - 1 < last_cut && !is_checkpoint(k - 1)) drop(k - 1);
    }
    drop(count - 1);
    gradient_ = layers_.outputs[count - 1];
    for (size_t end = count; end > 0;) {
      size_t begin = end - 1;
      while (begin > 0 && !is_checkpoint(begin - 1)) --begin;
      for (size_t k = begin; k + 1 < end; ++k) {
        if (!held_[k]) run(k);
      }
      for (size_t k = end; k-- > begin;) run_backward(k);
      end = begin;
    }
    return peak_;
  }

 private:
  bool is_checkpoint(size_t layer) const { return (checkpoints_ >> layer & 1) != 0; }
  void see(size_t more) { peak_ = std::max(peak_, bytes_ + gradient_ + more); }
  void run(size_t layer) {
    see(layers_.outputs[layer] + layers_.workspaces[layer]);
    held_[layer] = true;
    bytes_ += layers_.outputs[layer];
  }
  void drop(size_t layer) {
    held_[layer] = false;
    bytes_ -= layers_.outputs[layer];
  }
  // The output of the layer has gone; its input is there, and goes afterwards.
  void run_backward(size_t layer) {
    const size_t made = layer > 0 ? layers_.outputs[layer - 1] : layers_.input;
    see(made + layers_.workspaces[layer]);
    gradient_ = made;
    if (layer > 0) drop(layer - 1);
  }

  const Layers& layers_;
  const uint32_t checkpoints_;
  std::vector<bool> held_;
  size_t bytes_ = 0, gradient_ = 0, peak_ = 0;
};

size_t least_by_trying(const Layers& layers) {
  size_t least = SIZE_MAX;
  for (uint32_t set = 0; set < 1U << (layers.outputs.size() - 1); ++set) {
    least = std::min(least, StepModel(layers, set).peak());
  }
  return least;
}

Layers random_layers(SplitMix& random, size_t count, size_t most_workspace) {
  const auto size = [&] { return random.below(random.below(2) == 0 ? 100 : 20); };
  Layers layers;
  layers.input = size();
  for (size_t k = 0; k < count; ++k) {
    layers.outputs.push_back(size());
    layers.workspaces.push_back(random.below(most_workspace + 1));
  }
  return layers;
}

uint32_t set_of(const ChainCuts& cuts) {
  uint32_t set = 0;
  for (const uint32_t cut : cuts.cuts) set |= 1U << cut;
  return set;
}

TEST_CASE("the least cuts of random chains are those that trying all finds") {
  SplitMix random(7);
  for (size_t round = 0; round < 10'000; ++round) {
    const size_t most_workspace = std::vector<size_t>{0, 30, 100, 1000}[round % 4];
    const Layers layers = random_layers(random, 1 + random.below(9), most_workspace);
    const ChainCuts found = least_cuts(layers.chain());
    CAPTURE(round);
    REQUIRE(found.least);
    REQUIRE(found.bytes == least_by_trying(layers));
    REQUIRE(found.bytes == StepModel(layers, set_of(found)).peak());
  }
}

TEST_CASE("both ways of searching agree on long chains") {
  SplitMix random(9);
  for (size_t round = 0; round < 20; ++round) {
    Chain chain = random_layers(random, 300, round % 2 == 0 ? 0 : 10).chain();
    const ChainCuts found = least_cuts(chain);
    chain.spans.push_back({0, 0, 0});  // has all pairs tried
    const ChainCuts by_pairs = least_cuts(chain);
    CHECK(found.least);
    CHECK(found.bytes == by_pairs.bytes);
  }
}

TEST_CASE("equal layers need the square root of their number") {
  constexpr size_t kLayers = 10'000;
  const std::vector<size_t> outputs(kLayers, 10), workspaces(kLayers, 0);
  const ChainCuts found = least_cuts(simple_chain(10, outputs, workspaces));
  CHECK(found.least);
  // Segments get shorter: c checkpoints leave room for c + (c - 1) + ... layers.
  CHECK(found.bytes > 10 * 140);
  CHECK(found.bytes < 10 * 145);
}

TEST_CASE("a value that lies at several cuts is kept once") {
  constexpr size_t kLayers = 64;
  const std::vector<size_t> outputs(kLayers, 100), workspaces(kLayers, 0);
  Chain chain = simple_chain(100, outputs, workspaces);
  const size_t alone = least_cuts(chain).bytes;
  for (size_t k = 0; k + 1 < kLayers; ++k) chain.layers[k].kept += 100;
  const size_t apart = least_cuts(chain).bytes;
  chain.spans.push_back({0, kLayers - 2, 100});
  const ChainCuts found = least_cuts(chain);
  CHECK(found.bytes == alone + 100);
  CHECK(found.bytes < apart);
}

TEST_CASE("chains without a cut") {
  CHECK(least_cuts({}).bytes == 0);
  const std::vector<size_t> outputs{5}, workspaces{2};
  const ChainCuts found = least_cuts(simple_chain(3, outputs, workspaces));
  CHECK(found.bytes == 10);
  CHECK(found.cuts.empty());
}

}  // namespace
}  // namespace tidepool::remat
