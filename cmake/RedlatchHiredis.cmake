# Defines redlatch::hiredis, where there is hiredis. Debian's hiredis 0.14 comes with no usable CMake
# target, and vcpkg's and Conan's is found in the same way. A project that builds hiredis itself brings
# its target. Included by the build and, for a static redlatch, by the installed redlatchConfig.cmake.
if(NOT TARGET redlatch::hiredis AND TARGET hiredis::hiredis)
  add_library(redlatch::hiredis INTERFACE IMPORTED)
  target_link_libraries(redlatch::hiredis INTERFACE hiredis::hiredis)
endif()
if(NOT TARGET redlatch::hiredis)
  find_path(REDLATCH_HIREDIS_INCLUDE_DIR hiredis/hiredis.h)
  find_library(REDLATCH_HIREDIS_LIBRARY NAMES hiredis hiredisd)
  mark_as_advanced(REDLATCH_HIREDIS_INCLUDE_DIR REDLATCH_HIREDIS_LIBRARY)
  if(REDLATCH_HIREDIS_INCLUDE_DIR AND REDLATCH_HIREDIS_LIBRARY)
    add_library(redlatch::hiredis UNKNOWN IMPORTED)
    set_target_properties(redlatch::hiredis PROPERTIES
      IMPORTED_LOCATION "${REDLATCH_HIREDIS_LIBRARY}"
      INTERFACE_INCLUDE_DIRECTORIES "${REDLATCH_HIREDIS_INCLUDE_DIR}")
  endif()
endif()
