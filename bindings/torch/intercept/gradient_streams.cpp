#include "bindings/torch/intercept/gradient_streams.h"

#include <torch/csrc/autograd/input_buffer.h>

#include <array>
#include <vector>

#include "bindings/torch/intercept/operands/argument_tracking.h"
#include "remat/locked_storage.h"

namespace tidepool::torch_glue {
void add_gradient(torch::autograd::InputBuffer* waiting, size_t index, at::Tensor&& gradient,
                  const std::optional<c10::Stream>& made_on,
                  const std::optional<c10::Stream>& needed_on, torch::autograd::Node* node) {
  std::vector<remat::HeldStorage> held;
  const bool summed = index < waiting->buffer.size() && waiting->buffer[index].defined();
  const bool one_stream =
      made_on == needed_on && (!summed || (waiting->opt_accum_streams[index] == made_on &&
                                           waiting->ready_streams[index] == made_on));
  if (!one_stream) {
    held = hold_tensors(std::array{gradient, summed ? waiting->buffer[index] : at::Tensor()});
  }
  waiting->add(index, std::move(gradient), made_on, needed_on, node);
}

}  // namespace tidepool::torch_glue
