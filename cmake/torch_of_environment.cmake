# An installation builds for the PyTorch of the environment it goes into.
if(SKBUILD AND NOT TIDEPOOL_TORCH_ROOTS)
  find_package(Python 3.11 REQUIRED COMPONENTS Interpreter)
  execute_process(
    COMMAND ${Python_EXECUTABLE} -c
      "import importlib.util as u; print(u.find_spec('torch').submodule_search_locations[0])"
    OUTPUT_VARIABLE TIDEPOOL_TORCH_ROOTS OUTPUT_STRIP_TRAILING_WHITESPACE
    RESULT_VARIABLE failure ERROR_QUIET)
  if(failure)
    message(FATAL_ERROR "No PyTorch in the environment of ${Python_EXECUTABLE}. Install it first, "
                        "then Tidepool with: pip install --no-build-isolation .")
  endif()
endif()
