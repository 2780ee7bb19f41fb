#include "src/cli/inspect/inspect.h"

#include <fnmatch.h>
#include <unistd.h>

#include <iostream>
#include <set>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "lua/scripts.h"
#include "redlatch/client.h"
#include "redlatch/election.h"
#include "redlatch/red_lock.h"
#include "redlatch/reentrant_lock.h"
#include "redlatch/reentrant_read_write_lock.h"
#include "redlatch/semaphore.h"
#include "redlatch/simple_lock.h"
#include "src/base/majority.h"
#include "src/base/parker.h"
#include "src/cli/term/command_line.h"
#include "src/lock/client_core.h"
#include "src/lock/description.h"
#include "src/lock/key_set.h"
#include "src/lock/script_codec.h"
#include "src/quorum/quorum.h"
#include "src/redis/link/script_runner.h"

namespace redlatch::cli {
namespace {

namespace kinds = internal::kinds;
using redis::Reply;

// The suffixes of which each lock has at most one key.
struct PartSuffix {
  std::string_view suffix;
  Part part;
};
constexpr PartSuffix kPartSuffixes[] = {{internal::kFenceSuffix, kFence},
                                        {internal::kinds::kReadersSuffix, kReaders},
                                        {internal::kinds::kPermitsSuffix, kPermits},
                                        {internal::kinds::kWritersSuffix, kWriters},
                                        {internal::kinds::kLeaderSuffix, kLeader},
                                        {kinds::kRedissonPermitsSuffix, kRedisson}};

constexpr std::string_view kVersion = "/2";  // of the protocol, in `kind`
constexpr std::string_view kQueueEnd = ".queue";
// lua/redisson/inspect.lua: a number that may be any program's, and a fair lock's waiters.
constexpr std::string_view kEither = "redisson_semaphore_or_latch", kQueued = "queued";

std::string InKeys(std::string_view kind) {
  return kinds::IsOurs(kind) ? std::string(kinds::InKeys(kind))
                             : std::string(kinds::kUsers).append(kind);
}

Part PartOf(std::string_view suffix) {
  for (const PartSuffix& each : kPartSuffixes) {
    if (suffix == each.suffix) return each.part;
  }
  if (suffix.starts_with(kinds::kRedissonCountedSuffix)) return kRedisson;
  return suffix.ends_with(kQueueEnd) ? kQueue : kNoPart;
}

}  // namespace

LockKey ReadLockKey(std::string_view key) {
  if (internal::CheckMainKey(key).ok()) return {.name = key, .part = kMain};
  const std::optional<internal::KeyParts> other = internal::ReadAuxiliaryKey(key);
  if (!other) return {};
  return {.name = other->main, .part = PartOf(other->suffix), .suffix = other->suffix};
}

std::string QueueSuffix(std::string_view kind) { return InKeys(kind).append(kQueueEnd); }

std::string WaitersSuffix(std::string_view kind) { return InKeys(kind) + ".waiters"; }

std::string KindOfQueue(std::string_view suffix) {
  std::string_view kind = suffix.substr(0, suffix.size() - kQueueEnd.size());
  if (kind == kinds::InKeys(kinds::kReadWrite)) return std::string(kinds::kReadWrite);
  if (kind.starts_with(kinds::kUsers)) kind.remove_prefix(kinds::kUsers.size());
  return std::string(kind);
}

std::string_view KindIn(std::string_view text) {
  const bool ours = text.ends_with(kVersion) && IsKindOfOurs(text);
  return ours ? text.substr(0, text.size() - kVersion.size()) : text;
}

bool IsKindOfOurs(std::string_view text) {
  const std::string_view kind = text.substr(0, text.find('/'));
  return kind != kinds::kSimple && kinds::IsOurs(kind);
}

std::string_view QuorumGrantIn(std::string_view value) {
  const size_t space = value.find(' ');
  if (space == value.npos) return {};
  const std::string_view attempt = value.substr(space + 1);
  const bool is_number = !attempt.empty() && attempt.find_first_not_of("0123456789") == value.npos;
  const std::string_view hold = value.substr(0, space);
  return is_number && !internal::ClientOf(hold).empty() ? hold : std::string_view();
}

redis::Command DeleteLock(const std::string& name) {
  std::vector<std::string> keys = {name};
  const auto add = [&](std::string_view suffix) {
    keys.push_back(internal::AuxiliaryKey(name, suffix));
  };
  for (const PartSuffix& each : kPartSuffixes) add(each.suffix);
  for (const std::string_view suffix :
       {kinds::kForcedSuffix, kinds::kCountedSuffix, kinds::kHoldsSuffix, kinds::kWriteHoldsSuffix,
        kinds::kTurnSuffix, kinds::kObserversSuffix}) {
    add(suffix);
  }
  for (const std::string_view kind : kinds::kAll) {
    add(QueueSuffix(kind));
    add(WaitersSuffix(kind));
  }
  std::vector<std::string_view> words = {"DEL"};
  words.insert(words.end(), keys.begin(), keys.end());
  return redis::Command(words);
}

// ---- Finding locks.

namespace {

struct FoundLock {
  std::string name;
  uint8_t parts = 0;                     // which of its keys there are: bits of Part
  std::vector<std::string> queues = {};  // the suffixes of its queues: one queue per kind
};
using FoundLocks = std::vector<FoundLock>;

// Patterns are those of Redis: * ? [a-z] [^a-z], and \ to escape a character.
bool MatchesGlob(std::string_view text, const std::string& pattern) {
  std::string name(text);
  std::ranges::replace(name, '\0', '\1');  // no pattern has one
  return fnmatch(pattern.c_str(), name.c_str(), 0) == 0;
}

// Keys per SCAN: so few that a page takes the server a fraction of a millisecond.
constexpr std::string_view kPage = "250";
// The last index to read of a string that may be a grant id. It may be any program's data, and
// huge.
constexpr std::string_view kLongestGrantId = "79";

using FoundByName = absl::flat_hash_map<std::string, FoundLock>;

FoundLock& Named(std::string_view name, FoundByName& found) {
  FoundLock& lock = found[std::string(name)];
  lock.name = name;
  return lock;
}

// The same for a key that Redisson has made. It may be a lock's main key, too.
LockKey ReadRedissonsKey(std::string_view key) {
  std::string_view name;
  for (const std::string_view start : {kinds::kRedissonQueue, kinds::kRedissonToken}) {
    if (key.starts_with(start)) name = key.substr(start.size());
  }
  constexpr std::string_view kEnd = kinds::kRedissonPermits;
  if (key.ends_with(kEnd)) name = key.substr(0, key.size() - kEnd.size());
  if (name.find('{') == name.npos) return {};
  if (name[0] == '{' && name.find('}') == name.size() - 1) name = name.substr(1, name.size() - 2);
  return {.name = name, .part = internal::CheckMainKey(name).ok() ? kRedisson : kNoPart};
}

// Adds the locks to which these keys belong, if their names match.
absl::Status TakeKeys(Server& server, const std::vector<Reply>& keys, const std::string& pattern,
                      FoundByName& found) {
  // Keys that may be main keys of locks, or any other data, with their types. The type and the
  // content say which are locks. Other locks are found by their auxiliary keys.
  std::map<std::string, std::string> candidates;
  for (const Reply& key : keys) {
    const LockKey redissons = ReadRedissonsKey(key.text);
    if (redissons.part != kNoPart && MatchesGlob(redissons.name, pattern)) {
      Named(redissons.name, found).parts |= kRedisson;
    }
    const LockKey of = ReadLockKey(key.text);
    if (of.part == kNoPart || !MatchesGlob(of.name, pattern)) continue;
    if (of.part == kMain) {
      candidates[key.text];
      continue;
    }
    FoundLock& lock = Named(of.name, found);
    lock.parts |= of.part;
    // SCAN may show a key twice.
    if (of.part == kQueue && std::ranges::find(lock.queues, of.suffix) == lock.queues.end()) {
      lock.queues.emplace_back(of.suffix);
    }
  }
  Questions types;
  for (auto& each : candidates) {
    types.Add({"TYPE", each.first}, [&each](const Reply& reply) { each.second = reply.text; });
  }
  if (absl::Status asked = types.Ask(server); !asked.ok()) return asked;
  Questions contents, fields;
  for (const auto& candidate : candidates) {
    const std::string& name = candidate.first;
    const auto take = [&](bool is_lock, Part part = kMain) {
      if (is_lock) Named(name, found).parts |= part;
    };
    if (candidate.second == "string") {
      contents.Add({"GETRANGE", name, "0", kLongestGrantId}, [take](const Reply& reply) {
        take(!internal::ClientOf(reply.text).empty() || !QuorumGrantIn(reply.text).empty());
      });
    } else if (candidate.second == "hash") {
      contents.Add({"HMGET", name, "kind", "mode"}, [take](const Reply& reply) {
        if (reply.elements.size() != 2) return;
        const std::string &kind = reply.elements[0].text, &mode = reply.elements[1].text;
        take(IsKindOfOurs(kind));
        take(kind.empty() && (mode == "read" || mode == "write"), kRedisson);
      });
      // The only field of a lock of Redisson is its holder, "<32 or 36 characters>:<number>".
      fields.Add({"HRANDFIELD", name, "2"}, [take](const Reply& some) {
        const size_t colon = some.elements.size() == 1 ? some.elements[0].text.find(':') : 0;
        take(colon == 32 || colon == 36, kRedisson);
      });
    }
  }
  if (absl::Status asked = contents.Ask(server); !asked.ok()) return asked;
  (void)fields.Ask(server, Unreachable::kIsNil);  // this user may not be allowed to
  return absl::OkStatus();
}

// All locks whose name matches, sorted by name.
absl::StatusOr<FoundLocks> FindLocks(Server& server, const std::string& pattern,
                                     const ShowProgress& progress) {
  FoundByName found;
  int64_t keys = 0;
  server.FindAllParts();
  for (size_t part = 0; part < server.parts(); ++part) {  // parts() may grow meanwhile
    std::string cursor = "0";
    do {
      const absl::StatusOr<Reply> page =
          server.AskPart(part, redis::Command{"SCAN", cursor, "COUNT", kPage});
      if (!page.ok() && server.PassesOver(page.status())) break;
      if (!page.ok()) return page.status();
      if (page->elements.size() != 2) return absl::InternalError("SCAN answered no page");
      const std::vector<Reply>& some = page->elements[1].elements;
      if (absl::Status taken = TakeKeys(server, some, pattern, found); !taken.ok()) return taken;
      keys += std::ssize(some);
      cursor = page->elements[0].text;
      progress("keys scanned", keys);
    } while (cursor != "0");
  }
  FoundLocks sorted;
  sorted.reserve(found.size());
  for (auto& [name, lock] : found) sorted.push_back(std::move(lock));
  std::ranges::sort(sorted, {}, &FoundLock::name);
  return sorted;
}

// ---- Reading rows.

// The process of each client, by the client's id, as the client has described itself to the server.
// It is asked for once. It stays unknown, with a pid of 0, if the server refuses or is unreachable.
using Processes = std::map<std::string, LockInfo::Process>;

// Sets the processes of these rows or parties.
template <class Each>
void AskProcesses(Server& server, std::vector<Each>& all, Processes& processes) {
  Questions questions;
  for (const Each& each : all) {
    const auto [client, is_new] = processes.try_emplace(std::string(internal::ClientOf(each.hold)));
    if (client->first.empty() || !is_new) continue;
    questions.Add(
        {"GET", absl::StrCat(std::string(internal::kDescriptionKeyPrefix), client->first)},
        [process = &client->second](const Reply& reply) {
          *process = internal::ReadDescription(reply.text).value_or(LockInfo::Process());
        });
  }
  (void)questions.Ask(server, Unreachable::kIsNil);
  for (Each& each : all) each.process = processes[std::string(internal::ClientOf(each.hold))];
}

// Asks for the number of holders, and the first, of a zset that has each holder with the end of its
// lease. Readers do not count while there is a writer: they read under its grant.
void AskHolders(Questions& questions, const std::string& key, int64_t now, bool reading,
                LockRow& row) {
  const std::string from = absl::StrCat("(", now);
  questions.Add({"ZCOUNT", key, from, "+inf"}, [&row, reading](const Reply& reply) {
    if (!row.hold.empty()) return;
    row.holding = reply.integer;
    row.reading = reading;
  });
  questions.Add({"ZRANGE", key, from, "+inf", "BYSCORE", "LIMIT", "0", "1", "WITHSCORES"},
                [&row, now](const Reply& reply) {
                  if (reply.elements.size() != 2 || !row.hold.empty()) return;
                  row.hold = reply.elements[0].text;
                  row.remaining = absl::Microseconds(NumberIn(reply.elements[1]) - now);
                });
}

// The number that a text begins with, before a space; 0 if it is none.
int64_t FirstNumber(const std::string& text) {
  int64_t number = 0;
  return absl::SimpleAtoi(text.substr(0, text.find(' ')), &number) ? number : 0;
}

// Takes the holders in a lock's hash. The fields of a reentrant lock's owners and of writers are
// grant ids, with "expiry token" as values. A holder of an unknown kind of lock is any text that
// looks like a grant id.
void TakeHolds(const Reply& page, int64_t now, LockRow& row) {
  if (page.elements.size() != 2 || row.is_semaphore() || row.is_latch()) return;
  const std::vector<Reply>& fields = page.elements[1].elements;
  for (size_t i = 0; i + 1 < fields.size(); i += 2) {
    const std::string &field = fields[i].text, &value = fields[i + 1].text;
    const bool is_grant = !internal::ClientOf(field).empty();
    if (!row.is_known()) {
      const std::string& hold = is_grant ? field : value;
      if (row.hold.empty() && !internal::ClientOf(hold).empty()) row.hold = hold;
    } else if (is_grant && FirstNumber(value) > now && row.holding++ == 0) {
      row.hold = field;
      row.remaining = absl::Microseconds(FirstNumber(value) - now);
    }
  }
}

// See lua/simple/common/give.lua.
constexpr std::string_view kPlaceholder = "redlatch:free";

void AskString(Questions& questions, LockRow& row) {
  row.kind = kinds::kSimple;
  questions.Add({"GETRANGE", row.name, "0", "127"}, [&row](const Reply& reply) {
    const std::string_view granted = QuorumGrantIn(reply.text);
    if (!granted.empty()) row.kind = kinds::kQuorum;
    // Empty: it has ended meanwhile. The placeholder: it is free, and others wait.
    if (reply.text.empty() || reply.text == kPlaceholder) return;
    row.hold = granted.empty() ? reply.text : std::string(granted);
    row.stays_taken = internal::StaysTaken(row.hold);
    row.holding = 1;
  });
}

void AskHash(Questions& questions, int64_t now, LockRow& row) {
  questions.Add({"HMGET", row.name, "kind", "capacity", "extra", "total", "count", "owner"},
                [&row](const Reply& reply) {
                  if (reply.elements.size() != 6) return;
                  row.kind = KindIn(reply.elements[0].text);
                  row.capacity = NumberIn(reply.elements[1]);
                  row.used = NumberIn(reply.elements[2]);
                  row.total = NumberIn(reply.elements[3]);
                  row.to_go = NumberIn(reply.elements[4]);
                  row.stays_taken = reply.elements[5].text == internal::kTaken;
                });
  questions.Add({"HSCAN", row.name, "0", "COUNT", "10"},
                [&row, now](const Reply& reply) { TakeHolds(reply, now, row); });
}

// When the waiter with this ticket came, by the server's clock. The ticket is the time or, if the
// lock reorders its waiters, equal to the time modulo 10^15 us. InfinitePast() if it is no time.
absl::Time ArrivalOf(int64_t ticket, int64_t now_us) {
  constexpr absl::Duration kOldest = absl::Hours(24 * 365);
  constexpr int64_t kModulus = 1'000'000'000'000'000;
  const int64_t latest = now_us + 10'000'000;
  const int64_t back = ((latest - ticket) % kModulus + kModulus) % kModulus;
  const bool plausible = absl::Microseconds(back) < kOldest;
  return plausible ? absl::FromUnixMicros(latest - back) : absl::InfinitePast();
}

void AskAll(Questions& questions, const FoundLock& lock, int64_t now, LockRow& row) {
  const uint8_t parts = lock.parts;
  const auto key = [&row](std::string_view suffix) {
    return internal::AuxiliaryKey(row.name, suffix);
  };
  if (row.type == "string") {
    AskString(questions, row);
  } else if (row.type == "hash") {
    AskHash(questions, now, row);
  }
  if ((parts & kLeader) != 0) {  // the holder is known by then
    questions.Add({"GET", key(kinds::kLeaderSuffix)}, [&row](const Reply& reply) {
      const std::optional<Leader> leader = ReadLeader(reply.text, row.hold);
      if (!leader) return;
      row.kind = kinds::kElection;
      row.value = leader->value;
    });
  }
  const auto ask_queue = [&](std::string_view suffix, int64_t* writers = nullptr) {
    questions.Add({"ZCARD", key(suffix)}, [&row, writers](const Reply& reply) {
      row.waiting += reply.integer;
      if (writers != nullptr) *writers = reply.integer;
    });
    // The waiter that came first.
    questions.Add({"ZRANGE", key(suffix), "0", "0", "WITHSCORES"}, [&row, now](const Reply& reply) {
      if (reply.elements.size() != 2) return;
      const absl::Time since = ArrivalOf(NumberIn(reply.elements[1]), now);
      if (since == absl::InfinitePast()) return;
      row.longest_wait = std::max(row.longest_wait, absl::FromUnixMicros(now) - since);
    });
  };
  for (const std::string& queue : lock.queues) ask_queue(queue);
  if ((parts & kWriters) != 0) ask_queue(kinds::kWritersSuffix, &row.waiting_writers);
  if ((parts & kFence) != 0) {  // "<token>", or "<token> <known> <grant>" of a cached grant
    questions.Add({"GET", key(internal::kFenceSuffix)},
                  [&row](const Reply& reply) { row.token = FirstNumber(reply.text); });
  }
  if ((parts & kPermits) != 0)
    AskHolders(questions, key(kinds::kPermitsSuffix), now, /*reading=*/false, row);
  if ((parts & kReaders) != 0)
    AskHolders(questions, key(kinds::kReadersSuffix), now, /*reading=*/true, row);
}

void Complete(const FoundLock& lock, LockRow& row) {
  const uint8_t parts = lock.parts;
  if (row.is_semaphore()) row.used = row.holding == 0 ? 0 : row.used + row.holding;
  if (row.type == "none" && (parts & (kReaders | kWriters)) != 0) row.kind = kinds::kReadWrite;
  // A program's own kind may keep its grant like a simple lock. Its queue tells it.
  const auto own = std::ranges::find_if(
      lock.queues, [](const std::string& queue) { return queue.starts_with(kinds::kUsers); });
  if (row.kind == kinds::kSimple && own != lock.queues.end()) row.kind = KindOfQueue(*own);
  if (row.type == "none" && row.kind.empty() && !lock.queues.empty()) {
    // Semaphores and latches are nothing without their key.
    std::string kind = KindOfQueue(lock.queues.front());
    if (kind != kinds::kSemaphore && kind != kinds::kLatch) row.kind = std::move(kind);
  }
  const bool foreign = row.kind == kinds::kSimple && internal::ClientOf(row.hold).empty();
  if (foreign && lock.queues == std::vector<std::string>{QueueSuffix(kinds::kQuorum)}) {
    row.kind = kinds::kQuorum;
  }
  if (!row.is_known() && row.type != "none") row.holding = std::max<int64_t>(row.holding, 1);
}

// Lets the server decide which of these rows are locks of Redisson, and reads up to `most` of the
// holders and waiters of each. The other rows stay as they are.
void ReadRedissons(Server& server, const std::vector<LockRow*>& rows, size_t most) {
  const LuaScript& script =
      server.is_cluster() ? redis::ShardedScript(lua::kRedissonInspect) : lua::kRedissonInspect;
  const auto take = [](const Reply& reply, LockRow& row) {
    absl::StatusOr<LockInfo> info = internal::ReadInspection(reply);
    if (!info.ok()) return;  // nil
    row.kind = info->kind;
    row.token = static_cast<int64_t>(info->last_token.value());
    row.holding = info->holding;
    row.waiting = info->waiting;
    row.to_go = info->capacity - info->used;
    const LockInfo::Party first = info->holders.empty() ? LockInfo::Party() : info->holders[0];
    row.hold = first.hold;
    row.reading = first.owner == "read";
    if (!first.hold.empty()) row.remaining = first.remaining;
    for (LockInfo::Party& waiter : info->waiters) {
      waiter.remaining = absl::Milliseconds(std::exchange(waiter.permits, 1));
    }
    row.parties = *std::move(info);
  };
  std::vector<Question> questions;
  for (LockRow* const row : rows) {
    const auto key = [row](std::string_view end) { return internal::AuxiliaryKey(row->name, end); };
    redis::Command command{"EVAL_RO",
                           script.body,
                           "6",
                           row->name,
                           key(kinds::kRedissonQueue),
                           key(kinds::kRedissonTimeouts),
                           key(kinds::kRedissonToken),
                           key(kinds::kRedissonPermitsSuffix),
                           key(kinds::kRedissonPermits),
                           absl::StrCat(most)};
    questions.push_back(
        {row->name, std::move(command), [take, row](const Reply& reply) { take(reply, *row); }});
  }
  (void)server.Ask(questions, Unreachable::kIsNil);  // this user may not be allowed to
}

absl::StatusOr<std::vector<LockRow>> ReadRows(Server& server, absl::Span<const FoundLock> locks,
                                              Processes& processes, size_t most = 1) {
  std::vector<LockRow> rows(locks.size());
  Questions of_keys;
  for (size_t i = 0; i < rows.size(); ++i) {
    LockRow& row = rows[i];
    row.name = locks[i].name;
    of_keys.Add({"TYPE", row.name}, [&row](const Reply& reply) { row.type = reply.text; });
    of_keys.Add({"PTTL", row.name}, [&row](const Reply& reply) {
      if (reply.integer >= 0) row.remaining = absl::Milliseconds(reply.integer);
    });
  }
  if (absl::Status asked = of_keys.Ask(server); !asked.ok()) return asked;
  Questions of_contents;
  std::map<size_t, int64_t> clocks;  // of each part, asked once
  for (size_t i = 0; i < rows.size(); ++i) {
    const auto [clock, is_new] = clocks.try_emplace(server.PartOf(rows[i].name));
    if (is_new) {
      const absl::StatusOr<int64_t> now = server.NowMicros(rows[i].name);
      if (!now.ok()) return now.status();
      clock->second = *now;
    }
    AskAll(of_contents, locks[i], clock->second, rows[i]);
  }
  if (absl::Status asked = of_contents.Ask(server); !asked.ok()) return asked;
  std::vector<LockRow*> redissons;
  for (size_t i = 0; i < rows.size(); ++i) {
    Complete(locks[i], rows[i]);
    const bool forever = rows[i].remaining == absl::InfiniteDuration();
    const bool may_be = rows[i].kind.empty() || (rows[i].type == "string" && forever);
    if (may_be && (locks[i].parts & kRedisson) != 0) redissons.push_back(&rows[i]);
  }
  ReadRedissons(server, redissons, most);
  for (size_t i = 0; i < rows.size(); ++i) {
    if (locks[i].parts == kRedisson && !rows[i].is_redissons()) rows[i].name.clear();
  }
  AskProcesses(server, rows, processes);
  // Removes the locks that this user may not read.
  std::erase_if(rows, [](const LockRow& row) { return row.type.empty(); });
  return rows;
}

// The rows of all locks whose names match, sorted by name. Locks that this user may not read are
// left out; adds their number to `forbidden`.
absl::StatusOr<std::vector<LockRow>> RowsAt(Server& server, const std::string& pattern,
                                            const ShowProgress& progress, size_t& forbidden) {
  constexpr size_t kTogether = 100;  // so that no batch blocks a server for long
  server.PassOverWhatIsForbidden();
  const absl::StatusOr<FoundLocks> found = FindLocks(server, pattern, progress);
  if (!found.ok()) return found.status();
  std::vector<LockRow> all;
  Processes processes;
  for (size_t at = 0; at < found->size(); at += kTogether) {
    absl::StatusOr<std::vector<LockRow>> rows =
        ReadRows(server, absl::MakeSpan(*found).subspan(at, kTogether), processes);
    if (!rows.ok()) return rows.status();
    forbidden += std::min(kTogether, found->size() - at) - rows->size();
    std::erase_if(*rows, [](const LockRow& row) { return row.name.empty(); });  // no locks
    std::ranges::move(*rows, std::back_inserter(all));
    progress("locks read", std::ssize(all));
  }
  return all;
}

// True if the servers of a quorum that grant the lock, together with those that could not be asked,
// may be a majority.
bool MayBeHeld(const LockRow& row) { return row.held_on + row.unknown > row.quorum / 2; }

}  // namespace

bool LockRow::in_use() const {
  return holding > 0 || waiting > 0 || held_on > 0 ||
         ((is_latch() || kind == kinds::kRedissonLatch) && to_go > 0);
}

std::string KindInWords(const LockRow& row) {
  if (!row.is_redissons()) return row.kind.empty() ? "-" : Printable(row.kind);
  return absl::StrReplaceAll(row.kind, {{"redisson", "Redisson"},
                                        {"read_write", "read-write"},
                                        {"permit_expirable", "expirable"},
                                        {"_", " "}});
}

std::string StateOf(const LockRow& row) {
  if (row.is_redissons() && row.type == "string") {
    return absl::StrCat(row.to_go, row.kind == kinds::kRedissonLatch ? " to go"
                                   : row.kind == kEither             ? " left"
                                                                     : " free");
  }
  if (row.is_latch()) return row.to_go == 0 ? "open" : absl::StrCat(row.to_go, " to go");
  if (row.is_semaphore()) return absl::StrCat(row.used, " of ", row.capacity);
  if (row.whole && row.held_on > 0) {
    const char* const word = row.holding > 0 ? "held " : MayBeHeld(row) ? "maybe " : "part ";
    return absl::StrCat(word, row.held_on, "/", row.quorum);
  }
  if (row.holding == 0) return "free";
  if (row.stays_taken) return "taken";
  if (row.reading) return absl::StrCat("read by ", row.holding);
  return row.is_read_write() || row.kind == kinds::kRedissonReadWriteLock ? "written" : "held";
}

bool MayBeOfQuorum(const LockRow& row) {
  if (row.type == "none") return row.kind.empty() || row.is_quorum();
  return row.is_quorum() || (row.kind == kinds::kSimple && internal::ClientOf(row.hold).empty());
}

LockRow RowOfQuorum(const std::vector<LockRow>& rows, int64_t servers, int64_t unknown) {
  LockRow whole{.type = "none",
                .kind = std::string(kinds::kQuorum),
                .quorum = servers,
                .unknown = unknown,
                .whole = true};
  std::map<std::string, std::vector<absl::Duration>> holds;
  for (const LockRow& row : rows) {
    whole.name = row.name;
    if (!MayBeOfQuorum(row)) continue;
    whole.waiting = std::max(whole.waiting, row.waiting);
    whole.longest_wait = std::max(whole.longest_wait, row.longest_wait);
    whole.token = std::max(whole.token, row.token);
    if (row.holding > 0) holds[row.hold].push_back(row.remaining);
  }
  const auto most =
      std::ranges::max_element(holds, {}, [](const auto& hold) { return hold.second.size(); });
  if (most == holds.end()) return whole;
  whole.type = "string";
  whole.hold = most->first;
  std::vector<absl::Duration>& leases = most->second;
  std::ranges::sort(leases, std::greater());
  const size_t majority = base::Majority(static_cast<size_t>(servers));
  whole.held_on = static_cast<int64_t>(leases.size());
  whole.holding = leases.size() >= majority ? 1 : 0;
  whole.remaining = leases[std::min(leases.size(), majority) - 1];
  for (const LockRow& row : rows) {
    if (row.hold == whole.hold && row.process.pid != 0) whole.process = row.process;
  }
  return whole;
}

// ---- Inspecting one lock.

namespace {

// What one server of a quorum says about a lock.
struct SaidByServer {
  std::string server;    // its URL, without user and password
  absl::Status failure;  // why it could not be asked
  std::string hold;      // the id of its grant; empty: none
  std::string text;      // its answer in words
  absl::Duration remaining = absl::ZeroDuration();
};

// Everything that is known about one lock.
struct Inspection {
  bool exists = false;  // at least one of its keys exists
  // True if only the main key exists and it may be another program's data: it is no string and
  // names neither a kind of redlatch nor a grant, or a string without expiry that is no grant id.
  bool may_be_data = false;
  LockRow row;
  LockInfo info;                           // without holders if it is a program's own kind
  int64_t now_us = 0;                      // by the server's clock
  std::vector<SaidByServer> servers = {};  // if a whole quorum was asked

