#include "tests/sim/redis_compare/random_calls.h"

#include <deque>
#include <iterator>
#include <string>
#include <utility>

#include "lua/scripts.h"
#include "src/base/sha1.h"
#include "src/lock/lock_type.h"
#include "tests/support/lock_keys.h"

namespace redlatch::sim {
namespace {

using Words = std::vector<std::string>;

// Adds waiters that came before all others; ARGV[2] is their channel.
constexpr LuaScript kMakeWaiters{.name = "make waiters", .body = R"(
local time = redis.call('TIME')
local now = string.format('%.0f', time[1] * 1000000 + time[2])
for i = 1, tonumber(ARGV[1]) do
  local grant = string.format('%032x:7', i)
  redis.call('ZADD', KEYS[1], i, grant)
  redis.call('HSET', KEYS[2], grant, now .. ' 30000 ' .. ARGV[4] .. ' 1 1 10000 0 ' .. i ..
    ' 2000 0 ' .. ARGV[2] .. ' ' .. #ARGV[3] .. ' ' .. ARGV[3])
end
redis.call('PEXPIRE', KEYS[1], 30000)
redis.call('PEXPIRE', KEYS[2], 30000))"};

// Small scripts that exercise Lua and its replies.
constexpr LuaScript kSmall[] = {
    {"integers", "return {1, -2.9, 3e10, '3e10' + 0, tonumber(ARGV[1]) or false, #ARGV[1]}"},
    {"nothing", "return {1, nil, 3}"},
    {"booleans", "return {true, false, {true, {}}, {false}}"},
    {"statuses", "return {redis.status_reply('FINE'), {ok = 'so'}, {err = 'MY error'}}"},
    {"error", "return redis.error_reply('MINE ' .. ARGV[1])"},
    {"one word", "return redis.error_reply('MINE')"},
    {"thrown", "error(redis.error_reply('MINE it is'))"},
    {"thrown text", "error('text')"},
    {"global", "return nothing_of_that_name"},
    {"new global", "something_new = 1"},
    {"arithmetic", "return 1 + {}"},
    {"digits", "return {tostring(2^53), 2^53 .. '', string.format('%.0f', 2^53), 1e15 / 3 .. ''}"},
    {"types",
     "return {type(redis.call('GET', KEYS[1])), type(redis.call('TIME')), "
     "type(redis.call('EXISTS', KEYS[1])), redis.call('TYPE', KEYS[1]).ok}"},
    {"pcall",
     "local r = redis.pcall('HSET', KEYS[1], 'f', ARGV[1]) return type(r) == 'table' and "
     "r.err or r"},
    {"call", "return redis.call('HINCRBY', KEYS[1], 'f', ARGV[1])"},
    {"too few", "return redis.call('GET')"},
    {"bad words", "return redis.call('SET', KEYS[1], true)"},
    {"number words",
     "redis.call('SET', KEYS[1], 2^53 + 2) redis.call('ZADD', KEYS[2], 0.5, 'x') "
     "return {redis.call('GET', KEYS[1]), redis.call('ZSCORE', KEYS[2], 'x')}"},
    {"half",
     "redis.call('DEL', KEYS[1]) redis.call('SET', KEYS[1], ARGV[1]) "
     "return redis.call('HGET', KEYS[1], 'f')"},
    {"sha", "return redis.sha1hex(ARGV[1])"},
    {"not here", "return redis.call('SUBSCRIBE', 'c')"},
    {"select", "redis.call('SELECT', '1') return redis.call('SET', KEYS[1], ARGV[1], 'PX', 1000)"},
};

// Plain commands; PlainWord() makes some of their words.
constexpr char kPlainForms[] =
    "LPUSH|RPUSH KEY MEMBER MEMBER; LPOP|LLEN KEY; LREM KEY 1|2 MEMBER; LINDEX KEY NUMBER; LRANGE "
    "KEY NUMBER NUMBER; INCR KEY; INCRBY|DECRBY KEY NUMBER; PERSIST KEY; HSCAN KEY 0; HRANDFIELD "
    "KEY "
    "9 WITHVALUES; SET KEY WORD; SET KEY WORD PX MS NX; SET KEY WORD KEEPTTL|NX; SET KEY WORD PXAT "
    "AT; GET KEY; "
    "GETRANGE KEY NUMBER NUMBER; SETRANGE KEY NUMBER WORD; PSETEX KEY MS WORD; DEL|UNLINK KEY KEY; "
    "EXISTS KEY KEY KEY; TYPE KEY; RENAME KEY KEY; PTTL KEY; PEXPIRE KEY MS GT; PEXPIRE KEY "
    "MS|NUMBER; PEXPIREAT KEY AT; HSET KEY MEMBER WORD MEMBER WORD; HSETNX KEY MEMBER WORD; "
    "HGET|HEXISTS KEY MEMBER; HMGET KEY MEMBER MEMBER none; HDEL KEY MEMBER MEMBER MEMBER; HINCRBY "
    "KEY MEMBER NUMBER; HGETALL|HKEYS|HLEN KEY; ZADD KEY NUMBER MEMBER NUMBER MEMBER; ZADD KEY "
    "NX|XX|GT|LT NUMBER MEMBER; ZREM KEY MEMBER MEMBER; ZSCORE|ZRANK KEY MEMBER; ZRANGE KEY NUMBER "
    "NUMBER WITHSCORES; ZRANGEBYSCORE KEY -inf|(1|0 +inf|NUMBER LIMIT NUMBER NUMBER; ZCARD KEY; "
    "ZCOUNT|ZREMRANGEBYRANK KEY NUMBER NUMBER";

// By the number of a family: its name in paths of scripts and in keys, and the keys of its own.
struct FamilyNames {
  std::string folder;
  std::string in_keys;
  Words extras;
};
const FamilyNames& NamesOf(size_t family) {
  static const auto* const names = new std::vector<FamilyNames>{
      {"simple", "simple", {}},
      {"reentrant", "reentrant", {"reentrant.holds"}},
      {"read_write", "rw", {"rw.readers", "rw.writers", "rw.holds"}},
      {"semaphore", "semaphore", {"semaphore.permits"}},
      {"latch", "latch", {"latch.counted"}},
      {"quorum", "quorum", {"quorum.turn"}},
      {"multi", "simple", {}},
      {"election", "election", {"election.leader", "election.observers"}}};
  return (*names)[family];
}

const LuaScript& Named(std::string_view name) {
  const auto& scripts = RandomCalls::Scripts();
  return *std::find_if(scripts.begin(), scripts.end(),
                       [name](const LuaScript& script) { return script.name == name; });
}

// Scripts refer to their texts, which stay until the program ends.
const std::string& Stored(std::string text) {
  static auto* const texts = new std::deque<std::string>;
  return texts->emplace_back(std::move(text));
}

// A script of the lock with the quarantine that a URL can ask for.
LuaScript Quarantined(const LuaScript& script, const char* piece) {
  const auto first = internal::Assemble(absl::StrCat("-- include: ", piece, "\n"));
  const std::string& body = Stored(absl::StrCat(*first, std::string(script.body)));
  return {Stored("quarantined/" + std::string(script.name)), body, Stored(base::Sha1Hex(body))};
}

std::vector<LuaScript> MakeScripts() {
  std::vector<LuaScript> scripts(std::begin(lua::kAll), std::end(lua::kAll));
  for (const LuaScript& script : lua::kAll) {
    const std::string name(script.name);
    const std::string folder = name.substr(0, name.find('/'));
    const bool acquires = name.find("/acquire") != name.npos;
    if (folder == "quorum" || folder == "latch" || folder == "primary_epoch" ||
        folder == "semaphore" || name.find("/renew") != name.npos ||
        name.find("/inspect") != name.npos) {
      continue;
    }
    const char* piece = acquires ? "common/quarantine_acquire" : "common/quarantine_end";
    if (folder == "read_write") {
      piece =
          acquires ? "read_write/common/quarantine_acquire" : "read_write/common/quarantine_end";
    }
    if (folder == "multi" && !acquires) piece = "multi/common/quarantine_end";
    scripts.push_back(Quarantined(script, piece));
  }
  const auto add = [&scripts](LuaScript script) {
    script.sha1 = Stored(base::Sha1Hex(script.body));
    scripts.push_back(script);
  };
  add(kMakeWaiters);
  for (const LuaScript& script : kSmall) add(script);
  return scripts;
}

}  // namespace

const std::vector<LuaScript>& RandomCalls::Scripts() {
  static const auto* const scripts = new std::vector<LuaScript>(MakeScripts());
  return *scripts;
}

RandomCalls::RandomCalls(uint32_t seed, Ids ids) : random_(seed), ids_(std::move(ids)) {
  BeginEpisode();
}

void RandomCalls::BeginEpisode() {
  parties_.clear();
  locks_.clear();
  asked_ = ending_ = nullptr;
  const int count = 1 + Below(3);
  for (int i = 0; i < count; ++i) {
    const auto family = static_cast<Family>(Below(8));
    Lock lock{family, i == 0 ? "orders:42" : absl::StrCat("two words {", i, "}")};
    const bool can_be_quarantined = family != kSemaphore && family != kLatch && family != kQuorum;
    lock.quarantined = can_be_quarantined && Chance(15);
    lock.capacity = Pick<int>({1, 2, 2, 3, 10});
    locks_.push_back(lock);
    if (family == kMulti) {  // one of its names is also a simple lock
      locks_.push_back({kSimple, lock.name, lock.quarantined});
    }
  }
  plain_percent_ = Chance(10) ? 60 : 2;
}

RandomCalls::Party& RandomCalls::PartyOf(const Lock& lock, char client) {
  return parties_[absl::StrCat(lock.name, "/", static_cast<int>(lock.family), "/",
                               std::string(1, client))];
}

RandomCalls::Party& RandomCalls::HolderOf(const Lock& lock) {
  for (const char client : Chance(75) ? kClients : "") {
    if (!PartyOf(lock, client).holds) continue;
    client_ = client;
    break;
  }
  return PartyOf(lock, client_);
}

std::string RandomCalls::GrantId(char client, int sequence, bool cacheable, bool native) const {
  return absl::StrCat(std::string(32, client), ":", sequence, cacheable ? "k" : native ? "n" : "");
}

// Mostly the client's latest grant; sometimes one from before, or another client's.
std::string RandomCalls::SomeGrantId(const Party& party) {
  if (Chance(5))
    return GrantId(kClients[static_cast<size_t>(Below(6))], Below(3), party.cacheable,
                   party.native);
  return GrantId(client_, std::max(0, party.sequence - (Chance(8) ? Below(3) : 0)), party.cacheable,
                 party.native);
}

// A grant's owner stays the same.
std::string RandomCalls::OwnerOf(const Lock& lock, Party& party) {
  if (party.owner.empty() || lock.family == kLatch) party.owner = NewOwner(lock, party);
  return party.owner;
}

std::string RandomCalls::NewOwner(const Lock& lock, const Party& party) {
  std::string client(32, client_);
  switch (lock.family) {
    case kLatch:
      return absl::StrCat("latch:", Chance(90) ? 60000 : 500, ":", Incarnation());
    case kReadWrite:
      if (party.reads) {
        return Chance(20)
                   ? absl::StrCat("nest:1:", GrantId(client_, party.sequence - 1, party.cacheable))
                   : absl::StrCat("read:1:", client);
      }
      break;
    case kSemaphore:
      return client;
    case kElection:
      return Chance(80) ? "user:" + Word() : client;
    default:
      break;
  }
  return Chance(25) ? "user:job 7" : client;
}

Words RandomCalls::AcquireArgs(const Lock& lock, Party& party, const std::string& grant) {
  const char* const wait = !party.waits            ? Chance(30) ? "3" : "0"
                           : lock.family == kMulti ? "2"
                                                   : "1";
  Words args = {grant, absl::StrCat(Pick<int>({30, 300, 3000, 3000, 30000, 30000})),
                absl::StrCat(party.amount, " ", party.attempt, " ", wait, " ",
                             Pick<int>({200, 1000, 10000, 10000}), Chance(8) ? " 1 " : " 0 ",
                             Chance(85) ? party.ticket : "0", " ", Pick<int>({50, 500, 2000, 2000}),
                             Chance(30) ? " 1 " : " 0 ", Channel(client_))};
  const std::string owner = OwnerOf(lock, party);
  const bool more =
      lock.family == kReadWrite ? !party.reads : lock.family == kSemaphore || lock.family == kLatch;
  if (more || party.reads || lock.family == kReadWrite || owner != std::string(32, client_)) {
    args.push_back(owner);
  }
  if (lock.family == kReadWrite && !party.reads) {
    args.push_back(Chance(75) ? "writer_first" : "phase_fair");
  } else if (lock.family == kSemaphore) {
    args.push_back(absl::StrCat(lock.capacity + (Chance(2) ? 1 : 0)));
  } else if (lock.family == kLatch && !party.told.empty()) {
    args.push_back(party.told);
  } else if (lock.family == kQuorum) {
    const std::string proposed = Proposal();
    const char* const mode = Chance(75)   ? ""
                             : Chance(30) ? " take"
                             : Chance(50) ? " queue"
                                          : " yield";
    const char* const secret = Chance(70) && party.waits ? " 0123456789abcdef" : "";
    args.push_back(absl::StrCat(proposed, secret, mode));
    if (lock.capacity == 3) {  // this one has a restart delay
      absl::StrAppend(&args.back(), *mode == '\0' ? " take" : "", " 5000 ",
                      Chance(90) ? ids_.run : "");
    }
  }
  return args;
}

// A token that a client proposes to a quorum's node.
std::string RandomCalls::Proposal() {
  const int64_t proposed = now_us_ + (Chance(90) ? Below(2000) - 200 : Below(4000000) - 2000000);
  return absl::StrCat(std::max<int64_t>(1, proposed));
}

// The keys of the contract, the call's own keys, and those of the family.
Words RandomCalls::KeysOf(const Lock& lock, const Words& own, bool with_extras) {
  const FamilyNames& names = NamesOf(lock.family);
  const std::string& kind = names.in_keys;
  const auto key = [](const std::string& name, const std::string& suffix) {
    return support::AuxiliaryKey(name, suffix);
  };
  Words keys = {lock.name, key(lock.name, kind + ".queue"), key(lock.name, kind + ".waiters"),
                key(lock.name, "fence")};
  for (const std::string& suffix : own) {
    keys.push_back(key(lock.name, suffix.starts_with("gone.") ? kind + "." + suffix : suffix));
  }
  if (!with_extras) return keys;
  for (const std::string& suffix : names.extras) keys.push_back(key(lock.name, suffix));
  for (int i = 1; lock.family == kMulti && i < lock.capacity + 1; ++i) {
    const std::string name = absl::StrCat(lock.name, "/", i);
    for (const std::string& each :
         {name, key(name, "simple.queue"), key(name, "simple.waiters"), key(name, "fence")}) {
      keys.push_back(each);
    }
  }
  return keys;
}

RandomCalls::Step RandomCalls::Script(const Lock& lock, const char* operation,
                                      const Words& own_keys, Words args, bool with_extras) {
  std::string name = absl::StrCat(NamesOf(lock.family).folder, "/", operation);
  const std::string_view op = operation;
  Words keys = KeysOf(lock, own_keys, with_extras);
  if (lock.quarantined && !op.starts_with("renew") && op != "inspect" && op != "leader" &&
      op != "proclaim") {
    name = "quarantined/" + name;
    keys.push_back("redlatch:reign");
    args.push_back(Chance(90) ? ids_.replication : Chance(50) ? "" : std::string(40, 'e'));
    args.push_back(Chance(97) ? "400" : "500");
  }
  if (lock.family == kQuorum && lock.capacity == 3 &&
      (op == "acquire" || op == "release" || op == "renew")) {
    keys.push_back("redlatch:quorum");
  }
  Step step;
  step.script = &Named(name);
  step.words = {"EVALSHA", std::string(step.script->sha1), absl::StrCat(keys.size())};
  step.words.insert(step.words.end(), keys.begin(), keys.end());
  step.words.insert(step.words.end(), args.begin(), args.end());
  return step;
}

RandomCalls::Step RandomCalls::Acquire(const Lock& lock) {
  Party& party = PartyOf(lock, client_);
  if (Chance(45) || party.sequence == 0) {  // a new request
    const std::string told = party.told;
    party = {.sequence = party.sequence + 1};
    party.told = told;
    party.waits = Chance(75);
    party.reads = lock.family == kReadWrite && Chance(50);
    party.cacheable = lock.family <= kReadWrite && Chance(20);
    if (lock.family == kSimple && Chance(20)) {
      party.cacheable = false;
      party.native = party.holds = true;
      return {.words = {"SET", lock.name, GrantId(client_, party.sequence, false, true), "NX", "PX",
                        "3000"}};
    }
    if (lock.family == kSemaphore) {
      party.amount = 1 + (Chance(40) ? Below(lock.capacity + (Chance(5) ? 1 : 0)) : 0);
    } else if (lock.family != kLatch && Chance(12)) {
      party.amount = Pick<int>({2, 8, 64});
    }
  } else if (party.native) {
    return Cancel(lock);
  } else if (Chance(20) && party.last_script != nullptr) {  // the same bytes, late
    asked_ = &party;
    Step step;
    step.script = party.last_script;
    step.words = party.last;
    return step;
  } else {
    ++party.attempt;
  }
  const std::string grant =
      Chance(92) ? GrantId(client_, party.sequence, party.cacheable) : SomeGrantId(party);
  asked_ = &party;
  Step step = Script(lock, party.reads ? "acquire_read" : "acquire", {"gone." + grant},
                     AcquireArgs(lock, party, grant));
  if (Chance(80)) party.last = step.words, party.last_script = step.script;
  return step;
}

RandomCalls::Step RandomCalls::Release(const Lock& lock) {
  Party& party = HolderOf(lock);
  ending_ = &party;
  const std::string grant = SomeGrantId(party);
  const char* const operation = party.reads ? "release_read" : "release";
  // What the next owner's token of a quorum's node is to be.
  Words proposal;
  if (lock.family == kQuorum) {
    proposal.push_back(Proposal());
    if (lock.capacity == 3) {
      absl::StrAppend(&proposal.back(), " take 5000 ", Chance(90) ? ids_.run : "");
    }
  }
  if (Chance(60)) {
    Words plain = {grant};
    plain.insert(plain.end(), proposal.begin(), proposal.end());
    return Script(lock, operation, {}, plain);
  }
  const int64_t first = party.token == "0" ? 0 : std::stoll(party.token);
  const int used = Below(party.amount + 1);
  Words args = {grant,
                first == 0 || (party.cacheable && Chance(30))
                    ? absl::StrCat("0 0 ", Chance(50) ? 0 : 5000)
                    : absl::StrCat(first + used - (used > 0 ? 1 : 0), " ",
                                   party.cacheable ? 0 : first + party.amount - 1,  // may be behind
                                   Chance(50) ? " 0" : " 5000"),
                OwnerOf(lock, party)};
  std::string fresh = grant;
  const bool again = lock.family != kSemaphore && lock.family != kMulti && Chance(50);
  if (again) {
    ++party.sequence;
    party.attempt = 1;
    if (!party.reads) party.owner = Chance(90) ? party.owner : "";
    party.waits = true;
    party.ticket = "0";
    asked_ = &party;
    fresh = GrantId(client_, party.sequence, party.cacheable);
    for (std::string& arg : AcquireArgs(lock, party, fresh)) args.push_back(std::move(arg));
  } else {
    args.insert(args.end(), proposal.begin(), proposal.end());
  }
  return Script(lock, operation, {"gone." + grant, "gone." + fresh}, args);
}

RandomCalls::Step RandomCalls::Renew(const Lock& lock) {
  Party& party = HolderOf(lock);
  Words args = {SomeGrantId(party), absl::StrCat(Pick<int>({30, 300, 3000, 30000}))};
  if (lock.family == kQuorum && lock.capacity == 3) {
    args.push_back("5000 " + (Chance(80) ? ids_.run : std::string()));
  } else if (args[0].ends_with('n') && Chance(50)) {
    args.push_back("token");
  } else if (args[0].ends_with('k') && lock.family != kSemaphore && lock.family != kMulti) {
    args.push_back(Channel(client_));
    if (!party.reads) {
      const int64_t first = std::stoll(party.token);
      args.push_back(absl::StrCat(first == 0 ? 0 : first + party.amount - 1));
    }
  }
  return Script(lock, party.reads ? "renew_read" : "renew", {}, args);
}

RandomCalls::Step RandomCalls::Cancel(const Lock& lock) {
  Party& party = PartyOf(lock, client_);
  const std::string grant = SomeGrantId(party);
  Words args = {grant, Chance(60) ? "0" : "5000", absl::StrCat(party.amount)};
  if (lock.family == kQuorum && Chance(50)) {
    args.push_back(Chance(70) ? absl::StrCat(party.attempt) : "");
    if (Chance(40)) args.push_back("redlatch:");
  }
  return Script(lock, party.reads ? "cancel_read" : "cancel", {"gone." + grant}, args);
}

RandomCalls::Step RandomCalls::ForPeople(const Lock& lock) {
  if (lock.family == kLatch) return Special(lock);
  if (Chance(70)) {
    const bool extras = lock.family != kQuorum;
    return Script(lock, "inspect", {}, {absl::StrCat(Pick<int>({0, 3, 50}))}, extras);
  }
  Words args = {"redlatch:"};
  if (Chance(30)) args.emplace_back("more");
  const Words own = lock.family == kSemaphore ? Words{"semaphore.forced"} : Words{};
  return Script(lock, "force_release", own, args);
}

RandomCalls::Step RandomCalls::Special(const Lock& lock) {
  Party& party = PartyOf(lock, client_);
  if (lock.family == kSemaphore) {
    return Script(lock, "set_capacity", {}, {absl::StrCat(1 + Below(lock.capacity + 2))});
  }
  if (lock.family == kQuorum) {
    const int64_t token = party.token == "0" ? now_us_ : std::stoll(party.token);
    const std::string grant = SomeGrantId(party);
    return Script(lock, "raise", {"gone." + grant},
                  {grant, absl::StrCat(token + Below(3) - 1), Chance(50) ? "0" : "3000",
                   absl::StrCat(party.attempt)});
  }
  if (lock.family == kElection && Chance(50)) {
    Party& leader = HolderOf(lock);
    return Script(lock, "proclaim", {}, {leader.token, absl::StrCat(Below(6)), Word()});
  }
  if (lock.family == kElection) {
    return Script(lock, "leader", {},
                  Chance(40) ? Words()
                             : Words{Channel(client_), std::string(16, client_),
                                     absl::StrCat(Pick<int>({1, 300, 3000, 30000}))});
  }
  if (lock.family != kLatch) return Acquire(lock);
  const std::string owner = OwnerOf(lock, party);
  if (Chance(20)) {
    return Script(lock, "create", {}, {"4", "60000", Chance(95) ? Incarnation() : "other:2"});
  }
  if (Chance(25)) return Script(lock, "count", {}, {owner});
  Words args = {owner, absl::StrCat(std::string(32, client_), ":", Below(4)),
                absl::StrCat(Below(3))};
  if (!party.when.empty() && Chance(30)) args.push_back(party.when);
  asked_ = &party;
  return Script(lock, "count_down", {}, args);
}

RandomCalls::Step RandomCalls::Sleep() {
  Step step{.kind = Step::Kind::kSleep};
  const int how = Below(100);
  step.sleep_us = how < 55   ? 1 + Below(3000)
                  : how < 80 ? 1 + Below(100'000)
                  : how < 95 ? 1 + Below(3'000'000)
                  : how < 99 ? 1 + Below(40'000'000)
                             : 1 + Below(200'000'000);
  now_us_ += step.sleep_us;
  return step;
}

RandomCalls::Step RandomCalls::MakeWaiters(const Lock& lock) {
  const Words keys = KeysOf(lock, {}, true);
  const bool writers = lock.family == kReadWrite && Chance(50);
  Step step;
  step.script = &Named(kMakeWaiters.name);
  const std::string channel = Chance(50) ? "redlatch:none" : Channel(Pick<char>({'a', 'b'}));
  const std::string owner = lock.family == kReadWrite && !writers
                                ? "read:1:" + std::string(32, '0')
                                : OwnerOf(lock, PartyOf(lock, client_));
  step.words = {"EVALSHA",
                std::string(step.script->sha1),
                "2",
                writers ? keys[5] : keys[1],
                keys[2],
                absl::StrCat(Pick<int>({3, 20, 63, 64, 65, 130})),
                channel,
                owner,
                lock.family == kSemaphore && Chance(30) ? "2" : "1"};
  return step;
}

RandomCalls::Step RandomCalls::Accident() {
  const Lock& lock = Pick(locks_);
  const Words keys = KeysOf(lock, {});
  const std::string& key = Pick(keys);
  switch (full_ ? Below(3) : Chance(25) ? 5 + Below(3) : Below(10)) {
    case 0:
    case 1:
      full_ = !full_;
      return {.words = {"CONFIG", "SET", "maxmemory", full_ ? "1" : "0"}};
    case 2:
    case 3:
      return {.words = {"DEL", key}};
    case 4:
      return {.words = {"PEXPIRE", key, "-1"}};
    case 5:
      return {.words = {"SET", lock.name, "foreign", "PX", "3000"}};
    case 6: {
      const std::string& where = Chance(70) ? lock.name : key;
      return {.words = {"HSET", where, "kind", Chance(50) ? "simple/1" : "else"}};
    }
    case 7:
      return {.words = {"RPUSH", key, "x"}};
    default:
      return MakeWaiters(lock);
  }
}

RandomCalls::Step RandomCalls::Next() {
  asked_ = ending_ = nullptr;
  client_ = kClients[static_cast<size_t>(Below(6))];
  if (Chance(plain_percent_)) return Chance(70) ? PlainCommand() : SmallScript();
  if (Chance(30)) return Sleep();
  if (Chance(2)) {
    return {.kind = Chance(65) ? Step::Kind::kSubscribe : Step::Kind::kUnsubscribe,
            .client = client_};
  }
  if (Below(1000) < (full_ ? 100 : 6)) return Accident();
  const Lock& lock = Pick(locks_);
  if (lock.family == kLatch && Chance(40)) return Special(lock);
  if (lock.family == kElection && Chance(20)) return Special(lock);
  const int how = Below(100);
  if (how < 45) return Acquire(lock);
  if (lock.family == kLatch) return how < 80 ? Special(lock) : Cancel(lock);
  if (how < 70) return Release(lock);
  if (how < 82) return Renew(lock);
  if (how < 91) return Cancel(lock);
  if (how < 96) return ForPeople(lock);
  return Special(lock);
}

void RandomCalls::Learn(const redis::Reply& reply) {
  std::vector<std::string> words = absl::StrSplit(reply.text, ' ');
  if (ending_ != nullptr) ending_->holds = false;
  if (asked_ == nullptr) return;
  if (words[0] == "released" && words.size() > 1) words.erase(words.begin());
  if (words[0] == "granted" && words.size() > 1) {
    asked_->token = words[1];
    asked_->holds = true;
    if (words[1].size() == 16) now_us_ = std::max<int64_t>(now_us_, std::stoll(words[1]));
  } else if (words[0] == "queued" && words.size() > 3) {
    asked_->ticket = words[3];
    if (words[3].size() == 16) now_us_ = std::max<int64_t>(now_us_, std::stoll(words[3]));
  } else if (words.size() > 1 && words[1].size() == 16) {
    asked_->when = words[1];
  }
  const auto told = std::find(words.begin(), words.end(), "told");
  if (words.end() - told >= 3) asked_->told = told[1] + " " + told[2];
}

// --- Commands unrelated to locks

std::string RandomCalls::Word() {
  return Pick<std::string>({"a", "b", "1", "-1", "0", "2.5", "abc", "1e3", "-inf", "+inf", "(1",
                            "007", "", "9007199254740993", "x y", std::string("nul\0x", 5), "3",
                            "10", "-2"});
}

std::string RandomCalls::PlainWord(const std::string& form) {
  if (form.find('|') != form.npos) {
    const Words forms = absl::StrSplit(form, '|');
    return PlainWord(Pick(forms));
  }
  if (form == "KEY") return absl::StrCat("plain", Below(4));
  if (form == "MEMBER") return absl::StrCat("m", Below(6));
  if (form == "NUMBER") return Chance(93) ? absl::StrCat(Below(12) - 4) : Word();
  if (form == "MS") return absl::StrCat(Below(12) - 1, "00");
  if (form == "AT") return absl::StrCat(now_us_ / 1000 + Below(3000) - 100);
  return form == "WORD" ? Word() : form;
}

RandomCalls::Step RandomCalls::PlainCommand() {
  static const auto* const kForms = new Words(absl::StrSplit(kPlainForms, "; "));
  const Words words = absl::StrSplit(Pick(*kForms), ' ');
  Step step;
  for (const std::string& word : words) step.words.push_back(PlainWord(word));
  return step;
}

RandomCalls::Step RandomCalls::SmallScript() {
  const int number = Below(static_cast<int>(std::size(kSmall)));
  Step step{.script = &Named(kSmall[static_cast<size_t>(number)].name)};
  step.words = {"EVALSHA",
                std::string(step.script->sha1),
                "2",
                absl::StrCat("plain", Below(4)),
                absl::StrCat("plain", Below(4)),
                Word()};
  return step;
}

}  // namespace redlatch::sim
