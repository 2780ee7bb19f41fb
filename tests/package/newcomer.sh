#!/usr/bin/env bash
# newcomer.sh [CTEST ARGUMENT...]: does what README.md says, word for word, on a bare Debian root with
# nothing but git: its first block of commands; its program, built and run by the block after it; the
# shell block that uses what that installed; and the lines of CMake, in a project of their own. Git takes
# a clone of this repository for the address. Then all tests, and again with Valkey, if Debian has it.
# The arguments and REDLATCH_TEST_FOLDERS restrict each `./dev test`; BARE_ROOT_SUITE chooses the Debian.
# As root, with debootstrap and a network; takes what all tests take, and a few minutes more. What is
# committed is what is tried.
set -euo pipefail
# shellcheck source=tests/package/bare_root.sh
source "$(dirname "${BASH_SOURCE[0]}")/bare_root.sh"
# shellcheck source=tests/package/readme_block.sh
source "$(dirname "${BASH_SOURCE[0]}")/readme_block.sh"
repository=$(readlink -f "$(dirname "${BASH_SOURCE[0]}")/../..")

make_root
git clone -q --bare "$repository" "$root/root/redlatch.git"
git -C "$repository" show HEAD:README.md >"$work/README.md"

block() { readme_block "$work/README.md" "$@"; }
block 'git clone' >"$root/root/first_commands"
block 'int main' cpp >"$root/root/program"
block 'FetchContent_Declare' cmake >"$root/root/cmake_lines"
block 'g++ ' >"$root/root/build_commands"
block 'redlatch run ' >"$root/root/shell_commands"
name=$(grep -om 1 '[a-z_]*\.cc' "$root/root/build_commands")
address=$(grep -o 'https://[^ ]*' "$root/root/first_commands")
git -C "$root/root/redlatch.git" update-ref refs/heads/main HEAD
arguments=
(($# == 0)) || arguments=$(printf ' %q' "$@")

# `doctor` may warn of this machine's server.
# shellcheck disable=SC2016  # expanded in the root
sed -i 's/^redlatch doctor/& || [ $? -eq 1 ]/' "$root/root/shell_commands"

inside <<INSIDE
export DEBIAN_FRONTEND=noninteractive
cd /root
apt-get update -qq
apt-get install -qq --no-install-recommends git >log 2>&1 || { cat log; exit 1; }
git config --global url.file:///root/redlatch.git.insteadOf $address
say() { printf '\n=== %s, after %d s\n' "\$1" "\$SECONDS"; }
say "the first commands"
cat first_commands
source first_commands
say "the program"
cp ../program $name
cat ../build_commands
source ../build_commands
say "from a shell"
cat ../shell_commands
source ../shell_commands
say "the program, by the lines of CMake"
mkdir ../app
cp ../program ../app/app.cc
printf '%s\n' 'cmake_minimum_required(VERSION 3.22)' 'project(app LANGUAGES CXX)' 'add_executable(app app.cc)' \
  "\$(<../cmake_lines)" >../app/CMakeLists.txt
cmake -G Ninja -S ../app -B ../app/build >log || { cat log; exit 1; }
cmake --build ../app/build >log || { cat log; exit 1; }
../app/build/app
say "all tests"
./dev test$arguments
./dev sim
say "nothing is left over"
git status --porcelain --untracked-files=no | { ! grep .; }
if apt-cache show valkey-server >log 2>&1; then
  printf '#!/bin/sh\nexit 101\n' >/usr/sbin/policy-rc.d
  chmod 755 /usr/sbin/policy-rc.d
  apt-get install -qq --no-install-recommends valkey-server >log 2>&1 || { cat log; exit 1; }
  say "all tests with \$(valkey-server --version)"
  REDLATCH_REDIS_SERVER=/usr/bin/valkey-server ./dev test --all$arguments
fi
say "passed"
INSIDE
