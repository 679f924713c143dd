#include "bindings/torch/calls/varying_operators.h"

#include <ATen/Context.h>

#include <array>
#include <atomic>
#include <string_view>

#include "bindings/torch/base/name_lists.h"
#include "bindings/torch/state/numeric_state.h"

namespace tidepool::torch_glue {
namespace {

// Convolutions' gradients, and what uses the same algorithms forward: transposed ones. (cuDNN says
// that its algorithms for forward convolutions are reproducible.)
constexpr std::array kConvolutions = {
    "convolution_backward",        "convolution_backward_overrideable",
    "cudnn_convolution_transpose", "_slow_conv2d_backward",
    "slow_conv_transpose2d",       "slow_conv_transpose3d",
};
// These, if their argument `transposed` says so, or if cuDNN has chosen by trying.
constexpr std::array kPerhapsTransposed = {
    "convolution",       "_convolution",           "convolution_overrideable",
    "cudnn_convolution", "cudnn_convolution_relu", "cudnn_convolution_add_relu",
};

// Whether a plan of cuDNN's may have been chosen by trying: by the time that plans took
// (`benchmark`), or by the memory that they were refused. Each thread remembers its own choice for
// a convolution, and goes on using it whatever the switches are then; another thread, such as the
// one that restores, chooses anew, and perhaps otherwise.
std::atomic<bool> g_plans_were_tried{false};

bool plans_were_tried() {
  if (g_plans_were_tried.load(std::memory_order_relaxed)) return true;
  if (!at::globalContext().benchmarkCuDNN()) return false;
  g_plans_were_tried.store(true, std::memory_order_relaxed);
  return true;
}

bool is_convolution(Variation variation) {
  return variation == Variation::kConvolution || variation == Variation::kTransposed;
}

constexpr std::array kOthers = {
    // Adding or writing at places that indices say.
    "index_add",
    "index_copy",
    "index_put",
    "_index_put_impl_",
    "_unsafe_index_put",
    "put",
    "index_reduce",
    "scatter",
    "scatter_add",
    "scatter_reduce",
    "_segment_reduce_backward",
    "embedding_bag",
    "_embedding_bag",
    "_embedding_bag_forward_only",
    "_embedding_bag_backward",
    "_embedding_bag_dense_backward",
    "_embedding_bag_per_sample_weights_backward",
    "embedding_dense_backward",
    "bincount",
    "histc",
    "kthvalue",
    "median",
    "nanmedian",
    "mode",
    // Kernels of PyTorch 2.15 for Hopper and newer count in shared memory; equal values get other
    // indices then.
    "topk",
    // It sums weights up, as the next ones do.
    "multinomial",
    "cumsum",
    "cumprod",
    "logcumsumexp",
    "_cumsum",
    "_cumprod",
    "_logcumsumexp",
    // Gradients of pooling, padding and resampling.
    "adaptive_max_pool2d_backward",
    "adaptive_max_pool3d_backward",
    "_adaptive_avg_pool2d_backward",
    "_adaptive_avg_pool3d_backward",
    "adaptive_avg_pool3d_backward",
    "avg_pool3d_backward",
    "fractional_max_pool2d_backward",
    "fractional_max_pool3d_backward",
    "max_pool2d_with_indices_backward",
    "max_pool3d_with_indices_backward",
    "max_unpool2d",
    "max_unpool3d",
    "reflection_pad1d_backward",
    "reflection_pad2d_backward",
    "reflection_pad3d_backward",
    "replication_pad1d_backward",
    "replication_pad2d_backward",
    "replication_pad3d_backward",
    "grid_sampler_2d_backward",
    "grid_sampler_3d_backward",
    "upsample_linear1d_backward",
    "upsample_bilinear2d_backward",
    "_upsample_bilinear2d_aa_backward",
    "upsample_bicubic2d_backward",
    "_upsample_bicubic2d_aa_backward",
    "upsample_trilinear3d_backward",
    "upsample_nearest1d_backward",
    "upsample_nearest2d_backward",
    "upsample_nearest3d_backward",
    "_upsample_nearest_exact1d_backward",
    "_upsample_nearest_exact2d_backward",
    "_upsample_nearest_exact3d_backward",
    // Losses.
    "nll_loss_forward",
    "nll_loss_backward",
    "nll_loss2d_forward",
    "nll_loss2d_backward",
    "_ctc_loss",
    "_ctc_loss_backward",
    "_cudnn_ctc_loss",
    // Attention's gradients, and recurrent layers of cuDNN.
    "_flash_attention_backward",
    "_efficient_attention_backward",
    "_scaled_dot_product_flash_attention_backward",
    "_scaled_dot_product_efficient_attention_backward",
    "_scaled_dot_product_cudnn_attention_backward",
    "_cudnn_attention_backward",
    "_cudnn_rnn",
    "_cudnn_rnn_backward",
    // Sparse times dense.
    "_sparse_mm",
    "_sparse_addmm",
    "sparse_sampled_addmm",
    "_coalesce",
};

}  // namespace

Variation variation_of(const std::string& qualified_name) {
  std::string_view name = qualified_name;
  constexpr std::string_view kLibrary = "aten::";
  if (!name.starts_with(kLibrary)) return Variation::kNone;
  name.remove_prefix(kLibrary.size());
  std::string_view plain = name;
  if (plain.ends_with('_')) plain.remove_suffix(1);
  if (lists(kPerhapsTransposed, name)) return Variation::kTransposed;
  if (lists(kConvolutions, name) || lists(kConvolutions, plain)) return Variation::kConvolution;
  if (lists(kOthers, name) || lists(kOthers, plain)) return Variation::kAlgorithms;
  return Variation::kNone;
}

Variation host_variation_of(std::string_view qualified_name) {
  constexpr std::array kIndexed = {"aten::index_put", "aten::index_put_", "aten::_index_put_impl",
                                   "aten::_index_put_impl_", "aten::_unsafe_index_put"};
  constexpr std::array kUnpooling = {"aten::max_unpool2d", "aten::max_unpool3d"};
  if (lists(kIndexed, qualified_name)) return Variation::kPlaces;
  return lists(kUnpooling, qualified_name) ? Variation::kPlanes : Variation::kNone;
}

void note_refused_memory(Variation variation) {
  if (is_convolution(variation)) g_plans_were_tried.store(true, std::memory_order_relaxed);
}

bool may_vary(Variation variation, bool switched) {
  const at::Context& context = at::globalContext();
  if (variation == Variation::kNone) return false;
  if (is_convolution(variation) && plans_were_tried()) return true;
  if (variation == Variation::kTransposed && !switched) return false;
  if (context.deterministicAlgorithms() && !context.deterministicAlgorithmsWarnOnly()) return false;
  if (depends_on_places(variation)) return NumericState::threads_now() != 1;
  return variation == Variation::kAlgorithms || !context.deterministicCuDNN();
}

}  // namespace tidepool::torch_glue