  absl::Time now() const { return absl::FromUnixMicros(now_us); }
};

// The program, and the command of redlatch that runs it: "sleep" and "run"; or none.
std::pair<std::string, std::string> ProgramOf(const LockInfo::Process& process) {
  constexpr std::string_view kOurs = "redlatch ";
  const std::vector<std::string> parts = absl::StrSplit(process.program, absl::MaxSplits(": ", 1));
  if (parts.size() < 2 || !parts[0].starts_with(kOurs)) return {process.program, ""};
  return {parts[1], parts[0].substr(kOurs.size())};
}

// "web1:4242 worker"; "web1:4242 sleep (run)"; if the process is unknown, what `hold` tells.
std::string Described(const LockInfo::Process& process, std::string_view hold,
                      bool redissons = false) {
  if (process.pid != 0) {
    const auto [program, how] = ProgramOf(process);
    return Printable(absl::StrCat(process.host, ":", process.pid, " ", program,
                                  how.empty() ? "" : absl::StrCat(" (", how, ")")));
  }
  const std::string_view client = internal::ClientOf(hold);
  if (client.empty() && redissons) return Printable(hold);  // a client in Java
  if (client.empty()) {
    return absl::StrCat("\"", Cut(Printable(hold), 40), "\", not by redlatch");
  }
  return absl::StrCat("client ", std::string(client.substr(0, 8)), ", process unknown");
}

void AddProcess(const LockInfo::Process& process, JsonObject& json) {
  if (process.pid == 0) return;
  json.Text("host", process.host);
  json.Number("pid", process.pid);
  json.Text("program", process.program);
}

// Says of a name that stays taken that no process has the lock, and which one had it.
std::string NoProcess(const LockInfo::Process& had_it) {
  const std::string process = had_it.pid == 0 ? "" : ", was " + Described(had_it, "");
  return absl::StrCat("no process", process, "; stays taken");
}

// The beginning of an owner that a program has named. A candidate's value is such a name.
const std::string kUserOwner = "user:";

constexpr std::string_view kLastWaiter = "99";  // an index: at most a hundred are listed
constexpr size_t kMost = 100;                   // the same for Redisson's locks

// kInvalidArgument if no lock can have that name, also if it is an auxiliary key of another lock.
absl::Status CheckName(const std::string& name) {
  absl::Status bad = internal::CheckMainKey(name);
  const LockKey key = ReadLockKey(name);
  if (bad.ok() || key.name.empty()) return bad;
  return absl::InvalidArgumentError(absl::StrCat("\"", Printable(name),
                                                 "\" is a key of the lock \"", Printable(key.name),
                                                 "\", and no lock itself"));
}

// Searches all keys for the queues of programs' own kinds, whose names only the keys tell. Finds
// none if the user may not run SCAN.
void FindUsersQueues(Server& server, FoundLock& lock) {
  std::string pattern;
  for (const char byte : internal::AuxiliaryKey(lock.name, kinds::kUsers)) {
    if (std::string_view("*?[]^\\").find(byte) != std::string_view::npos) pattern += '\\';
    pattern += byte;
  }
  absl::StrAppend(&pattern, "*", std::string(kQueueEnd));
  constexpr int64_t kOnePage = 1000;  // the server only compares the keys with the pattern
  Progress progress;
  std::string cursor = "0";
  for (int64_t keys = kOnePage;; keys += kOnePage) {
    const absl::StatusOr<Reply> page = server.AskPart(
        server.PartOf(lock.name),
        redis::Command{"SCAN", cursor, "MATCH", pattern, "COUNT", absl::StrCat(kOnePage)});
    if (!page.ok() || page->elements.size() != 2) return;
    for (const Reply& key : page->elements[1].elements) {
      const std::string suffix(ReadLockKey(key.text).suffix);
      if (std::ranges::find(lock.queues, suffix) == lock.queues.end())
        lock.queues.push_back(suffix);
      lock.parts |= kQueue;
    }
    cursor = page->elements[0].text;
    if (cursor == "0") return;
    progress.Show("keys scanned", keys);
  }
}

absl::StatusOr<FoundLock> Find(Server& server, const std::string& name) {
  FoundLock found{.name = name, .parts = kRedisson};
  Questions questions;
  const auto add = [&](const std::string& key, Part part, const std::string& queue = {}) {
    questions.Add({"EXISTS", key}, [&found, part, queue](const Reply& reply) {
      if (reply.integer == 0) return;
      found.parts |= part;
      if (part == kQueue) found.queues.push_back(queue);
    });
  };
  const auto add_queue = [&](std::string_view kind) {
    const std::string suffix = QueueSuffix(kind);
    add(internal::AuxiliaryKey(name, suffix), kQueue, suffix);
  };
  std::string kind;
  Questions about_kind;
  about_kind.Add({"HGET", name, "kind"},
                 [&kind](const Reply& reply) { kind = KindIn(reply.text); });
  if (absl::Status asked = about_kind.Ask(server); !asked.ok()) return asked;
  add(name, kMain);
  for (const auto& [suffix, part] : kPartSuffixes) add(internal::AuxiliaryKey(name, suffix), part);
  for (const std::string_view each : kinds::kAll) add_queue(each);
  if (!kind.empty() && !kinds::IsOurs(kind)) add_queue(kind);
  if (absl::Status asked = questions.Ask(server); !asked.ok()) return asked;
  if (kind.empty() && found.queues.empty()) FindUsersQueues(server, found);
  return found;
}

// A client without warnings: Server::Open() has already printed them.
absl::StatusOr<Client> QuietClient(const std::string& url) {
  return Client::Connect(url, {.program = "redlatch", .on_warning = [](std::string_view) {}});
}

// Like QuietClient(). But if the user lacks permissions, it returns a client that has not checked
// them, so that the server decides about each command.
absl::StatusOr<Client> LenientClient(const std::string& url) {
  absl::StatusOr<Client> client = QuietClient(url);
  absl::StatusOr<redis::Url> parsed = redis::ParseUrl(url);
  if (!absl::IsPermissionDenied(client.status()) || !parsed.ok()) return client;
  // A quarantine needs what only the check finds out.
  if (parsed->quarantine > absl::ZeroDuration()) return client;
  parsed->only_questions = true;
  for (redis::Url& member : parsed->members) member.only_questions = true;
  return Client(internal::ClientCore::Make(
      *std::move(parsed), {.program = "redlatch", .on_warning = [](std::string_view) {}},
      quorum::Quorum::Make));
}

// True for a lock of a program's own kind whose grant is a string, like that of a simple lock.
bool IsUsersString(const LockRow& row) {
  return row.type == "string" && !row.is_known() && !row.is_redissons();
}

// Breaks such a lock. Only the scripts of its class can tell which waiter may have it, so the first
// waiters are told to ask.
class UsersLock final : public RedisLockBase {
 public:
  UsersLock(const Client& client, std::string_view name, std::string kind)
      : RedisLockBase(client, name, {}), kind_(std::move(kind)) {}

