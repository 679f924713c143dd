#include "cuda/driver/driver_functions.h"

namespace tidepool::device {

DriverFunctions find_driver_functions(const FunctionFinder& find) {
  DriverFunctions functions;
  auto look_up = [&](const char* name, unsigned version, std::vector<std::string>& missing) {
    void* found = find(name, version);
    if (found == nullptr) missing.emplace_back(name);
    return found;
  };
#define TIDEPOOL_FIND(name, version, parameters)               \
  functions.name = reinterpret_cast<decltype(functions.name)>( \
      look_up("cu" #name, version, functions.TIDEPOOL_LIST));
#define TIDEPOOL_LIST missing
  TIDEPOOL_DRIVER_FUNCTIONS(TIDEPOOL_FIND)
#undef TIDEPOOL_LIST
#define TIDEPOOL_LIST missing_virtual
  TIDEPOOL_VIRTUAL_MEMORY_FUNCTIONS(TIDEPOOL_FIND)
#undef TIDEPOOL_LIST
#define TIDEPOOL_LIST missing_kernels
  TIDEPOOL_KERNEL_FUNCTIONS(TIDEPOOL_FIND)
#undef TIDEPOOL_LIST
#undef TIDEPOOL_FIND
  return functions;
}

}  // namespace tidepool::device
