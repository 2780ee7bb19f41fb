# Installs nothing: CMake finds Debian's.
set(VCPKG_POLICY_EMPTY_PACKAGE enabled)
