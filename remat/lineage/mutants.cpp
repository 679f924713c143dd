#include "remat/lineage/mutants.h"

#ifdef TIDEPOOL_MUTANTS

#include <cstdio>
#include <cstdlib>
#include <exception>
#include <stdexcept>
#include <string>

namespace tidepool::remat {
namespace {

constexpr const char* kNames[] = {"",
#define TIDEPOOL_MUTANT_ENTRY(rule, name, text) #rule "." #name,
                                  TIDEPOOL_MUTANT_TABLE(TIDEPOOL_MUTANT_ENTRY)
#undef TIDEPOOL_MUTANT_ENTRY
};

Mutant mutant_of_environment() {
  const char* name = std::getenv("TIDEPOOL_MUTANT");
  if (name == nullptr) name = "";
  try {
    const Mutant mutant = mutant_by_name(name);
    std::fprintf(stderr, "tidepool: mutants build, mutant: %s\n", *name ? name : "none");
    return mutant;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "tidepool: %s\n", error.what());
    std::_Exit(2);
  }
}

}  // namespace

Mutant mutant_by_name(const char* name) {
  uint8_t index = 0;
  std::string all;
  for (const char* known : kNames) {
    if (std::string(known) == name) return static_cast<Mutant>(index);
    if (index++ > 0) all += std::string(" ") + known;
  }
  throw std::invalid_argument("TIDEPOOL_MUTANT='" + std::string(name) + "' is not one of:" + all);
}

const Mutant g_mutant = mutant_of_environment();

}  // namespace tidepool::remat

#endif
