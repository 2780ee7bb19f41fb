#!/usr/bin/env bash
# run_steps.sh COMMAND PAGE: runs the ```sh blocks of a page, one after the other, in a directory of their
# own, as its reader would, with the command on the PATH.
set -euo pipefail
command=$1
page=$2
directory=$(mktemp -d /tmp/redlatch-steps.XXXXXX)
export REDLATCH_EMBEDDED_DIRECTORY=$directory/embedded
finish() {
  redis-cli -s "$directory/embedded/redis.sock" SHUTDOWN NOSAVE >/dev/null 2>&1 || true
  # A step that failed may have left servers running.
  for file in "$directory"/*/pid; do
    [[ ! -s $file ]] || kill -KILL "$(<"$file")" 2>/dev/null || true
  done
  rm -rf "$directory"
}
trap finish EXIT
mkdir "$directory/bin"
ln -s "$command" "$directory/bin/redlatch"
PATH=$directory/bin:$PATH
awk '/^```/ { inside = !inside && $0 == "```sh"; next } inside' "$page" >"$directory/steps"
grep -q . "$directory/steps" || { echo "$page has no steps"; exit 1; }
cd "$directory"
bash -euxo pipefail steps