 private:
  LockScripts Scripts() const override {
    constexpr std::string_view kBreak = R"lua(-- include: common/window
-- replaces: simple/common/give
local function choose() end
local function give(_, _, now)
  for waiter in each_waiter(KEYS[2], now, {}) do
    redis.call('PUBLISH', waiter.channel or '', 'look ' .. waiter.grant .. ' ' .. KEYS[1])
  end
  return nil, ''
end
-- include: simple/force_release
)lua";
    LockScripts scripts = lua::kSimpleScripts;
    scripts.force_release = {.name = "users/force_release", .body = kBreak};
    return scripts;
  }
  LockTraits Traits() const override { return {.kind = kind_}; }

  const std::string kind_;
};

// Calls `act` with a lock object for the row's lock.
template <class Do>
auto With(const Server& server, const LockRow& row, Do&& act)
    -> decltype(act(std::declval<SimpleLock&>())) {
  const absl::StatusOr<Client> client =
      LenientClient(row.is_quorum() ? redis::AsQuorum(server.url()) : server.url());
  if (!client.ok()) return client.status();
  const auto on = [&act](auto&& lock) { return act(lock); };
  if (row.is_quorum()) return on(RedLock(*client, row.name));
  if (row.kind == kinds::kReentrant) return on(ReentrantLock(*client, row.name));
  if (row.is_read_write()) return on(ReentrantReadWriteLock(*client, row.name));
  // The capacity matters only for acquisitions.
  if (row.is_semaphore()) return on(Semaphore(*client, row.name, /*capacity=*/1));
  if (row.is_election()) return on(Election(*client, row.name));
  if (IsUsersString(row)) return on(UsersLock(*client, row.name, row.kind));
  return on(SimpleLock(*client, row.name));
}

// What the keys tell about a lock of any kind.
absl::StatusOr<LockInfo> WaitersOf(Server& server, const FoundLock& lock, const LockRow& row,
                                   int64_t now_us) {
  LockInfo info = row.parties;
  info.waiting = row.waiting;
  info.last_token = FencingToken(static_cast<uint64_t>(row.token));
  Questions queue;
  const auto ask = [&](std::string_view suffix) {
    queue.Add(
        {"ZRANGE", internal::AuxiliaryKey(row.name, suffix), "0", kLastWaiter, "WITHSCORES"},
        [&info, now_us](const Reply& reply) {
          for (size_t i = 0; i + 1 < reply.elements.size(); i += 2) {
            info.waiters.push_back({.hold = reply.elements[i].text,
                                    .since = ArrivalOf(NumberIn(reply.elements[i + 1]), now_us)});
          }
        });
  };
  if ((lock.parts & kWriters) != 0) ask(kinds::kWritersSuffix);
  for (const std::string& suffix : lock.queues) ask(suffix);
  if (absl::Status asked = queue.Ask(server); !asked.ok()) return asked;
  Processes processes;
  AskProcesses(server, info.waiters, processes);
  AskProcesses(server, info.holders, processes);
  if (!row.is_latch() && !row.is_redissons() && !row.hold.empty()) {
    info.holders.push_back({.hold = row.hold,
                            .remaining = row.remaining,
                            .stays_taken = row.stays_taken,
                            .process = row.process});
    if (row.reading) info.holders.back().owner = "read";
    if (!row.value.empty()) info.holders.back().owner = kUserOwner + row.value;
  }
  return info;
}

bool MayBeData(const LockRow& row, uint8_t parts) {
  if (row.is_redissons()) return row.kind == kEither;
  if ((parts & (kQueue | kFence)) != 0 || row.type == "none") return false;
  if (row.type != "string") {
    const bool unknown = !row.is_known() && !IsKindOfOurs(row.kind);
    return unknown && internal::ClientOf(row.hold).empty();
  }
  return internal::ClientOf(row.hold).empty() && row.remaining == absl::InfiniteDuration();
}

// True if only the keys can be read: of a replica, as a user that may only read, or while a slot of
// a cluster moves. They tell less than Inspect().
bool MayOnlyRead(const Server& server, const absl::Status& refused) {
  const bool refuses_scripts = server.is_replica() || server.is_cluster();
  return (refuses_scripts && absl::IsUnavailable(refused)) ||
         (!server.is_replica() && absl::IsPermissionDenied(refused));
}

bool IsLibrarys(const LockRow& row) { return row.is_known() && !row.is_latch(); }
bool IsBreakable(const LockRow& row) { return IsLibrarys(row) || IsUsersString(row); }

// Inspects the lock whose key is `name`.
absl::StatusOr<Inspection> InspectAt(Server& server, const std::string& name) {
  if (absl::Status bad = CheckName(name); !bad.ok()) return bad;
  const absl::StatusOr<FoundLock> found = Find(server, name);
  if (!found.ok()) return found.status();
  const absl::StatusOr<int64_t> now = server.NowMicros(name);
  if (!now.ok()) return now.status();
  Inspection inspection{.exists = true, .now_us = *now};
  Processes processes;
  absl::StatusOr<std::vector<LockRow>> rows = ReadRows(server, {&*found, 1}, processes, kMost);
  if (!rows.ok()) return rows.status();
  if (rows->empty()) return absl::InternalError("a key has no type");
  inspection.row = std::move(rows->front());
  LockRow& row = inspection.row;
  if (row.name.empty()) return Inspection();
  inspection.may_be_data = MayBeData(row, found->parts);
  absl::StatusOr<LockInfo> info = absl::UnimplementedError("not asked");
  if (IsLibrarys(row)) {  // Inspect() shows one moment; single commands would not
    info = With(server, row, [](auto& lock) { return lock.Inspect(); });
    if (!info.ok() && !MayOnlyRead(server, info.status())) return info.status();
  }
  if (info.ok()) {
    row.holding = info->holding;
    row.used = info->used;
    row.capacity = info->capacity;
  } else {
    info = WaitersOf(server, *found, row, *now);
    if (!info.ok()) return info.status();
    if (IsLibrarys(row)) info->holding = row.holding;
  }
  row.token = static_cast<int64_t>(info->last_token.value());
  inspection.info = *std::move(info);
  return inspection;
}

std::string Called(const LockRow& row) {
  const std::string_view noun = row.is_latch()       ? "latch"
                                : row.is_semaphore() ? "semaphore"
                                : row.is_election()  ? "election"
                                                     : "lock";
  return absl::StrCat("the ", std::string(noun), " \"", Printable(row.name), "\"");
}

// Says what a key with `may_be_data` is, and what to do if it is a lock after all.
std::string SayMayBeData(const LockRow& row) {
  return absl::StrCat("the key \"", Printable(row.name), "\" is a ", row.type,
                      row.type == "string" ? " without expiry" : "",
                      " that does not belong to a lock of redlatch and may be another program's "
                      "data; if it is a lock after all, remove it with redis-cli DEL");
}

// The ACL rules that breaking this lock needs: what its script calls, with its keys.
std::string RulesToBreak(const LockRow& row, bool in_cluster) {
  const LockScripts& scripts = row.is_quorum()                 ? lua::kQuorumScripts
                               : row.kind == kinds::kReentrant ? lua::kReentrantScripts
                               : row.is_read_write()           ? lua::kReadWriteScripts
                               : row.is_semaphore()            ? lua::kSemaphoreScripts
                               : row.is_election()             ? lua::kElectionScripts
                                                               : lua::kSimpleScripts;
  const std::string_view text = scripts.force_release.body;
  constexpr std::string_view kCall = "call('";
  std::set<std::string> rules = {"+eval", "+evalsha"};
  for (size_t at = text.find(kCall); at != text.npos; at = text.find(kCall, at)) {
    at += kCall.size();
    const std::string_view command = text.substr(at, text.find('\'', at) - at);
    if (command == "PUBLISH") {
      rules.insert(in_cluster ? "+spublish" : "+publish");
    } else if (command == "PUBSUB") {
      rules.insert(in_cluster ? "+pubsub|shardnumsub" : "+pubsub|numsub");
    } else {
      rules.insert(absl::StrCat("+", absl::AsciiStrToLower(std::string(command))));
    }
  }
  return absl::StrCat(absl::StrJoin(rules, " "), " &redlatch:* ", internal::KeyRules(row.name));
}

// Ends every grant of the lock. kUnimplemented for latches and for a program's own kinds.
absl::Status BreakAt(const Server& server, const LockRow& row) {
  std::string why;
  if (row.is_redissons()) {
    why = absl::StrCat(" cannot be broken by this command, because it is a ", KindInWords(row),
                       ": call ForceRelease() of its class in redlatch::redisson",
                       row.type == "hash" ? ", or forceUnlock() in a Java program" : "");
  } else if (row.is_latch()) {
    why = absl::StrCat(" cannot be broken, because a latch has no holder. It opens after ",
                       row.to_go, " more counts; to let all waiters through, count it down");
  } else if (IsKindOfOurs(row.kind) && !row.is_known()) {
    why = absl::StrCat(" is of another version of redlatch, \"", Printable(row.kind),
                       "\": the redlatch command of that version can break it (docs/upgrading.md)");
  } else if (!IsBreakable(row)) {
    why = " is of a program's own kind, so only that program can break it, with ForceRelease()";
  }
  if (!why.empty()) return absl::UnimplementedError(Called(row) + why);
  absl::Status broken = With(server, row, [](auto& lock) { return lock.ForceRelease(); });
  if (!absl::IsPermissionDenied(broken)) return broken;
  const absl::StatusOr<redis::Url> url = redis::ParseUrl(server.url());
  const std::string user = !url.ok() || url->user.empty() ? "default" : url->user;
  return absl::PermissionDeniedError(
      absl::StrCat(server.name(), " does not permit user ", user, " to break ", Called(row),
                   "; grant it: ACL SETUSER ", user, " ", RulesToBreak(row, server.is_cluster())));
}

// ---- All servers of a quorum.

// Each server lists at most that many waiters.
constexpr size_t kMostQuorumListed = 100;

SaidByServer SaidBy(const std::string& server, const absl::StatusOr<Inspection>& seen,
                    const std::string& main_hold) {
  SaidByServer said{.server = server, .failure = seen.status(), .hold = {}, .text = {}};
  if (!seen.ok()) {
    said.text = absl::StrCat("not asked: ", seen.status().message());
    return said;
  }
  const LockRow& row = seen->row;
  if (!seen->exists || (MayBeOfQuorum(row) && seen->info.holders.empty())) {
    said.text = "free";
  } else if (seen->may_be_data || !MayBeOfQuorum(row)) {
    said.text = absl::StrCat("another kind of lock, or no lock: ",
                             row.kind.empty() ? absl::StrCat("a ", row.type) : Printable(row.kind));
  } else {
    const LockInfo::Party& holder = seen->info.holders.front();
    said.hold = holder.hold;
    said.remaining = holder.remaining;
    said.text = absl::StrCat(
        "held", said.hold == main_hold ? "" : " by " + Described(holder.process, holder.hold),
        holder.remaining == absl::InfiniteDuration() ? ", without end"
                                                     : ", lease " + Brief(holder.remaining));
  }
  return said;
}

void AddWaiters(const LockInfo& from, LockInfo& to) {
  to.waiting = std::max(to.waiting, from.waiting);
  for (const LockInfo::Party& waiter : from.waiters) {
    const auto known = std::ranges::find(to.waiters, waiter.hold, &LockInfo::Party::hold);
    if (known == to.waiters.end()) {
      to.waiters.push_back(waiter);
    } else if (known->process.pid == 0) {
      known->process = waiter.process;
    }
  }
}

// Combines the inspections of all servers; `seen` has one for each server.
Inspection InspectionOfQuorum(const std::string& name, const std::vector<std::string>& servers,
                              const std::vector<absl::StatusOr<Inspection>>& seen) {
  std::vector<LockRow> rows;
  int64_t unknown = 0;
  Inspection inspection;
  for (const absl::StatusOr<Inspection>& each : seen) {
    unknown += each.ok() ? 0 : 1;
    if (!each.ok() || !each->exists) continue;
    inspection.exists = true;
    if (each->may_be_data) continue;
    rows.push_back(each->row);
    if (inspection.now_us == 0) inspection.now_us = each->now_us;
  }
  inspection.row = RowOfQuorum(rows, static_cast<int64_t>(servers.size()), unknown);
  inspection.row.name = name;
  const LockRow& row = inspection.row;
  for (size_t i = 0; i < servers.size(); ++i) {
    inspection.servers.push_back(SaidBy(servers[i], seen[i], row.hold));
    if (!seen[i].ok() || !MayBeOfQuorum(seen[i]->row)) continue;
    const LockInfo& info = seen[i]->info;
    AddWaiters(info, inspection.info);
    if (row.held_on == 0 || !MayBeHeld(row) || !inspection.info.holders.empty()) continue;
    for (const LockInfo::Party& holder : info.holders) {
      if (holder.hold == row.hold) inspection.info.holders.push_back(holder);
    }
  }
  for (LockInfo::Party& holder : inspection.info.holders) {
    holder.remaining = row.remaining;
    holder.process = row.process;
  }
  inspection.info.holding = row.holding;
  auto& waiters = inspection.info.waiters;
  // A server may still list the holder as a waiter, if it has not been told of the majority.
  std::erase_if(waiters, [&](const LockInfo::Party& each) {
    return row.holding > 0 && each.hold == row.hold;
  });
  std::ranges::sort(waiters, {}, &LockInfo::Party::since);
  if (waiters.size() < kMostQuorumListed) {
    inspection.info.waiting = static_cast<int64_t>(waiters.size());
  }
  return inspection;
}

}  // namespace

