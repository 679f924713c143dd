#include "bindings/torch_cpu/allocation_log.h"

#include <fmt/format.h>

#include <iterator>

namespace tidepool::torch_cpu {

void AllocationLog::allocated(const BlockView& block) {
  fmt::format_to(std::back_inserter(text_), "allocate {} {}\n", fmt::ptr(block.address),
                 block.bytes);
}

void AllocationLog::freed(const BlockView& block, bool) {
  fmt::format_to(std::back_inserter(text_), "free {}\n", fmt::ptr(block.address));
}

}  // namespace tidepool::torch_cpu
