#include "remat/simulate/memory/coop_placement.h"

#include <algorithm>
#include <iterator>

namespace tidepool::remat {
namespace {

constexpr std::string_view kDear[] = {
    // OneFlow's names.
    "conv2d",
    "conv_data_grad",
    "conv_filter_grad",
    "add_n",
    "matmul",
    "batch_matmul",
    // PyTorch's names.
    "convolution",
    "_convolution",
    "convolution_overrideable",
    "cudnn_convolution",
    "mkldnn_convolution",
    "_slow_conv2d_forward",
    "_conv_depthwise2d",
    "convolution_backward",
    "convolution_backward_overrideable",
    "mkldnn_convolution_backward",
    "_slow_conv2d_backward",
    "mm",
    "bmm",
    "addmm",
    "baddbmm",
    "linear",
    "mkldnn_linear",
    "_addmm_activation",
};

}  // namespace

End coop_placement(std::string_view name) {
  if (const size_t space = name.rfind("::"); space != name.npos) name.remove_prefix(space + 2);
  name = name.substr(0, name.find('.'));
  const bool dear = std::find(std::begin(kDear), std::end(kDear), name) != std::end(kDear);
  return dear ? End::kLow : End::kHigh;
}

}  // namespace tidepool::remat
