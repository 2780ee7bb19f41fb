/* The simple lock at one server: queue, handover by message, claim, lease and token. README.md tells
 * what is left out. A message may arrive at any time after it was sent, any number of times, or never.
 * Times are what is left of a period, or the age of a message, in ticks of a clock that all share.
 * If BROKEN is one of these, that rule is broken, and an assertion fails. */
#define TOKEN_STAYS 1             /* a grant gets the token of the one before */
#define RELEASE_OF_ANY_OWNER 2    /* a release does not compare the owner */
#define RENEWAL_REVIVES 3         /* a renewal does not compare it */
#define NO_TOMBSTONE 4            /* a grant that was given up is forgotten */
#define CLAIM_FROM_RECEIPT 5      /* a deadline counts from when the grant arrives */
#define ONLY_RELEASE_HANDS_OVER 6 /* a waiter that finds the lock free does not hand it to the first */

#define GRANTS (CLIENTS * ROUNDS) /* grant g is one of client g % CLIENTS */
#define NONE GRANTS
#define AT(g, n) ((g) * ATTEMPTS + (n)) /* attempt n of grant g */
#define LATER(a, b) ((a) > (b) -> (a) : (b))
#ifdef PROGRESS /* Each message arrives once and soon, and time passes only when nothing else happens. */
#define Arrive(message) message -> message = false
#define IN_TIME timeout
#else
#define Arrive(message) message
#define IN_TIME true
#endif
mtype = { idle, asking, holding, dead };
bool acquire[GRANTS * ATTEMPTS], renew[GRANTS], release[GRANTS];          /* sent to the server */
bool claimed[GRANTS * ATTEMPTS], leased[GRANTS * ATTEMPTS], held[GRANTS]; /* sent to clients */

/* The clients. One believes in its grant for as long as `valid` is not 0. */
mtype state[CLIENTS] = idle;
byte grant[CLIENTS], tries[CLIENTS], valid[CLIENTS], renewed[CLIENTS]; /* renewed: ago */
byte age[GRANTS * ATTEMPTS], last_token, crashes;
/* The server. */
byte owner = NONE, left, fence, token[GRANTS], attempt[GRANTS];
bool gone[GRANTS], given_up[GRANTS];
chan queue = [GRANTS] of { byte };
hidden byte head, place, m;
#define Tell(message, g) message = grant[g % CLIENTS] == g /* A client ignores what it has given up. */

/* Only the order of tokens matters: one that is replaced is taken out, so that they stay small. */
inline NewToken(g) {
  for (m : 0 .. GRANTS - 1) { if :: token[g] > 0 && token[m] > token[g] -> token[m]-- :: else fi }
  if :: token[g] > 0 && last_token >= token[g] -> last_token-- :: else fi;
  if :: token[g] == 0 && BROKEN != TOKEN_STAYS -> fence++ :: else fi;
  token[g] = fence
}
inline Own(g, period) {
  assert(!given_up[g]); /* P2: no late request brings back what its client has given up. */
  NewToken(g); owner = g; left = period; attempt[g] = 0
}
/* A free lock goes to the first waiter, by message. A waiter that is dead may still look alive. */
inline HandOver() {
  do
  :: owner == NONE && len(queue) > 0 ->
     queue ? head;
     if
     :: Tell(claimed[AT(head, attempt[head])], head); Own(head, CLAIM)
     :: state[head % CLIENTS] == dead
     fi
  :: else -> break
  od
}
inline OnAcquire(g, n) {
  if
  :: gone[g]
  :: !gone[g] && owner == g -> left = LATER(left, LEASE); Tell(leased[AT(g, n)], g)
  :: !gone[g] && owner != g ->
     attempt[g] = n;
     place = queue ?? [eval(g)];
     if :: place == 0 -> queue ! g :: else fi;
     place = queue ? [eval(g)]; /* It comes first. */
     if
     :: owner == NONE && place > 0 -> queue ? head; Own(g, LEASE); Tell(leased[AT(g, n)], g)
     :: owner == NONE && place == 0 && BROKEN != ONLY_RELEASE_HANDS_OVER -> HandOver()
     :: else
     fi
  fi
}
inline OnRenew(g) {
  if
  :: owner == g || BROKEN == RENEWAL_REVIVES -> owner = g; left = LATER(left, LEASE); Tell(held[g], g)
  :: else
  fi
}
inline OnRelease(g) { /* It gives up a waiter's place as well, and leaves a tombstone. */
  given_up[g] = true;
  if :: BROKEN != NO_TOMBSTONE -> gone[g] = true :: else fi;
  place = queue ?? [eval(g)];
  if :: place > 0 -> queue ?? eval(g) :: else fi;
  if :: owner == g || BROKEN == RELEASE_OF_ANY_OWNER -> owner = NONE; left = 0 :: else fi;
  HandOver()
}

