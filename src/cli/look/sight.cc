#include "src/cli/look/sight.h"

#include <string_view>
#include <utility>

#include "absl/strings/str_cat.h"
#include "redlatch/client.h"
#include "redlatch/red_lock.h"
#include "redlatch/reentrant_lock.h"
#include "redlatch/reentrant_read_write_lock.h"
#include "redlatch/semaphore.h"
#include "redlatch/simple_lock.h"
#include "src/cli/look/lock_keys.h"
#include "src/cli/look/processes.h"
#include "src/cli/term/text.h"
#include "src/lock/description.h"
#include "src/lock/key_set.h"
#include "src/redis/url/quorum_url.h"

namespace redlatch::cli {
namespace {

namespace kinds = internal::kinds;
using redis::Reply;

constexpr std::string_view kMostWaiters = "99";  // as an index: a hundred

// kInvalidArgument if no lock can have that name; a key of another lock is told from it.
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

// What the server warns of has been said by Server::Open().
absl::StatusOr<Client> QuietClient(const std::string& url) {
  return Client::Connect(url, {.program = "redlatch", .on_warning = [](std::string_view) {}});
}

// Does something with the lock object that a row is of.
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
    Semaphore semaphore(*client, row.name, 1);  // its capacity counts when it is acquired
    return act(semaphore);
  }
  SimpleLock lock(*client, row.name);
  return act(lock);
}

// A ticket is when its waiter came, by the server's clock; unless a program's own kind has put
// something else there, such as a priority.
absl::Time ArrivalOf(int64_t ticket, int64_t now_us) {
  constexpr absl::Duration kOldest = absl::Hours(24 * 365);
  const absl::Time arrival = absl::FromUnixMicros(ticket);
  const absl::Time now = absl::FromUnixMicros(now_us);
  const bool plausible = now - kOldest < arrival && arrival < now + absl::Seconds(10);
  return plausible ? arrival : absl::InfinitePast();
}

// What the keys tell of any lock, whatever its kind.
absl::StatusOr<LockInfo> WaitersOf(Server& server, const FoundLock& lock, const LockRow& row,
                                   int64_t now_us) {
  LockInfo info;
  info.waiting = row.waiting;
  info.last_token = FencingToken(static_cast<uint64_t>(row.token));
  Questions queue;
  if (!lock.queues.empty()) {
    queue.Add(
        {"ZRANGE", internal::AuxiliaryKey(row.name, lock.queues.back()), "0", kMostWaiters,
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
  processes.Ask(server, holds);
  for (LockInfo::Party& waiter : info.waiters) waiter.process = processes.Of(waiter.hold);
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

// A replica, a user who may only read, or a slot of a cluster that is on the move: the keys tell
// less of it.
bool MayOnlyLook(const Server& server, const absl::Status& refused) {
  const bool refuses_scripts = server.is_replica() || server.is_cluster();
  return (refuses_scripts && absl::IsUnavailable(refused)) ||
         (!server.is_replica() && absl::IsPermissionDenied(refused));
}

bool IsLibrarys(const LockRow& row) { return row.is_known() && !row.is_latch(); }

}  // namespace

absl::StatusOr<Sight> LookClosely(Server& server, const std::string& name) {
  if (absl::Status bad = CheckName(name); !bad.ok()) return bad;
  const absl::StatusOr<FoundLock> found = Find(server, name);
  if (!found.ok()) return found.status();
  const absl::StatusOr<int64_t> now = server.NowMicros(name);
  if (!now.ok()) return now.status();
  Sight sight{.exists = found->parts != 0, .now_us = *now};
  if (!sight.exists) return sight;
  Processes processes;
  absl::StatusOr<std::vector<LockRow>> rows = LookAt(server, {&*found, 1}, processes);
  if (!rows.ok()) return rows.status();
  if (rows->empty()) return absl::InternalError("a key has no type");
  sight.row = std::move(rows->front());
  sight.may_be_data = MayBeData(sight.row, found->parts);
  if (IsLibrarys(sight.row)) {  // of one moment
    absl::StatusOr<LockInfo> info =
        With(server, sight.row, [](auto& lock) { return lock.Inspect(); });
    if (info.ok()) {
      sight.info = *std::move(info);
      sight.row.holding = sight.info.holding;
      sight.row.used = sight.info.used;
      sight.row.capacity = sight.info.capacity;
      return sight;
    }
    if (!MayOnlyLook(server, info.status())) return info.status();
  }
  absl::StatusOr<LockInfo> info = WaitersOf(server, *found, sight.row, *now);
  if (!info.ok()) return info.status();
  sight.info = *std::move(info);
  if (IsLibrarys(sight.row)) {
    sight.info.holding = sight.row.holding;
    sight.info.used = sight.row.used;
    sight.info.capacity = sight.row.capacity;
  }
  return sight;
}

absl::Status Break(const Server& server, const LockRow& row) {
  if (row.is_latch()) {
    return absl::UnimplementedError(absl::StrCat(
        Called(row), " cannot be broken, because nobody holds a latch. It opens after ", row.to_go,
        " more counts; to let everyone through, count it down"));
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

std::string LineOf(const LockInfo::Party& party, const Sight& sight) {
  std::string line = Described(party.process, party.hold);
  if (party.permits > 1) absl::StrAppend(&line, ", ", party.permits, " permits");
  if (party.owner.starts_with("read")) line += ", reading";
  if (party.owner.starts_with("user:")) {
    absl::StrAppend(&line, ", owner ", Printable(party.owner.substr(5)));
  }
  const bool holds = party.remaining > absl::ZeroDuration();
  if (holds && internal::MayBeKept(party.hold)) line += ", kept";
  if (party.since != absl::InfinitePast()) {
    absl::StrAppend(&line, ", since ",
                    absl::FormatTime("%Y-%m-%d %H:%M:%S", party.since, absl::LocalTimeZone()), " (",
                    Brief(sight.now() - party.since), ")");
  }
  if (party.remaining == absl::InfiniteDuration()) {
    line += ", without end";
  } else if (party.remaining > absl::ZeroDuration()) {
    absl::StrAppend(&line, ", lease ", Brief(party.remaining));
  }
  return line;
}

}  // namespace redlatch::cli
