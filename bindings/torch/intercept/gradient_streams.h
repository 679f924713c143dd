// Gradient streams: where a backward pass goes from one stream to another, the engine of autograd
// notes the new stream for the memory of each gradient that waits. For that it asks for the memory
// by itself, without an operator. The replacement keeps such gradients resident meanwhile.
// Thread safe.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Stream.h>

#include <cstddef>
#include <optional>

namespace torch::autograd {
struct InputBuffer;
struct Node;
}  // namespace torch::autograd

namespace tidepool::torch_glue {

// The name of torch::autograd::InputBuffer::add(), which PyTorch's libraries call.
inline constexpr const char* kAddGradient =
    "_ZN5torch8autograd11InputBuffer3addEmON2at6TensorERKSt8optionalIN3c106StreamEESA_PNS0_4NodeE";

// Replaces it. `made_on`, `needed_on`: the streams of the functions that made the gradient and that
// wait for it. Throws: c10::OutOfMemoryError if a gradient cannot be brought back.
void add_gradient(torch::autograd::InputBuffer* waiting, size_t index, at::Tensor&& gradient,
                  const std::optional<c10::Stream>& made_on,
                  const std::optional<c10::Stream>& needed_on, torch::autograd::Node* node);

}  // namespace tidepool::torch_glue
