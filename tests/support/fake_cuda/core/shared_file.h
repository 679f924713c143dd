// Shared files: tickets by which one process opens an extent of another's device memory.
// A ticket is a small anonymous file that names process, file and place; who holds it, or its text,
// opens the same memory through the /proc folder of the process. No state.
#pragma once

#include <string>

#include "tests/support/fake_cuda/core/physical_memory.h"

namespace tidepool::fake_cuda {

// At most 63 characters.
std::string ticket_of(const Extent& extent);
// The extent's file is newly opened and the caller's. Throws: Refusal for text that is no ticket,
// or whose process is gone.
Extent open_ticket(const std::string& ticket);

// As above, with the ticket in an anonymous file.
int write_shared_file(const Extent& extent);
Extent open_shared_file(int file);

}  // namespace tidepool::fake_cuda
