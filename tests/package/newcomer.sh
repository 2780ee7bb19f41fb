#!/usr/bin/env bash
# newcomer.sh [CTEST ARGUMENT...]: does what README.md says, word for word, on a bare Debian root with
# nothing but git: its first block of commands; its program, built and run by the block after it; and
# the shell block that uses what that installed. Then all tests again with Valkey, if Debian has it.
# The arguments and REDLATCH_TEST_FOLDERS restrict each `./dev test`; BARE_ROOT_SUITE chooses the Debian.
# As root, with debootstrap and a network; takes what all tests take, and a few minutes more. What is
# committed is what is tried.
set -euo pipefail
# shellcheck source=tests/package/bare_root.sh
source "$(dirname "${BASH_SOURCE[0]}")/bare_root.sh"
repository=$(readlink -f "$(dirname "${BASH_SOURCE[0]}")/../..")

make_root
git clone -q --bare "$repository" "$root/root/redlatch.git"
git -C "$repository" show HEAD:README.md >"$work/README.md"

# block TEXT [LANGUAGE]: the first fenced block of that language with that text in it.
block() {
  awk -v wanted="$1" -v fence="\`\`\`${2:-}" '
    /^```/ {
      if (inside) { if (mine && index(text, wanted)) { printf "%s", text; exit } inside = 0; next }
      inside = 1; mine = $0 == fence; text = ""; next
    }
    { text = text $0 "\n" }' "$work/README.md" | grep . ||
    { echo "README.md no longer has a block with '$1'" >&2; exit 1; }
}
block './dev test' >"$root/root/first_commands"
block 'int main' cpp >"$root/root/program"
block 'g++ ' >"$root/root/build_commands"
block 'redlatch run ' >"$root/root/shell_commands"
name=$(grep -om 1 '[a-z_]*\.cc' "$root/root/build_commands")
arguments=
(($# == 0)) || arguments=$(printf ' %q' "$@")
sed -i "s|^\./dev test|&${arguments//[&|\\]/\\&}|" "$root/root/first_commands"

# `doctor` may warn of this machine's server.
# shellcheck disable=SC2016  # expanded in the root
sed -i 's/^redlatch doctor/& || [ $? -eq 1 ]/' "$root/root/shell_commands"

inside <<INSIDE
export DEBIAN_FRONTEND=noninteractive
cd /root
apt-get update -qq
apt-get install -qq --no-install-recommends git >log 2>&1 || { cat log; exit 1; }
git clone -q redlatch.git redlatch
cd redlatch
say() { printf '\n=== %s, after %d s\n' "\$1" "\$SECONDS"; }
say "the first commands"
cat ../first_commands
source ../first_commands
say "the program"
cp ../program $name
cat ../build_commands
source ../build_commands
say "from a shell"
cat ../shell_commands
source ../shell_commands
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
