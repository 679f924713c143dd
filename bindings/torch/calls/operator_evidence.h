// What is known of whether an operator can be replayed: from runs that were watched on the CPU
// (evidence/cpu_*.txt, made by tests/operators/evidence_lists.py) and from reading PyTorch's
// sources (evidence/reviewed.txt). Compiled in for each PyTorch version by generate_evidence.py.
// Immutable; thread safe. See docs/supported.md.
#pragma once

#include <cstdint>
#include <string_view>

namespace tidepool::torch_glue {

// Whether evidence or review shows that a replay of an overload gives what the call gave, and that
// its schema, corrected by our tables, tells all that it does.
enum class Evidence : uint8_t {
  kNone,     // nothing has run it, and nobody has read it
  kTrusted,  // it is shown
  kVaries,   // its schema tells all, but its results need not have the same bits again
  kKept,     // the contrary is shown
};

// The evidence about an overload with CPU tensors, by its name, such as "aten::add.Tensor" or
// "aten::mm".
Evidence host_evidence(std::string_view qualified_name);

// The evidence about an overload with CUDA tensors: the review decides; if it is silent, what the
// CPU showed does.
Evidence device_evidence(std::string_view qualified_name);

}  // namespace tidepool::torch_glue
