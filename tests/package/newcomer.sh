#!/usr/bin/env bash
# newcomer.sh [CTEST ARGUMENT...]: does what README.md says, word for word, on a bare Debian root with
# nothing but git: its first block of commands, then its program, built and run by the block after it.
# The arguments and REDLATCH_TEST_FOLDERS restrict its `./dev test`. As root, with debootstrap and a
# network; takes what all tests take, and a few minutes more. What is committed is what is tried.
set -euo pipefail
# shellcheck source=tests/package/bare_root.sh
source "$(dirname "${BASH_SOURCE[0]}")/bare_root.sh"
repository=$(readlink -f "$(dirname "${BASH_SOURCE[0]}")/../..")

make_root
git clone -q --bare "$repository" "$root/root/redlatch.git"
git -C "$repository" show HEAD:README.md >"$work/README.md"

# block N [LANGUAGE]: the Nth fenced block of that language.
block() {
  awk -v wanted="$1" -v fence="\`\`\`${2:-}" '
    /^```/ { if (inside) { inside = mine = 0 } else { inside = 1; mine = $0 == fence && ++n == wanted }; next }
    mine' "$work/README.md"
}
block 1 >"$root/root/first_commands"
block 1 cpp >"$root/root/program"
block 2 >"$root/root/build_commands"
if ! grep -q '^\./dev test' "$root/root/first_commands" ||
  ! grep -q '^int main' "$root/root/program" || ! grep -q '^[cg]++ ' "$root/root/build_commands"; then
  echo "README.md no longer has two commands, a program, and how to build it" >&2
  exit 1
fi
name=$(grep -om 1 '[a-z_]*\.cc' "$root/root/build_commands")
(($# == 0)) || sed -i "s|^\./dev test|& $(printf '%q ' "$@" | sed 's/[&|\\]/\\&/g')|" \
  "$root/root/first_commands"

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
say "nothing is left over"
git status --porcelain --untracked-files=no | { ! grep .; }
say "passed"
INSIDE
