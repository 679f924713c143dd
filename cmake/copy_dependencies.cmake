# Copies the Abseil and fmt libraries that FILE needs, directly or not, into
# FOLDER. KIND: LIBRARIES or EXECUTABLES, whichever FILE is one of.
cmake_minimum_required(VERSION 3.25)
file(GET_RUNTIME_DEPENDENCIES
  ${KIND} ${FILE}
  PRE_INCLUDE_REGEXES "^libabsl_" "^libfmt"
  PRE_EXCLUDE_REGEXES "."
  RESOLVED_DEPENDENCIES_VAR dependencies
  UNRESOLVED_DEPENDENCIES_VAR missing
  CONFLICTING_DEPENDENCIES_PREFIX conflicts)
if(missing)
  message(FATAL_ERROR "${FILE} needs ${missing}, found nowhere")
endif()
foreach(dependency IN LISTS dependencies)
  cmake_path(GET dependency FILENAME name)
  cmake_path(GET dependency PARENT_PATH parent)
  if(NOT parent STREQUAL FOLDER)
    file(REAL_PATH ${dependency} dependency)
    file(COPY_FILE ${dependency} ${FOLDER}/${name} ONLY_IF_DIFFERENT)
  endif()
endforeach()
