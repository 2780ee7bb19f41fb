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

namespace kinds = internal::kinds;
using redis::Reply;

constexpr std::string_view kWrites = ":write";

using Scored = std::vector<std::pair<std::string, int64_t>>;  // the score is a time in ms

// What the keys of one row tell.
struct Facts {
  LockRow* row;
  std::string mode = {};
  Scored places = {};    // a fair lock's waiters, and until when they keep their places
  Scored permits = {};   // taken ones, and when they expire
  bool foreign = false;  // the hash has a field that no lock has
  int64_t token = 0;     // of a fenced lock
  int64_t queued = 0;
  int64_t taken = 0;      // permits of a semaphore, by C++ clients
  int64_t expirable = 0;  // taken permits of an expirable semaphore
  // Clients that listen to the channel of a lock, a semaphore or a latch.
  int64_t wait_for_lock = 0, wait_for_permits = 0, wait_for_latch = 0;

  std::string Key(std::string_view suffix) const {
    return internal::AuxiliaryKey(row->name, suffix);
  }
};

// A page of HSCAN has the holders, and how often each has locked it.
void TakeHolders(const Reply& page, Facts& facts) {
  if (page.elements.size() != 2) return;
  const std::vector<Reply>& fields = page.elements[1].elements;
  for (size_t i = 0; i + 1 < fields.size(); i += 2) {
    std::string_view holder = fields[i].text;
    const bool writes = facts.mode.empty() || holder.ends_with(kWrites);
    if (holder.ends_with(kWrites)) holder.remove_suffix(kWrites.size());
    if (!IsHolder(holder)) facts.foreign = facts.foreign || holder != "mode";
    if (!IsHolder(holder)) continue;
    facts.row->parties.holders.push_back({.hold = std::string(holder),
                                          .owner = writes ? "" : "read",
                                          .remaining = facts.row->remaining,
                                          .permits = NumberIn(fields[i + 1])});
  }
  // The writer comes before what it reads.
  std::ranges::stable_sort(facts.row->parties.holders, {}, &LockInfo::Party::owner);
}

// Asks for a sorted set's size, and its first members.
void AskScored(Questions& questions, const std::string& key, size_t most, int64_t& size,
               Scored& first) {
  questions.Add({"ZCARD", key}, [&size](const Reply& reply) { size += reply.integer; });
  const auto take = [&first](const Reply& reply) {
    for (size_t i = 0; i + 1 < reply.elements.size(); i += 2) {
      first.emplace_back(reply.elements[i].text, NumberIn(reply.elements[i + 1]));
    }
  };
  questions.Add({"ZRANGE", key, "0", absl::StrCat(most - 1), "WITHSCORES"}, take);
}

void AskLock(Questions& questions, size_t most, Facts& facts) {
  const std::string& name = facts.row->name;
  if (facts.row->type == "hash") {
    questions.Add({"HGET", name, "mode"},
                  [&facts](const Reply& reply) { facts.mode = reply.text; });
    questions.Add({"HSCAN", name, "0", "COUNT", absl::StrCat(most)},
                  [&facts](const Reply& reply) { TakeHolders(reply, facts); });
  }
  questions.Add({"GET", facts.Key(kinds::kRedissonToken)},
                [&facts](const Reply& reply) { facts.token = NumberIn(reply); });
  AskScored(questions, facts.Key(kinds::kRedissonTimeouts), most, facts.queued, facts.places);
}

// Asks what a user that may only read may not be allowed: a fair lock's queue, and how many clients
// listen to the lock's channel, and so wait for it.
void AskWaiters(bool in_cluster, size_t most, std::vector<Question>& questions, Facts& facts) {
  const std::string& name = facts.row->name;
  const std::string queue = facts.Key(kinds::kRedissonQueue);
  const auto take = [row = facts.row](const Reply& reply) {
    for (const Reply& each : reply.elements) row->parties.waiters.push_back({.hold = each.text});
  };
  questions.push_back({queue, redis::Command{"LRANGE", queue, "0", absl::StrCat(most - 1)}, take});
  const auto ask = [&](const std::string& channel, int64_t& waiters) {
    const auto add = [&waiters](const Reply& reply) {
      if (reply.elements.size() == 2) waiters += reply.elements[1].integer;
    };
    const std::string_view count = in_cluster ? "SHARDNUMSUB" : "NUMSUB";
    questions.push_back({name, redis::Command{"PUBSUB", count, channel}, add});
  };
  ask(facts.Key("redisson_lock__channel:"), facts.wait_for_lock);
  ask(facts.Key("redisson_rwlock:"), facts.wait_for_lock);
  ask(facts.Key("redisson_sc:"), facts.wait_for_permits);
  ask(absl::StrCat("redisson_countdownlatch__channel__{", name, "}"), facts.wait_for_latch);
}

