#include "src/cli/inspect/locks.h"

#include <fnmatch.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <optional>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "redlatch/client.h"
#include "redlatch/red_lock.h"
#include "redlatch/reentrant_lock.h"
#include "redlatch/reentrant_read_write_lock.h"
#include "redlatch/semaphore.h"
#include "redlatch/simple_lock.h"
#include "src/base/majority.h"
#include "src/lock/description.h"
#include "src/lock/key_set.h"
#include "src/redis/url/url.h"

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
                                        {internal::kinds::kWritersSuffix, kWriters}};

constexpr std::string_view kVersion = "/2";  // of the protocol, in `kind`
constexpr std::string_view kQueueEnd = ".queue";

std::string InKeys(std::string_view kind) {
  return kinds::IsOurs(kind) ? std::string(kinds::InKeys(kind))
                             : std::string(kinds::kUsers).append(kind);
}

Part PartOf(std::string_view suffix) {
  for (const PartSuffix& each : kPartSuffixes) {
    if (suffix == each.suffix) return each.part;
  }
  return suffix.ends_with(kQueueEnd) ? kQueue : kNoPart;
}

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
constexpr std::string_view kLongestHold = "79";

class Finder {
 public:
  Finder(Server& server, std::string_view pattern) : server_(server), pattern_(pattern) {}

  // Returns false after the last page of this part.
  absl::StatusOr<bool> TakePage(size_t part) {
    const absl::StatusOr<Reply> page =
        server_.AskPart(part, redis::Command{"SCAN", cursor_, "COUNT", kPage});
    if (!page.ok()) {
      cursor_ = "0";
      if (server_.PassesOver(page.status())) return false;
      return page.status();
    }
    if (page->elements.size() != 2) return absl::InternalError("SCAN answered no page");
    std::vector<Candidate> candidates;
    for (const Reply& key : page->elements[1].elements) Sort(key.text, candidates);
    keys_ += static_cast<int64_t>(page->elements[1].elements.size());
    if (absl::Status sifted = Sift(candidates); !sifted.ok()) return sifted;
    cursor_ = page->elements[0].text;
    return cursor_ != "0";
  }

  int64_t keys() const { return keys_; }

  std::vector<FoundLock> Result() {
    std::vector<FoundLock> found;
    found.reserve(found_.size());
    for (auto& [name, lock] : found_) found.push_back(std::move(lock));
    std::ranges::sort(found, {}, &FoundLock::name);
    return found;
  }

 private:
  // A key that may be a lock's main key, or any other data.
  struct Candidate {
    std::string name;
    std::string type;
    bool is_lock = false;
  };

  void Sort(const std::string& key, std::vector<Candidate>& candidates) {
    const LockKey of = ReadLockKey(key);
    if (of.part == kNoPart || !MatchesGlob(of.name, pattern_)) return;
    if (of.part == kMain) {
      candidates.push_back({.name = key, .type = {}});
    } else {
      FoundLock& lock = Named(of.name);
      lock.parts |= of.part;
      // SCAN may show a key twice.
      if (of.part == kQueue && std::ranges::find(lock.queues, of.suffix) == lock.queues.end()) {
        lock.queues.emplace_back(of.suffix);
      }
    }
  }

  FoundLock& Named(std::string_view name) {
    FoundLock& lock = found_[std::string(name)];
    if (lock.name.empty()) lock.name = name;
    return lock;
  }

  // Adds the candidates whose type and content say that they are locks. Other locks are found by
  // their auxiliary keys.
  absl::Status Sift(std::vector<Candidate>& candidates) {
    Questions about_all;
    for (Candidate& each : candidates) {
      about_all.Add({"TYPE", each.name}, [&each](const Reply& reply) { each.type = reply.text; });
    }
    if (absl::Status asked = about_all.Ask(server_); !asked.ok()) return asked;
    Questions about_contents;
    for (Candidate& each : candidates) {
      if (each.type == "string") {
        about_contents.Add({"GETRANGE", each.name, "0", kLongestHold}, [&each](const Reply& reply) {
          each.is_lock =
              !internal::ClientOf(reply.text).empty() || !QuorumHoldIn(reply.text).empty();
        });
      } else if (each.type == "hash") {
        about_contents.Add({"HGET", each.name, "kind"}, [&each](const Reply& reply) {
          each.is_lock = !reply.is_nil() && IsKindOfOurs(reply.text);
        });
      }
    }
    if (absl::Status asked = about_contents.Ask(server_); !asked.ok()) return asked;
    for (const Candidate& each : candidates) {
      if (each.is_lock) Named(each.name).parts |= kMain;
    }
    return absl::OkStatus();
  }

