// Mutants: deliberate bugs, to show that tests find them (tests/mutants). Each one breaks, in one
// place of the code, a rule of docs/architecture.md, "What keeps the bits the same". The CMake
// preset `mutants` builds all of them; TIDEPOOL_MUTANT=<rule>.<name> in the environment picks one
// when the library is loaded, and an unknown name ends the process. In every other build
// TIDEPOOL_MUTANT(rule, name) is the constant false.
#pragma once

#include <cstdint>

// M(rule, name, what is wrong). tests/mutants/mutant_table.py reads this list.
#define TIDEPOOL_MUTANT_TABLE(M)                                                        \
  M(1, view_offset, "a replay reads a view from the start of its storage")              \
  M(1, view_strides, "a replay reads a view as if it were contiguous")                  \
  M(1, view_lock, "an operand that starts inside its storage is not locked")            \
  M(2, in_place, "an in-place write makes no new version")                              \
  M(2, partial_overwrite, "overwriting a part counts as overwriting all")               \
  M(2, update_as_overwrite, "an update of all bytes counts as a write that reads none") \
  M(2, root_as_blank, "a write into contents without lineage needs none of them")       \
  M(2, root_write, "a write into contents without lineage is taken for a read")         \
  M(2, write_not_cut, "what depends on an overwritten root is not protected")           \
  M(2, death_not_cut, "what depends on a dead root is not protected")                   \
  M(3, hidden_write, "a replay updates running statistics again")                       \
  M(3, writes_original, "an in-place replay writes into contents that others read")     \
  M(4, state, "a replay draws from where the random generator stands")                  \
  M(4, private_generator, "a replay draws from the generator that the job uses")        \
  M(4, normal_cache, "the generator's spare normal sample is not recorded")             \
  M(5, foreign, "foreign memory counts as stable")                                      \
  M(5, unstable_input, "results that read escaped memory have lineage")                 \
  M(5, collective, "a collective's operands keep their lineage")                        \
  M(5, compiled, "inputs that compiled code may write keep their lineage")              \
  M(5, python_operator, "operators written in Python are replayed")                     \
  M(5, unknown_effect, "operands of unknown operators keep their lineage")              \
  M(5, aliasing_output, "an output that aliases an operand counts as fresh")            \
  M(5, list_write, "a write of several tensors is recorded as one of the last")         \
  M(5, sparse, "sparse operands are taken for constants")                               \
  M(5, nested, "nested operands are taken for constants")                               \
  M(5, mkldnn, "mkldnn operands are taken for constants")                               \
  M(6, escaped_evicted, "escaped storages are evicted")                                 \
  M(6, escape_not_cut, "what depends on an escaping storage is not protected")          \
  M(6, looked_at, "a pointer that was asked for makes no new version")                  \
  M(6, tripwire, "raw writers that no dispatcher shows are not noticed")                \
  M(7, captured_operand, "what a captured graph uses can be evicted")                   \
  M(7, captured_generator, "the seeds that a captured graph reads can be evicted")      \
  M(7, restored_in_capture, "evicted tensors are not restored before a capture")        \
  M(8, operand, "operands are not locked while the kernel runs")                        \
  M(8, replay_input, "inputs of a replay are not locked")                               \
  M(8, threads, "a replay runs with another number of threads")                         \
  M(8, denormals, "a replay runs with another treatment of denormals")                  \
  M(8, default_dtype, "a replay runs with another default dtype")                       \
  M(8, autocast, "a replay runs without the autocast of its call")                      \
  M(8, swallowed, "a replay goes on with less memory than its operator had")            \
  M(9, view, "views restore what they look at")                                         \
  M(9, empty, "empty_like restores what it looks at")                                   \
  M(10, table, "results that vary from run to run are replayed")

#ifdef TIDEPOOL_MUTANTS

namespace tidepool::remat {

enum class Mutant : uint8_t {
  kNone,
#define TIDEPOOL_MUTANT_ENTRY(rule, name, text) k##rule##_##name,
  TIDEPOOL_MUTANT_TABLE(TIDEPOOL_MUTANT_ENTRY)
#undef TIDEPOOL_MUTANT_ENTRY
};

// The mutant called `name` ("2.in_place"); kNone for an empty name. Throws: std::invalid_argument
// with all names.
Mutant mutant_by_name(const char* name);

extern const Mutant g_mutant;

}  // namespace tidepool::remat

#define TIDEPOOL_MUTANT(rule, name) \
  (::tidepool::remat::g_mutant == ::tidepool::remat::Mutant::k##rule##_##name)

#else

#define TIDEPOOL_MUTANT(rule, name) false

#endif
