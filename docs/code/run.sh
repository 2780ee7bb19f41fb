#!/usr/bin/env bash
# run.sh PROGRAM SOURCE [ARGUMENT...]: runs the program of a page, with a server of its own for `embedded:`.
# The source may have these comments:
#   // Runs: N           run the program N times, all at the same time
#   // Output: PATTERN   must match a whole line of the output
set -euo pipefail
program=$1
source=$2
shift 2

# A short path, because the length of a socket's path is limited.
home=$(mktemp -d /tmp/redlatch-docs.XXXXXX)
export REDLATCH_EMBEDDED_DIRECTORY=$home/server
finish() {
  for socket in "$home"/*/redis.sock; do
    redis-cli -s "$socket" SHUTDOWN NOSAVE >/dev/null 2>&1 || true
  done
  rm -rf "$home"
}
trap finish EXIT
cd "$home"

runs=$(sed -n 's,^// Runs: ,,p' "$source")
pids=()
for ((i = 0; i < ${runs:-1}; ++i)); do
  "$program" "$@" >>output 2>&1 &
  pids+=($!)
done
failed=0
for pid in "${pids[@]}"; do wait "$pid" || failed=$?; done
cat output
((failed == 0)) || { echo "failed with $failed: $program"; exit 1; }
sed -n 's,^// Output: ,,p' "$source" | while IFS= read -r pattern; do
  grep -Exq -e "$pattern" output || { echo "not printed: $pattern"; exit 1; }
done
