#!/usr/bin/env bash
# Explores all states of the models within the bounds below, in build/model; README.md says more.
set -euo pipefail
models=$(dirname "$(readlink -f "$0")")
mkdir -p build/model
cd build/model

# explore MODEL BROKEN [DEFINE...]: demands that no assertion fails and no client is stuck, if BROKEN is 0;
# else that one does. Prints one line.
explore() {
  local model=$1 broken=$2 begin=$SECONDS stuck=-E states found=''
  shift 2
  [[ " $* " != *" PROGRESS "* ]] || stuck=''
  spin -a "-DBROKEN=$broken" "${@/#/-D}" "$models/$model.pml" >spin.log || { cat spin.log; exit 1; }
  gcc -O2 -w -DSAFETY -DCOLLAPSE -DVECTORSZ=2048 -DMEMLIM=4096 -o pan pan.c
  rm -f ./*.trail
  nice ./pan $stuck -m1000000 >pan.log || true
  ! grep -qE '^pan:1: (assertion violated|invalid end state)' pan.log || found=error
  states=$(sed -nE 's/^ *([0-9]+) states, stored.*/\1/p' pan.log)
  printf '%-12s %-24s %9s states %4s s  %s\n' "$model" "${broken/#0/holds}" "$states" \
    $((SECONDS - begin)) "$*"
  if [[ $broken == 0 ]]; then
    # If it was not explored to the end, that proves nothing.
    ! grep -qE 'max search depth|reached -DMEMLIM|not completed' pan.log &&
      grep -q 'errors: 0$' pan.log && return
    [[ -z $found ]] || echo 'the schedule: cd build/model && ./pan -r'
  else
    [[ -z $found ]] || return 0
    echo "no error is found, though $broken breaks a rule"
  fi
  cat pan.log
  exit 1
}

# In ticks. A heartbeat comes after one.
times=(CLAIM=1 LEASE=2 TICKS=255)
two=("${times[@]}" CLIENTS=2 ROUNDS=1 ATTEMPTS=2 GIVES_UP=1 RENEWS=1)
again=("${times[@]}" CLIENTS=2 ROUNDS=2 ATTEMPTS=1 CRASHES=0 GIVES_UP=1)
progress=(PROGRESS CLAIM=1 LEASE=2 CLIENTS=3 ROUNDS=1 CRASHES=1 GIVES_UP=0 RENEWS=0 ATTEMPTS=6 TICKS=8)
explore simple_lock 0 "${two[@]}" CRASHES=1
explore simple_lock 0 "${times[@]}" CLIENTS=3 ROUNDS=1 ATTEMPTS=1 CRASHES=1 GIVES_UP=1 RENEWS=0
explore simple_lock 0 "${again[@]}" RENEWS=0
explore simple_lock 0 "${progress[@]}"
for broken in TOKEN_STAYS RELEASE_OF_ANY_OWNER RENEWAL_REVIVES NO_TOMBSTONE CLAIM_FROM_RECEIPT; do
  explore simple_lock "$broken" "${again[@]}" RENEWS=1
done
explore simple_lock ONLY_RELEASE_HANDS_OVER "${progress[@]}"

explore quorum_token 0 GRANTS=2 RESTARTS=0 AHEAD=4
explore quorum_token 0 GRANTS=2 RESTARTS=2 AHEAD=4
explore quorum_token ANY_MAJORITY GRANTS=2 RESTARTS=0 AHEAD=4
explore quorum_token NO_RAISE GRANTS=2 RESTARTS=0 AHEAD=4
explore quorum_token NO_DELAY GRANTS=2 RESTARTS=1 AHEAD=4
