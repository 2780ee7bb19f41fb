#!/usr/bin/env bash
# managers.sh WAY...: builds a small program with redlatch as package managers bring it, and runs it. Ways:
#   fetchcontent   CMake's FetchContent, from a local git repository
#   cpm            CPM.cmake, likewise. CPM_CMAKE names CPM.cmake's file
#   conan          packaging/conan, with Debian's libraries as packages of a cache of its own
#   vcpkg          packaging/vcpkg as overlay port. VCPKG_ROOT names a vcpkg, which downloads patchelf;
#                  without one, CMake runs the port with stand-ins of vcpkg's functions
#   bazel          BUILD.bazel, with Debian's Bazel, which is too old for MODULE.bazel: a WORKSPACE stands
#                  for that, and brings Debian's libraries
# Takes minutes, since each compiles the library. What is committed is what is tried.
set -euo pipefail
here=$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")
# shellcheck source=tests/package/readme_block.sh
source "$here/readme_block.sh"
repository=$(readlink -f "$here/../..")
work=$(mktemp -d "${TMPDIR:-/tmp}/redlatch-managers.XXXXXX")
trap 'chmod -R u+w "$work"; rm -rf "$work"' EXIT
sources=$work/redlatch
git clone -q --no-hardlinks "$repository" "$sources"
ln -s redlatch "$sources.git" # CPM's address ends so
version=$(sed -n 's/.*VERSION_STRING "\(.*\)"/\1/p' "$sources/include/redlatch/version.h")
git -C "$sources" checkout -q -B main # what the documents name
program=$sources/packaging/conan/test_package # the same program for each

say() { printf '=== %s\n' "$*"; }
die() { say "$*" >&2; exit 1; }

# ran OUTPUT: whether the program said what it says of a server that is not there.
ran() { [[ $1 == "redlatch $version: UNAVAILABLE"* ]] || die "the program says: $1"; }

# block PAGE TEXT: the first block of CMake of docs/PAGE with TEXT in it.
block() { readme_block "$sources/docs/$1" "$2" cmake; }

# by_cmake DIRECTORY LINES [ARGUMENT...]: builds and runs the program with those lines of CMake.
by_cmake() {
  local directory=$1 lines=$2
  shift 2
  mkdir "$directory"
  cp "$program/version.cc" "$directory/app.cc"
  printf '%s\n' 'cmake_minimum_required(VERSION 3.22)' 'project(app LANGUAGES CXX)' \
    'add_executable(app app.cc)' "$lines" >"$directory/CMakeLists.txt"
  # Whatever address the lines name, git takes the clone.
  GIT_CONFIG_COUNT=1 GIT_CONFIG_KEY_0="url.file://$sources.insteadOf" \
    GIT_CONFIG_VALUE_0=https://github.com/redlatch/redlatch \
    cmake -G Ninja -S "$directory" -B "$directory/build" "$@" >"$work/log" 2>&1 || { cat "$work/log"; exit 1; }
  cmake --build "$directory/build" >"$work/log" 2>&1 || { cat "$work/log"; exit 1; }
  ran "$("$directory/build/app")"
}

fetchcontent() { by_cmake "$work/fetchcontent" "$(block install.md FetchContent_Declare)"; }

cpm() {
  [[ -f ${CPM_CMAKE:-} ]] || die "CPM_CMAKE must name CPM.cmake's file"
  by_cmake "$work/cpm" "include(\"$CPM_CMAKE\")
$(block install.md CPMAddPackage | grep -v 'include(')"
}

conan() {
  command -v conan >/dev/null || die "there is no conan: pip install conan"
  export CONAN_HOME=$work/conan
  command conan profile detect >"$work/log" 2>&1
  command conan remote disable '*' >>"$work/log" 2>&1
  sed -i 's/^compiler.cppstd=.*/compiler.cppstd=20/' "$CONAN_HOME/profiles/default"
  local shim
  for shim in abseil openssl; do
    command conan create "$here/conan/$shim" >"$work/log" 2>&1 || { cat "$work/log"; exit 1; }
  done
  command conan create "$sources/packaging/conan" >"$work/log" 2>&1 || { cat "$work/log"; exit 1; }
  ran "$(grep -h "^redlatch $version: " "$work/log")"
}