// One server or cluster; or the servers of a quorum, each of which is asked by itself, all at the
// same time. So unreachable servers delay a question only by one connect timeout, once.
class Servers {
 public:
  // Fails as Server::Open() does, but the servers of a quorum are contacted by the first question.
  static absl::StatusOr<std::shared_ptr<Servers>> Open(const std::string& url) {
    const absl::StatusOr<redis::Url> parsed = redis::ParseUrl(url);
    if (!parsed.ok()) return parsed.status();
    auto servers = std::make_shared<Servers>();
    servers->name_ = parsed->DebugString();
    servers->is_quorum_ = parsed->kind == redis::Url::Kind::kQuorum;
    if (!servers->is_quorum_) {
      One& one = servers->all_.emplace_back(One{.url = url, .name = servers->name_});
      if (!one.Open().ok()) return one.opened;
      return servers;
    }
    for (const std::string& member : redis::MembersOf(url)) {
      servers->all_.push_back(
          {.url = member, .name = parsed->members[servers->size()].DebugString()});
    }
    return servers;
  }

  bool is_quorum() const { return is_quorum_; }
  // The only one.
  Server& server() { return *all_[0].server; }
  // The first one that was reached; nullptr if none was.
  Server* first() {
    const auto reached = std::ranges::find_if(all_, [](const One& one) { return !!one.server; });
    return reached == all_.end() ? nullptr : reached->server.get();
  }
  size_t size() const { return all_.size(); }
  // The URLs, without users and passwords.
  const std::string& name() const { return name_; }

