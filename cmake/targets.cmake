# Flags and the helpers that declare our targets. Every folder's sources are globbed: adding a file
# needs no change here.

add_library(tidepool_flags INTERFACE)
target_compile_options(tidepool_flags INTERFACE
  -Wall -Wextra -Wshadow
  $<$<COMPILE_LANGUAGE:CXX>:-Wnon-virtual-dtor -Woverloaded-virtual>
  $<$<BOOL:${TIDEPOOL_WERROR}>:-Werror>)
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_SYSTEM_PROCESSOR STREQUAL "x86_64")
  # For any x86-64, but records and values are cleared by plain stores: what GCC takes otherwise, a
  # string instruction, is 10 ns each, three times in every recorded operator.
  target_compile_options(tidepool_flags INTERFACE $<$<CONFIG:Release>:-mtune=skylake>)
endif()
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 14)
  # False alarms in the standard library: GCC bugs 105651 and 107852.
  target_compile_options(tidepool_flags INTERFACE
    $<$<COMPILE_LANGUAGE:CXX>:-Wno-restrict -Wno-stringop-overflow -Wno-array-bounds>)
endif()
if(TIDEPOOL_SANITIZE)
  set(sanitize -fsanitize=${TIDEPOOL_SANITIZE} -fno-sanitize-recover=all -fno-omit-frame-pointer)
  target_compile_options(tidepool_flags INTERFACE
    ${sanitize} $<$<CXX_COMPILER_ID:GNU>:-Wno-error=maybe-uninitialized>)
  target_compile_definitions(tidepool_flags INTERFACE TIDEPOOL_SANITIZED=1)
  target_link_options(tidepool_flags INTERFACE ${sanitize})
endif()

