#!/bin/sh
# redlatch: the keeper of an embedded redis-server.
# $1 directory, $2 redis-server, $3 redis-cli or empty, $4 seconds between two checks of the server,
# $5 how many checks in a row must find it unused before it is stopped, $6 census.lua.
# The server is started with `dbfilename boot.rdb`, and saves to kept.rdb only when it is stopped
# here. So a start loads, once, what the last idle stop saved, and never data from before a crash.
# Descriptor 3 reads the FIFO that shows that a server is alive: only the server keeps it open.
directory=$1 program=$2 client=$3 interval=$4 checks=$5 census=$6
socket=$directory/redis.sock

ask() {
  "$client" -s "$socket" "$@" 2>/dev/null
}

# New clients can no longer reach our server: its directory or its socket was removed. Killing it
# makes its clients connect to the next server, where all others are. After SIGTERM it would remove
# the socket at its path, which may be another server's.
abandon() {
  echo "keeper: $socket no longer leads to server $server: killing it"
  kill -KILL "$server"
  exit
}

# A client that comes after the check loses nothing: the next server loads all that it wrote.
stop() {
  echo "keeper: server $server is unused: stopping it"
  rm -f boot.rdb
  if [ "$(ask CONFIG SET dbfilename kept.rdb)" = OK ]; then ask SHUTDOWN SAVE; fi
  [ -S "$socket" ] || exit 0
}

# Programs that clean /tmp by age must not find these files old.
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
    '' | *[!0-9]*)  # still starting, or refused: too many clients, a password, a busy script
      if [ "$seen" ] && ! [ -S "$socket" ]; then abandon; fi
      unused=0
      continue ;;
    *) abandon ;;
    esac
    answer=${answer#* }
    # Each check is one connection itself; if there was another one, a client came in between.
    if [ "$answer" = "$((seen + 1)) unused" ]; then unused=$((unused + 1)); else unused=0; fi
    seen=${answer% *}
    if [ "$unused" -ge "$checks" ]; then stop; unused=0; fi
  done
}

keep() {
  freshen
  mv -f kept.rdb boot.rdb 2>/dev/null || rm -f boot.rdb
  # Paths are relative: Valkey 8 takes no path with a quotation mark from its arguments.
  "$program" --port 0 --unixsocket redis.sock --unixsocketperm 600 --dir . \
    --logfile log --daemonize no --save '' --appendonly no --dbfilename boot.rdb \
    --enable-protected-configs local --maxmemory 0 --maxmemory-policy noeviction &
  server=$!
  exec 3<&-
  if [ -z "$client" ]; then
    echo "keeper: this server does not stop by itself, since redis-cli is missing"
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
