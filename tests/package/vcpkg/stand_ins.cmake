# cmake -DPORT_DIR=<port> -DWORK_DIR=<dir> -P stand_ins.cmake: runs a portfile without vcpkg, with the few of its
# functions that redlatch's uses, and checks what it leaves in WORK_DIR/packages as vcpkg does.
cmake_minimum_required(VERSION 3.22)
set(CURRENT_PORT_DIR "${PORT_DIR}")
set(CURRENT_PACKAGES_DIR "${WORK_DIR}/packages")
set(PORT redlatch)

function(run)
  execute_process(COMMAND ${ARGN} COMMAND_ERROR_IS_FATAL ANY)
endfunction()

function(vcpkg_cmake_configure)
  cmake_parse_arguments(PARSE_ARGV 0 arg "" "SOURCE_PATH" "OPTIONS")
  if(arg_UNPARSED_ARGUMENTS)
    message(FATAL_ERROR "no such argument: ${arg_UNPARSED_ARGUMENTS}")
  endif()
  run("${CMAKE_COMMAND}" -G Ninja -S "${arg_SOURCE_PATH}" -B "${WORK_DIR}/build"
    -DBUILD_SHARED_LIBS=OFF "-DCMAKE_INSTALL_PREFIX=${CURRENT_PACKAGES_DIR}" -DCMAKE_INSTALL_LIBDIR=lib
    ${arg_OPTIONS})
endfunction()

function(vcpkg_cmake_install)
  run("${CMAKE_COMMAND}" --build "${WORK_DIR}/build" --target install)
endfunction()

function(vcpkg_cmake_config_fixup)
  cmake_parse_arguments(PARSE_ARGV 0 arg "" "CONFIG_PATH" "")
  file(GLOB configs "${CURRENT_PACKAGES_DIR}/${arg_CONFIG_PATH}/*Config.cmake")
  if(NOT configs)
    message(FATAL_ERROR "no CMake configuration in ${arg_CONFIG_PATH}")
  endif()
endfunction()

function(vcpkg_fixup_pkgconfig)
  if(NOT EXISTS "${CURRENT_PACKAGES_DIR}/lib/pkgconfig/redlatch.pc")
    message(FATAL_ERROR "no redlatch.pc")
  endif()
endfunction()

function(vcpkg_install_copyright)
  cmake_parse_arguments(PARSE_ARGV 0 arg "" "" "FILE_LIST")
  file(COPY_FILE "${arg_FILE_LIST}" "${CURRENT_PACKAGES_DIR}/share/${PORT}/copyright")
endfunction()

include("${PORT_DIR}/portfile.cmake")
foreach(file IN ITEMS include/redlatch/client.h lib/libredlatch.a share/redlatch/usage share/redlatch/copyright)
  if(NOT EXISTS "${CURRENT_PACKAGES_DIR}/${file}")
    message(FATAL_ERROR "the port installs no ${file}")
  endif()
endforeach()
