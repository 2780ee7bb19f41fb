# Configures `cpack`. It makes the Debian packages redlatch (the command) and libredlatch-dev (the library
# and its headers), and a tarball of both. docs/decisions/0013-packages.md gives the reasons.
set(CPACK_GENERATOR DEB TGZ)
set(CPACK_PACKAGE_VENDOR "redlatch")
set(CPACK_PACKAGE_CONTACT "The redlatch authors <maintainers@redlatch.invalid>")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "")  # each has one of its own
set(CPACK_PACKAGE_FILE_NAME "redlatch-${PROJECT_VERSION}-${CMAKE_SYSTEM_NAME}-${CMAKE_SYSTEM_PROCESSOR}")
set(CPACK_RESOURCE_FILE_LICENSE "${PROJECT_SOURCE_DIR}/LICENSE")
set(CPACK_STRIP_FILES ON)
set(CPACK_INSTALL_DEFAULT_DIRECTORY_PERMISSIONS
  OWNER_READ OWNER_WRITE OWNER_EXECUTE GROUP_READ GROUP_EXECUTE WORLD_READ WORLD_EXECUTE)

set(CPACK_COMPONENTS_ALL development)
if(REDLATCH_BUILD_CLI)
  list(APPEND CPACK_COMPONENTS_ALL command)
endif()
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_ARCHIVE_COMPONENT_INSTALL OFF)
set(CPACK_PRE_BUILD_SCRIPTS "${PROJECT_SOURCE_DIR}/cmake/package/debian_files.cmake")

set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_CONTROL_STRICT_PERMISSION ON)
set(CPACK_DEBIAN_COMMAND_PACKAGE_NAME redlatch)
set(CPACK_DEBIAN_COMMAND_PACKAGE_SECTION utils)
set(CPACK_DEBIAN_COMMAND_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_COMMAND_PACKAGE_RECOMMENDS redis-server)  # embedded:, the default server, starts it
set(CPACK_COMPONENT_COMMAND_DESCRIPTION "run commands under locks that machines share, in Redis
Runs a command while it holds a lock that others share, on this machine or
any other, and ends it before another machine could get the lock.")
if(REDLATCH_STRIP)
  set(CPACK_DEBIAN_COMPRESSION_TYPE xz)
  # redlatch-dbgsym_*.ddeb. Its suffix keeps it out of `apt-get install *.deb`.
  set(CPACK_DEBIAN_COMMAND_DEBUGINFO_PACKAGE ON)
  set(CPACK_PROJECT_CONFIG_FILE "${PROJECT_SOURCE_DIR}/cmake/package/keep_debug.cmake")
endif()

# A static library is code against the inlined namespace of one Abseil: no other version will do.
set(next_abseil "")
if(absl_VERSION MATCHES "^[0-9]+$")
  math(EXPR next_abseil "${absl_VERSION} + 1")
  set(development_depends "libabsl-dev (>= ${absl_VERSION}), libabsl-dev (<< ${next_abseil}~)")
else()
  set(development_depends "libabsl-dev")
endif()
if(NOT BUILD_SHARED_LIBS)
  string(APPEND development_depends ", libssl-dev (>= 3)")
endif()
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_NAME libredlatch-dev)
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_SECTION libdevel)
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_SHLIBDEPS ${BUILD_SHARED_LIBS})
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_DEPENDS "${development_depends}")
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_SUGGESTS "redlatch, redis-server")
set(CPACK_COMPONENT_DEVELOPMENT_DESCRIPTION "distributed locks over Redis for C++20, static library and headers
Locks, read-write locks, semaphores and latches that threads, processes and
machines share by name, in the interfaces of std::mutex and its kin, with
leases, fencing tokens and reports of lost locks.")

# What the command contains, for the bill of materials.
if(REDLATCH_LINK_MAP AND REDLATCH_BUILD_CLI)
  target_link_options(redlatch-command PRIVATE "-Wl,-Map,${PROJECT_BINARY_DIR}/redlatch.map")
endif()

include(CPack)