# tidepool_library(NAME [EXCLUDE FOLDERS...] [FOLDERS FOLDERS...] LINK TARGETS...): a static library
# of this folder's sources (other subfolders included) or of the subfolders named, which may include
# from the repository's root and from what it links. Without sources it is an interface only.
function(tidepool_library name)
  cmake_parse_arguments(arg "" "" "EXCLUDE;FOLDERS;LINK" ${ARGN})
  set(patterns *.cpp)
  if(arg_FOLDERS)
    list(TRANSFORM arg_FOLDERS APPEND /*.cpp OUTPUT_VARIABLE patterns)
  endif()
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS ${patterns})
  foreach(folder IN LISTS arg_EXCLUDE)
    list(FILTER sources EXCLUDE REGEX "^${CMAKE_CURRENT_SOURCE_DIR}/${folder}/")
  endforeach()
  if(sources)
    add_library(${name} STATIC ${sources})
    target_link_libraries(${name} PRIVATE $<BUILD_INTERFACE:tidepool_flags> PUBLIC ${arg_LINK})
    target_include_directories(${name} PUBLIC $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}>)
    target_compile_features(${name} PUBLIC cxx_std_20)
  else()
    add_library(${name} INTERFACE)
    target_link_libraries(${name} INTERFACE ${arg_LINK})
    target_include_directories(${name} INTERFACE ${PROJECT_SOURCE_DIR})
  endif()
endfunction()

# tidepool_compiles_at_once(TARGET): in an installation several files are compiled as one, as most
# of a file's time goes into PyTorch's headers. (For development each is compiled alone.)
function(tidepool_compiles_at_once name)
  if(SKBUILD)
    set_target_properties(${name} PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE 8)
  endif()
endfunction()

# tidepool_test(NAME LINK TARGETS...): one Catch2 program of this folder's sources, and one CTest
# test per *_test.cpp in it.
function(tidepool_test name)
  cmake_parse_arguments(arg "" "" "LINK" ${ARGN})
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS *.cpp)
  file(GLOB_RECURSE tests CONFIGURE_DEPENDS *_test.cpp)
  if(NOT tests)
    return()
  endif()
  add_executable(${name} ${sources})
  target_link_libraries(${name} PRIVATE
    tidepool_flags tidepool_test_support ${arg_LINK} Catch2::Catch2WithMain)
  target_precompile_headers(${name} PRIVATE ${PROJECT_SOURCE_DIR}/tests/support/catch.h)
  if(Catch2_FOUND AND Catch2_VERSION VERSION_LESS 3)
    set(warning NoTests)  # takes one warning only; Catch2 3 refuses an empty selection by itself
  else()
    set(warning NoAssertions)
  endif()
  foreach(test IN LISTS tests)
    cmake_path(GET test STEM stem)
    cmake_path(RELATIVE_PATH test BASE_DIRECTORY ${PROJECT_SOURCE_DIR}/tests)
    cmake_path(REMOVE_EXTENSION test)
    add_test(NAME ${test}
             COMMAND ${name} --filenames-as-tags --warn ${warning} "[#${stem}]")
    set_tests_properties(${test} PROPERTIES TIMEOUT 3600)  # fuzzers of a full run take 20 min
  endforeach()
endfunction()

# tidepool_runs_elsewhere(TARGET): what is carried to other machines needs no symbol newer than
# GLIBCXX_3.4.29 and GLIBC_2.34 (cmake/needed_symbols.py), and no library that it does not use. The
# object is machine code in every build: the linker does not find a replacement in GCC's own code.
add_library(tidepool_condition_wait OBJECT ${PROJECT_SOURCE_DIR}/cmake/condition_wait.cpp)
set_target_properties(tidepool_condition_wait PROPERTIES
  POSITION_INDEPENDENT_CODE ON INTERPROCEDURAL_OPTIMIZATION_RELEASE OFF)
function(tidepool_runs_elsewhere name)
  target_sources(${name} PRIVATE $<TARGET_OBJECTS:tidepool_condition_wait>)
  target_link_options(${name} PRIVATE -Wl,--as-needed
    -Wl,--wrap=_ZNSt18condition_variable4waitERSt11unique_lockISt5mutexE)
endfunction()

# tidepool_goes_into_jobs(TARGET): the shared library lands in TIDEPOOL_LIB_DIR, hides all symbols
# but Tidepool's own, and finds its own dependencies (copied beside it) before the system's. An
# RPATH, not a RUNPATH: it must also serve the dependencies' dependencies. MAP: another list of the
# symbols that it shows.
function(tidepool_goes_into_jobs name)
  cmake_parse_arguments(arg "" "MAP" "" ${ARGN})
  if(NOT arg_MAP)
    set(arg_MAP exported_symbols.map)
  endif()
  tidepool_lies_in_package(${name})
  set(exported ${PROJECT_SOURCE_DIR}/cmake/${arg_MAP})
  target_link_options(${name} PRIVATE -Wl,-z,defs -Wl,--version-script=${exported})
  set_property(TARGET ${name} APPEND PROPERTY LINK_DEPENDS ${exported})
endfunction()

# tidepool_lies_in_package(TARGET): the same for a program, but for the symbols. The target
# tidepool_package builds all of these and nothing else.
add_custom_target(tidepool_package)
function(tidepool_lies_in_package name)
  add_dependencies(tidepool_package ${name})
  set_target_properties(${name} PROPERTIES
    LIBRARY_OUTPUT_DIRECTORY ${TIDEPOOL_LIB_DIR}
    RUNTIME_OUTPUT_DIRECTORY ${TIDEPOOL_LIB_DIR}
    BUILD_WITH_INSTALL_RPATH ON
    INSTALL_RPATH "$ORIGIN")
  tidepool_runs_elsewhere(${name})
  target_link_options(${name} PRIVATE -Wl,--disable-new-dtags)
  get_target_property(type ${name} TYPE)
  set(kind LIBRARIES)
  if(type STREQUAL "EXECUTABLE")
    set(kind EXECUTABLES)
  endif()
  add_custom_command(TARGET ${name} POST_BUILD
    COMMAND ${CMAKE_COMMAND} -D KIND=${kind} -D FILE=$<TARGET_FILE:${name}>
            -D FOLDER=${TIDEPOOL_LIB_DIR} -P ${PROJECT_SOURCE_DIR}/cmake/copy_dependencies.cmake
    VERBATIM)
endfunction()

# tidepool_torch_library(NAME ROOT SOURCES...): NAME_torch_<version>, a shared library for the
# PyTorch package at ROOT which knows PyTorch and nothing of Tidepool.
function(tidepool_torch_library name root)
  file(STRINGS ${root}/version.py version REGEX "^__version__ *=" LIMIT_COUNT 1)
  string(REGEX MATCH "'([0-9]+)\\.([0-9]+)\\." version "${version}")
  set(target ${name}_torch_${CMAKE_MATCH_1}_${CMAKE_MATCH_2})
  add_library(${target} SHARED ${ARGN})
  target_include_directories(${target} SYSTEM PRIVATE
    ${root}/include ${root}/include/torch/csrc/api/include)
  target_compile_options(${target} PRIVATE $<$<CONFIG:RelWithDebInfo>:-g1>)
  target_compile_definitions(${target} PRIVATE _GLIBCXX_USE_CXX11_ABI=1)
  target_link_libraries(${target} PRIVATE
    tidepool_flags ${root}/lib/libtorch_cpu.so ${root}/lib/libc10.so)
  set_target_properties(${target} PROPERTIES JOB_POOL_COMPILE libtorch)
endfunction()