  // Calls `visit` with each server that can be reached. Returns the outcome of each server.
  std::vector<absl::Status> Visit(
      const std::function<absl::Status(size_t i, Server& server)>& visit) {
    std::vector<absl::Status> outcomes(size());
    ForEach(size(), size(), [&](size_t i) {
      outcomes[i] = all_[i].Open();
      if (outcomes[i].ok()) outcomes[i] = visit(i, *all_[i].server);
    });
    return outcomes;
  }

  // OK if a majority of `outcomes` is OK. Else kUnavailable, or the code of another error among
  // them.
  absl::Status WhyNoMajority(const std::vector<absl::Status>& outcomes) const {
    const auto well = static_cast<size_t>(std::ranges::count_if(outcomes, &absl::Status::ok));
    if (well >= base::Majority(size())) return absl::OkStatus();
    std::string why;
    absl::StatusCode code = absl::StatusCode::kUnavailable;
    for (const absl::Status& each : outcomes) {
      if (each.ok()) continue;
      absl::StrAppend(&why, why.empty() ? "" : "; ", each.message());
      if (!absl::IsUnavailable(each) && !absl::IsNotFound(each)) code = each.code();
    }
    return {code, absl::StrCat(well, " of ", size(), " servers answered, and ",
                               base::Majority(size()), " are needed: ", why)};
  }

  // An error if no server answers. If less than a majority of a quorum answers, the result is what
  // these servers say, and undecided() is an error.
  absl::StatusOr<Inspection> InspectLock(const std::string& name) {
    if (!is_quorum_) return InspectAt(server(), name);
    std::vector<absl::StatusOr<Inspection>> seen(size(), absl::UnknownError("not asked"));
    const std::vector<absl::Status> outcomes = Visit([&](size_t i, Server& server) {
      seen[i] = InspectAt(server, name);
      return seen[i].status();
    });
    std::vector<std::string> names;
    for (size_t i = 0; i < size(); ++i) {
      names.push_back(all_[i].name);
      if (absl::IsInvalidArgument(outcomes[i])) return outcomes[i];  // no lock has that name
      if (!outcomes[i].ok()) seen[i] = outcomes[i];
    }
    undecided_ = WhyNoMajority(outcomes);
    if (std::ranges::none_of(outcomes, &absl::Status::ok)) return undecided_;
    return InspectionOfQuorum(name, names, seen);
  }
  const absl::Status& undecided() const { return undecided_; }

  // Ends the grants of the inspected lock; of a quorum, at each server that has one.
  absl::Status Break(const Inspection& seen) {
    if (!is_quorum_) return BreakAt(server(), seen.row);
    LockRow row = seen.row;
    row.kind = kinds::kQuorum;
    return WhyNoMajority(Visit([&](size_t i, Server& server) {
      const SaidByServer& said = seen.servers[i];
      return said.hold.empty() ? said.failure : BreakAt(server, row);
    }));
  }

 private:
  struct One {
    absl::Status Open() {
      if (!absl::IsUnknown(opened)) return opened;
      auto made = Server::Open(url);
      opened = made.status();
      if (made.ok()) server = *std::move(made);
      return opened;
    }

    std::string url;
    std::string name;
    absl::Status opened = absl::UnknownError("not tried");
    std::unique_ptr<Server> server = nullptr;
  };

  std::string name_;
  bool is_quorum_ = false;
  std::vector<One> all_;
  absl::Status undecided_;
};

namespace {

// The quorum's locks, each once.
void TakeQuorum(std::vector<absl::StatusOr<std::vector<LockRow>>>& seen, LockList& list) {
  std::map<std::string, std::vector<LockRow>> by_name;
  for (absl::StatusOr<std::vector<LockRow>>& each : seen) {
    if (!each.ok()) continue;
    for (LockRow& row : *each) by_name[row.name].push_back(std::move(row));
  }
  list.others = std::erase_if(
      by_name, [](const auto& lock) { return std::ranges::none_of(lock.second, MayBeOfQuorum); });
  for (const auto& [name, parts] : by_name) {
    list.rows.push_back(
        RowOfQuorum(parts, std::ssize(seen), static_cast<int64_t>(list.missing.size())));
  }
}

constexpr size_t kKind = 1;  // the index of its column
constexpr size_t kGap = 2;
constexpr size_t kEnoughOfName = 20;
constexpr size_t kEnoughOfHolder = 16;
constexpr size_t kAllOfHolder = 32;
// The width of the name column in a pipe. Longer names push the other columns to the right.
constexpr size_t kLongestName = 60;

// The figures that only some kinds of locks have.
void AddFigures(const LockRow& row, JsonObject& json) {
  if (row.is_read_write()) json.Number("waiting_writers", row.waiting_writers);
  if (row.is_semaphore()) {
    json.Number("used", row.used);
    json.Number("capacity", row.capacity);
  }
  if (row.is_latch()) {
    json.Number("to_go", row.to_go);
    json.Number("total", row.total);
  }
  if (row.is_redissons() && row.type == "string") json.Number("left", row.to_go);
  if (row.whole) json.Number("held_on", row.held_on);
  if (row.token > 0) json.Number("token", row.token);
}

}  // namespace

absl::StatusOr<std::shared_ptr<Servers>> OpenServers(const std::string& url) {
  return Servers::Open(url);
}

const std::string& NameOf(const Servers& servers) { return servers.name(); }

absl::StatusOr<LockList> ListLocks(Servers& servers, const std::string& pattern,
                                   const ShowProgress& progress) {
  LockList list;
  std::vector<absl::StatusOr<std::vector<LockRow>>> seen(servers.size());
  std::vector<size_t> forbidden(servers.size());
  const std::vector<absl::Status> outcomes = servers.Visit([&](size_t i, Server& server) {
    if (server.is_cluster()) server.PassOverWhatIsUnreachable();
    const bool alone = servers.size() == 1;
    seen[i] = RowsAt(
        server, pattern, alone ? progress : [](std::string_view, int64_t) {}, forbidden[i]);
    return seen[i].status();
  });
  if (!servers.is_quorum()) {
    if (!outcomes[0].ok()) return outcomes[0];
    list.rows = *std::move(seen[0]);
    list.missing = servers.server().missing();
    if (list.missing.empty()) list.forbidden = forbidden[0];
    return list;
  }
  list.undecided = servers.WhyNoMajority(outcomes);
  std::ranges::copy_if(outcomes, std::back_inserter(list.missing),
                       [](const absl::Status& outcome) { return !outcome.ok(); });
  if (list.missing.size() == outcomes.size()) return list.undecided;
  TakeQuorum(seen, list);
  return list;
}

