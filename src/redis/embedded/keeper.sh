#!/bin/sh
# redlatch: the keeper of an embedded redis-server.
# $1 directory, $2 redis-server, $3 redis-cli, $4 seconds between two looks at the server,
# $5 how many looks in a row must find it unused before it is stopped, 0: it never is; $6 census.lua.
# The server is started with `dbfilename boot.rdb`, and saves to kept.rdb, only when it is stopped
# here: so a start loads what the last idle stop kept, once, and never what was on disk before a
# crash.
# Descriptor 3 reads the FIFO that tells that a server is alive: the server alone keeps it.
directory=$1 program=$2 client=$3 interval=$4 looks=$5 census=$6
socket=$directory/redis.sock

ask() {
  "$client" -s "$socket" "$@" 2>/dev/null
}

# No newcomer can reach our server any more: its directory or its socket was removed. End it, so
# that its clients learn it and meet all others on the next one. Not by SIGTERM: it would then
# remove the socket at its path, which may be another server's.
abandon() {
  echo "keeper: $socket no longer leads to server $server: killing it"
  kill -KILL "$server"
  exit
}

# A client that comes after the look is not harmed: all it did is loaded by the next server.
stop() {
  echo "keeper: server $server is unused: stopping it"
  rm -f boot.rdb
  if [ "$(ask CONFIG SET dbfilename kept.rdb)" = OK ]; then ask SHUTDOWN SAVE; fi
  [ -S "$socket" ] || exit 0
}

# What cleans /tmp by age shall not find ours old.
freshen() {
  touch -c alive lock log
}

watch() {
  trap 'kill "$nap"; exit' TERM
  unused=0 seen=
  while sleep "$interval" & nap=$!; wait "$nap"; do
    answer=$(ask EVAL_RO "$census" 0)
    case ${answer%% *} in
    "$server") freshen ;;
    '' | *[!0-9]*)  # not up yet, or it refuses: too many clients, a password, a busy script
      if [ "$seen" ] && ! [ -S "$socket" ]; then abandon; fi
      unused=0
      continue ;;
    *) abandon ;;
    esac
    answer=${answer#* }
    # Each look is one connection itself; one more, and somebody came and went in between.
    if [ "$answer" = "$((seen + 1)) unused" ]; then unused=$((unused + 1)); else unused=0; fi
    seen=${answer% *}
    if [ "$unused" -ge "$looks" ]; then stop; unused=0; fi
  done
}

keep() {
  freshen
  mv -f kept.rdb boot.rdb 2>/dev/null || rm -f boot.rdb
  # Here, and so by relative paths: Valkey 8 takes no path with a quotation mark from its arguments.
  "$program" --port 0 --unixsocket redis.sock --unixsocketperm 600 --dir . \
    --logfile log --daemonize no --save '' --appendonly no --dbfilename boot.rdb \
    --enable-protected-configs local --maxmemory 0 --maxmemory-policy noeviction &
  server=$!
  exec 3<&-
  if [ "$looks" = 0 ]; then
    echo "keeper: this server does not stop by itself: so it was asked, or there is no redis-cli"
    wait "$server"
  else
    watch &
    watcher=$!
    wait "$server"
    kill "$watcher" 2>/dev/null
  fi
}

umask 077
PATH=${PATH:+$PATH:}/usr/bin:/bin
cd "$directory" && : >log && { keep >>log 2>&1 & }