hidden byte other;

inline Ask(i) { acquire[AT(grant[i], tries[i])] = true; tries[i]++ }
/* A grant counts from when the attempt was sent that it answers. */
#define VALID(g, n, period) (BROKEN == CLAIM_FROM_RECEIPT -> period : period - age[AT(g, n)])
inline OnGrant(i, g, n, period) {
  if
  :: state[i] == asking && grant[i] == g && age[AT(g, n)] < period ->
     for (other : 0 .. CLIENTS - 1) { assert(valid[other] == 0) } /* P1: no other client has it. */
     assert(token[g] > last_token);                               /* P5 */
     last_token = token[g]; valid[i] = VALID(g, n, period); state[i] = holding
  :: else
  fi
}
inline OnHeld(i, g) {
  if
  :: state[i] == holding && grant[i] == g && valid[i] > 0 ->
     valid[i] = LATER(valid[i], LEASE - renewed[i])
  :: else
  fi
}
inline End(i) { /* What is said of this grant from now on does not matter to the client. */
  release[grant[i]] = true;
  for (m : 0 .. ATTEMPTS - 1) {
    age[AT(grant[i], m)] = 0; claimed[AT(grant[i], m)] = false; leased[AT(grant[i], m)] = false
  }
  held[grant[i]] = false;
  grant[i] = grant[i] + CLIENTS; state[i] = idle; tries[i] = 0; valid[i] = 0; renewed[i] = 0
}
proctype Client(byte i) {
  grant[i] = i;
  do
  :: atomic { state[i] == idle && grant[i] < GRANTS -> state[i] = asking; Ask(i) }
  :: atomic { state[i] == asking && tries[i] < ATTEMPTS && IN_TIME &&
              age[AT(grant[i], tries[i] - 1)] >= 1 -> Ask(i) }
  :: atomic { valid[i] > 0 && !renew[grant[i]] && RENEWS -> renew[grant[i]] = true }
  :: atomic { state[i] == holding || (state[i] == asking && GIVES_UP) -> End(i) }
  :: atomic { state[i] != dead && crashes < CRASHES -> crashes++; state[i] = dead; valid[i] = 0 }
  :: state[i] == dead || grant[i] >= GRANTS -> break
  od
}
/* Carries the messages of one attempt; with the first, those that belong to no attempt as well. */
proctype Network(byte g, n) {
end:
  do
  :: atomic { Arrive(acquire[AT(g, n)]) -> OnAcquire(g, n) }
  :: atomic { Arrive(claimed[AT(g, n)]) -> OnGrant(g % CLIENTS, g, n, CLAIM) }
  :: atomic { Arrive(leased[AT(g, n)]) -> OnGrant(g % CLIENTS, g, n, LEASE) }
  :: atomic { n == 0 && renew[g] -> OnRenew(g) }
  :: atomic { n == 0 && held[g] -> OnHeld(g % CLIENTS, g) }
  :: atomic { n == 0 && Arrive(release[g]) -> OnRelease(g) }
  od
}
inline Less(time) { if :: time > 0 -> time-- :: else fi }
inline More(time) { if :: time < LEASE -> time++ :: else fi }
proctype Clock() {
  byte ticks, i;
end:
  do
  :: atomic { IN_TIME && ticks < TICKS ->
       if :: TICKS < 255 -> ticks++ :: else fi;
       Less(left);
       if :: left == 0 -> owner = NONE :: else fi;
       for (i : 0 .. CLIENTS - 1) {
         Less(valid[i]);
         if :: state[i] == holding && renew[grant[i]] -> More(renewed[i]) :: else fi;
         if :: state[i] == asking -> for (m : 0 .. tries[i] - 1) { More(age[AT(grant[i], m)]) } :: else fi
       }
     }
  od
}
init {
  byte g, n;
  atomic {
    run Clock();
    for (g : 0 .. CLIENTS - 1) { run Client(g) }
    for (g : 0 .. GRANTS - 1) { for (n : 0 .. ATTEMPTS - 1) { run Network(g, n) } }
  }
}