absl::StatusOr<LockRow> FindRow(const std::string& url, const std::string& name) {
  const absl::StatusOr<redis::Url> parsed = redis::ParseUrl(url);
  if (!parsed.ok()) return parsed.status();
  const bool quorum = parsed->kind == redis::Url::Kind::kQuorum;
  const auto server = Server::Open(quorum ? redis::MembersOf(url).front() : url);
  if (!server.ok()) return server.status();
  absl::StatusOr<Inspection> seen = InspectAt(**server, name);
  if (!seen.ok()) return seen.status();
  if (!seen->exists) return absl::NotFoundError("there is no such key");
  if (seen->may_be_data && !seen->row.is_redissons()) seen->row.kind.clear();
  return std::move(seen->row);
}

std::vector<LastGrant> LastGrants(Servers& servers, const std::vector<std::string>& names) {
  std::vector<LastGrant> grants(names.size());
  std::vector<Question> questions;
  for (size_t i = 0; i < names.size(); ++i) {
    const std::string fence = internal::AuxiliaryKey(names[i], internal::kFenceSuffix);
    questions.push_back({fence, redis::Command{"GET", fence}, [&grants, i](const Reply& reply) {
                           grants[i].token = FirstNumber(reply.text);
                         }});
    questions.push_back({fence, redis::Command{"TIME"},
                         [&grants, i](const Reply& reply) { grants[i].now_us = MicrosIn(reply); }});
  }
  Server* const first = servers.first();
  if (first != nullptr && !first->Ask(questions, Unreachable::kIsNil).ok()) grants.clear();
  return grants;
}

// ---- The list.

ListColumns::ListColumns(size_t width, size_t longest_name, std::array<size_t, 5> columns,
                         std::initializer_list<size_t> less_important)
    : width_(width), columns_(columns) {
  if (width == 0) {
    columns_[0] = std::min(longest_name, kLongestName);
    return;
  }
  const size_t needed = std::min(longest_name, kEnoughOfName) + kEnoughOfHolder;
  const auto rest = [&] {  // the width for name and holder
    size_t taken = kGap;
    for (const size_t each : columns_) taken += each == 0 ? 0 : each + kGap;
    return width - std::min(width, taken);
  };
  for (const size_t each : less_important) {
    if (rest() < needed) columns_[each] = 0;
  }
  const size_t left = rest();
  const size_t generous = std::max(kEnoughOfName, left - std::min(left, kAllOfHolder));
  columns_[0] = left < needed ? std::min(longest_name, left / 2)
                              : std::min({longest_name, left - kEnoughOfHolder, generous});
}

std::string ListColumns::Line(const ListCells& cells) const {
  std::string line;
  for (size_t i = 0; i < columns_.size(); ++i) {
    if (i > 0 && columns_[i] == 0) continue;
    const bool cuts = width_ > 0 || i == kKind;
    line += Padded(cuts ? Cut(cells[i], columns_[i]) : cells[i], columns_[i]);
    line.append(kGap, ' ');
  }
  line += cells.back();
  if (width_ > 0) line = Cut(line, width_);
  line.erase(line.find_last_not_of(' ') + 1);
  return line;
}

std::string JsonOf(const LockRow& row) {
  JsonObject json;
  json.Text("name", row.name);
  json.Text("kind", row.kind.empty() ? "unknown" : row.kind);
  json.Bool("in_use", row.in_use());
  json.Number("holding", row.holding);
  if (row.has_lease()) {
    JsonObject holder;
    if (!row.hold.empty()) holder.Text("hold", row.hold);
    AddProcess(row.process, holder);
    if (row.is_election()) holder.Text("value", row.value);
    holder.Millis("remaining_ms", row.remaining);
    holder.Bool("kept", !row.stays_taken && internal::MayBeCached(row.hold));
    holder.Bool("stays_taken", row.stays_taken);
    json.Json("holder", holder.Finish());
  }
  json.Number("waiting", row.waiting);
  if (row.longest_wait > absl::ZeroDuration()) {
    json.Millis("longest_wait_ms", row.longest_wait);
  }
  if (row.rate >= 0) json.Json("handovers_per_s", absl::StrFormat("%.1f", row.rate));
  if (row.is_read_write()) {
    json.Text("mode", row.holding == 0 ? "free" : row.reading ? "read" : "write");
  }
  AddFigures(row, json);
  if (row.whole) {
    json.Number("servers", row.quorum);
    json.Number("not_asked", row.unknown);
  }
  return json.Finish();
}

std::string WaitingOf(const LockRow& row) {
  return absl::StrCat(row.waiting, row.waiting_writers > 0 ? "w" : "");
}

std::string HolderOf(const LockRow& row) {
  const bool has_lease = row.has_lease();
  if (has_lease && row.stays_taken) return NoProcess(row.process);
  std::string holder =
      has_lease && !row.hold.empty() ? Described(row.process, row.hold, row.is_redissons()) : "";
  if (has_lease && internal::MayBeCached(row.hold)) holder += ", kept";
  if (!row.value.empty()) absl::StrAppend(&holder, ", value ", Printable(row.value));
  if (row.holding > 1) absl::StrAppend(&holder, " and ", row.holding - 1, " more");
  return holder;
}

std::string Totals(const std::vector<LockRow>& rows, const std::string& server,
                   const std::string& named) {
  if (rows.empty()) return absl::StrCat("no locks", named, " at ", server);
  const auto held = std::ranges::count_if(rows, [](const LockRow& row) { return row.holding > 0; });
  const auto wanted =
      std::ranges::count_if(rows, [](const LockRow& row) { return row.waiting > 0; });
  return absl::StrCat(held, " held, ", wanted, " waited for, of ", rows.size(), named, " at ",
                      server);
}

namespace {

struct LsOptions {
  std::string pattern = "*";
  bool all = false;
  bool json = false;
  bool names = false;
  bool watch = false;
};

// The line of a lock in the list.
ListCells CellsOf(const LockRow& row) {
  return {Printable(row.name), KindInWords(row),
          StateOf(row),        row.has_lease() ? Brief(row.remaining) : "-",
          WaitingOf(row),      HolderOf(row)};
}

// Prints the list of `redlatch ls`, and the totals for people on a terminal. In a pipe it prints
// totals only if no lock was shown, so that an empty list does not look like a failure. With
// --watch, the page also shows the `trouble`, because it replaces what was on the terminal.
void PrintList(const LsOptions& options, const LockList& list, const std::string& server,
               const std::vector<std::string>& trouble) {
  const bool plain = options.json || options.names;
  const size_t width = plain ? 0 : TerminalWidth();  // 0: no terminal
  size_t longest = 4, kind = 10;
  for (const LockRow& row : list.rows) {
    longest = std::max(longest, Columns(Printable(row.name)));
    if (row.is_redissons()) kind = std::max(kind, KindInWords(row).size());
  }
  const ListColumns columns(width, longest, {0, kind, 10, 6, 7});
  std::vector<std::string> lines;
  for (const LockRow& row : list.rows) {
    if (!options.all && !row.in_use()) continue;
    lines.push_back(options.json    ? JsonOf(row)
                    : options.names ? Printable(row.name)
                                    : columns.Line(CellsOf(row)));
  }
  std::string totals = Totals(list.rows, server, options.pattern == "*" ? "" : " of that name");
  if (lines.size() < list.rows.size()) totals += "; --all shows unused ones, too";
  if (width > 0 && !lines.empty()) {
    lines.insert(
        lines.begin(),
        Coloured(kBold, columns.Line({"NAME", "KIND", "STATE", "LEASE", "WAITING", "HELD BY"})));
  }
  if (options.watch && width > 0) {
    std::string above = Cut(totals, width) + "\n";
    for (const std::string& line : trouble) above += Wrapped(base::Shown(line), 0, width);
    std::vector<std::string> page = absl::StrSplit(above, '\n');
    std::ranges::move(lines, std::back_inserter(page));
    return ShowPage(std::move(page));
  }
  for (const std::string& line : lines) std::puts(line.c_str());
  std::fflush(stdout);
  if (!plain && (width > 0 || lines.empty())) std::fprintf(stderr, "%s\n", totals.c_str());
}

// Why a list is not complete, for people, and the exit code for that.
struct Trouble {
  std::vector<std::string> lines;
  int code = 0;
};

Trouble TroubleWith(const absl::StatusOr<LockList>& list, bool of_quorum, bool as_json) {
  if (!list.ok()) return {{TextOf(list.status())}, CodeOf(list.status())};
  Trouble trouble;
  if (list->others > 0 && !as_json) {
    trouble.lines.push_back(absl::StrCat(
        list->others, " locks of other kinds are not shown; list each server by itself"));
  }
  if (list->forbidden > 0) {
    trouble.lines.emplace_back("this user may not read some names; their locks are not shown");
  }
  if (!list->undecided.ok()) {
    trouble.lines.push_back(TextOf(list->undecided));
    trouble.code = CodeOf(list->undecided);
    return trouble;
  }
  for (const absl::Status& why : list->missing) {
    // Nothing is missing of a quorum: each held lock is on a majority of its servers.
    trouble.lines.push_back(
        absl::StrCat(of_quorum ? "warning: " : "some locks are not shown: ", why.message()));
    const int code = absl::IsUnavailable(why) ? kUnreachable : kRefused;
    if (!of_quorum) trouble.code = std::max(trouble.code, code);
  }
  return trouble;
}

// Lists the locks, once or again and again.
class Lister {
 public:
  explicit Lister(LsOptions options) : options_(std::move(options)) {}

  // Returns the exit code.
  int Show(const absl::StatusOr<std::shared_ptr<Servers>>& servers) {
    const absl::StatusOr<LockList> list =
        servers.ok() ? List(**servers) : absl::StatusOr<LockList>(servers.status());
    if (servers.ok()) {
      name_ = (*servers)->name();
      of_quorum_ = (*servers)->is_quorum();
    }
    if (list.ok()) last_ = *list;
    const Trouble trouble = TroubleWith(list, of_quorum_, options_.json);
    const bool on_page = options_.watch && !options_.json && !options_.names && TerminalWidth() > 0;
    if (list.ok() || on_page) PrintList(options_, last_, name_, trouble.lines);
    if (!on_page) Tell(trouble.lines);
    return trouble.code;
  }

 private:
  absl::StatusOr<LockList> List(Servers& servers) const {
    Progress progress;
    return ListLocks(servers, options_.pattern, [&](std::string_view what, int64_t count) {
      if (!options_.watch) progress.Show(what, count);
    });
  }

  // Says what is wrong once, until it changes or ends.
  void Tell(const std::vector<std::string>& lines) {
    if (lines == told_) return;
    for (const std::string& line : lines) Complain({line});
    if (lines.empty()) Complain({"the list is complete again"});
    told_ = lines;
  }