// The name in a key that has it as its tag.
std::string Untagged(std::string_view tagged) {
  const bool only_tag = tagged.starts_with('{') && tagged.find('}') == tagged.size() - 1;
  return std::string(only_tag ? tagged.substr(1, tagged.size() - 2) : tagged);
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
  const bool was_used = row.type == "none" && (facts.queued > 0 || facts.token > 0);
  const bool is_held = !row.parties.holders.empty() && !facts.foreign;
  if (!read_write && !is_held && !was_used) return;
  row.kind = read_write         ? kinds::kRedissonReadWriteLock
             : facts.queued > 0 ? kinds::kRedissonFairLock
             : facts.token > 0  ? kinds::kRedissonFencedLock
                                : kinds::kRedissonLock;
  row.token = facts.token;
  row.reading = facts.mode == "read";
  row.holding = std::ssize(row.parties.holders);
  row.waiting = std::max(facts.queued, facts.wait_for_lock);
  for (LockInfo::Party& waiter : row.parties.waiters) {
    waiter.owner = kQueued;
    for (const auto& [its, end_ms] : facts.places) {
      if (its == waiter.hold) waiter.remaining = Until(end_ms, now_ms);
    }
  }
}

// `certain`: a key of redlatch shows that it is a latch, unless permits are taken.
void DecideCount(const Facts& facts, bool certain, int64_t now_ms) {
  LockRow& row = *facts.row;
  row.kind = facts.expirable > 0                             ? kinds::kRedissonExpirableSemaphore
             : facts.taken > 0 || facts.wait_for_permits > 0 ? kinds::kRedissonSemaphore
             : facts.wait_for_latch > 0 || certain           ? kinds::kRedissonLatch
                                                             : kEither;
  row.to_go = NumberIn({.type = Reply::Type::kString, .text = row.hold});
  row.holding = facts.taken + facts.expirable;
  row.waiting = facts.wait_for_permits + facts.wait_for_latch;
  for (const auto& [permit, expiry_ms] : facts.permits) {
    row.parties.holders.push_back(
        {.hold = absl::BytesToHexString(permit), .remaining = Until(expiry_ms, now_ms)});
  }
}

// A read lock's thread has one key per read, which expires with the lease of that read.
void AskReads(Questions& questions, LockRow& row) {
  constexpr int64_t kMostReads = 8;
  for (LockInfo::Party& reader : row.parties.holders) {
    if (reader.owner != "read") continue;
    reader.remaining = absl::ZeroDuration();
    for (int64_t i = 1; i <= std::min(reader.permits, kMostReads); ++i) {
      const std::string suffix = absl::StrCat(":", reader.hold, ":rwlock_timeout:", i);
      questions.Add(
          {"PTTL", internal::AuxiliaryKey(row.name, suffix)}, [&reader](const Reply& reply) {
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

std::string NameIn(std::string_view key) {
  for (const std::string_view prefix : {kinds::kRedissonQueue, kinds::kRedissonToken}) {
    if (key.starts_with(prefix)) return Untagged(key.substr(prefix.size()));
  }
  const bool of_permits = key.ends_with(kinds::kRedissonPermits) && key.find('{') != key.npos;
  return of_permits ? Untagged(key.substr(0, key.size() - kinds::kRedissonPermits.size())) : "";
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
    if (is_count) {
      AskScored(questions, facts.Key(kinds::kRedissonPermitsSuffix), most, facts.taken,
                facts.permits);
      AskScored(questions, facts.Key(kinds::kRedissonPermits), most, facts.expirable,
                facts.permits);
    } else {
      AskLock(questions, most, facts);
    }
    AskWaiters(server.is_cluster(), most, of_waiters, facts);
  }
  if (absl::Status asked = questions.Ask(server); !asked.ok()) return asked;
  (void)server.Ask(of_waiters, Unreachable::kIsNil);
  Questions of_reads;
  for (const Facts& facts : all) {
    LockRow& row = *facts.row;
    if (row.type == "string") {
      DecideCount(facts, most == 1, now_us / 1000);
    } else {
      DecideLock(facts, now_us / 1000);
    }
    if (row.parties.holders.size() > most) row.parties.holders.resize(most);
    if (most > 1) AskReads(of_reads, row);
  }
  if (absl::Status asked = of_reads.Ask(server); !asked.ok()) return asked;
  for (const Facts& facts : all) {
    LockRow& row = *facts.row;
    if (!row.is_redissons()) continue;
    row.hold = row.parties.holders.empty() ? "" : row.parties.holders[0].hold;
    if (!row.parties.holders.empty()) row.remaining = row.parties.holders[0].remaining;
  }
  return absl::OkStatus();
}

}  // namespace redlatch::cli::redisson
