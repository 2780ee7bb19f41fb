#!/usr/bin/env bash
# installs.sh: makes packages on one bare Debian root, and on another one installs them, uses them as a
# user would, and removes them. BARE_ROOT_SUITE chooses the Debian. As root, with debootstrap and a
# network; minutes. What is committed is what is tried.
set -euo pipefail
# shellcheck source=tests/package/bare_root.sh
source "$(dirname "${BASH_SOURCE[0]}")/bare_root.sh"
source_dir=$(readlink -f "$(dirname "${BASH_SOURCE[0]}")/../..")

make_root
cp -a "$root" "$work/bare"
git clone -q --bare "$source_dir" "$root/root/redlatch.git"
inside <<'INSIDE'
cd /root
export DEBIAN_FRONTEND=noninteractive
apt-get update -qq
apt-get install -qq --no-install-recommends git >log 2>&1 || { cat log; exit 1; }
git clone -q redlatch.git redlatch
redlatch/dev package
INSIDE
cp -r "$root/root/redlatch/build/package" "$work/built"
rm -rf --one-file-system "$root"
mv "$work/bare" "$root"
mkdir "$root/root/packages"
cp "$work/built"/*.deb "$work/built"/*.ddeb "$root/root/packages"
cp -r "$source_dir/tests/consumer" "$source_dir/docs/code/readme" "$root/root"
# As in container images: a daemon that is installed is not started.
printf '#!/bin/sh\nexit 101\n' >"$root/usr/sbin/policy-rc.d"
chmod 755 "$root/usr/sbin/policy-rc.d"

inside <<'INSIDE'
export DEBIAN_FRONTEND=noninteractive
cd /root
install() { apt-get install -qq "$@" >log 2>&1 || { cat log; exit 1; }; }
say() { printf '=== %s\n' "$*"; }
apt-get update -qq

say "the command alone: needs the C library and OpenSSL, and recommends a server"
depends=$(dpkg-deb -f packages/redlatch_*.deb Depends)
[[ $depends =~ ^'libc6 (>= '[0-9.]+'), libssl3'(t64)?' (>= '[0-9.]+')'$ ]] || { echo "depends on $depends"; exit 1; }
install --no-install-recommends ./packages/redlatch_*.deb
redlatch --version
gzip -dc /usr/share/man/man1/redlatch.1.gz | grep -q '^\.TH REDLATCH 1'
if refusal=$(redlatch run x -- true 2>&1); then
  echo "it ran without a server"
  exit 1
fi
[[ $refusal == *"apt-get install redis-server"* ]] || { echo "says only: $refusal"; exit 1; }
install redis-server
redlatch run x -- true
[[ $(redlatch run x -- sh -c 'echo "$REDLATCH_LOCK"') == x ]]

say "the library: brings what its users link"
install --no-install-recommends ./packages/libredlatch-dev_*.deb
install --no-install-recommends g++ cmake make pkgconf
say "the command's debug symbols: those of this very build, with line numbers"
apt-get install -qq ./packages/redlatch-dbgsym_*.ddeb >log 2>&1 || { cat log; exit 1; }
build_id=$(readelf -n /usr/bin/redlatch | sed -n 's/.*Build ID: //p')
symbols=/usr/lib/debug/.build-id/${build_id:0:2}/${build_id:2}.debug
address=$(nm "$symbols" | sed -n 's/ T main$//p')
line=$(addr2line -e "$symbols" "0x$address")
[[ $line == /usr/src/redlatch/src/cli/redlatch.cc:* ]] || { echo "main() is at $line"; exit 1; }
readelf -S /usr/bin/redlatch | grep -q '\.debug_info' && { echo "the command is not stripped"; exit 1; }

say "find_package"
cmake -S consumer -B by_cmake >log || { cat log; exit 1; }
cmake --build by_cmake >log || { cat log; exit 1; }
by_cmake/consumer
say "pkg-config"
c++ -std=c++20 -o by_pkg_config consumer/main.cc $(pkg-config --cflags --libs redlatch)
./by_pkg_config
say "the README's program, on a server that it starts"
c++ -std=c++20 -o first readme/first.cc $(pkg-config --cflags --libs redlatch)
./first

say "no Abseil, no OpenSSL, or another Abseil is refused with a word"
configure_without() {
  rm -rf refused
  cmake -S consumer -B refused "$@" >log 2>&1 && { echo "not refused"; exit 1; }
  tr -s '\n ' ' ' <log
}
said=$(configure_without -DCMAKE_DISABLE_FIND_PACKAGE_absl=ON)
[[ $said == *"needs Abseil"*"libabsl-dev"* ]] || { echo "says only: $said"; exit 1; }
said=$(configure_without -DCMAKE_IGNORE_PATH=/usr/include)
[[ $said == *"needs OpenSSL 3"*"libssl-dev"* ]] || { echo "says only: $said"; exit 1; }
mkdir other_abseil
printf 'set(absl_VERSION 20300101)\nadd_library(absl::strings INTERFACE IMPORTED)\n' \
  >other_abseil/abslConfig.cmake
said=$(configure_without -Dabsl_DIR=/root/other_abseil)
[[ $said == *"needs Abseil"*"this is 20300101"* ]] || { echo "says only: $said"; exit 1; }

say "removed without a trace"
apt-get purge -qq redlatch redlatch-dbgsym libredlatch-dev >log 2>&1 || { cat log; exit 1; }
left=$(find /usr /etc /var/lib -name '*redlatch*' -not -path '/var/lib/dpkg/*')
[[ -z $left ]] || { echo "left: $left"; exit 1; }
say "passed"
INSIDE