  const LsOptions options_;
  std::string name_;  // of the servers
  bool of_quorum_ = false;
  LockList last_;
  std::vector<std::string> told_;
};

// ---- Output of one lock.

std::string LineOf(const LockInfo::Party& party, const Inspection& inspection,
                   std::string_view since = ", since ") {
  if (party.stays_taken) {
    return absl::StrCat(NoProcess(party.process), ", for ", Brief(party.remaining));
  }
  const bool redissons = inspection.row.is_redissons();
  std::string line = Described(party.process, party.hold, redissons);
  if (party.permits > 1) {
    absl::StrAppend(&line, redissons ? ", locked " : ", ", party.permits,
                    redissons ? " times" : " permits");
  }
  if (party.owner.starts_with("read")) line += ", reading";
  if (party.owner.starts_with(kUserOwner)) {
    absl::StrAppend(&line, inspection.row.is_election() ? ", value " : ", owner ",
                    Printable(party.owner.substr(kUserOwner.size())));
  }
  const bool holds = party.remaining > absl::ZeroDuration();
  if (holds && internal::MayBeCached(party.hold)) line += ", kept";
  if (party.since != absl::InfinitePast()) {
    absl::StrAppend(&line, std::string(since),
                    absl::FormatTime("%Y-%m-%d %H:%M:%S", party.since, absl::LocalTimeZone()), " (",
                    Brief(std::max(inspection.now() - party.since, absl::ZeroDuration())), ")");
  }
  if (party.remaining == absl::InfiniteDuration()) {
    line += ", without end";
  } else if (party.remaining > absl::ZeroDuration()) {
    absl::StrAppend(&line, party.owner == kQueued ? ", keeps its place for " : ", lease ",
                    Brief(party.remaining));
  }
  return line;
}

std::string JsonOf(const LockInfo::Party& party, bool holder, const Inspection& inspection) {
  JsonObject json;
  json.Text("hold", party.hold);
  if (inspection.row.is_election() && party.owner.starts_with(kUserOwner)) {
    json.Text("value", party.owner.substr(kUserOwner.size()));
  } else if (party.owner == kQueued) {
    json.Millis("keeps_place_ms", party.remaining);
  } else if (!party.owner.empty()) {
    json.Text("owner", party.owner);
  }
  AddProcess(party.process, json);
  if (party.since != absl::InfinitePast()) {
    json.Number("since_us", absl::ToUnixMicros(party.since));
    json.Millis(holder ? "held_ms" : "waited_ms", inspection.now() - party.since);
  }
  if (holder) json.Millis("remaining_ms", party.remaining);
  if (holder) json.Bool("kept", !party.stays_taken && internal::MayBeCached(party.hold));
  if (holder) json.Bool("stays_taken", party.stays_taken);
  if (inspection.row.is_semaphore()) json.Number("permits", party.permits);
  if (inspection.row.is_redissons() && holder) json.Number("count", party.permits);
  if (inspection.row.is_read_write() || inspection.row.kind == kinds::kRedissonReadWriteLock) {
    json.Text("mode", party.owner.starts_with("read") ? "read" : "write");
  }
  return json.Finish();
}

int64_t HoldingOf(const Inspection& inspection) {
  if (inspection.row.whole || inspection.row.is_redissons()) return inspection.row.holding;
  return std::max({inspection.info.holding, static_cast<int64_t>(inspection.info.holders.size()),
                   inspection.row.is_known() ? 0 : inspection.row.holding});
}

std::string JsonOf(const SaidByServer& said) {
  JsonObject json;
  json.Text("server", said.server);
  if (said.failure.ok()) {
    json.Text("says", said.text);
  } else {
    json.Text("error", std::string(said.failure.message()));
  }
  if (!said.hold.empty()) {
    json.Text("hold", said.hold);
    json.Millis("remaining_ms", said.remaining);
  }
  return json.Finish();
}

// `broken`: whether `redlatch break` has ended a grant.
std::string JsonOf(const Inspection& inspection, const std::string& server,
                   std::optional<bool> broken = std::nullopt) {
  const LockRow& row = inspection.row;
  const LockInfo& info = inspection.info;
  const auto list = [&](const std::vector<LockInfo::Party>& parties, bool holders) {
    return JsonList(parties, [&](const auto& party) { return JsonOf(party, holders, inspection); });
  };
  JsonObject json;
  json.Text("name", row.name);
  json.Text("server", server);
  if (broken) json.Bool("broken", *broken);
  json.Text("kind", row.kind.empty() ? "unknown" : row.kind);
  json.Number("holding", HoldingOf(inspection));
  if (!row.is_latch()) json.Json("holders", list(info.holders, true));
  json.Number("waiting", info.waiting);
  json.Json("waiters", list(info.waiters, false));
  AddFigures(row, json);
  if (row.whole) {
    json.Json("servers",
              JsonList(inspection.servers, [](const auto& said) { return JsonOf(said); }));
  }
  if (row.type != "none" && (row.is_latch() || !row.is_known()) && !row.is_redissons()) {
    json.Text("type", row.type);
    json.Millis("ttl_ms", row.remaining);
  }
  return json.Finish();
}

// The text for people: wrapped at words on a terminal, one line in a pipe.
std::string Fitted(const std::string& text, size_t indent) {
  const size_t width = TerminalWidth();
  return Wrapped(base::Shown(text), indent, width == 0 ? text.npos : width);
}

// Wraps the value beside its heading.
void Say(std::string_view what, const std::string& value) {
  constexpr size_t kIndent = 18;
  std::string text = Fitted(value, kIndent);
  text.replace(0, kIndent, "  " + Padded(what, kIndent - 2));
  std::fputs(text.c_str(), stdout);
}

// How many parties from `at` on differ only in the times.
size_t EqualFrom(size_t at, std::vector<LockInfo::Party> parties, const Inspection& inspection) {
  for (LockInfo::Party& party : parties) party.since = absl::InfinitePast();
  const std::string line = LineOf(parties[at], inspection);
  size_t end = at + 1;
  while (end < parties.size() && LineOf(parties[end], inspection) == line) ++end;
  return end - at;
}

void SayAll(std::string_view what, const std::vector<LockInfo::Party>& parties, int64_t all,
            const Inspection& inspection) {
  // Only a program's own kind knows in which order it serves its waiters.
  const bool numbered =
      parties.size() > 1 &&
      (inspection.row.is_known() || inspection.row.kind.empty() || parties[0].owner == kQueued);
  for (size_t at = 0, equal = 0; at < parties.size(); at += equal) {
    const bool holds = parties[at].remaining > absl::ZeroDuration();
    equal = holds ? 1 : EqualFrom(at, parties, inspection);
    const std::string place =
        equal > 1 ? absl::StrCat(at + 1, "-", at + equal) : absl::StrCat(at + 1);
    Say(at == 0 ? what : "",
        absl::StrCat(
            numbered ? place + ". " : "", equal > 1 ? absl::StrCat(equal, " waiters of ") : "",
            LineOf(parties[at], inspection, equal > 1 ? ", the first since " : ", since ")));
  }
  const auto listed = std::ssize(parties);
  if (all > listed && listed == 0) {
    const bool own = !inspection.row.is_known() && !inspection.row.is_redissons() &&
                     !inspection.row.kind.empty();
    Say(what, own ? "not known: the program keeps it in a form of its own"
                  : absl::StrCat(all, ", not listed"));
  }
  if (all > listed && listed > 0) Say("", absl::StrCat("and ", all - listed, " more"));
}

std::string QuorumState(const LockRow& row) {
  const std::string on = absl::StrCat(" on ", row.held_on, " of ", row.quorum);
  if (row.holding > 0) return absl::StrCat("held", on);
  if (MayBeHeld(row)) {
    return absl::StrCat("granted", on, ", and ", row.unknown,
                        " could not be asked: it is not known whether it is held");
  }
  return row.held_on == 0 ? "free" : absl::StrCat("granted", on, " only: it has no holder");
}

std::string Heading(const LockRow& row) {
  std::string out = Called(row).substr(4);
  out[0] = static_cast<char>(out[0] & ~0x20);
  if (!row.whole && row.type == "none" && row.kind.empty()) return absl::StrCat(out, ": free");
  if (IsKindOfOurs(row.kind) && !row.is_known()) {
    return absl::StrCat(out, ": another version of redlatch, \"", Printable(row.kind), "\"");
  }
  if (!row.is_known() && !row.is_redissons()) {
    return absl::StrCat(out, ": a kind of its own",
                        row.kind.empty() ? "" : absl::StrCat(", \"", Printable(row.kind), "\""));
  }
  if (row.whole) return absl::StrCat(out, ": quorum, ", QuorumState(row));
  const bool is_said = row.is_latch() || row.is_semaphore() || row.is_election();
  return absl::StrCat(out, ": ", is_said ? "" : absl::StrCat(KindInWords(row), ", "), StateOf(row));
}

void Print(const Inspection& inspection, const std::string& server) {
  const LockRow& row = inspection.row;
  const LockInfo& info = inspection.info;
  PrintLine(Heading(row), kBold);
  SayAll("held by", info.holders, HoldingOf(inspection), inspection);
  SayAll("waiting", info.waiters, info.waiting, inspection);
  if (row.waiting_writers > 0) {
    Say("waiting writers", absl::StrCat(row.waiting_writers, ", keeping new readers out"));
  }
  if (row.token > 0) Say("last token", absl::StrCat(row.token));
  if (row.is_latch()) Say("made for", absl::StrCat(row.total));
  if (row.type != "none" && (row.is_latch() || !row.is_known()) && !row.is_redissons()) {
    const bool expires = row.remaining != absl::InfiniteDuration();
    if (!row.is_known()) {
      Say("key", absl::StrCat("a ", row.type, expires ? "" : " without expiry"));
    }
    if (expires) Say(row.is_latch() ? "forgotten in" : "key expires in", Brief(row.remaining));
  }
  if (row.whole) {
    for (const SaidByServer& each : inspection.servers) {
      Say(&each == &inspection.servers.front() ? "servers" : "",
          absl::StrCat(each.server, ": ", each.text));
    }
    return;
  }
  if (row.is_quorum()) {
    Say("quorum", "of several servers, of which this one alone was asked");
  }
  Say("server", server);
}

// Leaves out holders and waiters that do not fit on the screen; Print() says how many there are.
void FitToScreen(Inspection& inspection) {
  const size_t other = 11 + inspection.servers.size();  // rows of headings, figures and the prompt
  std::vector<LockInfo::Party>& holders = inspection.info.holders;
  std::vector<LockInfo::Party>& waiters = inspection.info.waiters;
  size_t rows_each = 1;
  if (!waiters.empty()) {
    const size_t columns = Columns("                  10. " + LineOf(waiters[0], inspection));
    rows_each += columns / std::max<size_t>(TerminalWidth(), 1);
  }
  const size_t room = std::max(TerminalHeight(), other + 2 * rows_each) - other;
  const size_t most = room / rows_each;
  const auto keep = [](std::vector<LockInfo::Party>& parties, size_t limit) {
    parties.erase(parties.begin() + std::min(std::ssize(parties), static_cast<ptrdiff_t>(limit)),
                  parties.end());
  };
  keep(holders, waiters.empty() ? most : most / 2);
  keep(waiters, most - holders.size());
}

}  // namespace

int ShowLock(Servers& servers, const std::string& name, bool as_json, bool on_one_screen) {
  absl::StatusOr<Inspection> inspection = servers.InspectLock(name);
  if (!inspection.ok()) return Refuse(inspection.status());
  const absl::Status undecided = servers.undecided();
  if (!inspection->exists && !undecided.ok()) return Refuse(undecided);
  if (!inspection->exists) {
    return Complain(
        kNo, {"there is no lock \"", Printable(name), "\" at ", servers.name(),
              ", and has not been one in the last day; redlatch ls --all lists what there is"});
  }
  if (inspection->may_be_data && inspection->row.type != "string")
    return Complain(kNo, {SayMayBeData(inspection->row)});
  if (as_json) {
    std::puts(JsonOf(*inspection, servers.name()).c_str());
  } else {
    if (on_one_screen) FitToScreen(*inspection);
    Print(*inspection, servers.name());
  }
  std::fflush(stdout);
  return undecided.ok() ? 0 : Refuse(undecided);
}

