# What `cmake --install` installs for C++ programs: the libraries of allocator/ and remat/, their
# headers below include/tidepool, and a package: find_package(Tidepool), Tidepool::remat or
# Tidepool::allocator. What these need has to be installed, too; a build that fetched it installs
# nothing.
if(NOT absl_FOUND OR NOT fmt_FOUND OR NOT nlohmann_json_FOUND)
  message(STATUS "Not for installing: Abseil, fmt or nlohmann_json was fetched")
  return()
endif()
include(CMakePackageConfigHelpers)
include(GNUInstallDirs)

foreach(library tidepool_allocator tidepool_remat)
  # Code beside the compiler's own form for optimising at link time, for other compilers.
  target_compile_options(${library} PRIVATE
    $<$<AND:$<CONFIG:Release>,$<CXX_COMPILER_ID:GNU>>:-ffat-lto-objects>)
endforeach()

set(headers ${CMAKE_INSTALL_INCLUDEDIR}/tidepool)
set(package ${CMAKE_INSTALL_LIBDIR}/cmake/Tidepool)
install(TARGETS tidepool_allocator tidepool_remat EXPORT Tidepool
        ARCHIVE COMPONENT development INCLUDES DESTINATION ${headers})
install(DIRECTORY allocator remat DESTINATION ${headers} COMPONENT development
        FILES_MATCHING PATTERN *.h
        REGEX "/remat/(trace|record|simulate|plan|replay)$" EXCLUDE)
install(EXPORT Tidepool NAMESPACE Tidepool:: DESTINATION ${package} COMPONENT development)
configure_package_config_file(cmake/package_config.cmake.in TidepoolConfig.cmake
                              INSTALL_DESTINATION ${package})
write_basic_package_version_file(TidepoolConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/TidepoolConfig.cmake
              ${PROJECT_BINARY_DIR}/TidepoolConfigVersion.cmake
        DESTINATION ${package} COMPONENT development)
