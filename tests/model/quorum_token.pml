/* The token of a quorum: votes, the raise, releases, leases that end, and restarts without data. A
 * request is executed at any time after it was sent, or never, and its reply may take as long.
 * If BROKEN is one of these, that rule is broken, and an assertion fails. */
#define ANY_MAJORITY 1 /* the token is also written where the grant does not stand, and that counts */
#define NO_RAISE 2     /* the largest token of a majority is taken as it is */
#define NO_DELAY 3     /* a node that lost its data votes at once */

#define NODES 3
#define MAJORITY 2
#define NONE GRANTS
#define AT(g, n) ((g) * NODES + (n))
#define LATER(a, b) ((a) > (b) -> (a) : (b))
mtype = { asking, raising, holding, over };

/* The nodes, and what each has said of each grant. */
byte owner[NODES] = NONE, fence[NODES];
byte forgotten[NODES] = NONE; /* the owner before a restart without data */
bool asked[GRANTS * NODES], gone[GRANTS * NODES], raised[GRANTS * NODES];
byte vote[GRANTS * NODES]; /* the token that was granted; 0: none */
/* The grants, each as its client sees it. */
mtype state[GRANTS] = asking;
byte token[GRANTS], last_token, restarts;
hidden byte m, votes, equal;

inline Forget(g) { /* The client stops believing in it, and sends releases. */
  state[g] = over; token[g] = 0;
  for (m : 0 .. NODES - 1) { vote[AT(g, m)] = 0; raised[AT(g, m)] = false }
}
inline OnAsk(g, n) { /* A token is larger than the fence, and no smaller than the clock. */
  fence[n] = LATER(fence[n] + 1, (n == 0 -> AHEAD : 0)); /* The clock of node 0 is ahead. */
  asked[AT(g, n)] = true; owner[n] = g;
  if :: state[g] == asking -> vote[AT(g, n)] = fence[n] :: else fi
}
inline OnRelease(g, n) { /* It leaves a tombstone: later requests for the grant are refused. */
  gone[AT(g, n)] = true; asked[AT(g, n)] = true;
  if :: owner[n] == g -> owner[n] = NONE :: else fi
}
proctype Node(byte g, n) {
end:
  do
  :: atomic { !asked[AT(g, n)] && owner[n] == NONE && forgotten[n] == NONE -> OnAsk(g, n) }
  :: atomic { state[g] == raising && !raised[AT(g, n)] && /* Elsewhere, the raise does not count. */
              ((owner[n] == g && fence[n] <= token[g]) || BROKEN == ANY_MAJORITY) ->
              fence[n] = LATER(fence[n], token[g]); raised[AT(g, n)] = true }
  :: atomic { state[g] == over && !gone[AT(g, n)] -> OnRelease(g, n) }
  :: atomic { owner[n] == g && state[g] != holding -> /* The lease ends. A client has stopped by    */
              owner[n] = NONE; Forget(g) }            /* then: its deadline counts from its request. */
  od
}

inline Choose(g) { /* The client looks at some of the votes; the others are still on their way. */
  votes = 0; equal = 0; token[g] = 0;
  for (m : 0 .. NODES - 1) {
    if
    :: vote[AT(g, m)] == 0
    :: vote[AT(g, m)] > 0 ->
       votes++;
       if
       :: vote[AT(g, m)] > token[g] -> token[g] = vote[AT(g, m)]; equal = 1
       :: vote[AT(g, m)] == token[g] -> equal++
       :: vote[AT(g, m)] < token[g]
       fi
    :: vote[AT(g, m)] > 0
    fi
  }
}
inline Hold(g) {
  for (m : 0 .. GRANTS - 1) { assert(state[m] != holding) } /* P1 */
  assert(token[g] > last_token || RESTARTS > 0);            /* P5 */
  last_token = token[g]; state[g] = holding;
  for (m : 0 .. NODES - 1) { vote[AT(g, m)] = 0; raised[AT(g, m)] = false }
}
proctype Client(byte g) {
end:
  do
  :: atomic { state[g] == asking ->
              Choose(g);
              if
              :: votes < MAJORITY -> token[g] = 0
              :: votes >= MAJORITY && (equal >= MAJORITY || BROKEN == NO_RAISE) -> Hold(g)
              :: votes >= MAJORITY && equal < MAJORITY && BROKEN != NO_RAISE ->
                 state[g] = raising;
                 for (m : 0 .. NODES - 1) { vote[AT(g, m)] = 0 }
              fi }
  :: atomic { state[g] == raising &&
              raised[AT(g, 0)] + raised[AT(g, 1)] + raised[AT(g, 2)] >= MAJORITY -> Hold(g) }
  :: atomic { state[g] != over -> Forget(g) } /* It releases, gives up, loses its lease or dies. */
  od
}
proctype Restart(byte n) { /* Until the lease that it may have forgotten is over, it has no vote. */
end:
  do
  :: atomic { restarts < RESTARTS ->
              restarts++; fence[n] = 0;
              if :: owner[n] != NONE && BROKEN != NO_DELAY -> forgotten[n] = owner[n] :: else fi;
              owner[n] = NONE }
  :: atomic { forgotten[n] != NONE && state[forgotten[n]] == over -> forgotten[n] = NONE }
  od
}
init {
  byte g, n;
  atomic {
    for (n : 0 .. NODES - 1) {
      run Restart(n);
      for (g : 0 .. GRANTS - 1) { run Node(g, n) }
    }
    for (g : 0 .. GRANTS - 1) { run Client(g) }
  }
}
