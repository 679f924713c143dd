// RestorationError: the error of evicted contents that cannot be brought back.
#pragma once

#include <stdexcept>

#include "fmt/format.h"
#include "remat/lineage/lineage.h"

namespace tidepool::remat {

// It is thrown if a restoration makes no progress, or if an input was lost. The text says which
// operator it was about, and what could not be restored.
class RestorationError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// The error of a record that has to run again, and reads contents that were written unseen.
inline RestorationError written_unseen_error(const Record& record, const Value& read) {
  return RestorationError(fmt::format(
      "cannot restore the result of {}: a tensor of {} bytes that it had read was written since "
      "then through an address that had been handed out before (data_ptr()), or by code that "
      "writes unannounced. Ask for the address before each time that you write, or use that of "
      "numpy(), which may be kept",
      record.type->name, read.bytes));
}

}  // namespace tidepool::remat