vcpkg() {
  local installed=$work/vcpkg/installed
  if [[ -x ${VCPKG_ROOT:-}/vcpkg ]]; then
    "$VCPKG_ROOT/vcpkg" install redlatch --overlay-ports="$sources/packaging/vcpkg" \
      --overlay-ports="$here/vcpkg" --x-install-root="$installed" --no-binarycaching \
      --x-buildtrees-root="$work/vcpkg/buildtrees" --x-packages-root="$work/vcpkg/packages" \
      >"$work/log" 2>&1 || { cat "$work/log"; exit 1; }
    grep -q 'warning:' "$work/log" && { cat "$work/log"; exit 1; }
    by_cmake "$work/vcpkg-user" "$(sed -n 's/^    //p' "$sources/packaging/vcpkg/redlatch/usage" | sed 's/main/app/')" \
      -DCMAKE_TOOLCHAIN_FILE="$VCPKG_ROOT/scripts/buildsystems/vcpkg.cmake" \
      -DVCPKG_INSTALLED_DIR="$installed" -DVCPKG_MANIFEST_MODE=OFF
  else
    say "no vcpkg in VCPKG_ROOT: the port runs with stand-ins of vcpkg's functions"
    cmake -DPORT_DIR="$sources/packaging/vcpkg/redlatch" -DWORK_DIR="$work/vcpkg" \
      -P "$here/vcpkg/stand_ins.cmake" >"$work/log" 2>&1 || { cat "$work/log"; exit 1; }
    by_cmake "$work/vcpkg-user" "$(sed -n 's/^    //p' "$sources/packaging/vcpkg/redlatch/usage" | sed 's/main/app/')" \
      -DCMAKE_PREFIX_PATH="$work/vcpkg/packages"
  fi
}

# bazel_library REPOSITORY PACKAGE NAME LINK_OPTION...: a target of Bazel's for a library of Debian's.
bazel_library() {
  local directory=$work/bazel/dependencies/$1/$2 options
  options=$(printf '"%s", ' "${@:4}")
  mkdir -p "$directory"
  touch "$work/bazel/dependencies/$1/WORKSPACE"
  printf 'cc_library(name = "%s", linkopts = [%s], visibility = ["//visibility:public"])\n' "$3" \
    "$options" >>"$directory/BUILD"
}

bazel() {
  [[ -d /usr/share/bazel/rules/java ]] || die "Debian's Bazel is not here: apt-get install bazel-bootstrap \
bazel-platforms bazel-rules-java bazel-rules-proto bazel-skylib"
  mkdir "$work/bazel"
  sed "s|REDLATCH_SOURCES|$sources|" "$here/bazel/WORKSPACE" >"$work/bazel/WORKSPACE"
  local label labels links package rule
  mkdir -p "$work/bazel/dependencies/rules_cc/cc"
  touch "$work/bazel/dependencies/rules_cc/WORKSPACE" "$work/bazel/dependencies/rules_cc/cc/BUILD"
  for rule in cc_binary cc_import cc_library cc_test cc_toolchain cc_toolchain_suite; do
    echo "$rule = native.$rule"
  done >"$work/bazel/dependencies/rules_cc/cc/defs.bzl"
  read -ra links <<<"$(pkg-config --libs-only-l absl_status absl_statusor absl_str_format absl_time \
    absl_any_invocable absl_inlined_vector)"
  mapfile -t labels < <(grep -o '@abseil-cpp//[^"]*' "$sources/BUILD.bazel")
  for label in "${labels[@]}"; do
    package=${label#@abseil-cpp//}
    bazel_library abseil-cpp "${package%:*}" "${package##*[:/]}" "${links[@]}"
  done
  bazel_library openssl . ssl -lssl
  bazel_library openssl . crypto -lcrypto
  touch "$sources/WORKSPACE" # which only a Bazel from before modules needs
  cp "$program/version.cc" "$work/bazel/app.cc"
  echo 'cc_binary(name = "app", srcs = ["app.cc"], copts = ["-std=c++20"], deps = ["@redlatch"])' \
    >"$work/bazel/BUILD"
  (cd "$work/bazel" && command bazel --batch --output_user_root="$work/bazel_root" build --jobs=2 //:app) \
    >"$work/log" 2>&1 || { cat "$work/log"; exit 1; }
  ran "$("$work/bazel/bazel-bin/app")"
}

(($#)) || die "which? fetchcontent, cpm, conan, vcpkg, bazel"
for way in "$@"; do
  start=$SECONDS
  "$way"
  say "$way: $((SECONDS - start)) s"
done
