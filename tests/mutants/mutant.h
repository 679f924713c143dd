// Which mutant, if any, this process runs: a bug of tests/mutants/mutants.py, named by the
// environment variable TIDEPOOL_MUTANT when the library that holds this header's code is loaded.
// Included by the copy of the sources that tests/mutants/mutant_sources.py makes, and by nothing
// else; that script also writes the header of names.
#pragma once

#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "tests/mutants/mutant_names.h"

namespace tidepool::mutants {

// The place of a mutant in kNames. An unknown name does not compile.
class MutantName {
 public:
  consteval MutantName(const char* name) : index_(0) {
    while (!same(kNames[index_], name)) ++index_;
  }
  size_t index() const { return index_; }

 private:
  static consteval bool same(const char* one, const char* other) {
    for (; *one == *other; ++one, ++other) {
      if (*one == '\0') return true;
    }
    return false;
  }

  size_t index_;
};

// Ends the process if the environment asks for a mutant that is not known.
inline size_t index_of_environment() {
  const char* name = std::getenv("TIDEPOOL_MUTANT");
  if (name == nullptr) name = "";
  size_t index = 0;
  for (const char* known : kNames) {
    if (std::strcmp(known, name) == 0) {
      std::fprintf(stderr, "tidepool: mutants build, mutant: %s\n", *name ? name : "none");
      return index;
    }
    ++index;
  }
  std::fprintf(stderr, "tidepool: TIDEPOOL_MUTANT='%s' is not one of:", name);
  for (const char* known : kNames) std::fprintf(stderr, " %s", known);
  std::fputc('\n', stderr);
  std::_Exit(2);
}

inline const size_t g_mutant = index_of_environment();

inline bool is(MutantName name) { return g_mutant == name.index(); }

}  // namespace tidepool::mutants
