# Third-party libraries: the installed ones where there are any, else fetched at a pinned version.
include(FetchContent)
set(CMAKE_THREAD_PREFER_PTHREAD ON)
set(THREADS_PREFER_PTHREAD_FLAG ON)
find_package(Threads REQUIRED)

set(ABSL_PROPAGATE_CXX_STD ON)
set(BUILD_SHARED_LIBS OFF)
set(BENCHMARK_ENABLE_TESTING OFF)
set(BENCHMARK_ENABLE_INSTALL OFF)
set(JSON_BuildTests OFF)

# Usage: tidepool_dependency(NAME REPOSITORY TAG)
macro(tidepool_dependency name repository tag)
  FetchContent_Declare(${name}
    GIT_REPOSITORY https://github.com/${repository}.git
    GIT_TAG ${tag}
    GIT_SHALLOW ON
    SYSTEM
    FIND_PACKAGE_ARGS QUIET)
  FetchContent_MakeAvailable(${name})
endmacro()

tidepool_dependency(absl abseil/abseil-cpp 20240116.2)
tidepool_dependency(fmt fmtlib/fmt 10.2.1)
tidepool_dependency(nlohmann_json nlohmann/json v3.11.3)
if(TIDEPOOL_TESTS)
  tidepool_dependency(Catch2 catchorg/Catch2 v3.5.4)
endif()
if(TIDEPOOL_BENCH)
  tidepool_dependency(benchmark google/benchmark v1.8.4)
endif()
