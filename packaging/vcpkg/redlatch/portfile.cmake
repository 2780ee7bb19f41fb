# An overlay port: vcpkg install redlatch --overlay-ports=REDLATCH/packaging/vcpkg
# It builds the sources in which it lies, so there is nothing to download. vcpkg does not watch these:
# after a change of them, `vcpkg remove redlatch` first, and use --no-binarycaching.
cmake_path(SET SOURCE_PATH NORMALIZE "${CURRENT_PORT_DIR}/../../..")

vcpkg_cmake_configure(
  SOURCE_PATH "${SOURCE_PATH}"
  OPTIONS
    -DREDLATCH_BUILD_CLI=OFF
    -DREDLATCH_BUILD_TESTS=OFF
    -DREDLATCH_BUILD_BENCHMARKS=OFF)
vcpkg_cmake_install()
vcpkg_cmake_config_fixup(CONFIG_PATH lib/cmake/redlatch)
vcpkg_fixup_pkgconfig()

file(REMOVE_RECURSE "${CURRENT_PACKAGES_DIR}/debug/include" "${CURRENT_PACKAGES_DIR}/debug/share")
file(INSTALL "${CURRENT_PORT_DIR}/usage" DESTINATION "${CURRENT_PACKAGES_DIR}/share/${PORT}")
vcpkg_install_copyright(FILE_LIST "${SOURCE_PATH}/LICENSE")
