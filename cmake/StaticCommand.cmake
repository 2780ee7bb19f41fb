# Starting a program of a few milliseconds is mostly loading its shared libraries: linked with the
# archives of Abseil and the C++ library, `redlatch run` takes half the time. Where one of them has no
# usable archive, both stay shared.

# Sets `out` to what links these archives, or to nothing.
function(redlatch_find_archives out)
  set(${out} "" PARENT_SCOPE)
  get_target_property(installed absl::strings IMPORTED)
  if(NOT installed)
    return()  # built here, with what linkage its owner wants
  endif()
  get_target_property(abseil absl::strings LOCATION)
  cmake_path(GET abseil PARENT_PATH abseil_dir)
  file(GLOB abseil_archives "${abseil_dir}/libabsl_*.a")
  if(NOT abseil_archives)
    return()
  endif()
  set(archives -Wl,--start-group ${abseil_archives} -Wl,--end-group)

  include(CheckCXXSourceCompiles)
  get_target_property(CMAKE_REQUIRED_INCLUDES absl::strings INTERFACE_INCLUDE_DIRECTORIES)
  set(CMAKE_REQUIRED_FLAGS "-std=c++20")
  set(CMAKE_REQUIRED_LINK_OPTIONS ${ARGN})
  set(CMAKE_REQUIRED_LIBRARIES ${archives} Threads::Threads)
  set(CMAKE_REQUIRED_QUIET ON)
  check_cxx_source_compiles([[
    #include <absl/status/status.h>
    #include <iostream>
    int main(int, char** argv) { std::cout << absl::UnavailableError(argv[0]).ToString(); }]] REDLATCH_ARCHIVES_LINK)
  if(REDLATCH_ARCHIVES_LINK)
    set(${out} "${archives}" PARENT_SCOPE)
  endif()
endfunction()

# REQUIRES: `target` links Abseil through targets of objects, whose libraries come last.
function(redlatch_link_archives target)
  set(runtime -static-libstdc++ -static-libgcc)
  redlatch_find_archives(archives ${runtime})
  if(archives)
    # Nothing is left to find in the shared libraries, which come later on the line.
    target_link_options(${target} PRIVATE ${runtime} -Wl,--as-needed)
    target_link_libraries(${target} PRIVATE ${archives})
  endif()
endfunction()
