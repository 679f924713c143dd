// What PyTorch asks of NCCL on the calling thread. NCCL launches what a group asks for once the
// outermost group ends: works of collectives that are started together say that they are completed
// before they have begun.
#pragma once

#include <cstdint>

namespace tidepool::torch_glue::nccl_groups {

inline constinit thread_local uint32_t t_open = 0;   // groups that have begun and not ended
inline constinit thread_local uint64_t t_calls = 0;  // collectives asked for so far

}  // namespace tidepool::torch_glue::nccl_groups
