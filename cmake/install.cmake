# What is installed for C++ programs: a package, find_package(Tidepool), with
# - Tidepool::tidepool, for programs on LibTorch: the libraries of the Python package, which has it,
#   too, and a header;
# - Tidepool::remat and Tidepool::allocator: the static libraries of remat/ and allocator/, and
#   their headers. What these need has to be installed, too; a build that fetched it installs none.
include(CMakePackageConfigHelpers)
include(GNUInstallDirs)

# tidepool_install_for_programs(PREFIX COMPONENT): the package, and what a program on LibTorch
# includes, below PREFIX, whose folder `lib` or `lib/tidepool` has the libraries.
function(tidepool_install_for_programs prefix component)
  set(package ${prefix}/share/cmake/Tidepool)
  set(program_headers ${prefix}/include)
  set(program_library ${prefix}/lib/libtidepool.so)
  install(DIRECTORY bindings/cpp/include/ DESTINATION ${program_headers} COMPONENT ${component})
  set(config ${PROJECT_BINARY_DIR}/${component}/TidepoolConfig.cmake)
  configure_package_config_file(cmake/package_config.cmake.in ${config}
    INSTALL_DESTINATION ${package} PATH_VARS program_library program_headers)
  set(version ${PROJECT_BINARY_DIR}/${component}/TidepoolConfigVersion.cmake)
  write_basic_package_version_file(${version} COMPATIBILITY SameMinorVersion)
  install(FILES ${config} ${version} DESTINATION ${package} COMPONENT ${component})
endfunction()

install(DIRECTORY ${TIDEPOOL_LIB_DIR}/ DESTINATION lib COMPONENT program USE_SOURCE_PERMISSIONS)
tidepool_install_for_programs(. development)

if(NOT absl_FOUND OR NOT fmt_FOUND OR NOT nlohmann_json_FOUND)
  message(STATUS "Static libraries are not for installing: a dependency was fetched")
  return()
endif()
foreach(library tidepool_allocator tidepool_remat)
  # Code beside the compiler's own form for optimising at link time, for other compilers.
  target_compile_options(${library} PRIVATE
    $<$<AND:$<CONFIG:Release>,$<CXX_COMPILER_ID:GNU>>:-ffat-lto-objects>)
endforeach()
set(headers ${CMAKE_INSTALL_INCLUDEDIR}/tidepool)
install(TARGETS tidepool_allocator tidepool_remat EXPORT Tidepool
        ARCHIVE COMPONENT development INCLUDES DESTINATION ${headers})
install(DIRECTORY allocator remat DESTINATION ${headers} COMPONENT development
        FILES_MATCHING PATTERN *.h
        REGEX "/remat/(trace|record|simulate|plan|replay)$" EXCLUDE)
install(EXPORT Tidepool NAMESPACE Tidepool:: DESTINATION share/cmake/Tidepool
        COMPONENT development)