  Server& server_;
  const std::string pattern_;
  std::string cursor_ = "0";
  int64_t keys_ = 0;
  absl::flat_hash_map<std::string, FoundLock> found_;  // by name
};

// The process of each client, by the client's id, as the client has described itself to the server.
// It is asked for once. It stays unknown, with a pid of 0, if the server refuses or is unreachable.
using Processes = std::map<std::string, LockInfo::Process>;

void AskProcesses(Server& server, const std::vector<std::string>& holds, Processes& processes) {
  Questions questions;
  for (const std::string& hold : holds) {
    const auto [client, is_new] = processes.try_emplace(std::string(internal::ClientOf(hold)));
    if (client->first.empty() || !is_new) continue;
    questions.Add(
        {"GET", absl::StrCat(std::string(internal::kDescriptionKeyPrefix), client->first)},
        [process = &client->second](const Reply& reply) {
          *process = internal::ReadDescription(reply.text).value_or(LockInfo::Process());
        });
  }
  (void)questions.Ask(server, Unreachable::kIsNil);
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

// Takes a holder of a reentrant lock, or a writer. The field is the grant id, the value is "expiry
// token".
void TakeHold(const Reply& field, const Reply& value, int64_t now, LockRow& row) {
  int64_t expiry = 0;
  const std::string first = value.text.substr(0, value.text.find(' '));
  if (internal::ClientOf(field.text).empty() || !absl::SimpleAtoi(first, &expiry) || expiry <= now)
    return;
  if (row.holding++ > 0) return;
  row.hold = field.text;
  row.remaining = absl::Microseconds(expiry - now);
}

// Takes a holder of an unknown kind of lock: any text that looks like a grant id.
void GuessHold(const Reply& field, const Reply& value, LockRow& row) {
  for (const Reply* const text : {&field, &value}) {
    if (row.hold.empty() && !internal::ClientOf(text->text).empty()) row.hold = text->text;
  }
}

void TakeHolds(const Reply& page, int64_t now, LockRow& row) {
  if (page.elements.size() != 2 || row.is_semaphore() || row.is_latch()) return;
  const std::vector<Reply>& fields = page.elements[1].elements;
  for (size_t i = 0; i + 1 < fields.size(); i += 2) {
    if (row.is_known()) {
      TakeHold(fields[i], fields[i + 1], now, row);
    } else {
      GuessHold(fields[i], fields[i + 1], row);
    }
  }
}

void AskString(Questions& questions, LockRow& row) {
  row.kind = kinds::kSimple;
  questions.Add({"GETRANGE", row.name, "0", "127"}, [&row](const Reply& reply) {
    const std::string_view granted = QuorumHoldIn(reply.text);
    if (!granted.empty()) row.kind = kinds::kQuorum;
    row.hold = granted.empty() ? reply.text : std::string(granted);
    row.holding = reply.text.empty() ? 0 : 1;  // empty: it has ended meanwhile
  });
}

void AskHash(Questions& questions, int64_t now, LockRow& row) {
  questions.Add({"HMGET", row.name, "kind", "capacity", "extra", "total", "count"},
                [&row](const Reply& reply) {
                  if (reply.elements.size() != 5) return;
                  row.kind = KindIn(reply.elements[0].text);
                  row.capacity = NumberIn(reply.elements[1]);
                  row.used = NumberIn(reply.elements[2]);
                  row.total = NumberIn(reply.elements[3]);
                  row.to_go = NumberIn(reply.elements[4]);
                });
  questions.Add({"HSCAN", row.name, "0", "COUNT", "10"},
                [&row, now](const Reply& reply) { TakeHolds(reply, now, row); });
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
  for (const std::string& queue : lock.queues) {
    questions.Add({"ZCARD", key(queue)},
                  [&row](const Reply& reply) { row.waiting += reply.integer; });
  }
  if ((parts & kFence) != 0) {
    questions.Add({"GET", key(internal::kFenceSuffix)},
                  [&row](const Reply& reply) { row.token = NumberIn(reply); });
  }
  if ((parts & kPermits) != 0)
    AskHolders(questions, key(kinds::kPermitsSuffix), now, /*reading=*/false, row);
  if ((parts & kWriters) != 0) {
    questions.Add({"ZCARD", key(kinds::kWritersSuffix)}, [&row](const Reply& reply) {
      row.waiting_writers = reply.integer;
      row.waiting += reply.integer;
    });
  }
  if ((parts & kReaders) != 0)
    AskHolders(questions, key(kinds::kReadersSuffix), now, /*reading=*/true, row);
}

void Complete(const FoundLock& lock, LockRow& row) {
  const uint8_t parts = lock.parts;
  if (row.is_semaphore()) row.used = row.holding == 0 ? 0 : row.used + row.holding;
  if (row.type == "none" && (parts & (kReaders | kWriters)) != 0) row.kind = kinds::kReadWrite;
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

absl::StatusOr<std::vector<LockRow>> ReadRows(Server& server, absl::Span<const FoundLock> locks,
                                              Processes& processes) {
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
  std::vector<std::string> holds;
  for (size_t i = 0; i < rows.size(); ++i) {
    Complete(locks[i], rows[i]);
    holds.push_back(rows[i].hold);
  }
  AskProcesses(server, holds, processes);
  for (LockRow& row : rows) row.process = processes[std::string(internal::ClientOf(row.hold))];
  // Removes the locks that this user may not read.
  std::erase_if(rows, [](const LockRow& row) { return row.type.empty(); });
  return rows;
}

constexpr std::string_view kLastWaiter = "99";  // an index: at most a hundred are listed

// kInvalidArgument if no lock can have that name, also if it is an auxiliary key of another lock.
absl::Status CheckName(const std::string& name) {
  absl::Status bad = internal::CheckMainKey(name);
  const LockKey key = ReadLockKey(name);
  if (bad.ok() || key.name.empty()) return bad;
  return absl::InvalidArgumentError(absl::StrCat("\"", Printable(name),
                                                 "\" is a key of the lock \"", Printable(key.name),
                                                 "\", and no lock itself"));
}

absl::StatusOr<FoundLock> Find(Server& server, const std::string& name) {
  FoundLock found{.name = name};
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
  return found;
}

// A client without warnings: Server::Open() has already printed them.
absl::StatusOr<Client> QuietClient(const std::string& url) {
  return Client::Connect(url, {.program = "redlatch", .on_warning = [](std::string_view) {}});
}

// Calls `act` with a lock object for the row's lock.
template <class Do>
auto With(const Server& server, const LockRow& row, Do&& act)
    -> decltype(act(std::declval<SimpleLock&>())) {
  const absl::StatusOr<Client> client =
      QuietClient(row.is_quorum() ? redis::AsQuorum(server.url()) : server.url());
  if (!client.ok()) return client.status();
  if (row.is_quorum()) {
    RedLock lock(*client, row.name);
    return act(lock);
  }
  if (row.kind == kinds::kReentrant) {
    ReentrantLock lock(*client, row.name);
    return act(lock);
  }
  if (row.is_read_write()) {
    ReentrantReadWriteLock lock(*client, row.name);
    return act(lock);
  }
  if (row.is_semaphore()) {
    Semaphore semaphore(*client, row.name, 1);  // the capacity matters only for acquisitions
    return act(semaphore);
  }
  SimpleLock lock(*client, row.name);
  return act(lock);
}

// When the waiter with this ticket came, by the server's clock; InfinitePast() if the ticket is no
// time, since a program's own kind may store something else there, such as a priority.
absl::Time ArrivalOf(int64_t ticket, int64_t now_us) {
  constexpr absl::Duration kOldest = absl::Hours(24 * 365);
  const absl::Time arrival = absl::FromUnixMicros(ticket);
  const absl::Time now = absl::FromUnixMicros(now_us);
  const bool plausible = now - kOldest < arrival && arrival < now + absl::Seconds(10);
  return plausible ? arrival : absl::InfinitePast();
}

// What the keys tell about a lock of any kind.
absl::StatusOr<LockInfo> WaitersOf(Server& server, const FoundLock& lock, const LockRow& row,
                                   int64_t now_us) {
  LockInfo info;
  info.waiting = row.waiting;
  info.last_token = FencingToken(static_cast<uint64_t>(row.token));
  Questions queue;
  if (!lock.queues.empty()) {
    queue.Add(
        {"ZRANGE", internal::AuxiliaryKey(row.name, lock.queues.back()), "0", kLastWaiter,
         "WITHSCORES"},
        [&info, now_us](const Reply& reply) {
          for (size_t i = 0; i + 1 < reply.elements.size(); i += 2) {
            info.waiters.push_back({.hold = reply.elements[i].text,
                                    .since = ArrivalOf(NumberIn(reply.elements[i + 1]), now_us)});
          }
        });
  }
  if (absl::Status asked = queue.Ask(server); !asked.ok()) return asked;
  std::vector<std::string> holds;
  for (const LockInfo::Party& waiter : info.waiters) holds.push_back(waiter.hold);
  Processes processes;
  AskProcesses(server, holds, processes);
  for (LockInfo::Party& waiter : info.waiters) {
    waiter.process = processes[std::string(internal::ClientOf(waiter.hold))];
  }
  if (!row.is_latch() && !row.hold.empty()) {
    info.holders.push_back({.hold = row.hold, .remaining = row.remaining, .process = row.process});
  }
  return info;
}

bool MayBeData(const LockRow& row, uint8_t parts) {
  if ((parts & (kQueue | kFence)) != 0 || row.type == "none") return false;
  if (row.type != "string") return row.kind.empty();
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

constexpr size_t kGap = 2;
constexpr size_t kState = 10;
constexpr size_t kKindColumn = 10;
constexpr size_t kLeaseColumn = 6;
constexpr size_t kWaitingColumn = 7;
// Columns that may be left out, in this order.
constexpr size_t kDispensable[] = {kKindColumn, kLeaseColumn, kWaitingColumn};

constexpr size_t kEnoughOfName = 20;
constexpr size_t kEnoughOfHolder = 16;
constexpr size_t kAllOfHolder = 32;
// The width of the name column in a pipe. Longer names push the other columns to the right.
constexpr size_t kLongestName = 60;

// The width of all columns between the name and the holder.
size_t Taken(size_t left_out) {
  size_t taken = kGap + kState + kGap;
  for (size_t i = left_out; i < std::size(kDispensable); ++i) taken += kDispensable[i] + kGap;
  return taken;
}

absl::Status RowsAt(Server& server, std::string_view pattern, std::vector<LockRow>& rows) {
  server.PassOverWhatIsForbidden();
  const absl::StatusOr<std::vector<FoundLock>> found = FindLocks(server, pattern, [](int64_t) {});
  if (!found.ok()) return found.status();
  return ReadAllRows(server, *found, [&](std::vector<LockRow> some) {
    std::ranges::move(some, std::back_inserter(rows));
  });
}

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
    if (!each.ok()) {
      ++unknown;
    } else if (each->exists && !each->may_be_data) {
      rows.push_back(each->row);
      inspection.exists = true;
      if (inspection.now_us == 0) inspection.now_us = each->now_us;
    } else if (each->may_be_data) {
      inspection.exists = true;
    }
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

std::string_view QuorumHoldIn(std::string_view value) {
  const size_t space = value.find(' ');
  if (space == value.npos) return {};
  const std::string_view attempt = value.substr(space + 1);
  const bool is_number = !attempt.empty() && attempt.find_first_not_of("0123456789") == value.npos;
  const std::string_view hold = value.substr(0, space);
  return is_number && !internal::ClientOf(hold).empty() ? hold : std::string_view();
}

redis::Command DeleteLocks(const std::vector<std::string>& names) {
  std::vector<std::string> keys;
  for (const std::string& name : names) {
    keys.push_back(name);
    const auto add = [&](std::string_view suffix) {
      keys.push_back(internal::AuxiliaryKey(name, suffix));
    };
    for (const PartSuffix& each : kPartSuffixes) add(each.suffix);
    for (const std::string_view suffix :
         {kinds::kForcedSuffix, kinds::kCountedSuffix, kinds::kHoldsSuffix,
          kinds::kWriteHoldsSuffix, kinds::kTurnSuffix}) {
      add(suffix);
    }
    for (const std::string_view kind : kinds::kAll) {
      add(QueueSuffix(kind));
      add(WaitersSuffix(kind));
    }
  }
  std::vector<std::string_view> words = {"DEL"};
  words.insert(words.end(), keys.begin(), keys.end());
  return redis::Command(words);
}

absl::StatusOr<std::vector<FoundLock>> FindLocks(
    Server& server, std::string_view pattern, const std::function<void(int64_t keys)>& progress) {
  Finder finder(server, pattern);
  server.FindAllParts();
  for (size_t part = 0; part < server.parts(); ++part) {  // parts() may grow meanwhile
    for (;;) {
      const absl::StatusOr<bool> more = finder.TakePage(part);
      if (!more.ok()) return more.status();
      if (!*more) break;
      progress(finder.keys());
    }
  }
  return finder.Result();
}

std::string Described(const LockInfo::Process& process, std::string_view hold) {
  if (process.pid != 0) {
    return Printable(absl::StrCat(process.host, ":", process.pid, " ", process.program));
  }
  const std::string_view client = internal::ClientOf(hold);
  if (client.empty()) {
    return absl::StrCat("\"", Cut(Printable(hold), 40), "\", not by redlatch");
  }
  return absl::StrCat("client ", std::string(client.substr(0, 8)), ", process unknown");
}

std::string InProse(const LockInfo::Process& process, std::string_view hold) {
  if (process.pid == 0) return Described(process, hold);
  return Printable(absl::StrCat(process.program, " (", process.host, ", pid ", process.pid, ")"));
}

void AddProcess(const LockInfo::Process& process, JsonObject& json) {
  if (process.pid == 0) return;
  json.Text("host", process.host);
  json.Number("pid", process.pid);
  json.Text("program", process.program);
}

bool LockRow::in_use() const {
  return holding > 0 || waiting > 0 || held_on > 0 || (is_latch() && to_go > 0);
}

absl::Status ReadAllRows(Server& server, absl::Span<const FoundLock> locks,
                         const std::function<void(std::vector<LockRow> rows)>& take) {
  constexpr size_t kTogether = 100;  // so that no batch blocks a server for long
  Processes processes;
  for (size_t at = 0; at < locks.size(); at += kTogether) {
    absl::StatusOr<std::vector<LockRow>> rows =
        ReadRows(server, locks.subspan(at, kTogether), processes);
    if (!rows.ok()) return rows.status();
    take(*std::move(rows));
  }
  return absl::OkStatus();
}

bool MayBeHeld(const LockRow& row) { return row.held_on + row.unknown > row.quorum / 2; }

std::string StateOf(const LockRow& row) {
  if (row.is_latch()) return row.to_go == 0 ? "open" : absl::StrCat(row.to_go, " to go");
  if (row.is_semaphore()) return absl::StrCat(row.used, " of ", row.capacity);
  if (row.whole && row.held_on > 0) {
    const char* const word = row.holding > 0 ? "held " : MayBeHeld(row) ? "maybe " : "part ";
    return absl::StrCat(word, row.held_on, "/", row.quorum);
  }
  if (row.holding == 0) return "free";
  if (row.reading) return absl::StrCat("read by ", row.holding);
  return row.is_read_write() ? "written" : "held";
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

absl::StatusOr<Inspection> InspectLock(Server& server, const std::string& name) {
  if (absl::Status bad = CheckName(name); !bad.ok()) return bad;
  const absl::StatusOr<FoundLock> found = Find(server, name);
  if (!found.ok()) return found.status();
  const absl::StatusOr<int64_t> now = server.NowMicros(name);
  if (!now.ok()) return now.status();
  Inspection inspection{.exists = found->parts != 0, .now_us = *now};
  if (!inspection.exists) return inspection;
  Processes processes;
  absl::StatusOr<std::vector<LockRow>> rows = ReadRows(server, {&*found, 1}, processes);
  if (!rows.ok()) return rows.status();
  if (rows->empty()) return absl::InternalError("a key has no type");
  inspection.row = std::move(rows->front());
  inspection.may_be_data = MayBeData(inspection.row, found->parts);
  LockRow& row = inspection.row;
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

absl::Status Break(const Server& server, const LockRow& row) {
  if (row.is_latch()) {
    return absl::UnimplementedError(absl::StrCat(
        Called(row), " cannot be broken, because nobody holds a latch. It opens after ", row.to_go,
        " more counts; to let all waiters through, count it down"));
  }
  if (IsKindOfOurs(row.kind) && !row.is_known()) {
    return absl::UnimplementedError(
        absl::StrCat(Called(row), " is of another version of redlatch, \"", Printable(row.kind),
                     "\": the redlatch command of that version can break it (docs/upgrading.md)"));
  }
  if (!IsLibrarys(row)) {
    return absl::UnimplementedError(absl::StrCat(
        Called(row),
        " is of a program's own kind, so only that program can break it, with ForceRelease()"));
  }
  return With(server, row, [](auto& lock) { return lock.ForceRelease(); });
}

absl::Status SetCapacity(const Server& server, const std::string& name, int64_t capacity) {
  const absl::StatusOr<Client> client = QuietClient(server.url());
  if (!client.ok()) return client.status();
  return Semaphore(*client, name, /*capacity=*/1).SetCapacity(capacity);
}

std::string SayMayBeData(const LockRow& row) {
  return absl::StrCat("the key \"", Printable(row.name), "\" is a ", row.type,
                      row.type == "string" ? " without expiry" : "",
                      " that does not belong to a lock of redlatch and may be another program's "
                      "data; if it is a lock after all, remove it with redis-cli DEL");
}

std::string Called(const LockRow& row) {
  const std::string_view noun = row.is_latch()       ? "latch"
                                : row.is_semaphore() ? "semaphore"
                                                     : "lock";
  return absl::StrCat("the ", std::string(noun), " \"", Printable(row.name), "\"");
}

std::string LineOf(const LockInfo::Party& party, const Inspection& inspection) {
  std::string line = Described(party.process, party.hold);
  if (party.permits > 1) absl::StrAppend(&line, ", ", party.permits, " permits");
  if (party.owner.starts_with("read")) line += ", reading";
  if (party.owner.starts_with("user:")) {
    absl::StrAppend(&line, ", owner ", Printable(party.owner.substr(5)));
  }
  const bool holds = party.remaining > absl::ZeroDuration();
  if (holds && internal::MayBeCached(party.hold)) line += ", kept";
  if (party.since != absl::InfinitePast()) {
    absl::StrAppend(&line, ", since ",
                    absl::FormatTime("%Y-%m-%d %H:%M:%S", party.since, absl::LocalTimeZone()), " (",
                    Brief(inspection.now() - party.since), ")");
  }
  if (party.remaining == absl::InfiniteDuration()) {
    line += ", without end";
  } else if (party.remaining > absl::ZeroDuration()) {
    absl::StrAppend(&line, ", lease ", Brief(party.remaining));
  }
  return line;
}

ListColumns::ListColumns(size_t width, size_t longest_name) : width_(width) {
  if (width == 0) {
    name_ = std::min(longest_name, kLongestName);
    return;
  }
  const size_t needed = std::min(longest_name, kEnoughOfName) + kEnoughOfHolder;
  const auto rest = [&] { return width - std::min(width, Taken(left_out_)); };
  while (left_out_ < std::size(kDispensable) && rest() < needed) ++left_out_;
  if (rest() < needed) {
    name_ = std::min(longest_name, rest() / 2);
  } else {
    const size_t generous = rest() - std::min(rest(), kAllOfHolder);
    name_ = std::min({longest_name, rest() - kEnoughOfHolder, std::max(kEnoughOfName, generous)});
  }
}

std::string ListColumns::Line(const ListCells& cells) const {
  std::string line;
  const auto add = [&](const std::string& cell, size_t columns) {
    line += Padded(width_ == 0 ? cell : Cut(cell, columns), columns) + std::string(kGap, ' ');
  };
  add(cells.name, name_);
  if (left_out_ < 1) add(Cut(cells.kind, kKindColumn), kKindColumn);
  add(cells.state, kState);
  if (left_out_ < 2) add(cells.lease, kLeaseColumn);
  if (left_out_ < 3) add(cells.waiting, kWaitingColumn);
  line += cells.holder;
  if (width_ > 0) line = Cut(line, width_);
  line.erase(line.find_last_not_of(' ') + 1);
  return line;
}

QuorumList ListQuorum(QuorumServers& servers, std::string_view pattern) {
  std::vector<std::vector<LockRow>> seen(servers.size());
  QuorumList list;
  list.outcomes =
      servers.Visit([&](size_t i, Server& server) { return RowsAt(server, pattern, seen[i]); });
  int64_t unknown = 0;
  std::map<std::string, std::vector<LockRow>> by_name;
  for (size_t i = 0; i < seen.size(); ++i) {
    if (!list.outcomes[i].ok()) {
      ++unknown;
      continue;
    }
    for (LockRow& row : seen[i]) by_name[row.name].push_back(std::move(row));
  }
  for (const auto& [name, rows] : by_name) {
    if (std::ranges::any_of(rows, MayBeOfQuorum)) {
      list.rows.push_back(RowOfQuorum(rows, static_cast<int64_t>(servers.size()), unknown));
    } else {
      ++list.others;
    }
  }
  return list;
}

absl::StatusOr<std::unique_ptr<Inspector>> Inspector::Open(std::string_view url) {
  const absl::StatusOr<redis::Url> parsed = redis::ParseUrl(url);
  if (!parsed.ok()) return parsed.status();
  auto inspector = std::make_unique<Inspector>();
  if (parsed->kind == redis::Url::Kind::kQuorum) {
    inspector->quorum_ = std::make_unique<QuorumServers>(*parsed, url);
    return inspector;
  }
  absl::StatusOr<std::unique_ptr<Server>> server = Server::Open(url);
  if (!server.ok()) return server.status();
  inspector->server_ = *std::move(server);
  return inspector;
}

absl::StatusOr<Inspection> Inspector::InspectLock(const std::string& name) {
  if (server_ != nullptr) return cli::InspectLock(*server_, name);
  std::vector<absl::StatusOr<Inspection>> seen(quorum_->size(), absl::UnknownError("not asked"));
  const std::vector<absl::Status> outcomes = quorum_->Visit([&](size_t i, Server& server) {
    seen[i] = cli::InspectLock(server, name);
    return seen[i].status();
  });
  std::vector<std::string> names;
  for (size_t i = 0; i < quorum_->size(); ++i) {
    names.push_back(quorum_->name(i));
    if (absl::IsInvalidArgument(outcomes[i])) return outcomes[i];  // no lock has that name
    if (!outcomes[i].ok()) seen[i] = outcomes[i];
  }
  undecided_ = quorum_->WhyNoMajority(outcomes);
  if (std::ranges::none_of(outcomes, &absl::Status::ok)) return undecided_;
  return InspectionOfQuorum(name, names, seen);
}

absl::Status Inspector::Break(const Inspection& seen) {
  if (server_ != nullptr) return cli::Break(*server_, seen.row);
  LockRow row = seen.row;
  row.kind = kinds::kQuorum;
  return quorum_->WhyNoMajority(quorum_->Visit([&](size_t i, Server& server) {
    const SaidByServer& said = seen.servers[i];
    return said.hold.empty() ? said.failure : cli::Break(server, row);
  }));
}

}  // namespace redlatch::cli
