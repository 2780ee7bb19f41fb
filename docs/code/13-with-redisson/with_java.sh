#!/usr/bin/env bash
# with_java.sh PEER PROGRAM: runs the Java program of 13-with-redisson.md, and three times the C++ one, at
# the same time. PEER/jars has Redisson, or PEER/missing says what is missing.
set -euo pipefail
peer=$1
program=$2
java=$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/Orders.java

if [[ ! -d $peer/jars || -e $peer/missing ]]; then
  cat "$peer/missing" 2>/dev/null || echo "$peer has no Redisson; build redisson_peer"
  ((${REDLATCH_REQUIRE_JAVA:-0} != 0)) && exit 1
  exit 77
fi

home=$(mktemp -d /tmp/redlatch-docs.XXXXXX)
pids=()
finish() {
  for pid in "${pids[@]}"; do kill "$pid" 2>/dev/null || true; done
  rm -rf "$home"
}
trap finish EXIT
cd "$home"

# Another program may have the port.
url=
: >server.log
for _ in {1..20}; do
  port=$((20000 + RANDOM % 10000))
  redis-server --bind 127.0.0.1 --port "$port" --save '' --daemonize no >server.log &
  server=$!
  for _ in {1..100}; do
    if ! kill -0 "$server" 2>/dev/null; then break; fi
    if grep -q "Ready to accept connections" server.log; then
      url=redis://127.0.0.1:$port
      break 2
    fi
    sleep 0.05
  done
done
pids+=("$server")
[[ -n $url ]] || { cat server.log; exit 1; }

java -cp "$peer/jars/*" "$java" "$url" >>output 2>>log &
programs=($!)
pids+=("${programs[@]}")
# Java takes a while to start. Then all four want the lock.
until [[ -s shipped.txt ]] || ! kill -0 "${programs[0]}" 2>/dev/null; do sleep 0.01; done
for _ in 1 2 3; do
  "$program" "$url" >>output 2>>log &
  programs+=($!)
done
pids+=("${programs[@]}")
for pid in "${programs[@]}"; do
  wait "$pid" || { cat output log; exit 1; }
done
cat output
grep -qx "100 orders have been shipped" output