namespace {

constexpr size_t kMostHoldersNamed = 10;

void SayWrapped(const std::string& text, size_t indent) {
  std::fputs(Fitted(text, indent).c_str(), stdout);
}

void SayHolders(const std::string& intro, const Inspection& inspection) {
  const std::vector<LockInfo::Party>& holders = inspection.info.holders;
  SayWrapped(intro, 0);
  if (holders.empty()) {  // no client has a majority of a quorum's servers
    for (const SaidByServer& each : inspection.servers) {
      if (!each.hold.empty()) SayWrapped(absl::StrCat("at ", each.server, ": ", each.text), 2);
    }
  }
  const size_t named = std::min(holders.size(), kMostHoldersNamed);
  for (size_t i = 0; i < named; ++i) SayWrapped(LineOf(holders[i], inspection), 2);
  const auto all = std::max(static_cast<size_t>(inspection.info.holding), holders.size());
  if (all > named) SayWrapped(absl::StrCat("and ", all - named, " more"), 2);
  std::fflush(stdout);
}

std::set<std::string> HoldsOf(const Inspection& inspection) {
  std::set<std::string> holds;
  for (const LockInfo::Party& holder : inspection.info.holders) holds.insert(holder.hold);
  for (const SaidByServer& each : inspection.servers) {
    if (!each.hold.empty()) holds.insert(each.hold);
  }
  return holds;
}

// True if the user types a line that begins with y.
bool Confirm() {
  std::fputs("Break it? [y/N] ", stderr);
  std::string answer;
  std::getline(std::cin, answer);
  return answer.starts_with('y') || answer.starts_with('Y');
}

// Names the servers of a quorum at which the lock may not be broken.
void SayUnbroken(const Inspection& seen, const Inspection& after) {
  for (size_t i = 0; i < after.servers.size(); ++i) {
    const SaidByServer& now = after.servers[i];
    const bool still = !now.hold.empty() && now.hold == seen.servers[i].hold;
    if (now.failure.ok() && !still) continue;
    Complain({"warning: not broken at ", now.server, ", which may keep it until its lease ends: ",
              still ? "its client has renewed it" : std::string(now.failure.message())});
  }
}

// Breaks the lock that was inspected, and says who has it now.
int BreakIt(Servers& servers, const Inspection& seen, bool json) {
  if (absl::Status broken = servers.Break(seen); !broken.ok()) return Refuse(broken);
  const absl::StatusOr<Inspection> after = servers.InspectLock(seen.row.name);
  if (!after.ok()) {
    Complain({"the lock is broken, but it cannot be determined who has it now: ",
              std::string(after.status().message())});
    return 0;
  }
  SayUnbroken(seen, *after);
  if (json) {
    std::puts(JsonOf(*after, servers.name(), true).c_str());
  } else if (after->info.holders.empty()) {
    const bool told = IsUsersString(seen.row) && after->info.waiting > 0;
    std::puts(told ? "Broken. Its waiters have been told." : "Broken. It is free now.");
  } else {
    SayHolders("Broken. It is now held by:", *after);
  }
  return 0;
}

}  // namespace

int BreakLock(Servers& servers, const std::string& name, const std::function<bool()>& confirm,
              bool json) {
  const absl::StatusOr<Inspection> seen = servers.InspectLock(name);
  if (!seen.ok()) return Refuse(seen.status());
  if (!seen->exists) {
    return Complain(kNo, {"there is no lock \"", Printable(name), "\" at ", servers.name(),
                          "; redlatch ls lists the locks in use"});
  }
  if (seen->may_be_data) return Complain(kRefused, {SayMayBeData(seen->row)});
  if (seen->row.type != "none" && !IsBreakable(seen->row))
    return Complain(kRefused, {std::string(servers.Break(*seen).message())});
  if (absl::Status undecided = servers.undecided(); !undecided.ok()) return Refuse(undecided);
  if (HoldsOf(*seen).empty()) {
    const std::string text =
        absl::StrCat("There is nothing to break: ", Called(seen->row), " is not held.");
    std::puts(json ? JsonOf(*seen, servers.name(), false).c_str() : text.c_str());
    return 0;
  }
  if (!json)
    SayHolders(absl::StrCat("At ", servers.name(), " ", Called(seen->row), " is held by:"), *seen);
  if (seen->row.is_quorum() && !seen->row.whole) {
    Complain(
        {"warning: this is one server of a quorum, and the lock is broken there alone: a "
         "client that has it at most servers keeps it, and may acquire it here again; to "
         "break it, name all servers: --server redlock:URL,URL,URL"});
  }
  if (confirm == nullptr) return BreakIt(servers, *seen, json);
  if (isatty(STDIN_FILENO) == 0) {
    return Complain(kFailure,
                    {"there is no terminal to ask on; use --yes to break it without asking"});
  }
  const std::vector<LockInfo::Party>& holders = seen->info.holders;
  const bool idle = !holders.empty() && std::ranges::all_of(holders, &LockInfo::Party::stays_taken);
  SayWrapped(
      idle ? "Another process can get it at once, and so may do again what was to be done once."
           : "They will be told at once, but may be in the middle of what the lock protects.",
      0);
  std::fflush(stdout);
  if (!confirm()) {
    std::puts("Nothing was done.");
    return kNo;
  }
  const absl::StatusOr<Inspection> now = servers.InspectLock(name);
  if (!now.ok()) return Refuse(now.status());
  if (HoldsOf(*now) != HoldsOf(*seen))
    return Complain(kNo, {"the lock has other holders by now; nothing was done"});
  return BreakIt(servers, *seen, json);
}

namespace {

// `redlatch COMMAND NAME [options]`: calls `act` with the lock's name.
int OnOneLock(const std::string& command, CommandLine& line, const std::vector<std::string>& words,
              const std::function<int(Servers& servers, const std::string& name)>& act) {
  line.Operands(1, absl::StrCat("say one name: redlatch ", command, " NAME"));
  line.NeedsName("lock", absl::StrCat("say redlatch ", command, " NAME; redlatch ls lists them"));
  if (const std::optional<int> over = line.Parse(words)) return *over;
  const auto servers = OpenServers(line.server());
  if (!servers.ok()) return Refuse(servers.status());
  return act(**servers, line.operands()[0]);
}

int ShowOrSet(Server& server, const std::string& name, std::optional<int64_t> capacity, bool json) {
  const absl::StatusOr<Inspection> seen = InspectAt(server, name);
  if (!seen.ok()) return Refuse(seen.status());
  if (seen->exists && !seen->row.is_semaphore()) {
    return Complain(kRefused,
                    {Called(seen->row), " is not a semaphore; redlatch inspect shows what it is"});
  }
  if (!seen->exists && !capacity) {
    return Complain(kNo, {"there is no semaphore \"", Printable(name), "\" at ", server.name(),
                          "; redlatch ls --all lists what there is"});
  }
  std::string text = absl::StrCat(seen->row.capacity);
  if (capacity) {
    const absl::StatusOr<Client> client = QuietClient(server.url());
    absl::Status set = client.status();
    if (set.ok()) set = Semaphore(*client, name, /*capacity=*/1).SetCapacity(*capacity);
    if (!set.ok()) return Refuse(set);
    text = absl::StrCat("semaphore \"", Printable(name), "\": ", Counted(*capacity, "permit"),
                        " in all, ", seen->exists ? text + " before" : "a new name");
  }
  JsonObject object;
  object.Text("name", name);
  object.Number("capacity", capacity.value_or(seen->row.capacity));
  std::puts(json ? object.Finish().c_str() : text.c_str());
  return 0;
}

}  // namespace

absl::Duration PauseAfter(absl::Duration took, absl::Duration interval) {
  return std::max(interval, 9 * took);
}

std::string InProse(const LockInfo::Process& process, std::string_view hold) {
  if (process.pid == 0) return Described(process, hold);
  const auto [program, how] = ProgramOf(process);
  return Printable(absl::StrCat(program, " (", how, how.empty() ? "" : ", ", process.host, ", pid ",
                                process.pid, ")"));
}

int Ls(const std::vector<std::string>& words) {
  LsOptions options;
  absl::Duration interval = absl::Seconds(1);
  CommandLine line("ls");
  line.Flag("--all", &options.all);
  line.Flag("--json", &options.json);
  line.Flag("--names", &options.names);
  line.Flag("--watch", &options.watch);
  line.Colour();
  line.Time("--interval", &interval);
  line.Operands(1, "say one pattern, in quotes: redlatch ls 'orders:*'");
  if (const std::optional<int> over = line.Parse(words)) return *over;
  if (!line.operands().empty()) options.pattern = line.operands()[0];
  absl::StatusOr<std::shared_ptr<Servers>> servers = OpenServers(line.server());
  if (absl::IsNotFound(servers.status()) && !options.watch) {
    if (!options.json) {
      std::fprintf(stderr, "%s\n", std::string(servers.status().message()).c_str());
    }
    return 0;
  }
  if (!servers.ok()) return Refuse(servers.status());
  for (Lister lister(options);;) {
    const base::Instant begun = base::Now();
    const int code = lister.Show(servers);
    if (!options.watch || std::ferror(stdout) != 0) return code;
    base::Parker().ParkUntil(base::Now() + PauseAfter(base::Now() - begun, interval));
    // A server that could not be asked may be there again.
    if (code != 0) servers = OpenServers(line.server());
  }
}

int Inspect(const std::vector<std::string>& words) {
  bool json = false;
  CommandLine line("inspect");
  line.Flag("--json", &json);
  line.Colour();
  return OnOneLock("inspect", line, words, [&json](Servers& servers, const std::string& name) {
    return ShowLock(servers, name, json);
  });
}

int Break(const std::vector<std::string>& words) {
  bool yes = false;
  bool json = false;
  CommandLine line("break");
  line.Flag("--yes", &yes);
  line.Flag("--json", &json);
  return OnOneLock("break", line, words, [&](Servers& servers, const std::string& name) {
    if (json && !yes) return Refuse(WrongUsage("--json cannot ask", "give it --yes, too"));
    return BreakLock(servers, name, yes ? nullptr : Confirm, json);
  });
}

int Capacity(const std::vector<std::string>& words) {
  bool json = false;
  CommandLine line("capacity");
  line.Flag("--json", &json);
  line.Operands(2, "say redlatch capacity NAME [N]");
  line.NeedsName("semaphore", "say redlatch capacity NAME [N]");
  if (const std::optional<int> over = line.Parse(words)) return *over;
  std::optional<int64_t> capacity;
  if (line.operands().size() > 1) {
    const std::string& number = line.operands()[1];
    if (!absl::SimpleAtoi(number, &capacity.emplace())) {
      return Refuse(WrongUsage(absl::StrCat("\"", Printable(number), "\" is not a number"),
                               "say how many permits there are to be in all"));
    }
  }
  const absl::StatusOr<std::unique_ptr<Server>> server = Server::Open(line.server());
  if (!server.ok()) return Refuse(server.status());
  return ShowOrSet(**server, line.operands()[0], capacity, json);
}

}  // namespace redlatch::cli
