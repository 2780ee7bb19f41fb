#include "src/cli/inspect/redisson.h"

#include <algorithm>
#include <deque>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "src/lock/key_set.h"

namespace redlatch::cli::redisson {

namespace {

using redis::Reply;

constexpr std::string_view kQueue = "redisson_lock_queue:";
constexpr std::string_view kToken = "redisson_lock_token:";
constexpr std::string_view kPermits = ":timeout";
constexpr std::string_view kWrites = ":write";

// The part of the name's keys that a cluster hashes. A name with braces has it already.
std::string Tagged(const std::string& name) {
  return name.find('{') == name.npos ? absl::StrCat("{", name, "}") : name;
}
std::string Untagged(std::string_view tagged) {
  const bool only_tag = tagged.starts_with('{') && tagged.find('}') == tagged.size() - 1;
  return std::string(only_tag ? tagged.substr(1, tagged.size() - 2) : tagged);
}
std::string Key(std::string_view prefix, const std::string& name) {
  return std::string(prefix) + Tagged(name);
}
std::string PermitsKey(const std::string& name) { return Tagged(name).append(kPermits); }

using Scored = std::vector<std::pair<std::string, int64_t>>;  // the score is a time in ms

// What the keys of one row tell.
struct Facts {
  LockRow* row;
  std::string mode = {};
  std::string token = {};
  std::vector<std::string> queue = {};
  Scored places = {};   // of the waiters in that queue, and until when they keep them
  Scored permits = {};  // and when they expire
  int64_t queued = 0;
  int64_t taken = 0;  // permits
  bool expirable = false;
  int64_t lock_waiters = 0;  // clients that listen to the channel of a lock,
  int64_t semaphore_waiters = 0;
  int64_t latch_waiters = 0;
};

// A page of HSCAN has the holders, and how often each has locked it.
void TakeHolders(const Reply& page, const Facts& facts) {
  if (page.elements.size() != 2) return;
  const std::vector<Reply>& fields = page.elements[1].elements;
  for (size_t i = 0; i + 1 < fields.size(); i += 2) {
    std::string_view holder = fields[i].text;
    const bool writes = facts.mode.empty() || holder.ends_with(kWrites);
    if (holder.ends_with(kWrites)) holder.remove_suffix(kWrites.size());
    if (!IsHolder(holder)) continue;
    facts.row->holders.push_back({.hold = std::string(holder),
                                  .owner = writes ? "" : "read",
                                  .remaining = facts.row->remaining,
                                  .permits = NumberIn(fields[i + 1])});
  }
  // The writer comes before what it reads.
  std::ranges::stable_sort(facts.row->holders, {}, &LockInfo::Party::owner);
}

// Asks for a sorted set's size, and its first members.
void AskScored(Questions& questions, const std::string& key, size_t most, int64_t& size,
               Scored& first) {
  questions.Add({"ZCARD", key}, [&size](const Reply& reply) { size += reply.integer; });
  questions.Add({"ZRANGE", key, "0", absl::StrCat(most - 1), "WITHSCORES"},
                [&first](const Reply& reply) {
                  for (size_t i = 0; i + 1 < reply.elements.size(); i += 2) {
                    first.emplace_back(reply.elements[i].text, NumberIn(reply.elements[i + 1]));
                  }
                });
}

void AskLock(Questions& questions, size_t most, Facts& facts) {
  const std::string& name = facts.row->name;
  if (facts.row->type == "hash") {
    questions.Add({"HGET", name, "mode"},
                  [&facts](const Reply& reply) { facts.mode = reply.text; });
    questions.Add({"HSCAN", name, "0", "COUNT", absl::StrCat(most)},
                  [&facts](const Reply& reply) { TakeHolders(reply, facts); });
  }
  questions.Add({"GET", Key(kToken, name)},
                [&facts](const Reply& reply) { facts.token = reply.text; });
  AskScored(questions, Key("redisson_lock_timeout:", name), most, facts.queued, facts.places);
}

void AskCount(Questions& questions, size_t most, Facts& facts) {
  const std::string& name = facts.row->name;
  AskScored(questions, internal::AuxiliaryKey(name, kPermitsSuffix), most, facts.taken,
            facts.permits);
  questions.Add({"EXISTS", PermitsKey(name)},
                [&facts](const Reply& reply) { facts.expirable = reply.integer > 0; });
  AskScored(questions, PermitsKey(name), most, facts.taken, facts.permits);
}

// Asks what a user that may only read may not be allowed: a fair lock's queue, and how many clients
// listen to the lock's channel, and so wait for it.
void AskWaiters(bool in_cluster, size_t most, std::vector<Question>& questions, Facts& facts) {
  const std::string& name = facts.row->name;
  const std::string queue = Key(kQueue, name);
  questions.push_back({queue, redis::Command{"LRANGE", queue, "0", absl::StrCat(most - 1)},
                       [&facts](const Reply& reply) {
                         for (const Reply& each : reply.elements) facts.queue.push_back(each.text);
                       }});
  const auto ask = [&](const std::string& channel, int64_t& waiters) {
    questions.push_back({name,
                         redis::Command{"PUBSUB", in_cluster ? "SHARDNUMSUB" : "NUMSUB", channel},
                         [&waiters](const Reply& reply) {
                           if (reply.elements.size() == 2) waiters += reply.elements[1].integer;
                         }});
  };
  ask(Key("redisson_lock__channel:", name), facts.lock_waiters);
  ask(Key("redisson_rwlock:", name), facts.lock_waiters);
  ask(Key("redisson_sc:", name), facts.semaphore_waiters);
  ask(absl::StrCat("redisson_countdownlatch__channel__{", name, "}"), facts.latch_waiters);
}

// A semaphore or a latch is such a number, without a TTL.
bool IsCount(const std::string& value) {
  int64_t number = 0;
  return absl::SimpleAtoi(value, &number) && absl::StrCat(number) == value;
}

absl::Duration Until(int64_t then_ms, int64_t now_ms) {
  constexpr int64_t kNever = 922'337'203'685'477;  // as Redisson writes it
  if (then_ms >= kNever) return absl::InfiniteDuration();
  return absl::Milliseconds(std::max<int64_t>(then_ms - now_ms, 0));
}

void DecideLock(const Facts& facts, int64_t now_ms) {
  LockRow& row = *facts.row;
  const bool read_write = facts.mode == "read" || facts.mode == "write";
  const bool was_used = row.type == "none" && (facts.queued > 0 || !facts.token.empty());
  if (!read_write && row.holders.empty() && !was_used) return;
  row.kind = read_write             ? std::string(kReadWrite)
             : facts.queued > 0     ? "redisson_fair_lock"
             : !facts.token.empty() ? "redisson_fenced_lock"
                                    : "redisson_lock";
  row.reading = facts.mode == "read";
  row.holding = std::ssize(row.holders);
  row.waiting = std::max(facts.queued, facts.lock_waiters);
  if (!absl::SimpleAtoi(facts.token, &row.token)) row.token = 0;
  std::vector<std::string> queue = facts.queue;
  if (queue.empty())
    std::ranges::transform(facts.places, std::back_inserter(queue), &Scored::value_type::first);
  for (const std::string& waiter : queue) {
    const auto place = std::ranges::find(facts.places, waiter, &Scored::value_type::first);
    const int64_t end_ms = place == facts.places.end() ? now_ms : place->second;
    row.waiters.push_back(
        {.hold = waiter, .owner = std::string(kQueued), .remaining = Until(end_ms, now_ms)});
  }
}

void DecideCount(const Facts& facts, int64_t now_ms) {
  LockRow& row = *facts.row;
  const bool semaphore = facts.taken > 0 || facts.semaphore_waiters > 0;
  row.kind = facts.expirable           ? "redisson_permit_expirable_semaphore"
             : semaphore               ? "redisson_semaphore"
             : facts.latch_waiters > 0 ? "redisson_latch"
                                       : std::string(kEither);
  row.to_go = NumberIn({.type = Reply::Type::kString, .text = row.hold});
  row.holding = row.used = facts.taken;
  row.waiting = facts.semaphore_waiters + facts.latch_waiters;
  for (const auto& [permit, expiry_ms] : facts.permits) {
    row.holders.push_back({.hold = facts.expirable ? absl::BytesToHexString(permit) : permit,
                           .remaining = Until(expiry_ms, now_ms)});
  }
}

// A read lock's thread has one key per read, which expires with the lease of that read.
void AskReads(Questions& questions, LockRow& row) {
  constexpr int64_t kMostReads = 8;
  for (LockInfo::Party& reader : row.holders) {
    if (reader.owner != "read") continue;
    reader.remaining = absl::ZeroDuration();
    for (int64_t i = 1; i <= std::min(reader.permits, kMostReads); ++i) {
      const std::string key =
          absl::StrCat(Tagged(row.name), ":", reader.hold, ":rwlock_timeout:", i);
      questions.Add({"PTTL", key}, [&reader](const Reply& reply) {
        reader.remaining = std::max(reader.remaining, absl::Milliseconds(reply.integer));
      });
    }
  }
}

}  // namespace

std::string InWords(std::string_view kind) {
  if (!kind.starts_with("redisson_")) return "";
  return absl::StrReplaceAll(std::string(kind), {{"redisson", "Redisson"},
                                                 {"read_write", "read-write"},
                                                 {"permit_expirable", "expirable"},
                                                 {"_", " "}});
}

std::array<std::string, 3> KeysOf(const std::string& name) {
  return {Key(kQueue, name), Key(kToken, name), PermitsKey(name)};
}

std::string NameIn(std::string_view key) {
  for (const std::string_view prefix : {kQueue, kToken}) {
    if (key.starts_with(prefix)) return Untagged(key.substr(prefix.size()));
  }
  const bool of_permits = key.ends_with(kPermits) && key.find('{') != key.npos;
  return of_permits ? Untagged(key.substr(0, key.size() - kPermits.size())) : "";
}

bool IsHolder(std::string_view field) {
  const size_t colon = std::min(field.find(':'), field.size());
  const std::string_view id = field.substr(0, colon), number = field.substr(colon);
  return (id.size() == 32 || id.size() == 36) &&
         id.find_first_not_of("0123456789abcdef-") == id.npos && number.size() > 1 &&
         number.find_first_not_of("0123456789", 1) == number.npos;
}

absl::Status Read(Server& server, const std::vector<LockRow*>& rows, int64_t now_us, size_t most) {
  std::deque<Facts> all;
  Questions questions;
  std::vector<Question> of_waiters;
  for (LockRow* const row : rows) {
    const bool forever = row->remaining == absl::InfiniteDuration();
    const bool is_count = row->type == "string" && forever && IsCount(row->hold);
    if (!is_count && !row->kind.empty()) continue;
    Facts& facts = all.emplace_back(Facts{.row = row});
    is_count ? AskCount(questions, most, facts) : AskLock(questions, most, facts);
    AskWaiters(server.is_cluster(), most, of_waiters, facts);
  }
  if (absl::Status asked = questions.Ask(server); !asked.ok()) return asked;
  (void)server.Ask(of_waiters, Unreachable::kIsNil);
  Questions of_reads;
  for (const Facts& facts : all) {
    LockRow& row = *facts.row;
    row.type == "string" ? DecideCount(facts, now_us / 1000) : DecideLock(facts, now_us / 1000);
    AskReads(of_reads, row);
  }
  if (absl::Status asked = of_reads.Ask(server); !asked.ok()) return asked;
  for (const Facts& facts : all) {
    LockRow& row = *facts.row;
    if (!row.is_redissons()) continue;
    row.hold = row.holders.empty() ? "" : row.holders[0].hold;
    if (!row.holders.empty()) row.remaining = row.holders[0].remaining;
  }
  return absl::OkStatus();
}

}  // namespace redlatch::cli::redisson
