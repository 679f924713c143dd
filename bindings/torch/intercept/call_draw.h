// CallDraw: how one operator call draws random numbers, so that a replay can draw the same.
// Lives in an InterceptedCall; one thread.
#pragma once

#include <ATen/core/Generator.h>

#include <optional>

#include "bindings/torch/calls/call_body.h"
#include "bindings/torch/calls/operator_info.h"
#include "bindings/torch/engine/engine.h"
#include "bindings/torch/state/default_generator.h"
#include "bindings/torch/state/random_state.h"

namespace tidepool::torch_glue {

class CallDraw {
 public:
  explicit CallDraw(const OperatorInfo& info) : info_(info) {}

  // Says that the operator could draw, but does not in this call.
  void draws_nothing() { draws_ = false; }

  // Whether what the call draws can be drawn again. `generator`: the one that is passed explicitly,
  // nullptr if none. `has_own_kernels`: the job has put kernels in the place of PyTorch's.
  bool can_be_recorded(const at::Generator* generator, c10::Device device,
                       bool has_own_kernels) const;

  // The kernel is about to run: notes in the record's body, if there is one, what it will draw
  // from. Requires: the device's lock is not held.
  void begin(Engine& engine, CallBody* body, const at::Generator* generator);
  void end();  // the kernel has run

  // The generator that the kernel has to be given; nullptr: what it was given.
  const at::Generator* private_generator() const {
    return private_.has_value() && !default_.has_value() ? &private_->generator() : nullptr;
  }
  // The generator that the call draws from while a graph is captured, else nullptr.
  const c10::GeneratorImpl* captured_generator() const { return captured_; }

 private:
  const OperatorInfo& info_;
  bool draws_ = info_.draws;
  const c10::GeneratorImpl* captured_ = nullptr;
  std::optional<TurnToDraw> turn_;  // for a draw that is not recorded
  std::optional<PrivateDraw> private_;
  std::optional<DefaultGeneratorScope> default_;  // for a kernel that takes no generator
};

}  // namespace tidepool::torch_glue
