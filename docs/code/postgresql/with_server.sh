#!/usr/bin/env bash
# with_server.sh PAGE COMMAND...: runs a command with a PostgreSQL server of its own, which has the
# tables of the page's ```sql blocks. libpq finds the server by PGHOST and its kin.
set -euo pipefail
page=$1
shift

# The newest of Debian's servers, or the one on the PATH.
bin=$(printf '%s\n' /usr/lib/postgresql/*/bin/initdb | sort -V | tail -n 1)
[[ -x $bin ]] || bin=$(command -v initdb) ||
  { echo "PostgreSQL's server is missing (Debian: postgresql)"; exit 77; }
bin=${bin%/initdb}

home=$(mktemp -d /tmp/redlatch-postgresql.XXXXXX)
# The server refuses to run as root.
as_user=()
if ((EUID == 0)); then
  chown nobody "$home"
  as_user=(setpriv --reuid=nobody --regid=nogroup --clear-groups)
fi
finish() {
  "${as_user[@]}" "$bin/pg_ctl" stop -D "$home/data" -m immediate >/dev/null 2>&1 || true
  rm -rf "$home"
}
trap finish EXIT

cd "$home"
"${as_user[@]}" "$bin/initdb" -D data -U recipe --no-sync --auth=trust >init.log 2>&1 ||
  { cat init.log; exit 1; }
"${as_user[@]}" "$bin/pg_ctl" start -D data --wait -l "$home/data/log" \
  -o "-c listen_addresses='' -c unix_socket_directories='$home' -c fsync=off" >start.log ||
  { cat start.log data/log; exit 1; }
export PGHOST=$home PGUSER=recipe PGDATABASE=postgres
awk '/^```/ { inside = !inside && $0 == "```sql"; next } inside' "$page" |
  "$bin/psql" --quiet -v ON_ERROR_STOP=1
"$@"
