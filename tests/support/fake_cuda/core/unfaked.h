// unfaked: ends the process, naming a function that the stand-in device does not have.
#pragma once

namespace tidepool::fake_cuda {

[[noreturn]] void unfaked(const char* function);

}  // namespace tidepool::fake_cuda
